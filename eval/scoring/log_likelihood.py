"""Log-likelihood and pseudo-log-likelihood of token sequences.

Every score is a sum of natural-log probabilities over the scored tokens, never divided by their number. The
softmax is taken in fp32 and the sum in fp64.

Causal and masked models are scored with what texts or copies share computed once (``causal.py``,
``masked.py``). The first time that a model is scored, its first texts are scored by its own forward passes
too: a model to which sharing does not apply, such as one whose FFN mixes tokens, is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from weakref import WeakSet

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from base.errors import UsageError
from eval.memory import Budget
from eval.protocol import Masking
from eval.scoring.causal import shared_causal_scores
from eval.scoring.masked import shared_masked_scores
from eval.scoring.text_batches import (
    Batch,
    ScoredText,
    Scores,
    TokenTable,
    batches_of_one_length,
    masked_tokens,
)
from pretrain.training.device import is_out_of_memory

Score = Callable[[Sequence[ScoredText]], Scores]
NUM_CHECKED = 6
_checked: WeakSet[PreTrainedModel] = WeakSet()
"""Models whose shared scores were compared with those of their own forward passes."""


@torch.inference_mode()
def causal_log_likelihoods(
    model: PreTrainedModel, texts: Sequence[ScoredText], batch_tokens: int | Budget | None = None
) -> Scores:
    """Score texts with a causal model: the sum of log p(token | all tokens before it).

    Args:
        model: A causal language model, in evaluation mode.
        texts: What to score; no longer than the model's positions.
        batch_tokens: Tokens per forward pass, or what it may hold; None chooses. Changes speed and memory,
            not scores.

    Raises:
        UsageError: For a model to which shared computation does not apply.
    """
    budget = Budget.of(model, batch_tokens)

    def score(texts: Sequence[ScoredText]) -> Scores:
        return shared_causal_scores(model, texts, budget)

    assert all(text.start for text in texts), "a causal model cannot predict the first token of a text"
    return _score_once(model, texts, budget, score, lambda text: _whole_causal_score(model, text))


@torch.inference_mode()
def pseudo_log_likelihoods(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    mask_token_id: int,
    batch_tokens: int | Budget | None = None,
    masking: Masking = "original",
) -> Scores:
    """Score texts with a masked model: mask one token at a time and sum log p(token | what is not masked).

    Args:
        model: A masked language model of BERT's design, in evaluation mode.
        texts: What to score; without padding, which RoBERTa does not count as a position.
        mask_token_id: The id that stands for a masked token.
        batch_tokens: As in ``causal_log_likelihoods``.
        masking: What else is masked with a token: nothing (``original``, Salazar et al. 2020,
            https://aclanthology.org/2020.acl-main.240) or what follows it in its word (``within_word_l2r``,
            Kauf and Ivanova 2023, https://aclanthology.org/2023.acl-short.80), which needs the texts' words.

    Raises:
        UsageError: For a model to which shared computation does not apply, or a text with padding in it.
    """
    budget, padding = Budget.of(model, batch_tokens), model.config.pad_token_id
    if any(padding in text.input_ids for text in texts):
        raise UsageError(
            "a text holds the tokenizer's padding token, which masked models cannot score; remove it"
        )
    if masking == "within_word_l2r" and any(text.words is None for text in texts):
        raise ValueError("within_word_l2r needs the word of every token: give ScoredText its words")

    def score(texts: Sequence[ScoredText]) -> Scores:
        return shared_masked_scores(model, texts, mask_token_id, budget, masking)

    return _score_once(
        model, texts, budget, score, lambda text: _whole_masked_score(model, text, mask_token_id, masking)
    )


@torch.inference_mode()
def span_log_likelihoods(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    sentinel_id: int,
    batch_tokens: int | Budget | None = None,
) -> Scores:
    """Score texts with an encoder-decoder that was trained to fill gaps, each as one missing span.

    For ``<s> S </s>`` the encoder reads ``<s><extra_id_0></s>`` and the decoder writes ``<extra_id_0> S``, so
    that the score is the decoder's log p(S) by the chain rule, as a causal model's is. What stands before S,
    a context, is read by the encoder. Training leaves out spans of 3 tokens on average, and hardly ever one
    as long as a sentence, so the model is asked for what it has seldom done.

    Args:
        model: An encoder-decoder, in evaluation mode.
        texts: What to score; tokens outside ``start:end`` are read by the encoder and never left out.
        sentinel_id: The id of the first sentinel.
        batch_tokens: As in ``causal_log_likelihoods``.
    """
    budget = Budget.of(model, batch_tokens)

    def score(texts: Sequence[ScoredText]) -> Scores:
        table = TokenTable(len(texts), budget, lambda logits: logits)
        for batch in batches_of_one_length(texts, budget, model.device):
            targets = batch.ids[:, batch.start : batch.end].flatten()
            table.put(batch.owners, _span_logits(model, batch, sentinel_id).flatten(0, 1), targets)
        return table.scores()

    return _score_once(model, texts, budget, score)


def _span_logits(model: PreTrainedModel, batch: Batch, sentinel_id: int) -> Tensor:
    """Return the (S, M, V) logits of the scored tokens."""
    gap = torch.full_like(batch.ids[:, :1], sentinel_id)
    encoder_ids = torch.cat([batch.ids[:, : batch.start], gap, batch.ids[:, batch.end :]], 1)
    # The first two tokens that the decoder reads are given; behind the second it predicts the text.
    start = torch.full_like(gap, model.config.decoder_start_token_id)
    decoder_ids = torch.cat([start, gap, batch.ids[:, batch.start : batch.end - 1]], 1)
    return model(input_ids=encoder_ids, decoder_input_ids=decoder_ids, use_cache=False).logits[:, 1:]


def num_positions(model: PreTrainedModel) -> int:
    """Return how many tokens the model can read at once, special tokens included.

    A model that counts distances, as T5 does, can read any number.
    """
    config = model.config
    if getattr(config, "max_position_embeddings", None) is None:
        return sys.maxsize
    # RoBERTa counts positions from padding_idx + 1, and its table includes the unused ones.
    embeddings = getattr(model.base_model, "embeddings", None)
    offset = getattr(embeddings, "padding_idx", None)
    return config.max_position_embeddings - (0 if offset is None else offset + 1)


def _score_once(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    budget: Budget,
    score: Score,
    whole_score: Callable[[ScoredText], float] | None = None,
) -> Scores:
    """Score each text once however often it is given; one without scored tokens scores 0.

    Args:
        model: The model.
        texts: What to score.
        budget: That of ``score``.
        score: Scores texts, with shared computation.
        whole_score: The same of one text by the model's own forward passes, to compare with.
    """
    keys = [_key(text) for text in texts]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    different = dict(zip(keys, texts, strict=True)).values()
    result = Scores(np.zeros(len(numbers)), np.ones(len(numbers), dtype=bool))
    filled = np.array([text.start < text.end for text in different], dtype=bool)

    def score_in_halves(texts: Sequence[ScoredText]) -> Scores:
        return budget.in_halves(lambda: score(texts))

    with torch.autocast(model.device.type, enabled=False):
        if filled.any():
            scorable = [text for text, is_filled in zip(different, filled, strict=True) if is_filled]
            if whole_score is not None and model not in _checked:
                _check_sharing(model, scorable[:NUM_CHECKED], score_in_halves, whole_score)
            scored = score_in_halves(scorable)
            result.log_likelihood[filled], result.is_greedy[filled] = scored
    places = np.array([numbers[key] for key in keys], dtype=np.int64)
    return Scores(result.log_likelihood[places], result.is_greedy[places])


def _key(text: ScoredText) -> tuple:
    words = None if text.words is None else tuple(text.words)
    return tuple(text.input_ids), text.start, text.end, words


def _check_sharing(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    score: Score,
    whole_score: Callable[[ScoredText], float],
) -> None:
    """Refuse a model whose shared scores are not those of its own forward passes."""
    try:
        shared = score(texts).log_likelihood
        expected = np.array([whole_score(text) for text in texts])
        exact = model.dtype in (torch.float32, torch.float64)
        tolerance = {"rtol": 1e-5, "atol": 1e-4} if exact else {"rtol": 1e-2, "atol": 0.25}
        # A model whose training diverged has no scores, in either way.
        difference = np.abs(shared - expected)[~np.isclose(shared, expected, equal_nan=True, **tolerance)]
        reason = f"a score moves by {difference.max():.1g} nats" if len(difference) else None
    except Exception as error:  # modules of any other design fail in any way
        if is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if reason is not None:
        raise UsageError(
            f"{type(model).__name__} cannot be scored with what texts share computed once ({reason}); its "
            "architecture is another, or its FFN looks at other tokens: `ffn-ablations check` says which"
        )
    _checked.add(model)


def _whole_causal_score(model: PreTrainedModel, text: ScoredText) -> float:
    # The last token is never read: a text may be longer by it than the model's positions.
    ids = torch.tensor([text.input_ids[: text.end]], device=model.device)
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits[0, text.start - 1 :]
    return -F.cross_entropy(logits.float(), ids[0, text.start :], reduction="sum").item()


def _whole_masked_score(
    model: PreTrainedModel, text: ScoredText, mask_token_id: int, masking: Masking
) -> float:
    ids = torch.tensor([text.input_ids], device=model.device)
    words = None if text.words is None else torch.tensor([text.words], device=model.device)
    masked = masked_tokens(Batch(np.zeros(1), ids, text.start, text.end, words), masking)[0]
    rows = torch.arange(len(masked), device=model.device)
    logits = model(input_ids=ids.masked_fill(masked, mask_token_id)).logits[rows, text.start + rows]
    return -F.cross_entropy(logits.float(), ids[0, text.start : text.end], reduction="sum").item()
