"""How differences to the baseline change with model size, in a study with the axis ``size``.

A size is the number of parameters of the baseline there, in the logarithm. All of it is exploratory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from report.analysis import Analysis
from report.document.markdown import arrow, family_label, signed, table, title
from report.figures import style
from report.figures.forest import difference_label
from report.part import Draw, Drawing, Page, Part, Section
from report.significance.arms import ArmTable
from report.significance.axes import SIZE, Benchmark, Family, Level, Setting, level_number, places_of
from report.verdicts.findings import shown_first

Ladders = Mapping[Family, Mapping[str, Family]]
"""What stands beside size, to each size, ascending, to its setting."""
Parameters = Mapping[tuple[Family, Level], float]
TREND_COLUMNS = ["benchmark", "variant", "sizes", "first", "last", "change"]
MILLION = 1e6
PANEL_IN = 2.5
MOST_SPREAD = 0.12
"""Share of the axis over which variants stand beside each other at one size."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sizes:
    """What is said across sizes."""

    ladders: Ladders
    """With the sizes at which the baseline has runs: two or more."""
    parameters: Parameters
    trends: pd.DataFrame
    """A row for each metric and variant: a line through its differences to the baseline at ``sizes``, in the
    logarithm of size. ``first`` and ``last`` are its ends, ``change`` is the last minus the first."""

    @property
    def levels(self) -> list[str]:
        """Names of all sizes."""
        return list(dict.fromkeys(size for ladder in self.ladders.values() for size in ladder))


def compute(analysis: Analysis) -> Sizes | None:
    """Compare across sizes; None unless the baseline has runs at two or more."""
    parameters = _parameters(analysis)
    ladders = _ladders(analysis, parameters)
    if not ladders:
        return None
    trends = [x for arms in analysis.tables.values() for x in _trends(analysis, ladders, parameters, arms)]
    return Sizes(ladders=ladders, parameters=parameters, trends=pd.DataFrame(trends, columns=TREND_COLUMNS))


def _ladders(analysis: Analysis, parameters: Parameters) -> dict[Family, dict[str, Family]]:
    """Settings with a run of the baseline, by what stands beside size, where there are two sizes."""
    ladders: dict[Family, dict[str, Family]] = {}
    settings = [s for s in analysis.families if isinstance(s, Setting)]
    with_baseline = [s for s in settings if (s, analysis.baseline) in parameters]
    for setting in sorted(with_baseline, key=lambda s: parameters[s, analysis.baseline]):
        places = tuple(place for place in setting.places if place[0] != SIZE)
        if len(places) < len(setting.places):
            is_plain = not places and not setting.variant
            beside = setting.family if is_plain else replace(setting, places=places, ranks=())
            ladders.setdefault(beside, {})[dict(setting.places)[SIZE]] = setting
    return {beside: ladder for beside, ladder in ladders.items() if len(ladder) > 1}


def _parameters(analysis: Analysis) -> Parameters:
    """Means over the runs of a setting and variant; of a table what the names of its sizes say."""
    counts = [(x.family, x.variant, x.num_parameters) for x in analysis.facts if x.num_parameters]
    if counts:
        return pd.DataFrame(counts).groupby([0, 1], sort=False)[2].mean().to_dict()
    by_name = {s: level_number(dict(places_of(s)).get(SIZE, "")) for s in analysis.families}
    return {(s, v): size for s, size in by_name.items() if size for v in analysis.variants}


def _trends(
    analysis: Analysis, ladders: Ladders, parameters: Parameters, arms: ArmTable
) -> Iterator[tuple[object, ...]]:
    """Lines of all variants that have two sizes: at the smallest, at the largest, and their difference."""
    for variant in analysis.others:
        both = (variant, analysis.baseline)
        usable = [
            {size: s for size, s in ladder.items() if all(len(arms.runs.get((s, v), ())) for v in both)}
            for ladder in ladders.values()
        ]
        usable = [ladder for ladder in usable if ladder]
        names = [size for size in usable[0] if all(size in x for x in usable)] if usable else []
        if len(names) > 1:
            settings = [[ladder[size] for size in names] for ladder in usable]
            ends = np.mean([_line(parameters, arms, both, each) for each in settings], axis=0)
            yield arms.benchmark, variant, "+".join(names), *ends.tolist(), float(ends[1] - ends[0])


def _line(
    parameters: Parameters, arms: ArmTable, both: tuple[Level, Level], settings: Sequence[Family]
) -> np.ndarray:
    """Ends (2,) of the line of least squares through the differences, against the logarithm of size."""
    variant, baseline = both
    log_sizes = np.log([parameters[setting, baseline] for setting in settings])
    differences = [arms.runs[s, variant].mean() - arms.runs[s, baseline].mean() for s in settings]
    line = np.polynomial.Polynomial.fit(log_sizes, differences, 1)
    return line(np.array([log_sizes.min(), log_sizes.max()]))


def section(analysis: Analysis, sizes: Sizes, page: Page) -> Section:
    """Trends of the leading metrics."""
    body = [page.figure("across-sizes"), _trend_text(analysis, sizes)]
    missing = [size for size in analysis.source.axes[SIZE] if size not in sizes.levels]
    if missing:
        body.append(f"Left out, as `{analysis.baseline}` has no run of a known size: {', '.join(missing)}.")
    return Section(
        title="Across sizes (exploratory)",
        summary=f"{len(analysis.variants)} {analysis.noun}s, {len(sizes.levels)} sizes",
        body="\n\n".join(filter(None, body)),
    )


def _number(analysis: Analysis, trend: Mapping[Hashable, Any], name: str) -> str:
    return signed(trend[name], analysis.tables[trend["benchmark"]].digits(analysis.families))


def _trend_text(analysis: Analysis, sizes: Sizes) -> str:
    trends = sizes.trends[sizes.trends.benchmark.isin(shown_first(analysis))]
    if trends.empty:
        return f"No {analysis.noun} has runs at two sizes, so there is no trend."
    rows = [
        [title(x["benchmark"]), f"`{x['variant']}`", x["sizes"].replace("+", ", "),
         *(_number(analysis, x, name) for name in ("first", "last", "change"))]
        for x in trends.to_dict("records")
    ]  # fmt: skip
    header = ["metric", analysis.noun, "sizes", "line at the smallest size", "at the largest", "change"]
    text = (
        f"Exploratory: a line of least squares in the logarithm of the parameters of `{analysis.baseline}`, "
        "averaged over all that stands beside size. Nothing is tested."
    )
    return f"{table(header, rows)}\n\n{text}"


def tables(analysis: Analysis, sizes: Sizes) -> Mapping[str, pd.DataFrame]:
    """Return trends of every metric."""
    return {"size_trends": sizes.trends}


def figures(analysis: Analysis, sizes: Sizes) -> Mapping[str, Draw]:
    """Draw differences against size."""
    return {"across-sizes": partial(draw_sizes, analysis, sizes)}


def draw_sizes(analysis: Analysis, sizes: Sizes) -> Drawing:
    """Draw a panel of differences for each leading metric and family."""
    shown = [(name, beside) for name in shown_first(analysis) for beside in sizes.ladders]
    figure, grid = style.panels(len(shown), PANEL_IN, columns=2)
    for axes, (benchmark, beside) in zip(grid, shown, strict=True):
        _draw_differences(axes, analysis, sizes, benchmark, beside)
    styles = style.variant_styles(analysis.variants)
    style.add_legend(figure, [styles[name].point(str(name), styles[name].dashes) for name in analysis.others])
    return figure, (
        f"Against parameters, on a logarithmic axis, a line for each {analysis.noun}: its difference to "
        f"{analysis.baseline} on {', '.join(title(name) for name, _ in shown)}"
    )


def _draw_differences(
    axes: Axes, analysis: Analysis, sizes: Sizes, benchmark: Benchmark, beside: Family
) -> None:
    """Draw the comparisons of each size beside each other, with an interval where they are primary."""
    ladder, styles = sizes.ladders[beside], style.variant_styles(analysis.variants)
    middles = np.array([sizes.parameters[s, analysis.baseline] for s in ladder.values()])
    spread = MOST_SPREAD * np.log(middles[-1] / middles[0]) * np.linspace(-0.5, 0.5, len(analysis.others))
    axes.axhline(0, color=style.GREY, lw=0.9, zorder=1)
    settings = [dict(zip(analysis.others, analysis.of(benchmark, s), strict=False)) for s in ladder.values()]
    for variant, shift in zip(analysis.others, np.exp(spread), strict=True):
        rows = [
            (middle * shift, c.estimate, *((c.is_primary and c.interval) or [c.estimate] * 2))
            for middle, of_setting in zip(middles, settings, strict=True)
            if (c := of_setting.get(variant)) and c.estimate is not None
        ]
        if rows:
            x, y, low, high = np.array(rows, dtype=float).T
            look, errors = styles[variant], np.clip([y - low, high - y], 0, None)
            axes.errorbar(x / MILLION, y, yerr=errors, ls=look.dashes, lw=1.4, **look.points)
    outcome = analysis.metric(benchmark)
    metric = f"{title(benchmark)} {arrow(outcome)}"
    changes = sizes.trends[sizes.trends.benchmark == benchmark].set_index("variant").change.to_dict()
    name = f"{family_label(beside)}: {metric}" if len(sizes.ladders) > 1 else metric
    axes.set_title(style.titled(name, style.extremes("change", changes, "+.2g"), 34))
    axes.set_xlabel("parameters (millions)")
    axes.set_ylabel(difference_label(analysis, benchmark))
    style.use_log_scale(axes)
    style.add_grid(axes)


PART = Part(name="sizes", compute=compute, section=section, figures=figures, tables=tables)
