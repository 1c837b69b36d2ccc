"""Every comparison: intervals and tests, equivalence."""

from __future__ import annotations

from collections.abc import Sequence

from eval.report.analysis import Analysis
from eval.report.markdown import amount, bold, difference, interval, p_value, signed, table
from eval.report.names import family_label
from eval.report.sections.context import Context
from eval.report.sections.methods import INTERVALS
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison
from eval.significance.statistics.bootstrap import MIN_RUNS


def differences_section(analysis: Analysis, context: Context) -> str:
    """Forest plots, and every comparison with its tests."""
    beside = INTERVALS[analysis.inference.bootstrap]
    parts = [
        f"## Differences to `{analysis.baseline}`",
        *context.figures_of("forest", analysis),
        "### Tests",
        f"Percentage points with {analysis.confidence:.0%} intervals; the verdict rests on Welch's. The "
        f"{beside} needs {MIN_RUNS[analysis.inference.bootstrap]} runs in every arm. *Floor* is the smallest "
        "permutation p that so many runs allow. *g*: Hedges' standardised difference. *P(>)*: how often a "
        f"run of the {analysis.noun} scores above one of the baseline. *Runs*: of the two arms.",
    ]
    for benchmark in analysis.benchmarks:
        rows = [
            [f"`{variant}`", *_test_cells(comparison)]
            for scope in analysis.scopes(benchmark)
            for variant, comparison in zip(analysis.others, analysis.of(benchmark, scope), strict=True)
        ]
        parts += [f"#### {benchmark}", table([analysis.noun, *_header(beside)], rows)]
        parts.append(_interactions(analysis, benchmark))
    if analysis.contrasts:
        rows = [[str(c.benchmark), f"`{c.contrast}`", *_test_cells(c)] for c in analysis.contrasts]
        parts += [
            "### Contrasts asked for",
            f"Families weigh the same, and so do the {analysis.noun}s of a group. Each stands by itself: not "
            "corrected.",
            table(["benchmark", "contrast", *_header(beside)], rows),
        ]
    if dropped := sorted({name for c in (*analysis.comparisons, *analysis.contrasts) for name in c.dropped}):
        parts.append(f"Without a partner of the same seed, and left out of some pair: {', '.join(dropped)}.")
    return "\n\n".join(part for part in parts if part)


def _header(beside: str) -> list[str]:
    return [
        "scope", "difference", "interval", "p", "p (Holm)", beside, "p (permutation)", "floor", "g", "P(>)",
        "runs", "verdict",
    ]  # fmt: skip


def _test_cells(comparison: Comparison) -> list[str]:
    superior = comparison.probability_of_superiority
    beside = (
        "-"
        if comparison.bootstrap_low is None
        else f"[{signed(comparison.bootstrap_low, comparison.digits)}, "
        f"{signed(comparison.bootstrap_high, comparison.digits)}]"
    )
    return [
        family_label(comparison.family),
        difference(comparison),
        interval(comparison),
        p_value(comparison.p),
        p_value(comparison.p_holm),
        beside,
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
        f"`{variant}` {p_value(c.p_interaction)}"
        for variant, c in zip(analysis.others, analysis.primary(benchmark), strict=True)
        if c.p_interaction is not None
    ]
    return f"Family x {analysis.noun} interaction, p uncorrected: {', '.join(known)}." if known else ""


def equivalence_section(analysis: Analysis) -> str:
    """Two one-sided tests at the margin, and the margin at which they would pass."""
    rows = [
        [
            str(comparison.benchmark),
            f"`{name}`",
            difference(comparison),
            p_value(comparison.p_equivalence),
            amount(comparison.smallest_margin, comparison),
            verdict_text(comparison),
        ]
        for name, comparison in _primary_and_contrasts(analysis)
        if comparison.smallest_margin is not None
    ]
    if not rows:
        return ""
    return (
        "## Equivalence\n\nTwo one-sided tests at the margin of each outcome, not corrected. *Smallest "
        "margin* is where they would pass: the largest difference that the data leave plausible.\n\n"
        + table(["benchmark", analysis.noun, "difference", "p", "smallest margin", "verdict"], rows)
    )


def _primary_and_contrasts(analysis: Analysis) -> Sequence[tuple[str, Comparison]]:
    primary = [
        (str(name), comparison)
        for benchmark in analysis.benchmarks
        for name, comparison in zip(analysis.others, analysis.primary(benchmark), strict=True)
    ]
    scopes = {benchmark: analysis.scopes(benchmark)[0] for benchmark in analysis.benchmarks}
    return [*primary, *((str(c.contrast), c) for c in analysis.contrasts if c.family == scopes[c.benchmark])]
