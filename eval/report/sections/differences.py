"""Every comparison with its intervals and tests."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.document.markdown import (
    amount,
    bold,
    details,
    difference,
    interval,
    interval_alone,
    p_value,
    signed,
    table,
    unit_name,
)
from eval.report.document.names import family_label
from eval.report.sections.context import Context
from eval.report.verdicts.findings import place
from eval.report.verdicts.ranking import by_standing
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison
from eval.significance.dependence import FEWEST_RESAMPLED


def differences_section(analysis: Analysis, context: Context) -> str:
    """Every comparison with its tests, an outcome at a time, and the contrasts asked for."""
    parts = [f"## Differences to `{analysis.baseline}`", _legend(analysis)]
    for benchmark in by_standing(analysis):
        body = [context.figure_of("forest", analysis, benchmark), _tests(analysis, benchmark)]
        body.append(_interactions(analysis, benchmark))
        parts.append(details(_summary(analysis, benchmark), "\n\n".join(filter(None, body))))
    if analysis.contrasts:
        rows = [
            [place(analysis, c.benchmark), f"`{c.contrast}`", *_test_cells(analysis, c)]
            for c in analysis.contrasts
        ]
        parts += [
            "### Contrasts asked for",
            f"{analysis.strata.capitalize()} weigh the same, and so do the {analysis.noun}s of a group. "
            "Explored: corrected over all that were asked for, in each scope. One that is a comparison with "
            "the baseline has the verdict of that.",
            table(["outcome", "contrast", *_header(analysis)], rows),
        ]
    if dropped := sorted({name for c in (*analysis.comparisons, *analysis.contrasts) for name in c.dropped}):
        parts.append(f"Without a partner of the same seed, and left out of some pair: {', '.join(dropped)}.")
    return "\n\n".join(parts)


def _legend(analysis: Analysis) -> str:
    how = analysis.inference
    return (
        f"*Alone*: {how.confidence:.0%} interval and p of one comparison by Welch's t. *Together*: "
        f"the interval and p after {_corrections(analysis)} *Equivalence*: p of two one-sided tests at the "
        "margin, alone; then the largest of it and each family's, after Holm; and the smallest margin at "
        f"which they would pass alone.{_resampled(analysis)} *Floor*: the smallest permutation p that so "
        "many runs allow; - where there are too many arrangements to count. *g*: Hedges' standardised "
        "difference. "
        f"*P(>)*: how often a run of the {analysis.noun} scores above one of the baseline. "
        "*Runs*: of the two arms."
        + " The permutation test is given the values that were tuned."
        * analysis.is_tuned
    )


def _corrections(analysis: Analysis) -> str:
    by = "a bootstrap of whole studies (step-down max-t)" if analysis.is_drawn else "Holm's correction"
    of_group = f"the {analysis.noun}s of one outcome and scope."
    return f"{by}, on which verdicts rest: over all claims, else over {of_group}"


def _resampled(analysis: Analysis) -> str:
    if not analysis.is_drawn:
        return ""
    return (
        " *Resampled*: p of whole studies drawn from the runs themselves, with replacement, corrected as "
        f"well; it needs {FEWEST_RESAMPLED} runs in every arm, and no verdict rests on it."
    )


def _summary(analysis: Analysis, benchmark: Benchmark) -> str:
    outcome = analysis.outcome(benchmark)
    unit = unit_name(outcome.unit)
    return f"{place(analysis, benchmark)}{f' in {unit}' if unit else ''}, {outcome.better} is better"


def _tests(analysis: Analysis, benchmark: Benchmark) -> str:
    rows = [
        [f"`{variant}`", *_test_cells(analysis, comparison)]
        for scope in analysis.scopes(benchmark)
        for variant, comparison in zip(analysis.others, analysis.of(benchmark, scope), strict=True)
    ]
    return table([analysis.noun, *_header(analysis)], rows)


def _header(analysis: Analysis) -> list[str]:
    return [
        "scope", "difference", "alone", "together", "p", "p (corrected)", "p (equivalence)",
        "(everywhere, Holm)", "smallest margin", *["p (resampled)"] * analysis.is_drawn, "p (permutation)",
        "floor", "g", "P(>)", "runs", "verdict",
    ]  # fmt: skip


def _test_cells(analysis: Analysis, comparison: Comparison) -> list[str]:
    superior = comparison.probability_of_superiority
    return [
        family_label(comparison.family),
        difference(comparison),
        interval_alone(comparison),
        interval(comparison),
        p_value(comparison.p),
        p_value(comparison.p_corrected),
        p_value(comparison.p_equivalence),
        p_value(comparison.p_equivalence_holm),
        amount(comparison.smallest_margin, comparison),
        *[p_value(comparison.p_resampled)] * analysis.is_drawn,
        p_value(comparison.p_permutation),
        p_value(comparison.permutation_floor),
        signed(comparison.hedges_g),
        "-" if superior is None else f"{superior:.2f}",
        f"{comparison.num_runs_plus} / {comparison.num_runs_minus}",
        verdict_text(comparison),
    ]


def verdict_text(comparison: Comparison) -> str:
    """A verdict, with its reason where there is none."""
    if comparison.reason:
        return f"{comparison.verdict}: {comparison.reason}"
    return bold(comparison.verdict, comparison.is_different)


def _interactions(analysis: Analysis, benchmark: Benchmark) -> str:
    """Whether the families differ in a difference, which an average would hide."""
    known = [
        f"`{variant}` {p_value(c.p_interaction)} ({p_value(c.p_interaction_holm)})"
        for variant, c in zip(analysis.others, analysis.overall(benchmark), strict=True)
        if c.p_interaction is not None
    ]
    of = f"{analysis.stratum.capitalize()} x {analysis.noun}"
    return f"{of} interaction, p alone and (Holm): {', '.join(known)}." if known else ""
