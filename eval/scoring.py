"""Log-likelihood and pseudo-log-likelihood of token sequences.

Every score is a sum of natural-log probabilities over the scored tokens, never divided by their number. The
softmax is taken in fp32 and the sum in fp64.

A batch holds sequences of one length only. Nothing is padded, so no attention mask is needed and no score
depends on what it was batched with. The head, which is more than half of a small model's work, sees only the
positions whose prediction is scored.

Shapes: B sequences of a batch, T tokens of each, R scored positions of a batch, D hidden_size, V vocab_size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

# Rows of logits at a time: with a vocabulary of 10,000 that is 10 MB. `F.cross_entropy` in such chunks costs
# 14 us a row on one core, `torch.logsumexp` 165 us, and chunks of 1024 rows twice as much as chunks of 256.
HEAD_ROWS = 256


@dataclass(frozen=True)
class ScoredText:
    """The tokens of one text, and which of them are scored.

    Attributes:
        input_ids: All tokens, special ones included.
        start: Index of the first scored token; at least 1 for a causal model, which cannot predict the first.
        end: Index behind the last scored token.
    """

    input_ids: Sequence[int]
    start: int
    end: int


class Scores(NamedTuple):
    """Scores of N texts, in the order in which the texts were given.

    Attributes:
        log_likelihood: (N,) float64, in nats, summed over the scored tokens.
        is_greedy: (N,) bool, true where every scored token is the model's first choice.
    """

    log_likelihood: np.ndarray
    is_greedy: np.ndarray


@torch.inference_mode()
def causal_log_likelihoods(
    model: PreTrainedModel, texts: Sequence[ScoredText], batch_tokens: int = 2048
) -> Scores:
    """Score texts with a causal model: the sum of log p(token | all tokens before it).

    Args:
        model: A causal language model, in evaluation mode.
        texts: What to score; no longer than the model's positions.
        batch_tokens: Tokens per forward pass. Changes speed and memory, not scores.
    """
    backbone, head = split_head(model)
    collector = _Collector(len(texts), model.device)
    for indices, ids in _batches_of_one_length(texts, batch_tokens, model.device):
        # The last token predicts nothing that is scored.
        hidden = backbone(ids[:, :-1])
        starts, ends = _bounds(texts, indices, model.device)
        columns = torch.arange(1, ids.shape[1], device=model.device)
        scored = (columns >= starts[:, None]) & (columns < ends[:, None])
        owners = torch.tensor(indices, device=model.device)[:, None].expand_as(scored)[scored]
        collector.add(owners, *_token_log_probs(head, hidden[scored], ids[:, 1:][scored]))
    return collector.scores()


@torch.inference_mode()
def pseudo_log_likelihoods(
    model: PreTrainedModel, texts: Sequence[ScoredText], mask_token_id: int, batch_tokens: int = 2048
) -> Scores:
    """Score texts with a masked model: mask one token at a time and sum log p(token | all others).

    The original pseudo-log-likelihood of Salazar et al. 2020 (https://aclanthology.org/2020.acl-main.240):
    the other tokens of a word stay visible while one of them is masked.

    Args:
        model: A masked language model, in evaluation mode.
        texts: What to score; tokens outside ``start:end``, such as special ones, are never masked.
        mask_token_id: The id that stands for a masked token.
        batch_tokens: Tokens per forward pass, over all masked copies. Changes speed and memory, not scores.
    """
    backbone, head = split_head(model)
    hidden_at = at_one_position(model, backbone)
    collector = _Collector(len(texts), model.device)
    for indices in _indices_by_length(texts).values():
        ids = torch.tensor([list(texts[i].input_ids) for i in indices], device=model.device)
        starts, ends = _bounds(texts, indices, model.device)
        columns = torch.arange(ids.shape[1], device=model.device)
        sentences, positions = torch.nonzero(
            (columns >= starts[:, None]) & (columns < ends[:, None]), as_tuple=True
        )
        owners = torch.tensor(indices, device=model.device)[sentences]
        # Copies of one sentence may fall into two batches, so that every batch but the last is full.
        size = max(1, batch_tokens // ids.shape[1])
        for chunk in torch.arange(len(sentences), device=model.device).split(size):
            copies, masked = ids[sentences[chunk]], positions[chunk]
            rows = torch.arange(len(chunk), device=model.device)
            targets = copies[rows, masked]
            copies[rows, masked] = mask_token_id
            collector.add(owners[chunk], *_token_log_probs(head, hidden_at(copies, masked), targets))
    return collector.scores()


def split_head(model: PreTrainedModel) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """Split a language model, so that its head need not be applied to every position.

    Returns:
        A function from (B, T) token ids to (B, T, D) hidden states, and the module that maps (R, D) of them
        to (R, V) logits. Where a model's ``lm_head`` is not all that follows its backbone, the function gives
        the logits of a plain forward pass and the module does nothing.
    """

    def backbone(input_ids: Tensor) -> Tensor:
        return model.base_model(input_ids=input_ids, **no_cache).last_hidden_state

    def forward(input_ids: Tensor) -> Tensor:
        return model(input_ids=input_ids).logits

    # Scoring never continues a text; encoders do not know the argument.
    no_cache = {"use_cache": False} if model.can_generate() else {}
    head = getattr(model, "lm_head", None)
    if isinstance(head, nn.Module) and model.base_model is not model:
        probe = torch.arange(8, device=model.device)[None] % model.config.vocab_size
        if torch.allclose(head(backbone(probe)), forward(probe), rtol=1e-4, atol=1e-4):
            return backbone, head
    return forward, nn.Identity()


def at_one_position(
    model: PreTrainedModel, backbone: Callable[[Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    """Make a function of (B, T) token ids and (B,) positions: (B, D) hidden states at these positions.

    No other position's output is needed, so the last layer's FFN, where it is a module of its own as in BERT
    and its descendants, sees only these: a quarter of a 2-layer model's work, or half with a costly variant.
    """

    def plain(input_ids: Tensor, positions: Tensor) -> Tensor:
        return backbone(input_ids)[torch.arange(len(positions), device=positions.device), positions]

    def sparing(input_ids: Tensor, positions: Tensor) -> Tensor:
        rows = torch.arange(len(positions), device=positions.device)
        whole = last.feed_forward_chunk
        last.feed_forward_chunk = lambda states: whole(states[rows, positions][:, None])
        try:
            return backbone(input_ids)[:, 0]
        finally:
            del last.feed_forward_chunk  # the method of the class shows again

    layers = getattr(getattr(model.base_model, "encoder", None), "layer", None)
    if layers is None or not hasattr(layers[-1], "feed_forward_chunk"):
        return plain
    last = layers[-1]
    probe = torch.arange(8, device=model.device).view(2, 4) % model.config.vocab_size
    at = torch.tensor([1, 2], device=model.device)
    return sparing if torch.allclose(sparing(probe, at), plain(probe, at), rtol=1e-4, atol=1e-4) else plain


def num_positions(model: PreTrainedModel) -> int:
    """Return how many tokens the model can read at once, special tokens included."""
    config = model.config
    # RoBERTa counts positions from padding_idx + 1, and its table includes the unused ones.
    embeddings = getattr(model.base_model, "embeddings", None)
    offset = getattr(embeddings, "padding_idx", None)
    return config.max_position_embeddings - (0 if offset is None else offset + 1)


class _Collector:
    """Sums token scores per text, in fp64."""

    def __init__(self, num_texts: int, device: torch.device) -> None:
        self._total = torch.zeros(num_texts, dtype=torch.float64, device=device)
        self._misses = torch.zeros(num_texts, dtype=torch.int64, device=device)

    def add(self, owners: Tensor, log_probs: Tensor, greedy: Tensor) -> None:
        """Add (R,) token scores to the texts whose indices (R,) are ``owners``."""
        self._total.index_add_(0, owners, log_probs.double())
        self._misses.index_add_(0, owners, (~greedy).long())

    def scores(self) -> Scores:
        return Scores(self._total.cpu().numpy(), (self._misses == 0).cpu().numpy())


def _token_log_probs(head: nn.Module, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return (R,) log-probabilities of the targets and whether each is the first choice, from (R, D)."""
    log_probs, greedy = [], []
    for rows, wanted in zip(hidden.split(HEAD_ROWS), targets.split(HEAD_ROWS), strict=True):
        logits = head(rows).float()
        log_probs.append(-F.cross_entropy(logits, wanted, reduction="none"))
        greedy.append(logits.gather(1, wanted[:, None])[:, 0] >= logits.amax(1))
    return torch.cat(log_probs), torch.cat(greedy)


def _indices_by_length(texts: Sequence[ScoredText]) -> dict[int, list[int]]:
    """Group the texts' indices by their number of tokens, longest first: what does not fit fails at once."""
    groups = defaultdict(list)
    for index, text in enumerate(texts):
        groups[len(text.input_ids)].append(index)
    return dict(sorted(groups.items(), reverse=True))


def _batches_of_one_length(
    texts: Sequence[ScoredText], batch_tokens: int, device: torch.device
) -> Iterator[tuple[list[int], Tensor]]:
    for length, group in _indices_by_length(texts).items():
        size = max(1, batch_tokens // length)
        for first in range(0, len(group), size):
            indices = group[first : first + size]
            yield indices, torch.tensor([list(texts[i].input_ids) for i in indices], device=device)


def _bounds(texts: Sequence[ScoredText], indices: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    starts = torch.tensor([texts[i].start for i in indices], device=device)
    return starts, torch.tensor([texts[i].end for i in indices], device=device)
