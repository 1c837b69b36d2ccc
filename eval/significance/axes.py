"""The axes of a table of scores, and what stands where a comparison looks at two of them as one.

Rows have a column for each axis: family, variant, head and benchmark. In a comparison most names are those of
one axis, as plain text. Where two axes go together, as an FFN variant with a head, both are carried, and
written as one label for print only (``str``): nothing ever reads a label.
"""

from __future__ import annotations

from dataclasses import dataclass

from base.families import PRETRAINED
from eval.results.rows import NO_HEAD


@dataclass(frozen=True, order=True)
class Benchmark:
    """A benchmark; with a head where the scores of each head count as a benchmark of their own.

    With a metric it is a graded one of a suite, an outcome of its own beside that of the tasks' headlines.
    """

    name: str
    head: str = NO_HEAD
    metric: str = ""

    def __str__(self) -> str:
        name = f"{self.name} {self.metric.replace('_', ' ')}" if self.metric else self.name
        return f"{name} ({self.head})" if self.head else name


@dataclass(frozen=True, order=True)
class Models:
    """The models of one FFN variant in one family, which every head is fine-tuned with.

    Of a study over pretrained models the variant is one of these, and its name says all.
    """

    family: str
    variant: str

    def __str__(self) -> str:
        return self.variant if self.family == PRETRAINED else f"{self.family} / {self.variant}"


@dataclass(frozen=True, order=True)
class Combination:
    """An FFN variant with a classification head."""

    variant: str
    head: str

    def __str__(self) -> str:
        return f"{self.variant}/{self.head}"


Family = str | Models
"""What a difference is averaged over: a family, or where heads are compared one FFN variant in it."""
Level = str | Combination
"""What is compared: an FFN variant, a head, or both."""
