"""The ``pilot:`` section of a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from base.sections import Section

BATCH = "train.batch_size"
FIRST_SEED = 901
"""Of the seeds of a pilot that names none."""
MOST_SEEDS = 1000


class PilotConfig(Section):
    """What a pilot varies: ``tokens``, ``batch`` and any field of the config by its dotted name."""

    tokens: tuple[Any, ...] = ()
    """Training tokens of a run: ``[0.3M, 1M]``."""
    batch: tuple[Annotated[int, Field(gt=0)], ...] = ()
    """Levels of ``train.batch_size``."""
    fields: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Levels of other fields, such as ``optim.learning_rate``, which stand beside these keys in the file."""
    seeds: Annotated[int, Field(ge=2, le=MOST_SEEDS)] | tuple[int, ...] = 3
    """How many, from 901 on, or which."""
    variants: tuple[str, ...] = ()
    """The baseline and one unlike it; none = the study's baseline and ``none``, a model without FFN."""
    size: str | None = None
    """One of the study's ``sizes``; none = the first."""
    detect: float | None = Field(None, gt=0, allow_inf_nan=False)
    """The difference of final held-out losses to be found, in nats; none = the study's margin, else 0.02."""

    @model_validator(mode="before")
    @classmethod
    def _take_fields(cls, values: Any) -> Any:
        """Take dotted names for fields of a run's config."""
        if not isinstance(values, Mapping) or "fields" in values:
            return values
        fields = {name: value for name, value in values.items() if "." in str(name)}
        rest = {name: value for name, value in values.items() if name not in fields}
        return {**rest, **({"fields": fields} if fields else {})}

    @model_validator(mode="after")
    def _can_tell(self) -> PilotConfig:
        """Refuse a pilot that compares no recipes, has no spread, or compares other than two variants."""
        if BATCH in self.fields and self.batch:
            raise ValueError(f"batch and {BATCH} are the same; name one of them")
        if not any(len(levels) > 1 for levels in self.levels.values()):
            raise ValueError(
                "it varies nothing; name two or more levels of tokens, optim.learning_rate or batch"
            )
        if isinstance(self.seeds, tuple) and len(set(self.seeds)) < 2:
            raise ValueError(f"seeds are {list(self.seeds)}; name two or more, as a spread is to be seen")
        if self.variants and len(set(self.variants)) != 2:
            raise ValueError(
                f"variants are {', '.join(self.variants)}; name two, the baseline and one unlike it"
            )
        return self

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """Every axis that is named, with its levels: tokens, then fields, then the batch."""
        named = {"tokens": self.tokens, **self.fields, BATCH: self.fields.get(BATCH, self.batch)}
        return {axis: levels for axis, levels in named.items() if levels}
