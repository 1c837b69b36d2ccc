"""How differences go with model size, and the power law of each variant's held-out loss.

Only of a study with the axis ``size``. A size is the number of parameters of the baseline there, in the
logarithm; of a loss it is that of the model itself. All of it is exploratory.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeWarning, curve_fit

from report.analysis import Analysis
from report.document.markdown import arrow, signed, table, unit_name
from report.document.names import family_label, title
from report.figures.style import (
    GREY,
    VariantStyle,
    add_legend,
    filled,
    label_log_axis,
    panels,
    variant_styles,
)
from report.part import Draw, Drawing, Page, Part, Section
from report.significance.arms import ArmTable
from report.significance.axes import SIZE, Benchmark, Family, Level, Setting, level_number, places_of
from report.verdicts.ranking import shown_first
from scores.suites import HELD_OUT

Ladders = Mapping[Family, Mapping[str, Family]]
"""What stands beside size, to each size, ascending, to its setting."""
Parameters = Mapping[tuple[Family, Level], float]
FEWEST_SIZES = 3
"""A power law has three numbers."""
LARGEST_EXPONENT = 5.0
"""An exponent that ends there is not determined."""
MILLION = 1e6
PANEL_IN = 2.5
MOST_SPREAD = 0.12
"""Share of the axis over which variants stand beside each other at one size."""


class PowerLaw(NamedTuple):
    """L = E + A N^-alpha, with standard errors."""

    floor: float
    floor_error: float
    exponent: float
    exponent_error: float
    scale: float

    def at(self, sizes: ArrayLike) -> np.ndarray:
        """Return losses at sizes."""
        return self.floor + self.scale * np.asarray(sizes, dtype=float) ** -self.exponent


class VariantLaw(NamedTuple):
    """Held-out losses of a variant at its sizes, and the law through them."""

    family: Family
    """The setting, without its size."""
    variant: Level
    parameters: tuple[float, ...]
    losses: tuple[float, ...]
    """Means over runs."""
    law: PowerLaw | None
    """None for fewer than three sizes, or where losses do not determine it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sizes:
    """What is said across sizes."""

    ladders: Ladders
    """With the sizes at which the baseline has runs: two or more."""
    parameters: Parameters
    trends: pd.DataFrame
    """A row for each metric and variant: a line through its differences to the baseline at ``sizes``, in the
    logarithm of size. ``first`` and ``last`` are its ends; p_change, p_bend (whether differences are on a
    line) and the verdict of ``trend_verdicts`` are corrected over the variants of a metric (Holm)."""
    laws: tuple[VariantLaw, ...]

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
    return Sizes(
        ladders=ladders,
        parameters=parameters,
        trends=pd.DataFrame(trends, columns=TREND_COLUMNS),
        laws=tuple(_laws(analysis, ladders, parameters)),
    )


def _ladders(analysis: Analysis, parameters: Parameters) -> dict[Family, dict[str, Family]]:
    """Sizes of a known baseline by what stands beside size, where there are two."""
    ladders: dict[Family, dict[str, Family]] = {}
    known = [s for s in analysis.families if isinstance(s, Setting) and (s, analysis.baseline) in parameters]
    for setting in sorted(known, key=lambda s: parameters[s, analysis.baseline]):
        places = tuple(place for place in setting.places if place[0] != SIZE)
        if len(places) < len(setting.places):
            is_plain = not places and not setting.variant
            rest = setting.family if is_plain else replace(setting, places=places, ranks=())
            ladders.setdefault(rest, {})[dict(setting.places)[SIZE]] = setting
    return {rest: ladder for rest, ladder in ladders.items() if len(ladder) > 1}


def _parameters(analysis: Analysis) -> Parameters:
    """Means over the runs of a setting and variant; of a table what the names of its sizes say."""
    counts = [(x.family, x.variant, x.num_parameters) for x in analysis.facts if x.num_parameters]
    if counts:
        return pd.DataFrame(counts).groupby([0, 1], sort=False)[2].mean().to_dict()
    by_name = {s: level_number(dict(places_of(s)).get(SIZE, "")) for s in analysis.families}
    return {(s, v): size for s, size in by_name.items() if size for v in analysis.variants}


TREND_COLUMNS = ["benchmark", "variant", "sizes", "first", "last", "change"]


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


def _laws(analysis: Analysis, ladders: Ladders, parameters: Parameters) -> Iterator[VariantLaw]:
    arms = analysis.tables.get(Benchmark(HELD_OUT))
    if arms is None:
        return
    for rest, ladder in ladders.items():
        for variant in analysis.variants:
            keys = [key for s in ladder.values() if (key := (s, variant)) in parameters and key in arms.runs]
            keys = sorted((key for key in keys if len(arms.runs[key])), key=parameters.__getitem__)
            if keys:
                sizes, runs = [parameters[key] for key in keys], [arms.runs[key] for key in keys]
                every = np.repeat(sizes, [len(x) for x in runs]), np.concatenate(runs)
                means = tuple(float(x.mean()) for x in runs)
                yield VariantLaw(rest, variant, tuple(sizes), means, fit_power_law(*every))


def fit_power_law(sizes: ArrayLike, losses: ArrayLike) -> PowerLaw | None:
    """Fit L = E + A N^-alpha by least squares.

    Args:
        sizes: (n,) parameters of runs.
        losses: (n,) their losses.

    Returns:
        None for fewer than three sizes, no more runs than that, or where the losses do not determine the
        exponent: it is below its standard error, or ends where its search does.
    """
    sizes, losses = np.asarray(sizes, dtype=float), np.asarray(losses, dtype=float)
    if len(np.unique(sizes)) < FEWEST_SIZES or len(losses) <= FEWEST_SIZES:
        return None
    middle, lowest = np.exp(np.log(sizes).mean()), losses.min()
    start, bounds = (
        (lowest / 2, losses.mean() - lowest / 2, 0.3),
        ([0] * 3, [lowest, np.inf, LARGEST_EXPONENT]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", OptimizeWarning)
        try:
            numbers, covariance, *_ = curve_fit(_law, sizes / middle, losses, start, bounds=bounds)
        except (OptimizeWarning, RuntimeError):
            return None
    floor, scale, exponent = map(float, numbers)
    floor_error, _, exponent_error = map(float, np.sqrt(np.diag(covariance)))
    if not exponent_error < exponent < 0.99 * LARGEST_EXPONENT:
        return None
    return PowerLaw(floor, floor_error, exponent, exponent_error, scale * middle**exponent)


def _law(sizes: np.ndarray, floor: float, scale: float, exponent: float) -> np.ndarray:
    return floor + scale * sizes**-exponent


def section(analysis: Analysis, sizes: Sizes, page: Page) -> Section:
    """Trends of the leading metrics, and laws."""
    body = [page.figure("across-sizes"), _trend_text(analysis, sizes), _law_text(analysis, sizes)]
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


def _law_text(analysis: Analysis, sizes: Sizes) -> str:
    if all(len(x.parameters) < FEWEST_SIZES for x in sizes.laws):
        return ""
    rows = []
    for x in sizes.laws:
        law = x.law
        numbers = ["not determined", "-"]
        if law is not None:
            numbers = [
                f"{law.exponent:.3f} ± {law.exponent_error:.3f}",
                f"{law.floor:.2f} ± {law.floor_error:.2f}",
            ]
        losses = f"{x.losses[0]:.3f} to {x.losses[-1]:.3f}"
        rows.append([family_label(x.family), f"`{x.variant}`", losses, *numbers])
    header = ["family", analysis.noun, "held-out loss", "exponent", "floor E (nats)"]
    text = (
        "Power laws of held-out loss in all parameters, L = E + A N^-exponent, by least squares through the "
        "runs of a variant. ±: standard errors from the spread of runs, without what the choice of rates "
        "adds. Nothing is said of sizes outside the range."
    )
    return f"{table(header, rows)}\n\n{text}"


def tables(analysis: Analysis, sizes: Sizes) -> Mapping[str, pd.DataFrame]:
    """Return trends of every metric, and laws."""
    return {
        "size_trends": sizes.trends,
        "size_laws": pd.DataFrame(
            {"family": x.family, "variant": x.variant, "num_sizes": len(x.parameters)}
            | (x.law._asdict() if x.law else dict.fromkeys(PowerLaw._fields))
            for x in sizes.laws
        ),
    }


def figures(analysis: Analysis, sizes: Sizes) -> Mapping[str, Draw]:
    """Draw differences and losses against size."""
    return {"across-sizes": partial(draw_sizes, analysis, sizes)}


def draw_sizes(analysis: Analysis, sizes: Sizes) -> Drawing | None:
    """Draw a panel of differences for each leading metric and family, then one of losses for each family."""
    shown = [(name, rest) for name in shown_first(analysis) for rest in sizes.ladders]
    with_losses = list(dict.fromkeys(x.family for x in sizes.laws))
    figure, drawn = panels(len(shown) + len(with_losses), PANEL_IN, columns=2)
    for axes, (benchmark, rest) in zip(drawn, shown, strict=False):
        _draw_differences(axes, analysis, sizes, benchmark, rest)
    for axes, rest in zip(drawn[len(shown) :], with_losses, strict=True):
        _draw_losses(axes, analysis, [x for x in sizes.laws if x.family == rest])
    styles = variant_styles(analysis.variants)
    add_legend(figure, [_handle(str(name), styles[name]) for name in analysis.variants])
    return figure, (
        f"Against parameters, on logarithmic axes, a line for each {analysis.noun}: its difference to "
        f"{analysis.baseline} on {', '.join(title(name) for name, _ in shown)}"
        + (", and its held-out loss with the power law through it" if with_losses else "")
    )


def _draw_differences(
    axes: Axes, analysis: Analysis, sizes: Sizes, benchmark: Benchmark, rest: Family
) -> None:
    """Draw the comparisons of each size beside each other, with an interval where they are primary."""
    ladder, styles = sizes.ladders[rest], variant_styles(analysis.variants)
    middles = np.array([sizes.parameters[s, analysis.baseline] for s in ladder.values()])
    spread = MOST_SPREAD * np.log(middles[-1] / middles[0]) * np.linspace(-0.5, 0.5, len(analysis.others))
    axes.axhline(0, color=GREY, lw=0.9, zorder=1)
    settings = [dict(zip(analysis.others, analysis.of(benchmark, s), strict=False)) for s in ladder.values()]
    for variant, shift in zip(analysis.others, np.exp(spread), strict=True):
        rows = [
            (middle * shift, c.estimate, *((c.is_primary and c.interval) or [c.estimate] * 2))
            for middle, of_setting in zip(middles, settings, strict=True)
            if (c := of_setting.get(variant)) and c.estimate is not None
        ]
        if rows:
            x, y, low, high = np.array(rows, dtype=float).T
            style, errors = styles[variant], np.clip([y - low, high - y], 0, None)
            axes.errorbar(x / MILLION, y, yerr=errors, ls=style.dashes, lw=1.4, **style.points)
    metric = analysis.metric(benchmark)
    unit = unit_name(metric.unit)
    _finish(axes, f"{title(benchmark)} {arrow(metric)}", rest, len(sizes.ladders) > 1)
    axes.set_ylabel(f"difference to {analysis.baseline}{f' ({unit})' if unit else ''}")


def _draw_losses(axes: Axes, analysis: Analysis, laws: Sequence[VariantLaw]) -> None:
    styles = variant_styles(analysis.variants)
    for x in laws:
        style = styles[x.variant]
        axes.errorbar(np.array(x.parameters) / MILLION, x.losses, ls="", **style.points)
        if x.law is not None:
            fine = np.geomspace(x.parameters[0], x.parameters[-1], 100)
            axes.plot(fine / MILLION, x.law.at(fine), color=style.colour, ls=style.dashes, lw=1.2)
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)
    _finish(axes, "held-out loss", laws[0].family, True)
    axes.set_ylabel("nats per token")


def _finish(axes: Axes, text: str, rest: Family, is_named: bool) -> None:
    axes.set_title(filled(f"{family_label(rest)}: {text}" if is_named else text, 34))
    axes.set_xscale("log")
    axes.margins(x=0.08)
    label_log_axis(axes.xaxis)
    axes.set_xlabel("parameters (millions)")
    axes.grid(color="#ececec", lw=0.6)
    axes.set_axisbelow(True)


def _handle(name: str, style: VariantStyle) -> Line2D:
    return Line2D([], [], ls=style.dashes, lw=1.4, label=name, **style.points)


PART = Part(name="sizes", compute=compute, section=section, figures=figures, tables=tables)
