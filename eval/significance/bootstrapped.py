"""Comparisons whose verdicts rest on the studentized bootstrap; Welch's interval and p stand beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eval.significance.arms import ArmTable, Sample
from eval.significance.axes import Family
from eval.significance.comparison import Comparison, Inference
from eval.significance.statistics.bootstrap import Studentized, studentized


def by_bootstrap(
    found: Comparison,
    arms: ArmTable,
    sample: Sample,
    margins: Mapping[Family, float] | None,
    inference: Inference,
) -> Comparison:
    """Judge a comparison anew.

    Args:
        found: What Welch's test says of it.
        arms: The runs, in the scale of the comparison.
        sample: What it is made of.
        margins: Of each family, in the same scale.
        inference: How.
    """
    beside = replace(found, p_welch=found.p, low_welch=found.low, high_welch=found.high)
    few = [
        f"{len(arm)} in {name.replace('/', ' ')}"
        for name, arm in zip(sample.names, sample.arms, strict=True)
        if len(arm) < inference.fewest
    ]
    whole = None if few or sample.choices else _studentized(arms, sample, inference)
    if whole is None:
        what = "pairs" if inference.paired else "runs"
        reason = f"the bootstrap needs {inference.fewest} {what} in every arm, and has {', '.join(few)}"
        if not few:
            reason = "the bootstrap has no rule for what the choice of a rate adds; take Welch's test"
        return replace(
            beside,
            p=None,
            low=None,
            high=None,
            p_equivalence=None,
            p_equivalence_everywhere=None,
            smallest_margin=None,
            p_interaction=None,
            reason=reason,
        )
    low, high = whole.interval(inference.level)
    p = None if found.margin is None else whole.equivalence_p(found.margin)
    return replace(
        beside,
        p=whole.p,
        low=low,
        high=high,
        p_equivalence=p,
        p_equivalence_everywhere=p if p is None else _everywhere(p, arms, sample, margins or {}, inference),
        smallest_margin=whole.smallest_margin(found.look.nominal(2 * inference.level) / 2),
    )


def _everywhere(
    p: float, arms: ArmTable, sample: Sample, margins: Mapping[Family, float], inference: Inference
) -> float:
    """Return the largest of an average's p and those of each family."""
    for family, margin in margins.items():
        of_family = sample.of_family(family)
        judged = _studentized(arms, of_family, inference)
        if judged is not None:
            p = max(p, judged.equivalence_p(margin))
        elif abs(sum(w * a.mean() for w, a in zip(of_family.weights, of_family.arms, strict=True))) >= margin:
            p = 1.0  # of one family, all whose runs score the same
    return p


def _studentized(arms: ArmTable, sample: Sample, inference: Inference) -> Studentized | None:
    resampled = [
        arms.resampled(name, arm, inference) for name, arm in zip(sample.names, sample.arms, strict=True)
    ]
    return studentized(sample.arms, resampled, sample.weights)
