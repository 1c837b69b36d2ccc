"""How many runs failed, and what they may have hidden."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.document.markdown import details, difference, p_value, signed, table
from eval.report.document.names import family_label
from eval.report.verdicts.failed_runs import FailureBound, FailureCount
from eval.report.verdicts.findings import place


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
