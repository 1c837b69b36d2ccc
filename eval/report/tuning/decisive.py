"""Which further tuning runs would decide most of what is undecided on the held-out loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from eval.report.tuning.choices import MORE_SEEDS, Line, Tuned
from eval.results.tuning_rules import Value
from eval.significance.comparison import SHOWN, Comparison
from eval.significance.statistics.tuning import combined


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """What ``MORE_SEEDS`` further tuning seeds of one variant are worth to a comparison."""

    compared: str
    lines: tuple[Line, ...]
    """What is tuned further: one variant along one field, in each setting of the comparison."""
    share: float
    """Width of the interval then, as a share of what it is, if means stay as they are."""

    @property
    def tuned(self) -> str:
        """The variant that is tuned further."""
        return str(self.lines[0].variant)

    @property
    def values(self) -> tuple[Value, ...]:
        """At which runs are added, in any setting."""
        return tuple(sorted({value for line in self.lines for value in line.of_curve}, key=float))

    @property
    def num_runs(self) -> int:
        """Number of runs that are added."""
        return MORE_SEEDS * sum(len(line.of_curve) for line in self.lines)


def most_decisive(tuned: Tuned, comparisons: Iterable[Comparison]) -> list[Narrowing]:
    """Return what is worth most first: every variant and field once, with the comparison it narrows most.

    Args:
        tuned: What the tuning found.
        comparisons: Averaged over families; those that are shown, and of other outcomes, need nothing.
    """
    undecided = [c for c in comparisons if c.verdict not in SHOWN]
    found = [narrowing for c in undecided for narrowing in narrowings(tuned, c)]
    best: dict[tuple[str, str], Narrowing] = {}
    for each in sorted(found, key=lambda narrowing: narrowing.share):
        best.setdefault((each.tuned, each.lines[0].field), each)
    return list(best.values())


def narrowings(tuned: Tuned, comparison: Comparison) -> list[Narrowing]:
    """Say for each variant of a comparison what further tuning seeds about its choices are worth.

    The variance that the choices add becomes that of more seeds; the degrees of freedom, which grow a little,
    are left as they are.
    """
    if not comparison.choice_error or not comparison.standard_error:
        return []
    weights = comparison.contrast.weights()
    arms = {(family, name): x for family in comparison.families for name, x in weights.items()}
    part = (comparison.choice_error / comparison.standard_error) ** 2
    before = combined([tuned.choices[arm] for arm in arms], list(arms.values())).variance
    curved = [x for x in tuned.lines if (x.family, x.variant) in arms and x.of_curve]
    found = []
    for variant, name in dict.fromkeys((x.variant, x.field) for x in curved):
        more = tuned.choices_after(variant, name)
        after = combined([more[arm] for arm in arms], list(arms.values())).variance
        share = math.sqrt(max(0.0, 1 - part * (1 - after / before)))
        lines = tuple(x for x in curved if (x.variant, x.field) == (variant, name))
        if share < 1:
            found.append(Narrowing(compared=str(comparison.contrast.compared), lines=lines, share=share))
    return found
