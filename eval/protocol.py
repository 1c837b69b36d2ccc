"""How a text is scored: every choice that changes a number, recorded with each task and each item.

Two protocols flip the decision on 4 to 25% of BLiMP's pairs (measured on small models), so none is implied.
A preset names all choices at once, and any of them can be changed alone:

    ffn-ablations eval RUN --protocol babylm23
    ffn-ablations eval RUN --protocol lm-eval --protocol.prefix eos
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pydantic import model_validator

from base.errors import UsageError
from base.sections import Section, Unlisted

Preset = Literal["native", "lm-eval", "babylm23", "babylm25"]

Prefix = Literal["bos", "eos", "none"]
LeadingSpace = Literal["none", "one", "task"]
EndToken = Literal["none", "unscored", "scored"]
Masking = Literal["original", "within_word_l2r"]
Overflow = Literal["error", "truncate"]


class TooLongError(UsageError):
    """A text does not fit a model."""

    positions = 0
    """How many it needs."""


@dataclass(frozen=True)
class Protocol:
    """All choices, for models of one kind. ``ProtocolConfig`` says what each of them means."""

    objective: str
    preset: str
    prefix: Prefix
    leading_space: LeadingSpace
    end_token: EndToken
    masking: Masking
    overflow: Overflow

    @property
    def score(self) -> str:
        """What its numbers are."""
        return "pseudo-log-likelihood" if self.objective == "masked" else "log-likelihood"

    def record(self) -> dict[str, Any]:
        """Return everything that scores depend on besides the weights and the data, for the ledger."""
        fields = asdict(self)
        if self.objective != "masked":
            del fields["masking"]
        del fields["preset"]
        # What could be chosen once stays in the record, so that older scores are those of the same protocol.
        fields |= {"reduction": "sum", "dtype": "float32", "softmax": "float32", "tie": 0.5}
        if self.objective == "span_corruption":
            fields["formulation"] = "span"
        return {"name": self.name, "score": self.score, **fields}

    @property
    def name(self) -> str:
        """Its preset, and what was changed of it: ``babylm23`` or ``native,prefix=eos``."""
        preset = asdict(preset_protocol(self.preset, self.objective))
        changed = [f"{field}={value}" for field, value in asdict(self).items() if value != preset[field]]
        return ",".join([self.preset, *changed])


def preset_protocol(preset: str, objective: str) -> Protocol:
    """Return a preset for causal or masked models, or for encoder-decoders.

    What each stands for with a tokenizer that adds ``<s> </s>``; S is the sentence, scored tokens are in
    brackets:

    - ``native``: what the models saw in training, ``<s>[S]`` causal and ``<s>[S]</s>`` masked.
    - ``lm-eval``: lm-eval's ``hf`` model, ``<s>[ S]`` causal: its tasks put a space before a choice, and its
      prefix is the tokenizer's bos token. It has no masked models: theirs is ``<s>[ S]</s>``. A context that
      is too long loses its beginning.
    - ``babylm23``: the BabyLM 2023 pipeline, ``</s>[ S]`` causal and ``<s>[ S]</s>`` masked. The pipeline
      gives masked scores in bits, this project in nats.
    - ``babylm25``: the BabyLM 2025 pipeline, ``<s>[S]</s>`` for both; what follows the last scored token
      cannot change a causal score.

    An encoder-decoder gets the frame of a masked model: its encoder reads ``<s><extra_id_0></s>`` for
    ``<s>[S]</s>``, and its decoder writes ``<extra_id_0>[S]``. What stands before S, such as a context, the
    encoder reads. No pipeline has a protocol for such models.

    Both pipelines take the first of two equal scores and so count a tie as right; here it counts one half,
    and ties are counted.
    """
    framed = objective != "causal"
    spaced: LeadingSpace = "task" if preset in ("lm-eval", "babylm23") else "none"
    return Protocol(
        objective=objective,
        preset=preset,
        prefix="eos" if preset == "babylm23" and not framed else "bos",
        leading_space="one" if preset == "babylm23" else spaced,
        end_token="unscored" if framed or preset == "babylm25" else "none",
        masking="original",
        overflow="truncate" if preset == "lm-eval" else "error",
    )


class ProtocolConfig(Section):
    """How texts are scored: a preset, and what is changed of it."""

    preset: Preset = "native"
    """native = what the models saw in training; lm-eval, babylm23, babylm25 = what those tools score."""
    prefix: Prefix | None = None
    """Token before every text: bos, eos, none (null: the preset's). With none a causal model's first token is
    not scored."""
    leading_space: Unlisted[LeadingSpace | None] = None
    """What a text without context begins with: none, one space, or what its task gives, which in lm-eval's
    own tasks is one (null: the preset's)."""
    end_token: Unlisted[EndToken | None] = None
    """The end token behind every text: none, unscored, scored (null: the preset's)."""
    masking: Unlisted[Masking | None] = None
    """Masked models: original (Salazar et al. 2020) masks one token, within_word_l2r (Kauf and Ivanova 2023)
    the rest of its word too (null: the preset's, original)."""
    overflow: Unlisted[Overflow | None] = None
    """A text longer than the model's positions: error, or truncate its context from the left as lm-eval does
    (null: the preset's)."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        """Let a study write ``protocol: babylm23``."""
        return {"preset": value} if isinstance(value, str) else value

    def resolve(self, objective: str) -> Protocol:
        """Return the protocol for models of one kind: ``causal``, ``masked`` or ``span_corruption``."""
        return replace(preset_protocol(self.preset, objective), **self.model_dump(exclude_none=True))
