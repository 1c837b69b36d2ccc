"""Scores of texts and documents by each kind of model: causal, masked, and encoder-decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from base.errors import UsageError
from base.sections import check
from eval.memory import Budget
from eval.protocol import Protocol, ProtocolConfig
from eval.scoring.log_likelihood import (
    causal_log_likelihoods,
    num_positions,
    pseudo_log_likelihoods,
    span_log_likelihoods,
)
from eval.scoring.scored_tokens import TextTokenizer
from eval.scoring.text_batches import ScoredText, Scores
from pretrain.data.tokenizer import sentinel


class ContinuationScores(NamedTuple):
    """What a model makes of continuations of contexts.

    Attributes:
        log_likelihood: (N,) float64, in nats: log-likelihoods or pseudo-log-likelihoods, summed over the
            scored tokens.
        is_greedy: (N,) bool, true where every scored token is the likeliest in its place.
        num_tokens: How many tokens of each are scored.
    """

    log_likelihood: np.ndarray
    is_greedy: np.ndarray
    num_tokens: list[int]


class DocumentScore(NamedTuple):
    """A document's log-likelihood or pseudo-log-likelihood in nats, over its scored tokens."""

    log_likelihood: float
    num_tokens: int


class TextScorer(ABC):
    """What all kinds of models share: from texts to tokens, and from tokens to scores.

    Args:
        model: A language model of the kind.
        tokenizer: Its tokenizer.
        protocol: How texts are scored, or the name of a preset.
        batch_tokens: Tokens per forward pass; None chooses by device and its free memory.
        **options: Fields of ``ProtocolConfig`` to change, such as ``prefix``.

    Raises:
        UsageError: For an option that does not exist or a value that it cannot have.
    """

    objective: ClassVar[str]

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        protocol: Protocol | str = "native",
        batch_tokens: int | None = None,
        **options: object,
    ) -> None:
        if isinstance(protocol, str):
            protocol = check(ProtocolConfig, {"preset": protocol, **options}).resolve(self.objective)
        self.protocol = protocol
        self.model = model.float().eval()
        self.texts = TextTokenizer(tokenizer, self.protocol, num_positions(self.model))
        self.budget = Budget.of(self.model, batch_tokens)

    @abstractmethod
    def score(self, texts: Sequence[ScoredText]) -> Scores:
        """Score tokenised texts."""

    def score_continuations(self, pairs: Sequence[tuple[str, str]]) -> ContinuationScores:
        """Score the continuation of each (context, continuation) pair, given its context.

        Raises:
            UsageError: For a continuation without a token, a text longer than the model's positions, or a
                score that is not finite.
        """
        texts = self.encode(pairs)
        scores = self.score(texts)
        _check_finite(scores.log_likelihood, pairs)
        return ContinuationScores(*scores, [text.end - text.start for text in texts])

    def encode(self, pairs: Iterable[tuple[str, str]]) -> Sequence[ScoredText]:
        """Tokenise (context, continuation) pairs, of which the continuation is scored."""
        return self.texts.encode(tuple(pairs))

    def score_documents(self, documents: Sequence[str]) -> list[DocumentScore]:
        """Score whole documents, each token once, in windows of the model's positions.

        Raises:
            UsageError: If a score is not finite.
        """
        windows = [self.texts.windows(document) for document in documents]
        flat = self.score([text for texts in windows for text in texts]).log_likelihood
        ends = np.cumsum([len(texts) for texts in windows]).tolist()
        scores = [
            DocumentScore(float(flat[start:end].sum()), sum(text.end - text.start for text in texts))
            for start, end, texts in zip([0, *ends], ends, windows, strict=False)
        ]
        totals = np.array([score.log_likelihood for score in scores])
        _check_finite(totals, [("", document) for document in documents])
        return scores


class CausalScorer(TextScorer):
    """Log-likelihood of a text under a causal model."""

    objective = "causal"

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        return causal_log_likelihoods(self.model, texts, self.budget)


class MaskedScorer(TextScorer):
    """Pseudo-log-likelihood of a text under a masked model."""

    objective = "masked"

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        mask_id = self.texts.required_id("mask_token")
        return pseudo_log_likelihoods(self.model, texts, mask_id, self.budget, self.protocol.masking)


class SpanScorer(TextScorer):
    """Log-likelihood of a text under the decoder of an encoder-decoder."""

    objective = "span_corruption"

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        return span_log_likelihoods(self.model, texts, self.texts.required_id(sentinel(0)), self.budget)


SCORERS: dict[str, type[TextScorer]] = {
    kind.objective: kind for kind in (CausalScorer, MaskedScorer, SpanScorer)
}


def _check_finite(values: np.ndarray, pairs: Iterable[tuple[str, str]]) -> None:
    for value, (context, continuation) in zip(values, pairs, strict=True):
        if not np.isfinite(value):
            shown = (context + continuation)[:60]
            raise UsageError(f"the score of {shown!r} is not finite ({value}); did the training diverge?")
