"""Whether a verdict is robust to leaving one run out, and which runs failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from base.printing import first_few
from report.analysis import Analysis
from report.document.markdown import difference, family_label, p_value, records_table, signed
from report.part import Page, Part, Section
from report.significance.comparison import NOT_ESTIMABLE, SHOWN, Comparison, compare_arms
from report.significance.multiple_comparisons import CorrectedGroups, MultipleComparisons
from report.statistics.power import FEWEST_RUNS
from report.verdicts.findings import named, place
from scores.rows import run_name

NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """A primary comparison, made again without each of its runs in turn."""

    comparison: Comparison
    lowest_estimate: float
    """Of all differences with one run left out."""
    highest_estimate: float
    changed: tuple[tuple[str, Comparison], ...]
    """(run left out, the comparison without it), where something else is shown, or nothing any more."""
    num_left_out: int

    @property
    def loses(self) -> bool:
        """Whether something is shown that is not without some run."""
        return bool(self.changed) and self.comparison.verdict in SHOWN

    @property
    def gains(self) -> bool:
        """Whether nothing is shown, and would be without some run."""
        return bool(self.changed) and self.comparison.verdict not in SHOWN

    @property
    def is_unknown(self) -> bool:
        """Whether an arm has two runs and cannot spare one."""
        return self.comparison.fewest_runs == FEWEST_RUNS


def sensitivities(claims: MultipleComparisons, comparisons: Sequence[Comparison]) -> list[Sensitivity]:
    """Make every estimable primary comparison again without each run in turn, each time corrected.

    Args:
        claims: What was compared, and how.
        comparisons: All that were corrected, as reported, each question once.
    """
    together, how = CorrectedGroups(claims, comparisons), claims.inference
    without: dict[int, list[tuple[str, Comparison]]] = {
        number: [] for number, c in enumerate(comparisons) if c.is_primary and c.p is not None
    }
    for arms in claims.tables.values():
        for (family, variant), runs in arms.runs.items():
            affected = {
                number: c
                for number in without
                if (c := comparisons[number]).benchmark == arms.benchmark
                and family in c.families
                and variant in c.contrast.weights()
            }
            for seed in runs.index if affected else ():
                fewer = arms.without(family, variant, int(seed))
                again = {
                    number: compare_arms(fewer, c.contrast, c.family, how) for number, c in affected.items()
                }
                # Leaving out a run is no other look.
                again = {number: replace(c, look=affected[number].look) for number, c in again.items()}
                # A correction only makes p larger, and is slow: what shows nothing before it needs none.
                if any(c.verdict in SHOWN for c in again.values()):
                    again = together.correct(again)
                for number, comparison in again.items():
                    without[number].append((run_name((family, variant, int(seed))), comparison))
    return [_sensitivity(comparisons[number], others) for number, others in without.items()]


def _sensitivity(comparison: Comparison, others: Sequence[tuple[str, Comparison]]) -> Sensitivity:
    estimates = [c.estimate for _, c in others if c.estimate is not None]
    return Sensitivity(
        comparison=comparison,
        lowest_estimate=min(estimates),
        highest_estimate=max(estimates),
        changed=tuple((run, c) for run, c in others if _is_other(c.verdict, comparison.verdict)),
        num_left_out=len(others),
    )


def _is_other(verdict: str, reported: str) -> bool:
    return verdict not in (reported, NOT_ESTIMABLE) and not {verdict, reported}.isdisjoint(SHOWN)


Sensitivities = tuple[Sensitivity, ...]


def compute(analysis: Analysis) -> Sensitivities | None:
    """Compare again without each run in turn; None where nothing is estimable and no run failed."""
    results = tuple(sensitivities(analysis.claims_made, analysis.corrected))
    return results if results or analysis.failures else None


def section(analysis: Analysis, results: Sensitivities, page: Page) -> Section:
    """The same verdicts without one run, and the runs that failed."""
    rows = records_table(
        {
            "metric": place(analysis, x.comparison.benchmark),
            analysis.stratum: family_label(x.comparison.family),
            "contrast": f"`{x.comparison.contrast}`",
            "as reported": f"{difference(x.comparison)} {x.comparison.verdict}",
            "leaving one run out": _range(x),
            "verdict without one run": _changes(x),
        }
        for x in results
    )
    parts = filter(None, (rows, failed_runs(analysis)))
    return Section(title="Sensitivity", summary=_summary(results), body="\n\n".join(parts))


def checks(analysis: Analysis, results: Sensitivities) -> Iterable[str]:
    """Name whose verdict one run decides, and which way."""
    lost = first_few([named(analysis, x.comparison) for x in results if x.loses], NAMED)
    gained = first_few([named(analysis, x.comparison) for x in results if x.gains], NAMED)
    if lost:
        yield f"Not robust to leaving one run out: {lost}."
    if gained:
        yield f"Shown only without one run: {gained}."
    unknown = [named(analysis, x.comparison) for x in results if x.is_unknown]
    if unknown:
        told = first_few(unknown, NAMED)
        yield f"Of two runs none can be left out, so whether one decides is not known: {told}."
    elif results and not lost and not gained:
        yield f"Every verdict is robust to leaving any one {'main ' * analysis.is_tuned}run out."


def _summary(results: Sensitivities) -> str:
    lost, gained = sum(x.loses for x in results), sum(x.gains for x in results)
    if unknown := sum(x.is_unknown for x in results):
        return f"of {unknown} of {len(results)} verdicts not known, as an arm has two runs"
    if not lost and not gained:
        return "every verdict holds without any one run"
    return f"{lost} of {len(results)} verdicts are lost without some run, {gained} more would be shown"


def tables(analysis: Analysis, results: Sensitivities) -> Mapping[str, pd.DataFrame]:
    """Return every comparison without one run, and the counts of failed runs."""
    return {
        "sensitivity": pd.DataFrame(map(_record, results)),
        "failures": pd.DataFrame(map(vars, analysis.failures)),
    }


def _record(x: Sensitivity) -> dict[str, Any]:
    return {
        **{name: getattr(x.comparison, name) for name in ("benchmark", "contrast", "verdict")},
        **{name: getattr(x, name) for name in ("lowest_estimate", "highest_estimate", "num_left_out")},
        "changed": "; ".join(f"{c.verdict} without {run}" for run, c in x.changed),
    }


def _range(x: Sensitivity) -> str:
    digits = x.comparison.digits
    return f"{signed(x.lowest_estimate, digits)} to {signed(x.highest_estimate, digits)}"


def _changes(x: Sensitivity) -> str:
    if x.is_unknown:
        return "not known: an arm has two runs"
    if not x.changed:
        return f"holds in all {x.num_left_out}"
    word = x.changed[0][1].verdict
    runs = first_few([run for run, _ in x.changed], 1)
    return f"{len(x.changed)} of {x.num_left_out} change it: {word} without {runs}"


def failed_runs(analysis: Analysis) -> str:
    """Counts by variant with their tests."""
    counts = analysis.failures
    if not counts:
        return ""
    shown = [c for c in counts if len(analysis.families) > 1 or c.family is None]
    rows = records_table(
        {
            analysis.noun: f"`{c.variant}`",
            analysis.stratum: "all" if c.family is None else family_label(c.family),
            "runs": str(c.num_runs),
            "diverged": str(c.num_diverged),
            "failed otherwise": str(c.num_failed),
            "p against the baseline": p_value(c.p_corrected),
        }
        for c in shown
    )
    return (
        f"**Runs that failed**\n\n{rows}\n\n"
        "Runs that ended, in whatever way. *p*: Fisher's exact test of the share that diverged or failed, "
        f"after Holm's correction over the {analysis.noun}s. Every verdict is about runs with a score; where "
        "some of its runs failed and have none, it says *of surviving runs*."
    )


PART = Part(name="sensitivity", compute=compute, section=section, tables=tables, checks=checks)
