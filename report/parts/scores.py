"""What every variant scores: means and spreads over seeds, and a figure of every seed's score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from report.analysis import Analysis, decimals_of
from report.document.markdown import arrow, family_label, spread, table, title
from report.figures import style
from report.part import Draw, Page, Part, Section
from report.significance.axes import Benchmark, Family, Level
from report.verdicts.findings import by_standing
from scores.run_scores import SINGLE_TASK
from scores.suites import SUITES

MAX_COLUMNS = 4
TITLE = 8.0  # points
TITLE_WIDTH = 16  # letters
PANELS_IN, BESIDE_IN = 5.3, 0.1


def section(analysis: Analysis, has_scores: bool, page: Page) -> Section:
    """Mean and spread over seeds in numbers, and every seed as a dot."""
    order = by_standing(analysis)
    rows = [
        [family_label(family), f"`{variant}`", *(score(analysis, name, family, variant) for name in order)]
        for family in analysis.families
        for variant in analysis.variants
    ]
    header = [analysis.stratum, analysis.noun, *(_heading(analysis, name) for name in order)]
    legend = (
        "Mean ± standard deviation (runs) over seeds. A mean over tasks weighs each task alike. Every seed's "
        "score is in tables/seeds.csv."
    )
    body = "\n\n".join(filter(None, [table(header, rows), legend, page.figure("seeds")]))
    return Section(title="Scores", summary="", body=body)


def _heading(analysis: Analysis, benchmark: Benchmark) -> str:
    """Name a metric, the tasks that it is a mean of, its unit and direction."""
    metric = analysis.metric(benchmark)
    unit = {"percent": "%", "correlation": "x 100"}.get(metric.unit or "", metric.unit)
    parts = filter(None, [title(benchmark), _tasks(analysis, benchmark), unit])
    return f"{', '.join(parts)} {arrow(metric)}"


def _tasks(analysis: Analysis, benchmark: Benchmark) -> str:
    """Say what a benchmark's score is a mean of; empty where the source does not tell."""
    tasks = analysis.tasks[analysis.tasks.benchmark == benchmark].task.unique()
    if len(tasks) < 2:
        return "" if set(tasks) <= {SINGLE_TASK, "validation"} else f"task {tasks[0]}"
    unit = SUITES[benchmark.name].noun if benchmark.name in SUITES else "tasks"
    return f"mean of {len(tasks)} {unit}"


def checks(analysis: Analysis, has_scores: bool) -> Iterator[str]:
    """Say which outcomes are means over tasks, where no suite's name tells it."""
    for benchmark in analysis.primary:
        tasks = _tasks(analysis, benchmark)
        if benchmark.name not in SUITES and tasks.startswith("mean"):
            yield f"Each {title(benchmark)} is the {tasks}."


def score(analysis: Analysis, benchmark: Benchmark, family: Family, variant: Level) -> str:
    """Write the mean and standard deviation of an arm's runs, and their number; - without one."""
    runs = analysis.tables[benchmark].runs.get((family, variant), ())
    if not len(runs):
        return "-"
    digits = decimals_of(analysis, benchmark, family)
    sd = float(np.std(runs, ddof=1)) if len(runs) > 1 else np.nan
    return f"{np.mean(runs):.{digits}f}{spread(sd, digits)} ({len(runs)})"


def figures(analysis: Analysis, has_scores: bool) -> Mapping[str, Draw]:
    """Draw every seed."""
    return {"seeds": partial(draw_seeds, analysis)}


def tables(analysis: Analysis, has_scores: bool) -> Mapping[str, pd.DataFrame]:
    """Return means, every seed's score, and means by task and metric."""
    seeds = analysis.runs[["run_id", "family", "variant", "seed", "benchmark", "score"]]
    return {"scores": analysis.arms, "seeds": seeds, "tasks": analysis.tasks}


def draw_seeds(analysis: Analysis) -> tuple[Figure, str]:
    """Every seed as a dot, one panel for each outcome and family, those of one outcome on one scale."""
    places = [
        (benchmark, family)
        for benchmark in by_standing(analysis)
        for family in analysis.families
        if family in analysis.scopes(benchmark)
    ]
    titles = [_title(analysis, *place) for place in places]
    columns = _columns(titles, len(analysis.families))
    figure, grid = style.panels(len(places), _height(analysis, titles), columns=columns, sharey=True)
    for axes, place in zip(grid, places, strict=True):
        _panel(axes, analysis, *place)
    _label_variants(grid[0], analysis)
    style.add_legend(figure, handles := _handles(analysis, places))
    return figure, (
        f"Dot plots: every seed's score, one row per {analysis.noun}, one panel for each outcome and family: "
        f"{', '.join(map(title, by_standing(analysis)))}; bars are means, the dashed line is the mean of "
        f"{analysis.baseline}{', the dotted one chance' if handles[3:] else ''}"
    )


def seeds_panel(analysis: Analysis, benchmark: Benchmark, family: Family) -> style.Panel:
    """Return the seeds of one outcome in one family."""

    def draw(axes: Axes) -> None:
        _panel(axes, analysis, benchmark, family)
        _label_variants(axes, analysis)

    place = benchmark, family
    return style.Panel(draw, _handles(analysis, [place]), _height(analysis, [_title(analysis, *place)]))


def _height(analysis: Analysis, titles: Iterable[str]) -> float:
    """Inches of a panel below one of these titles."""
    lines = max(title.count("\n") for title in titles) + 1
    row = 0.33 if any("\n" in style.in_two_lines(str(name)) for name in analysis.variants) else 0.2
    return 0.75 + 0.15 * lines + row * len(analysis.variants)


def _label_variants(axes: Axes, analysis: Analysis) -> None:
    names = [style.in_two_lines(str(name)) for name in analysis.variants]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _title(analysis: Analysis, benchmark: Benchmark, family: Family) -> str:
    """Name a panel: outcome, direction, family, unit and how far seeds of one variant lie apart."""
    outcome = analysis.metric(benchmark)
    runs = analysis.runs[(analysis.runs.benchmark == benchmark) & (analysis.runs.family == family)]
    sd = np.sqrt(runs.groupby("variant").score.var().mean())
    apart = "" if np.isnan(sd) else f"\nSD of seeds {sd:.2g}"
    unit = {"percent": " (%)", "correlation": " (x 100)", None: ""}.get(outcome.unit, f" ({outcome.unit})")
    name = f"{style.filled(title(benchmark), TITLE_WIDTH)} {arrow(outcome)}"
    return f"{name}\n{style.filled(family_label(family) + unit, 20)}{apart}"


def _columns(titles: Sequence[str], families: int) -> int:
    """As many panels in a line as there is room for their titles, the families of an outcome together."""
    widest = max(style.text_width(text, TITLE) for text in titles) + BESIDE_IN
    most = max(1, min(len(titles), MAX_COLUMNS, int(PANELS_IN / widest)))
    return most - most % families if most > families else most


def _panel(axes: Axes, analysis: Analysis, benchmark: Benchmark, family: Family) -> None:
    scores = analysis.runs[(analysis.runs.benchmark == benchmark) & (analysis.runs.family == family)]
    colour = style.family_styles(analysis.families)[family][0]
    for place, variant in enumerate(analysis.variants):
        by_seed = scores[scores.variant == variant].sort_values("seed")
        _dots(axes, np.asarray(by_seed.score), place, colour, variant == analysis.baseline)
    if (chance := _drawn_chance(analysis, benchmark, family)) is not None:
        axes.axvline(chance, color=style.GREY, lw=1.1, ls=":", zorder=1)
    axes.set_title(_title(analysis, benchmark, family), fontsize=TITLE)
    axes.set_xlim(*_limits(analysis, benchmark, family))
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="y", color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


def _drawn_chance(analysis: Analysis, benchmark: Benchmark, family: Family) -> float | None:
    """Return what guessing scores, where that is within a panel."""
    (low, high), chance = _limits(analysis, benchmark, family), analysis.metric(benchmark).chance
    return chance if chance is not None and low <= chance <= high else None


def _handles(analysis: Analysis, places: Sequence[tuple[Benchmark, Family]]) -> list[Any]:
    chance = Line2D([], [], color=style.GREY, lw=1.1, ls=":", label="chance")
    has_chance = any(_drawn_chance(analysis, *place) is not None for place in places)
    return [
        Line2D([], [], color=style.GREY, marker="o", lw=0, ms=4.5, label="a seed"),
        Line2D([], [], color=style.AVERAGE_COLOUR, lw=1.8, label="mean"),
        Line2D([], [], color=style.GREY, lw=0.9, ls="--", label=f"mean of {analysis.baseline}"),
        *[chance] * has_chance,
    ]


def _limits(analysis: Analysis, benchmark: Benchmark, family: Family) -> tuple[float, float]:
    """Ends of a panel's axis: around the family's scores, as long as in every other family."""
    runs = analysis.runs[analysis.runs.benchmark == benchmark]
    of_families = runs.groupby("family", sort=False).score
    lows, highs = of_families.min().to_dict(), of_families.max().to_dict()
    reach = 0.6 * (max(highs[name] - lows[name] for name in lows) or 1.0)
    middle = (lows[family] + highs[family]) / 2
    return middle - reach, middle + reach


def _dots(axes: Axes, values: np.ndarray, place: int, colour: str, is_baseline: bool) -> None:
    if not len(values):
        axes.text(0.02, place, "no run", transform=axes.get_yaxis_transform(), fontsize=style.SMALL,
                  color=style.GREY, ha="left", va="center")  # fmt: skip
        return
    # Spread by seed order, so that equal scores stay visible; never at random, so that files repeat.
    spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1)
    axes.plot(values, place + spread, "o", color=colour, ms=4.5, alpha=0.75, mew=0, zorder=3)
    axes.plot([values.mean()] * 2, [place - 0.34, place + 0.34], color=style.AVERAGE_COLOUR, lw=1.8, zorder=4)
    if is_baseline:
        axes.axvline(values.mean(), color=style.GREY, lw=0.9, ls="--", zorder=1)


PART = Part(name="scores", section=section, figures=figures, tables=tables, checks=checks)
