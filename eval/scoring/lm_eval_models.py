"""The project's models for lm-eval.

``ffn-clm`` is causal, ``ffn-mlm`` masked, and ``ffn-s2s`` an encoder-decoder. lm-eval has no masked models,
and its causal one runs the head on every position. Importing this module registers all, after which any
lm-eval task that asks for log-likelihoods can be given one of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from pydantic import ValidationError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from base.errors import UsageError, unknown_name
from eval.scoring.log_likelihood import (
    ScoredText,
    Scores,
    causal_log_likelihoods,
    num_positions,
    pseudo_log_likelihoods,
    span_log_likelihoods,
)
from eval.scoring.protocol import Protocol, ProtocolConfig
from eval.scoring.tokens import TextTokenizer
from pretrain.data.tokenizer import sentinel

# Measured with 2-layer models of hidden sizes 128 and 512, gelu and kan: from 1024 to 4096 tokens a core is
# within 4% of its best. A GPU needs more per launch.
CPU_BATCH_TOKENS = 2048
GPU_BATCH_TOKENS = 65536

# What lm-eval's command line passes to every model.
_UNUSED_ARGUMENTS = ("batch_size", "max_batch_size")


class DocumentScore(NamedTuple):
    """A document's log-likelihood or pseudo-log-likelihood in nats, over its scored tokens."""

    log_likelihood: float
    num_tokens: int


class TextScorer(LM):
    """What all kinds of models share: texts to tokens, and requests to scores in the order they came.

    Args:
        pretrained: A model, or a folder that holds one, a run's too.
        tokenizer: Its tokenizer; None where ``pretrained`` is a folder, which holds it too.
        protocol: How texts are scored, or the name of a preset.
        batch_tokens: Tokens per forward pass; None chooses by device.
        device: Where to run; None keeps a model where it is and puts a loaded one on the GPU if there is one.
        **options: Fields of ``ProtocolConfig`` to change, such as ``prefix``. What lm-eval's command line
            passes to every model (``batch_size``, ``max_batch_size``) is left unused.

    Raises:
        UsageError: For an option that does not exist or a value that it cannot have.
    """

    objective: ClassVar[str]

    def __init__(
        self,
        pretrained: PreTrainedModel | str | Path,
        tokenizer: PreTrainedTokenizerBase | None = None,
        protocol: Protocol | str = "native",
        batch_tokens: int | None = None,
        device: str | None = None,
        **options: object,
    ) -> None:
        super().__init__()
        self.protocol = (
            protocol if isinstance(protocol, Protocol) else _protocol(protocol, self.objective, options)
        )
        if isinstance(pretrained, PreTrainedModel):
            model = pretrained
        else:
            # lm-eval's command line asks for this device where it is told none; its own models do without.
            absent = device == "cuda:0" and not torch.cuda.is_available()
            model, tokenizer = self._load(Path(pretrained), None if absent else device)
        if tokenizer is None:
            raise UsageError("a loaded model needs its tokenizer: pass tokenizer=...")
        self.model = _in_dtype(model, self.protocol.dtype).eval()
        self.texts = TextTokenizer(tokenizer, self.protocol, num_positions(self.model))
        self._device = model.device
        on_cpu = model.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_BATCH_TOKENS if on_cpu else GPU_BATCH_TOKENS)

    def _load(self, folder: Path, device: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        from eval.models.loading import has_model, load_language_model, model_folder

        folder = model_folder(folder) if has_model(folder) else folder
        return load_language_model(folder, self.objective, device)

    @abstractmethod
    def score(self, texts: Sequence[ScoredText]) -> Scores:
        """Score tokenised texts."""

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Score each request's continuation given its context, in nats; the requests keep their order.

        Raises:
            UsageError: For a continuation without a token, a text longer than the model's positions, or a
                score that is not finite.
        """
        pairs = tuple((context, continuation) for context, continuation in (r.args for r in requests))
        texts = self.encode(pairs)
        scores = self.score(texts)
        values = scores.log_likelihood
        if self.protocol.reduction == "mean":
            values = values / np.array([text.end - text.start for text in texts])
        _check_finite(values, pairs)
        return list(zip(values.tolist(), scores.is_greedy.tolist(), strict=True))

    def encode(self, pairs: Iterable[tuple[str, str]]) -> Sequence[ScoredText]:
        """Tokenise (context, continuation) pairs, of which the continuation is scored."""
        return self.texts.encode(tuple(pairs))

    def count_tokens(self, pairs: Iterable[tuple[str, str]]) -> list[int]:
        """Return how many tokens of each continuation are scored."""
        return [text.end - text.start for text in self.encode(pairs)]

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Score whole documents, in nats: each token once, in lm-eval's windows of the model's positions.

        Always a sum: lm-eval divides by words and bytes itself. For masked models it is the
        pseudo-log-likelihood, and what lm-eval calls perplexity is then the pseudo-perplexity.

        Raises:
            UsageError: If a score is not finite.
        """
        documents = self.score_documents([str(request.args[0]) for request in requests])
        return [document.log_likelihood for document in documents]

    def score_documents(self, documents: Sequence[str]) -> list[DocumentScore]:
        """Score whole documents as ``loglikelihood_rolling`` does, and say how many tokens each has.

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

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise UsageError(
            "these models score text and do not write any; choose tasks of the output types loglikelihood, "
            "multiple_choice or loglikelihood_rolling"
        )


@register_model("ffn-clm")
class CausalScorer(TextScorer):
    """Log-likelihood of a text under a causal model."""

    objective = "causal"

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        return causal_log_likelihoods(self.model, texts, self.batch_tokens)


@register_model("ffn-mlm")
class MaskedScorer(TextScorer):
    """Pseudo-log-likelihood of a text under a masked model."""

    objective = "masked"

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        mask_id = self.texts.required_id("mask_token")
        metric = self.protocol.masking
        return pseudo_log_likelihoods(self.model, texts, mask_id, self.batch_tokens, pll_metric=metric)


@register_model("ffn-s2s")
class SpanScorer(TextScorer):
    """Log-likelihood of a text under the decoder of an encoder-decoder, or its pseudo-log-likelihood."""

    objective = "span_corruption"

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        gap = self.texts.token_id(sentinel(0))
        formulation = self.protocol.formulation
        return span_log_likelihoods(self.model, texts, gap, self.batch_tokens, formulation)


SCORERS: dict[str, type[TextScorer]] = {
    "causal": CausalScorer,
    "masked": MaskedScorer,
    "span_corruption": SpanScorer,
}


def _protocol(preset: str, objective: str, options: dict[str, object]) -> Protocol:
    """Read a protocol from the arguments that lm-eval passes to a model."""
    fields = [name for name in ProtocolConfig.model_fields if name != "preset"]
    if unknown := [name for name in options if name not in (*fields, *_UNUSED_ARGUMENTS)]:
        raise unknown_name("model argument", unknown[0], ["pretrained", "protocol", "batch_tokens", *fields])
    chosen = {name: value for name, value in options.items() if name in fields}
    try:
        return ProtocolConfig.model_validate({"preset": preset, **chosen}).resolve(objective)
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{first['loc'][0]}: {first['msg'].removeprefix('Value error, ')}"
        raise UsageError(message if "unknown" in message else f"{message} (is {first['input']!r})") from None


def _in_dtype(model: PreTrainedModel, dtype: str) -> PreTrainedModel:
    wanted = getattr(torch, dtype)
    return model if model.dtype == wanted else model.to(wanted)


def _check_finite(values: np.ndarray, pairs: Iterable[tuple[str, str]]) -> None:
    if np.isfinite(values).all():
        return
    for value, (context, continuation) in zip(values, pairs, strict=True):
        if not np.isfinite(value):
            shown = (context + continuation)[:60]
            raise UsageError(f"the score of {shown!r} is not finite ({value}); did the training diverge?")
