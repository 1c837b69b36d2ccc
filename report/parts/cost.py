"""What variants cost, what they are matched in, and a figure of their loss against the cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from base.printing import duration, first_few
from report.analysis import Analysis
from report.document.markdown import family_label, records_table, title
from report.figures import style
from report.figures.crowd import is_crowd
from report.inputs.run_facts import SHOWN
from report.part import Draw, Drawing, Page, Part, Section
from report.significance.axes import Benchmark, Level
from report.verdicts.findings import by_standing
from scores.suites import HELD_OUT

TOLERANCE = 0.01
"""Costs this close count as equal: a matched width is a whole number."""
FAR = 0.05
"""Of parameters, a difference that a reader is told of."""
NAMED = 4
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "width": ("intermediate_size", "width"),
    "parameters": ("num_parameters", "params"),
    "active parameters": ("num_active_parameters", "active-params"),
    "FLOPs": ("flops_per_token", "flops"),
}
"""What a level may be matched in: field of a run's facts, and the budget that chooses a width for it."""
COLUMNS: Mapping[str, tuple[str, float, int]] = {
    "parameters": ("num_parameters", 1, 0),
    "of them FFN": ("num_ffn_parameters", 1, 0),
    "FFN width": ("intermediate_size", 1, 0),
    "MFLOP a token": ("flops_per_token", 1e6, 3),
    "tokens/s": ("tokens_per_s", 1, 0),
    "peak memory (MB)": ("peak_memory_mb", 1, 0),
}
"""Heading to the field of a run's facts, its divisor and its decimals."""
TIME = "train_hours"
MEASURED = list(dict.fromkeys([TIME, *(field for field, *_ in (*COLUMNS.values(), *QUESTIONS.values()))]))
COSTS: tuple[tuple[str, float, str], ...] = (
    ("num_parameters", 1e6, "parameters (millions)"),
    ("flops_per_token", 1e6, "forward MFLOP per token"),
    ("train_hours", 1 / 60, "training time (min)"),
)
"""What a figure has a panel of: field of a run's facts, divisor, label of the axis."""
PANEL_IN = 2.1
LOG_FROM = 6
"""Largest over smallest cost from which on the axis is logarithmic."""
LEAST_SPAN = 0.1
"""Of a linear axis, as a share of its middle: costs that are all but equal must not look far apart."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cost:
    """What runs cost."""

    arms: pd.DataFrame
    """family, variant, num_runs, the means of ``MEASURED``, train_hours_sd, and against the baseline of the
    family parameters_ratio, flops_ratio and matched_in (name to ratio)."""
    num_runs: int
    """Trained runs, those of a tuning too."""
    hours: float
    """Of all of them, one after the other."""


def compute(analysis: Analysis) -> Cost | None:
    """Average what run folders tell; None where they tell of no cost."""
    arms = pd.DataFrame(_arms(analysis))
    if arms.empty or arms[MEASURED].isna().all(axis=None):
        return None
    trained = {x.run_id: x for runs in (*analysis.source.stages.values(), analysis.facts) for x in runs}
    return Cost(arms=arms, num_runs=len(trained), hours=sum(x.train_hours or 0.0 for x in trained.values()))


def _arms(analysis: Analysis) -> Iterator[dict[str, Any]]:
    for family in analysis.families:
        base: pd.Series | None = None
        for variant in analysis.variants:
            runs = [x for x in analysis.facts if (x.family, x.variant) == (family, variant)]
            if not runs:
                continue
            facts = pd.DataFrame([[getattr(x, name) for name in MEASURED] for x in runs], dtype=float)
            means = facts.set_axis(MEASURED, axis=1).mean()
            base = means if variant == analysis.baseline else base
            ratios = means / (np.nan if base is None else base)
            yield {
                "family": family, "variant": variant, "num_runs": len(runs), **means.to_dict(),
                "train_hours_sd": facts[MEASURED.index(TIME)].std(),
                "parameters_ratio": ratios.num_parameters, "flops_ratio": ratios.flops_per_token,
                "matched_in": _matched_in(ratios, runs[0].ffn_budget) if variant != analysis.baseline else {},
            }  # fmt: skip


def _matched_in(ratios: pd.Series, budget: str | None) -> dict[str, float]:
    """Ratios to the baseline of what is equal to it, or what the width of the FFN was chosen for."""
    return {
        name: ratios[field]
        for name, (field, budget_of) in QUESTIONS.items()
        if (budget == budget_of != "width" and ratios[field] > 0)
        or (abs(ratios[field] - 1) <= TOLERANCE and name != "active parameters")
    }


def section(analysis: Analysis, cost: Cost, page: Page) -> Section:
    """The figure, and the table."""
    time = f", {duration(3600 * cost.hours)} of training" if cost.hours else ""
    body = [page.figure("cost"), _table(analysis, cost), _text(analysis)]
    return Section(
        title="Cost", summary=f"{cost.num_runs:,} runs{time}", body="\n\n".join(filter(None, body))
    )


def _table(analysis: Analysis, cost: Cost) -> str:
    return records_table(
        {
            analysis.stratum: family_label(arm["family"]),
            analysis.noun: f"`{arm['variant']}`",
            **{
                name: _number(arm[field] / divisor, digits)
                for name, (field, divisor, digits) in COLUMNS.items()
            },
            "training time": hours_text(arm[TIME]),
            f"parameters against `{analysis.baseline}`": _percent(arm["parameters_ratio"]),
            "FLOPs": _percent(arm["flops_ratio"]),
            "matched in": ", ".join(arm["matched_in"]) or "-",
        }
        for arm in cost.arms.to_dict("records")
    )


def hours_text(hours: float) -> str:
    """Write hours; those that are not known, NaN, as a dash."""
    return "-" if np.isnan(hours) else duration(3600 * hours)


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:,.{digits}f}"


def _percent(ratio: float) -> str:
    return "-" if np.isnan(ratio) else f"{100 * (ratio - 1):+.1f}%"


def _text(analysis: Analysis) -> str:
    text = (
        "Means over runs. *MFLOP a token*: forward pass, two operations for each multiply-add of the matrix "
        "products, output head and attention over a full row included. *Matched in*: equal to the baseline "
        f"within {TOLERANCE:.0%} in width, parameters or FLOPs, or its FFN was given its width for that. "
        "*Tokens/s*, time (evaluations included, compiling left out) and memory are of whatever machine "
        "trained them, which several runs may have shared: they say what a run cost, not how fast a variant "
        "is."
    )
    eager = [x.run_id for x in analysis.facts if x.is_compile_failed]
    if eager:
        named = first_few(eager, SHOWN)
        text += f" Compiling, recording or flash attention failed in {named}, so that they took longer."
    return text


def checks(analysis: Analysis, cost: Cost) -> Iterable[str]:
    """Name the variants that have far more or less than the baseline, each once, the farthest first."""
    in_budgets, mentioned = [], set[str]()
    for budget, column, most in (("parameters", "parameters_ratio", NAMED), ("FLOPs", "flops_ratio", 2)):
        ratios = cost.arms.groupby("variant", sort=False)[column].mean().dropna()
        far = ratios[((ratios - 1).abs() > FAR) & ~ratios.index.isin(mentioned)]
        far = far.sort_values(key=lambda ratio: -np.abs(np.log(ratio)))
        mentioned |= set(far.index)
        if len(far):
            names = [f"`{name}` {_percent(ratio)}" for name, ratio in far.items()]
            in_budgets.append(f"in {budget}: {first_few(names, most)}")
    if in_budgets:
        yield f"Not matched with `{analysis.baseline}` {'; '.join(in_budgets)}."


def tables(analysis: Analysis, cost: Cost) -> Mapping[str, pd.DataFrame]:
    """Return costs by family and variant."""
    return {"cost": cost.arms.assign(matched_in=[", ".join(names) for names in cost.arms.matched_in])}


def figures(analysis: Analysis, cost: Cost) -> Mapping[str, Draw]:
    """Draw the loss against each cost."""
    return {"cost": partial(draw_cost, analysis, cost.arms)}


def draw_cost(analysis: Analysis, arms: pd.DataFrame) -> Drawing | None:
    """Draw a panel for each family and each cost that is known of two of its variants.

    Args:
        analysis: What was computed.
        arms: family, variant and mean costs, one column each.

    Returns:
        None of more variants than can be told apart.
    """
    held_out = Benchmark(HELD_OUT)
    benchmark = held_out if held_out in analysis.benchmarks else by_standing(analysis)[0]
    of_benchmark = analysis.arms[analysis.arms.benchmark == benchmark]
    scored = arms.merge(of_benchmark, on=["family", "variant"])
    shown = [
        (family, label, points.assign(cost=points[field] / divisor))
        for family in analysis.families
        for field, divisor, label in COSTS
        if len(points := scored[(scored.family == family) & scored[field].notna()]) > 1
    ]
    if not shown or is_crowd(analysis):
        return None
    styles = style.variant_styles(analysis.variants)
    figure, places = style.panels(len(shown), PANEL_IN, columns=3)
    for axes, (family, label, points) in zip(places, shown, strict=True):
        _draw(axes, points, styles, analysis.baseline)
        is_lower = analysis.metric(benchmark).better == "lower"
        ordered = points.sort_values(["cost", "mean"], ascending=[True, is_lower])
        best = ordered["mean"].cummin() if is_lower else ordered["mean"].cummax()
        names = first_few([str(x) for x in ordered.variant[ordered["mean"] == best]], NAMED)
        heading = style.titled(family_label(family), f"best for its cost: {names}", 28)
        axes.set_title(heading, fontsize=style.SMALL)
        axes.set_xlabel(style.filled(label, 25))
    figure.supylabel(style.filled(_label(analysis, benchmark), 30), fontsize=9.5)
    present = {variant for _, _, points in shown for variant in points.variant}
    style.add_legend(figure, [styles[name].point(str(name)) for name in analysis.variants if name in present])
    families = ", ".join(dict.fromkeys(family_label(family) for family, _, _ in shown))
    return figure, (
        f"Scatter plots of {_label(analysis, benchmark)}, with its standard error over seeds, against costs: "
        f"a panel for each cost of {families}; the dashed line is the mean of {analysis.baseline}"
    )


def _draw(axes: Axes, points: pd.DataFrame, styles: Mapping[Level, Any], baseline: Level) -> None:
    """Draw the mean score of each arm with its standard error, which one run has not, over its cost."""
    for arm in points.to_dict("records"):
        look, error = styles[arm["variant"]].points, arm["sd"] / np.sqrt(arm["n"])
        axes.errorbar(arm["cost"], arm["mean"], yerr=error, ls="", elinewidth=1, **look)
        if arm["variant"] == baseline:
            axes.axhline(arm["mean"], color=style.GREY, lw=0.9, ls="--", zorder=1)
    low, high = points.cost.min(), points.cost.max()
    if high > LOG_FROM * low > 0:
        style.use_log_scale(axes)
    else:
        reach = max(0.6 * (high - low), LEAST_SPAN * abs(high + low) / 4) or 1.0
        axes.set_xlim((low + high) / 2 - reach, (low + high) / 2 + reach)
        axes.locator_params(axis="x", nbins=3)
    axes.margins(y=0.1)
    axes.locator_params(axis="y", nbins=5)
    style.add_grid(axes)


def _label(analysis: Analysis, benchmark: Benchmark) -> str:
    outcome = analysis.metric(benchmark)
    unit = f" ({outcome.unit})" if outcome.unit else ""
    return f"mean {title(benchmark)}{unit}, {outcome.better} is better"


PART = Part(name="cost", compute=compute, section=section, figures=figures, tables=tables, checks=checks)
