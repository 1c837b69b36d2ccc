"""Log-likelihood and pseudo-log-likelihood of token sequences.

Every score is a sum of natural-log probabilities over the scored tokens, never divided by their number. The
softmax is taken in fp32 and the sum in fp64; the rest has the model's precision, whatever autocast says.

There is a fast way for each other kind of model, in ``causal.py`` and ``masked.py``, and a plain one in
``plain.py``; an encoder-decoder has plain ones only, in ``span.py``. The first time that a model is scored,
both score a few short texts, and a model to which the fast way does not apply is scored by the plain one from
then on, with a warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import PreTrainedModel

from eval.models.memory import Budget, told_if_memory_runs_out
from eval.scoring.causal import longest_tree, shared_causal_scores
from eval.scoring.masked import shared_masked_scores
from eval.scoring.plain import ScoredText, Scores, plain_causal_scores, plain_masked_scores
from eval.scoring.protocol import Formulation, Masking
from eval.scoring.span import infilling_scores, span_scores
from pretrain.training.memory import is_out_of_memory

# Whether the fast way applies, for each model and what can change without making it another one.
_fits: WeakKeyDictionary[PreTrainedModel, dict[tuple, bool]] = WeakKeyDictionary()


class _Ways(NamedTuple):
    """Two functions with the same scores; there may be no fast one."""

    fast: Callable[[Sequence[ScoredText]], Scores] | None
    plain: Callable[[Sequence[ScoredText]], Scores]


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
    """
    budget = _budget(model, batch_tokens)

    def fast(texts: Sequence[ScoredText]) -> Scores:
        return shared_causal_scores(model, texts, budget)

    def plain(texts: Sequence[ScoredText]) -> Scores:
        return plain_causal_scores(model, texts, budget)

    longest = longest_tree(model)
    assert all(text.start for text in texts), "a causal model cannot predict the first token of a text"

    def suits(text: ScoredText) -> bool:
        return text.end - 1 <= longest

    return _score(model, texts, _Ways(fast, plain), suits, "causal")


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
        model: A masked language model, in evaluation mode.
        texts: What to score; tokens outside ``start:end``, such as special ones, are never masked.
        mask_token_id: The id that stands for a masked token.
        batch_tokens: Tokens per forward pass over all masked copies, or what it may hold; None chooses.
            Changes speed and memory, not scores.
        masking: What else is masked with a token: nothing (``original``, Salazar et al. 2020,
            https://aclanthology.org/2020.acl-main.240) or what follows it in its word (``within_word_l2r``,
            Kauf and Ivanova 2023, https://aclanthology.org/2023.acl-short.80), which needs the texts' words.
    """
    budget = _budget(model, batch_tokens)

    def fast(texts: Sequence[ScoredText]) -> Scores:
        return shared_masked_scores(model, texts, mask_token_id, budget, masking)

    def plain(texts: Sequence[ScoredText]) -> Scores:
        return plain_masked_scores(model, texts, mask_token_id, budget, masking)

    padding = model.config.pad_token_id

    def suits(text: ScoredText) -> bool:
        # RoBERTa does not count padding as a position, so that a mask in its place moves the others.
        return padding not in text.input_ids

    return _score(model, texts, _Ways(fast, plain), suits, "masked")


@torch.inference_mode()
def span_log_likelihoods(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    sentinel_id: int,
    batch_tokens: int | Budget | None = None,
    formulation: Formulation = "span",
) -> Scores:
    """Score texts with an encoder-decoder, as a missing span or token by token (see ``span.py``).

    Args:
        model: An encoder-decoder trained by span corruption, in evaluation mode.
        texts: What to score; tokens outside ``start:end`` are read by the encoder and never left out.
        sentinel_id: The id of the first sentinel.
        batch_tokens: Tokens per forward pass, or what it may hold; None chooses. Changes speed and memory,
            not scores.
        formulation: ``span`` sums log p(token | what is outside the span, the span up to it), ``infilling``
            log p(token | all other tokens).
    """
    budget = _budget(model, batch_tokens)
    way = span_scores if formulation == "span" else infilling_scores

    def plain(texts: Sequence[ScoredText]) -> Scores:
        return way(model, texts, sentinel_id, budget)

    return _score(model, texts, _Ways(None, plain), lambda text: False, formulation)


def _budget(model: PreTrainedModel, batch_tokens: int | Budget | None) -> Budget:
    return batch_tokens if isinstance(batch_tokens, Budget) else Budget.of(model, batch_tokens)


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


def _score(
    model: PreTrainedModel,
    texts: Sequence[ScoredText],
    ways: _Ways,
    suits: Callable[[ScoredText], bool],
    kind: str,
) -> Scores:
    """Score each text once however often it is given, those that suit the fast way by that where it fits."""
    keys = [_key(text) for text in texts]
    number = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    different = [texts[index] for index in np.unique([number[key] for key in keys], return_index=True)[1]]
    scores = Scores(np.zeros(len(different)), np.ones(len(different), dtype=bool))
    longest = max((len(text.input_ids) for text in different), default=0)
    advice = f"one text of {longest} tokens does not fit; score on a CPU with --device cpu"
    with torch.autocast(model.device.type, enabled=False), told_if_memory_runs_out(advice):
        fits = bool(different) and _is_fit(model, ways, kind)
        is_fast = np.array([fits and suits(text) for text in different], dtype=bool)
        is_empty = np.array([text.start >= text.end for text in different], dtype=bool)
        for way, chosen in ((ways.fast, is_fast & ~is_empty), (ways.plain, ~is_fast & ~is_empty)):
            if way is not None and chosen.any():
                found = way([different[index] for index in np.flatnonzero(chosen)])
                scores.log_likelihood[chosen], scores.is_greedy[chosen] = found
    given = np.array([number[key] for key in keys], dtype=np.int64)
    return Scores(scores.log_likelihood[given], scores.is_greedy[given])


def _key(text: ScoredText) -> tuple:
    words = None if text.words is None else tuple(text.words)
    return tuple(text.input_ids), text.start, text.end, words


def _is_fit(model: PreTrainedModel, ways: _Ways, kind: str) -> bool:
    if ways.fast is None:
        return False
    key = (kind, model.dtype, model.config._attn_implementation)
    known = _fits.setdefault(model, {})
    if key not in known:
        reason = _misfit(model, ways)
        known[key] = reason is None
        if reason is not None:
            warnings.warn(
                f"{type(model).__name__} is scored by whole forward passes, which takes longer: {reason}",
                stacklevel=5,
            )
    return known[key]


def _misfit(model: PreTrainedModel, ways: _Ways) -> str | None:
    """Say why the fast way does not apply to a model, or None."""
    texts = _probes(model)
    expected = ways.plain(texts).log_likelihood
    assert ways.fast is not None
    try:
        found = ways.fast(texts).log_likelihood
    except Exception as error:  # modules of any other design fail in any way
        if is_out_of_memory(error):
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    exact = model.dtype in (torch.float32, torch.float64)
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if exact else {"rtol": 1e-2, "atol": 0.25}
    # A model whose training diverged has no scores, in either way.
    if np.allclose(found, expected, equal_nan=True, **tolerance):
        return None
    return f"shared computation moves a score by {np.abs(found - expected).max():.1g} nats"


def _probes(model: PreTrainedModel) -> list[ScoredText]:
    """Make a few short texts of random tokens, some of which begin alike."""
    rng = np.random.default_rng(0)
    special = {
        token
        for name in ("pad", "bos", "eos", "sep", "cls", "mask")
        if (token := getattr(model.config, f"{name}_token_id", None)) is not None
    }
    vocabulary = np.setdiff1d(np.arange(model.config.vocab_size), list(special))
    first, second = rng.choice(vocabulary, 6).tolist(), rng.choice(vocabulary, 5).tolist()
    return [
        ScoredText(ids, 1, len(ids) - 1, words=[(place + 1) // 2 for place in range(len(ids))])
        for ids in (first, [*first[:3], *second], second, [*second[:2], *first[:4]])
    ]
