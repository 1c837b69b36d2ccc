"""The project's models for lm-eval.

``ffn-clm`` is causal, ``ffn-mlm`` masked, and ``ffn-s2s`` an encoder-decoder. lm-eval has no masked models,
and its causal one runs the head on every position. Importing this module registers all, after which any
lm-eval task that asks for log-likelihoods can be given one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from base.errors import UsageError
from base.run.folders import RunFolder
from eval.models.identity import model_folder
from eval.scoring.scorers import SCORERS, TextScorer
from ffn_variants.models.loading import load_language_model

# What lm-eval's command line passes to every model.
_UNUSED_ARGUMENTS = ("batch_size", "max_batch_size")


class LMEvalModel(LM):
    """Answers lm-eval's requests with a scorer's scores, in the order of the requests."""

    def __init__(self, scorer: TextScorer) -> None:
        super().__init__()
        self.scorer = scorer
        self._device = scorer.model.device

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Score each request's continuation given its context; errors are those of the scorer."""
        pairs = [(context, continuation) for context, continuation in (r.args for r in requests)]
        scores = self.scorer.score_continuations(pairs)
        return list(zip(scores.log_likelihood.tolist(), scores.is_greedy.tolist(), strict=True))

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Score whole documents, in nats: each token once, in lm-eval's windows of the model's positions.

        Always a sum: lm-eval divides by words and bytes itself. For masked models it is the
        pseudo-log-likelihood, and what lm-eval calls perplexity is then the pseudo-perplexity.
        """
        documents = self.scorer.score_documents([str(request.args[0]) for request in requests])
        return [document.log_likelihood for document in documents]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise UsageError(
            "these models score text and do not write any; choose tasks of the output types loglikelihood, "
            "multiple_choice or loglikelihood_rolling"
        )


class _SavedModel(LMEvalModel):
    """A model that lm-eval loads by name.

    Args:
        pretrained: A folder that holds a model and its tokenizer, or a run's folder.
        device: Where to run; None takes the GPU if there is one.
        trust_remote_code: Whether to run an FFN variant that the folder brings, as lm-eval's own flag.
        **options: What its scorer takes: ``protocol``, ``batch_tokens``, and fields of ``ProtocolConfig``.
            What lm-eval's command line passes to every model is left unused.

    Raises:
        UsageError: If the folder holds no such model, or for an option that does not exist.
    """

    objective: ClassVar[str]

    def __init__(
        self,
        pretrained: str | Path,
        device: str | None = None,
        trust_remote_code: bool = False,
        **options: object,
    ) -> None:
        folder = Path(pretrained)
        # lm-eval's command line asks for this device where it is told none; its own models do without.
        absent = device == "cuda:0" and not torch.cuda.is_available()
        model, tokenizer = load_language_model(
            model_folder(folder) if RunFolder(folder).has_model else folder,
            self.objective,
            None if absent else device,
            trust_remote_code,
        )
        chosen = {name: value for name, value in options.items() if name not in _UNUSED_ARGUMENTS}
        super().__init__(SCORERS[self.objective](model, tokenizer, **chosen))  # type: ignore[bad-argument-type]


@register_model("ffn-clm")
class CausalModel(_SavedModel):
    """Log-likelihood of a text under a causal model."""

    objective = "causal"


@register_model("ffn-mlm")
class MaskedModel(_SavedModel):
    """Pseudo-log-likelihood of a text under a masked model."""

    objective = "masked"


@register_model("ffn-s2s")
class SpanModel(_SavedModel):
    """Log-likelihood of a text under the decoder of an encoder-decoder, or its pseudo-log-likelihood."""

    objective = "span_corruption"
