"""Every comparison with its intervals and tests, the forest figures, and contrasts asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from eval.report.analysis import Analysis
from eval.report.document.markdown import (
    amount,
    bold,
    difference,
    interval,
    interval_alone,
    p_value,
    signed,
    table,
    unit_name,
)
from eval.report.document.names import family_label, figure_names
from eval.report.figures.forest import draw_forest, draw_forests
from eval.report.part import Draw, Page, Part, Section
from eval.report.verdicts.findings import AtSharedRate, place
from eval.report.verdicts.ranking import by_standing, shown_first
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison
from eval.significance.dependence import FEWEST_RESAMPLED

Comparisons = tuple[Comparison, ...]


def compute(analysis: Analysis) -> Comparisons:
    """Return every comparison with the baseline."""
    return analysis.comparisons


def section(analysis: Analysis, comparisons: Comparisons, page: Page) -> Section:
    """Every comparison with its tests, a metric at a time, and the contrasts asked for."""
    parts = [_legend(analysis)]
    figures = figure_names("forest", analysis.benchmarks)
    for benchmark in by_standing(analysis):
        parts += [f"**{_heading(analysis, benchmark)}**", page.figure(figures[benchmark])]
        parts.append(_tests(analysis, benchmark))
    if analysis.contrasts:
        rows = [
            [place(analysis, c.benchmark), f"`{c.contrast}`", *_test_cells(analysis, c)]
            for c in analysis.contrasts
        ]
        parts += [
            "**Contrasts asked for**",
            f"{analysis.strata.capitalize()} weigh the same, and so do the {analysis.noun}s of a group. "
            "Exploratory: corrected over all that were asked for, in each scope. A contrast that is a "
            "comparison with the baseline has the verdict of that.",
            table(["metric", "contrast", *_header(analysis)], rows),
        ]
    if dropped := sorted({name for c in (*comparisons, *analysis.contrasts) for name in c.dropped}):
        parts.append(f"Without a partner of the same seed, and left out of some pair: {', '.join(dropped)}.")
    title = f"Every comparison with `{analysis.baseline}`"
    return Section(title=title, summary="", body="\n\n".join(filter(None, parts)))


def figures(analysis: Analysis, comparisons: Comparisons) -> Mapping[str, Draw]:
    """Draw the forest of the page, and one of each metric that is not in it."""
    return {"forest": partial(draw_forests, analysis)} | {
        name: partial(draw_forest, analysis, benchmark)
        for benchmark, name in figure_names("forest", analysis.benchmarks).items()
        if benchmark not in shown_first(analysis)
    }


def tables(analysis: Analysis, comparisons: Comparisons) -> Mapping[str, pd.DataFrame]:
    """Return every number of every comparison, and those at the rate that is shared."""
    return {
        "comparisons": comparison_table(comparisons),
        "contrasts": comparison_table(analysis.contrasts),
        "shared_rate": pd.DataFrame(map(_at_shared_rate, analysis.at_shared_rate)),
    }


def _heading(analysis: Analysis, benchmark: Benchmark) -> str:
    outcome = analysis.outcome(benchmark)
    unit = unit_name(outcome.unit)
    return f"{place(analysis, benchmark)}{f' in {unit}' if unit else ''}, {outcome.better} is better"


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


def comparison_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return one record for each comparison."""
    return pd.DataFrame(
        {**_fields(c), "dropped": ", ".join(c.dropped), "verdict": c.verdict} for c in comparisons
    )


def _fields(comparison: Comparison) -> dict[str, Any]:
    own = {**vars(comparison), "families": "+".join(map(str, comparison.families))}
    own |= {"unit": comparison.unit, "better": comparison.outcome.better}
    own |= {"p_sequential": comparison.p_sequential}
    if comparison.choice_error is None:
        own.pop("choice_error")
    for name in ("outcome", "look"):
        own.pop(name, None)
    return own


def _at_shared_rate(both: AtSharedRate) -> dict[str, Any]:
    """Differences are in ``unit``."""
    first = both.own
    named = {"benchmark": first.benchmark, "contrast": first.contrast, "family": first.family}
    sides = {
        f"{name}_{side}": getattr(c, name)
        for side, c in (("shared", both.shared), ("own", first))
        for name in ("estimate", "low_simultaneous", "high_simultaneous", "p_corrected", "verdict")
    }
    return {
        **named,
        "unit": first.unit,
        **sides,
        "choice_error": first.choice_error,
        "changed": both.is_changed,
    }


PART = Part(name="comparisons", compute=compute, section=section, figures=figures, tables=tables)
