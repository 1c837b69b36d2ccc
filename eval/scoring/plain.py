"""What is scored, what comes out, and the plain way to score it: whole forward passes, nothing shared.

The plain way takes any model of transformers. A batch holds sequences of one length, so that nothing is
padded, no attention mask is needed and no score depends on what it was batched with.

Shapes: S texts of a batch, M scored tokens of each, T tokens of each, R rows of logits, V vocab_size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from eval.scoring.protocol import Masking

# Rows of logits at a time: with a vocabulary of 10,000 that is 10 MB. `F.cross_entropy` then costs 12 us a
# row, with 2048 rows 28, and `torch.logsumexp` 165. A GPU needs more work per launch.
_CPU_HEAD_ROWS, _GPU_HEAD_ROWS = 256, 8192


@dataclass(frozen=True)
class ScoredText:
    """The tokens of one text, and which of them are scored.

    Attributes:
        input_ids: All tokens, special ones included.
        start: Index of the first scored token; at least 1 for a causal model, which cannot predict the first.
        end: Index behind the last scored token.
        words: For each token the number of its word, which only ``within_word_l2r`` needs.
    """

    input_ids: Sequence[int]
    start: int
    end: int
    words: Sequence[int] | None = None


class Scores(NamedTuple):
    """Scores of N texts, in the order in which the texts were given.

    Attributes:
        log_likelihood: (N,) float64, in nats, summed over the scored tokens.
        is_greedy: (N,) bool, true where every scored token is the model's first choice.
    """

    log_likelihood: np.ndarray
    is_greedy: np.ndarray


class TokenTable:
    """Scores tokens by the head of a model, keeps their scores text after text, and sums them in fp64.

    States wait until there are enough of them for the head, which is slow for a few: with a vocabulary of
    10,000 a row of 32 costs 240 us, one of 256 costs 130. Every token's score has its place, so that the
    order in which states come changes no sum.

    Args:
        texts: What is scored.
        head: From (R, D) states to (R, V) logits.
        device: Where the states are.
    """

    def __init__(
        self, texts: Sequence[ScoredText], head: Callable[[Tensor], Tensor], device: torch.device
    ) -> None:
        counts = np.array([text.end - text.start for text in texts], dtype=np.int64)
        self._owners = np.repeat(np.arange(len(texts)), counts)
        self._first = torch.from_numpy(counts.cumsum() - counts).to(device)
        self._log_probs = torch.zeros(len(self._owners), device=device)
        self._greedy = torch.ones(len(self._owners), dtype=torch.bool, device=device)
        self._num_texts = len(texts)
        self._head = head
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []

    def places(self, indices: Sequence[int], count: int) -> Tensor:
        """Return the (S, M) places of all ``count`` scored tokens of the S texts of these indices."""
        first = self._first[torch.tensor(indices, device=self._first.device)]
        return first[:, None] + torch.arange(count, device=first.device)

    def put(self, places: Tensor, states: Tensor, targets: Tensor) -> None:
        """Take the (R, D) states at which the (R,) targets are predicted."""
        self._waiting.append((places, states, targets))
        if sum(len(waiting) for waiting, _, _ in self._waiting) >= head_rows(states.device):
            self._score_waiting()

    def _score_waiting(self) -> None:
        if self._waiting:
            places, states, targets = (torch.cat(parts) for parts in zip(*self._waiting, strict=True))
            self._waiting.clear()
            self._log_probs[places], self._greedy[places] = target_scores(self._head, states, targets)

    def scores(self) -> Scores:
        """Return the sums of all texts."""
        self._score_waiting()
        return sum_by_owner(
            self._owners, self._log_probs.cpu().numpy(), self._greedy.cpu().numpy(), self._num_texts
        )


def sum_by_owner(owners: np.ndarray, log_probs: np.ndarray, greedy: np.ndarray, num_texts: int) -> Scores:
    """Sum (R,) token scores over the tokens of each text, in fp64; ``owners`` (R,) are the texts' indices."""
    total = np.bincount(owners, weights=log_probs.astype(np.float64), minlength=num_texts)
    misses = np.bincount(owners, weights=~greedy, minlength=num_texts)
    return Scores(total, misses == 0)


def split_rows(rows: Tensor) -> list[Tensor]:
    """Split rows into parts of like size, for the head: none so small that it is slow, nor too large."""
    return list(rows.chunk(max(1, len(rows) // head_rows(rows.device))))


def head_rows(device: torch.device) -> int:
    """Return how many rows of logits to make at a time; up to twice as many are as good."""
    return _CPU_HEAD_ROWS if device.type == "cpu" else _GPU_HEAD_ROWS


def target_scores(head: Callable[[Tensor], Tensor], states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return (R,) log-probabilities of the targets and whether each is the first choice.

    Args:
        head: From (R, D) states to (R, V) logits, in whatever precision; the softmax is taken in fp32.
        states: (R, D).
        targets: (R,) token ids.
    """
    log_probs, greedy = [], []
    for rows, wanted in zip(split_rows(states), split_rows(targets), strict=True):
        logits = head(rows).float()
        log_probs.append(-F.cross_entropy(logits, wanted, reduction="none"))
        greedy.append(logits.gather(1, wanted[:, None])[:, 0] >= logits.amax(1))
    return torch.cat(log_probs), torch.cat(greedy)


class Batch(NamedTuple):
    """S texts that have T tokens each, of which the same are scored.

    Attributes:
        indices: Which texts, S of them.
        ids: (S, T).
        start: Index of the first scored token.
        end: Index behind the last one.
    """

    indices: list[int]
    ids: Tensor
    start: int
    end: int


def batches_of_one_length(
    texts: Sequence[ScoredText], batch_tokens: int, device: torch.device, copies: bool = False
) -> Iterator[Batch]:
    """Batch texts of one length and scored part, longest first: what does not fit fails at once.

    Args:
        texts: All texts.
        batch_tokens: Tokens of a batch, or of one text where that has more.
        device: Where the batches go.
        copies: Count every text once for each of its scored tokens.
    """
    groups = defaultdict(list)
    for index, text in enumerate(texts):
        groups[len(text.input_ids), text.start, text.end].append(index)
    for (length, start, end), group in sorted(groups.items(), reverse=True):
        size = max(1, batch_tokens // (length * (end - start if copies else 1)))
        for first in range(0, len(group), size):
            indices = group[first : first + size]
            ids = torch.tensor([list(texts[i].input_ids) for i in indices], device=device)
            yield Batch(indices, ids, start, end)


def masked_tokens(texts: Sequence[ScoredText], batch: Batch, masking: Masking) -> Tensor:
    """Return which tokens of each copy are masked: (S, M, T) bool. Copy m is scored at token start + m.

    ``original`` masks the scored token only (Salazar et al. 2020, https://aclanthology.org/2020.acl-main.240),
    ``within_word_l2r`` also the later tokens of its word (Kauf and Ivanova 2023,
    https://aclanthology.org/2023.acl-short.80), which would give it away.
    """
    device = batch.ids.device
    columns = torch.arange(batch.ids.shape[1], device=device)
    scored = columns[batch.start : batch.end]
    itself = columns == scored[:, None]
    if masking == "original":
        return itself.expand(len(batch.indices), -1, -1)
    words = torch.tensor([_words_of(texts[i]) for i in batch.indices], device=device)
    later = (columns > scored[:, None]) & (columns < batch.end)
    return itself | (later & (words[:, None, :] == words[:, batch.start : batch.end, None]))


def _words_of(text: ScoredText) -> list[int]:
    if text.words is None:
        raise ValueError("within_word_l2r needs the word of every token: give ScoredText its words")
    return list(text.words)


def plain_causal_scores(model: PreTrainedModel, texts: Sequence[ScoredText], batch_tokens: int) -> Scores:
    """Score texts by whole forward passes of a causal model."""
    table = TokenTable(texts, as_they_are, model.device)
    for batch in batches_of_one_length(texts, batch_tokens, model.device):
        # Nothing behind the last scored token changes a score.
        logits = model(input_ids=batch.ids[:, : batch.end - 1]).logits[:, batch.start - 1 :]
        places = table.places(batch.indices, batch.end - batch.start)
        targets = batch.ids[:, batch.start : batch.end]
        table.put(places.flatten(), logits.flatten(0, 1), targets.flatten())
    return table.scores()


def plain_masked_scores(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    mask_token_id: int,
    batch_tokens: int,
    masking: Masking,
) -> Scores:
    """Score texts by whole forward passes of a masked model, one copy of the text for each scored token."""

    def predict(copies: Tensor, scored: Tensor) -> Tensor:
        logits = model(input_ids=copies).logits
        return logits[torch.arange(len(copies), device=model.device), scored]

    return score_copies(texts, mask_token_id, batch_tokens, masking, predict, model.device)


def score_copies(
    texts: Sequence[ScoredText],
    mask_token_id: int,
    batch_tokens: int,
    masking: Masking,
    predict: Callable[[Tensor, Tensor], Tensor],
    device: torch.device,
) -> Scores:
    """Score texts by one copy for each scored token, in which another stands in its place.

    Args:
        texts: What to score.
        mask_token_id: What stands in the place of a token.
        batch_tokens: Tokens of all copies of a forward pass.
        masking: What else is replaced.
        predict: From (C, T) copies and the (C,) place of each that is scored to (C, V) logits of its token.
        device: Of the model.
    """
    table = TokenTable(texts, as_they_are, device)
    for batch in batches_of_one_length(texts, batch_tokens, device, copies=True):
        masked = masked_tokens(texts, batch, masking)
        scored = torch.arange(batch.start, batch.end, device=device).expand(len(batch.indices), -1)
        copies = batch.ids[:, None].masked_fill(masked, mask_token_id).flatten(0, 1)
        size = max(1, batch_tokens // copies.shape[1])
        for part, at, places, targets in zip(
            copies.split(size),
            scored.flatten().split(size),
            table.places(batch.indices, batch.end - batch.start).flatten().split(size),
            batch.ids[:, batch.start : batch.end].flatten().split(size),
            strict=True,
        ):
            table.put(places, predict(part, at), targets)
    return table.scores()


def as_they_are(logits: Tensor) -> Tensor:
    """The head of a ``TokenTable`` that is given logits in place of states."""
    return logits
