"""How the verdicts stand when looked at in other ways, and when failed runs are counted."""

from __future__ import annotations

from base.wording import first_few
from eval.report.analysis import Analysis
from eval.report.document.markdown import details, difference, p_value, signed, table
from eval.report.document.names import family_label
from eval.report.verdicts.failed_runs import FailureBound, FailureCount
from eval.report.verdicts.findings import place
from eval.report.verdicts.sensitivity import Sensitivity
from eval.significance.comparison import Comparison

NAMED = 4


def sensitivity_section(analysis: Analysis) -> str:
    """The same verdicts made in other ways, and with the runs that failed."""
    parts = [part for part in (_other_ways(analysis), failed_runs_section(analysis)) if part]
    return "\n\n".join(["## Sensitivity", *parts]) if parts else ""


def _other_ways(analysis: Analysis) -> str:
    """Leave-one-out, without outliers, the other pairing, the mean over phenomena."""
    if not analysis.sensitivities:
        return ""
    rows = [
        [
            place(analysis, x.comparison.benchmark),
            f"`{x.variant}`",
            f"{difference(x.comparison)} {x.comparison.verdict}",
            _range(x),
            _changes(x),
            _other(x.without_outliers),
            _other(x.paired),
            "-" if x.seed_correlation is None else f"{x.seed_correlation:+.2f}",
            _other(x.mean_of_parts),
        ]
        for x in analysis.sensitivities
    ]
    text = (
        "Each corrected as the one reported, which none of them replaces. *Verdict without one run* "
        "counts the runs whose absence changes it. *Mean over phenomena* weighs phenomena alike instead of "
        "tasks. *r at equal seeds*: correlation of the two arms, within families."
    )
    pairing = "not paired" if analysis.inference.paired else "paired by seed"
    header = ["outcome", analysis.noun, "as reported", "leaving one run out", "verdict without one run",
              "without outliers", pairing, "r at equal seeds", "mean over phenomena"]  # fmt: skip
    return f"{_stability(analysis)}\n\n" + details(
        "The same comparisons made in other ways", f"{table(header, rows)}\n\n{text}"
    )


def _stability(analysis: Analysis) -> str:
    """Count the verdicts that hang on one run, and name them where they are few."""
    found = [x for x in analysis.sensitivities if x.changed]
    total = len(analysis.sensitivities)
    if not found:
        return f"All {total} verdicts hold whichever single run is left out."
    names = [f"`{x.variant}` on {place(analysis, x.comparison.benchmark)}" for x in found]
    return f"{len(found)} of {total} verdicts change without some single run: {first_few(names, NAMED)}."


def _range(x: Sensitivity) -> str:
    digits = x.comparison.digits
    return f"{signed(x.lowest_estimate, digits)} to {signed(x.highest_estimate, digits)}"


def _changes(x: Sensitivity) -> str:
    if not x.changed:
        return f"holds in all {x.num_left_out}"
    verdict = x.changed[0][1]
    runs = first_few([run for run, _ in x.changed], 1)
    return f"{len(x.changed)} of {x.num_left_out} change it: {verdict} without {runs}"


def _other(comparison: Comparison | None) -> str:
    if comparison is None:
        return "-"
    if comparison.low is None:
        return comparison.reason or comparison.verdict
    return f"{difference(comparison)} {comparison.verdict}"


def failed_runs_section(analysis: Analysis) -> str:
    """Counts by variant with their tests, and the verdicts with the failed runs counted."""
    counts, bounds = analysis.failures.counts, analysis.failures.bounds
    if not counts:
        return ""
    several = len(analysis.families) > 1
    shown = [c for c in counts if several or c.family is None]
    header = [
        analysis.noun,
        analysis.stratum,
        "runs",
        "diverged",
        "failed otherwise",
        "p against the baseline",
    ]
    text = (
        "### Runs that failed\n\n"
        f"{table(header, [_counted(c) for c in shown])}\n\n"
        "Runs that ended, in whatever way. *p*: Fisher's exact test of the share that diverged or failed, "
        f"after Holm's correction over the {analysis.noun}s. Every verdict is about runs with a score; where "
        "some of its runs failed and have none, it says *of surviving runs*."
    )
    if not bounds:
        return text
    header = ["outcome", analysis.noun, "as reported", "failed runs as the worst", "whatever they had scored"]
    body = table(header, [_bounded(analysis, bound) for bound in bounds])
    changed = [x for x in bounds if x.as_worst.verdict != x.comparison.verdict]
    said = f"{len(changed)} of {len(bounds)} verdicts change if every run that failed counts as the worst."
    explained = (
        "*As the worst*: each failed run counts as the worst run of its family on that outcome, as failing "
        "is at least as bad as the worst that was seen (worst-rank scores, Lachin 1999); corrected as the "
        "one reported. *Whatever they had scored*: from the failed runs of one side as the worst and of the "
        "other as the best of their family to the reverse."
    )
    return f"{text}\n\n{said}\n\n" + details(
        "Verdicts with the failed runs counted", f"{body}\n\n{explained}"
    )


def _counted(count: FailureCount) -> list[str]:
    return [
        f"`{count.variant}`",
        "all" if count.family is None else family_label(count.family),
        str(count.num_runs),
        str(count.num_diverged),
        str(count.num_failed),
        "-" if count.p_holm is None else p_value(count.p_holm),
    ]


def _bounded(analysis: Analysis, bound: FailureBound) -> list[str]:
    comparison, worst = bound.comparison, bound.as_worst
    low, high = (signed(x, comparison.digits) for x in bound.ends)
    return [
        place(analysis, comparison.benchmark),
        f"`{comparison.contrast.compared}`",
        f"{difference(comparison)} {comparison.verdict}",
        f"{difference(worst)} {worst.verdict}",
        f"{low} to {high}",
    ]
