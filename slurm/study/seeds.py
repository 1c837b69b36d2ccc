"""The seeds of a study: a list, or a first few and more for what is undecided."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from base.errors import UsageError
from base.mistakes import check
from base.sections import Section
from base.seeds import LONGEST_RANGE, parse_seeds


class AdaptiveSeeds(Section):
    """Seeds from 1 on, of which only undecided comparisons get more than the first."""

    first: Annotated[int, Field(ge=2)]
    """Seeds of every variant, at which all comparisons are looked at for the first time."""
    most: Annotated[int, Field(le=LONGEST_RANGE)]
    """Seeds at the last look; none gets more."""
    until: Literal["decided"] = "decided"
    """A variant gets ``first`` more at a time until all its comparisons are decided."""

    @model_validator(mode="after")
    def _grow(self) -> AdaptiveSeeds:
        if self.most <= self.first:
            raise ValueError(
                f"most is {self.most} and first {self.first}; most must be greater, or leave both out and "
                f"write 1-{self.first}"
            )
        return self

    @property
    def numbers(self) -> tuple[int, ...]:
        """All seeds that there may be."""
        return tuple(range(1, self.most + 1))

    @property
    def looks(self) -> tuple[int, ...]:
        """How many seeds there are at each look."""
        return (*range(self.first, self.most, self.first), self.most)


def read_seeds(value: object) -> tuple[int, ...] | AdaptiveSeeds:
    """Read a list of seeds, words such as ``1-3``, or ``{first: 3, most: 12, until: decided}``.

    Raises:
        UsageError: If it is none of these.
    """
    if isinstance(value, AdaptiveSeeds):
        return value
    if isinstance(value, dict):
        return check(AdaptiveSeeds, value)
    if isinstance(value, int):
        raise UsageError(f"{value} is one number; write [{value}] for one seed, or a range such as 1-3")
    return parse_seeds(value if isinstance(value, list | tuple) else [value], "", "[1, 2, 3] or 1-3")
