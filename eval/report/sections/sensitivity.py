"""Whether verdicts are robust to leaving one run out, and which runs failed."""

from __future__ import annotations

from base.wording import first_few
from eval.report.analysis import Analysis
from eval.report.document.markdown import details, difference, p_value, signed, table
from eval.report.document.names import family_label
from eval.report.verdicts.failed_runs import FailureCount
from eval.report.verdicts.findings import place
from eval.report.verdicts.sensitivity import Sensitivity

NAMED = 4


def sensitivity_section(analysis: Analysis) -> str:
    """The same verdicts without one run, and the runs that failed."""
    parts = [part for part in (_without_one(analysis), failed_runs_section(analysis)) if part]
    return "\n\n".join(["## Sensitivity", *parts]) if parts else ""


def _without_one(analysis: Analysis) -> str:
    """Every comparison made again without each of its runs in turn."""
    if not analysis.sensitivities:
        return ""
    rows = [
        [
            place(analysis, x.comparison.benchmark),
            f"`{x.variant}`",
            f"{difference(x.comparison)} {x.comparison.verdict}",
            _range(x),
            _changes(x),
        ]
        for x in analysis.sensitivities
    ]
    header = ["outcome", analysis.noun, "as reported", "leaving one run out", "verdict without one run"]
    text = (
        "Each corrected as the one reported, which none of them replaces. *Verdict without one run* "
        "counts the runs whose absence changes it."
    )
    return f"{_stability(analysis)}\n\n" + details(
        "The same comparisons without each run in turn", f"{table(header, rows)}\n\n{text}"
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


def failed_runs_section(analysis: Analysis) -> str:
    """Counts by variant with their tests."""
    counts = analysis.failures
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
    return (
        "### Runs that failed\n\n"
        f"{table(header, [_counted(c) for c in shown])}\n\n"
        "Runs that ended, in whatever way. *p*: Fisher's exact test of the share that diverged or failed, "
        f"after Holm's correction over the {analysis.noun}s. Every verdict is about runs with a score; where "
        "some of its runs failed and have none, it says *of surviving runs*."
    )


def _counted(count: FailureCount) -> list[str]:
    return [
        f"`{count.variant}`",
        "all" if count.family is None else family_label(count.family),
        str(count.num_runs),
        str(count.num_diverged),
        str(count.num_failed),
        "-" if count.p_corrected is None else p_value(count.p_corrected),
    ]
