"""The project's models for lm-eval, registered as ``ffn-clm`` (causal) and ``ffn-mlm`` (masked).

lm-eval has no masked models, and its causal one runs the head on every position. Importing this module
registers both, after which any lm-eval task that asks for log-likelihoods can be given one of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from eval.scoring import ScoredText, Scores, causal_log_likelihoods, num_positions, pseudo_log_likelihoods
from ffn_variants.errors import UsageError

# Measured with 2-layer models of hidden size 128: a core is fastest where the activations fit its cache, gelu
# with 2048 tokens and kan, whose splines need eight times the room, with 512. A GPU needs more per launch.
CPU_BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 65536


class TextScorer(LM):
    """What both kinds of models share: texts to tokens, and requests to scores in the order they came.

    Args:
        pretrained: A model, or a folder that holds one.
        tokenizer: Its tokenizer; None where ``pretrained`` is a folder, which holds it too.
        batch_tokens: Tokens per forward pass; None chooses by device.
        device: Where to run; None keeps a model where it is and puts a loaded one on the GPU if there is one.
        **_: What lm-eval's command line passes to every model, such as ``batch_size``.
    """

    def __init__(
        self,
        pretrained: PreTrainedModel | str | Path,
        tokenizer: PreTrainedTokenizerBase | None = None,
        batch_tokens: int | None = None,
        device: str | None = None,
        **_: object,
    ) -> None:
        super().__init__()
        if isinstance(pretrained, PreTrainedModel):
            model = pretrained
        else:
            model, tokenizer = self.load(Path(pretrained), device)
        if tokenizer is None:
            raise UsageError("a loaded model needs its tokenizer: pass tokenizer=...")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self._device = model.device
        on_cpu = model.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_BATCH_TOKENS if on_cpu else GPU_BATCH_TOKENS)

    @staticmethod
    @abstractmethod
    def load(folder: Path, device: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """Load a model of this kind and its tokenizer from a folder."""

    @abstractmethod
    def score(self, texts: Sequence[ScoredText]) -> Scores:
        """Score tokenised texts."""

    @property
    @abstractmethod
    def end_ids(self) -> list[int]:
        """Tokens that follow every text and are not scored."""

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Score each request's continuation given its context, in nats; the requests keep their order.

        Every text begins with the token that began every training document. A context that ends in spaces
        gives them to the continuation, as in lm-eval, because byte-level tokens begin with their space.

        Raises:
            UsageError: For a continuation without a token, or a text longer than the model's positions.
        """
        pairs = [(str(context), str(continuation)) for context, continuation in (r.args for r in requests)]
        scores = self.score(self.encode(pairs))
        return list(zip(scores.log_likelihood.tolist(), scores.is_greedy.tolist(), strict=True))

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[ScoredText]:
        """Tokenise (context, continuation) pairs, of which the continuation is scored."""
        if not pairs:
            return []
        pairs = [_move_spaces(context, continuation) for context, continuation in pairs]
        ids = self._ids([context + continuation for context, continuation in pairs])
        num_context = [0] * len(pairs)
        if any(context for context, _ in pairs):
            num_context = [len(i) for i in self._ids([context for context, _ in pairs])]
        limit = num_positions(self.model)
        texts = []
        for (context, continuation), tokens, given in zip(pairs, ids, num_context, strict=True):
            if len(tokens) <= given:
                raise UsageError(f"nothing to score in {context + continuation!r}: the text has no token")
            text = ScoredText([self.prefix_id, *tokens, *self.end_ids], 1 + given, 1 + len(tokens))
            if len(text.input_ids) > limit:
                raise UsageError(
                    f"a text of {len(text.input_ids)} tokens does not fit the model's {limit} positions: "
                    f"{(context + continuation)[:60]!r}...; leave it out or use a model with more positions"
                )
            texts.append(text)
        return texts

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens of each text are scored."""
        return [len(ids) for ids in self._ids(texts)]

    @property
    def prefix_id(self) -> int:
        """The token before every text."""
        return _required_id(self.tokenizer, "bos_token", "cls_token")

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise UsageError(f"{type(self).__name__} scores pairs and choices; it has no rolling log-likelihood")

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise UsageError(f"{type(self).__name__} scores text and does not write any; choose another task")


@register_model("ffn-clm")
class CausalScorer(TextScorer):
    """Log-likelihood of ``<s>`` + text, summed over the text's tokens."""

    @staticmethod
    def load(folder: Path, device: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        from eval.loading import load_language_model

        return load_language_model(folder, "causal", device)

    @property
    def end_ids(self) -> list[int]:
        return []

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        return causal_log_likelihoods(self.model, texts, self.batch_tokens)


@register_model("ffn-mlm")
class MaskedScorer(TextScorer):
    """Pseudo-log-likelihood of ``<s>`` + text + ``</s>``, summed over the text's tokens."""

    @staticmethod
    def load(folder: Path, device: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        from eval.loading import load_language_model

        return load_language_model(folder, "masked", device)

    @property
    def end_ids(self) -> list[int]:
        return [_required_id(self.tokenizer, "eos_token", "sep_token")]

    def score(self, texts: Sequence[ScoredText]) -> Scores:
        mask_id = _required_id(self.tokenizer, "mask_token")
        return pseudo_log_likelihoods(self.model, texts, mask_id, self.batch_tokens)


def _move_spaces(context: str, continuation: str) -> tuple[str, str]:
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation


def _required_id(tokenizer: PreTrainedTokenizerBase, *names: str) -> int:
    for name in names:
        token_id = getattr(tokenizer, f"{name}_id", None)
        if token_id is not None:
            return token_id
    raise UsageError(f"the tokenizer has no {names[0]}, which scoring needs; set it before saving the model")
