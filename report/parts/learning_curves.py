"""Held-out loss over training, and whether every run left the unigram plateau.

A language model first learns how frequent tokens are. Until it finds more in the context, its loss stays near
what the frequencies alone score: the unigram plateau, in a masked model for much of a short training. Where
some runs stay there, final losses tell who leaves first, not where a variant ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from base.printing import first_few
from report.analysis import Analysis
from report.document.markdown import family_label, span
from report.figures import style
from report.figures.crowd import ALONE, is_crowd, small_panels
from report.inputs.run_facts import RunFacts
from report.part import Draw, Drawing, Page, Part, Section
from report.significance.arms import Key
from report.significance.axes import Family, Level

MOST_PLACES = 40
"""Places of a curve; studies evaluate a run about ten times."""
SHARE_OF_THE_WAY = 0.5
"""A run has left once its loss is so far from the unigram loss to the best final loss of its family.

Half is farthest from both: losses sink slowly on the plateau (masked models on TinyStories from 5.5 to 5.1
nats, at a unigram loss of 5.9), then fall steeply, and flatten again at the end.
"""
LEAST_FALL = 0.3
"""Nothing is told of a family's runs unless the best is below the unigram loss by this share of it.

While still on it, masked models were seen to sink by 13% on TinyStories, by 27% on the synthetic corpus.
"""
NAMED = 4
"""Variants that a sentence names."""
PANEL_IN = 2.4
START = 0.2
"""Share of the training whose high losses may leave the axis, so that its end can be read."""
NORM = "gradient norm (L2, before clipping)"
TOKENS, NATS = "tokens (millions)", "nats per token"
AT_THE_END = "at the end", "+z.3f"
Shown = Literal["loss", "difference"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningCurves:
    """What finished runs tell of their training; frames without rows where they tell nothing."""

    curves: pd.DataFrame
    """run_id, family, variant, tokens, loss, difference: a row for each run and place, places being common
    to a family; ``difference`` is that to the mean of the baseline."""
    departures: pd.DataFrame
    """run_id, family, variant, seed, unigram_loss, threshold, tokens, is_bound, end, final_loss, by run.

    It left the plateau at ``tokens`` of ``end``, as its loss fell to ``threshold``: nan if it did not. If it
    had left by its first evaluation ``tokens`` are those, and a bound.
    """


def compute(analysis: Analysis) -> LearningCurves | None:
    """Read the curves of finished runs, a family at a time; None where no run logged anything."""
    curves, departures = [], []
    for family in analysis.families:
        runs = [
            run
            for variant in analysis.variants
            for run in analysis.facts
            if (run.family, run.variant) == (family, variant) and _is_usable(run)
        ]
        if runs:
            curves.append(_curves(runs, analysis.baseline))
        if runs := [run for run in runs if run.word_frequency_loss is not None]:
            departures.append(_departures(runs))
    if not curves and not gradient_norms(analysis):
        return None
    empty = pd.DataFrame()
    return LearningCurves(
        curves=pd.concat(curves) if curves else empty,
        departures=pd.concat(departures) if departures else empty,
    )


def _is_usable(run: RunFacts) -> bool:
    """Whether a finished run tells its loss at two numbers of tokens or more, which grow."""
    tokens, _ = _course(run)
    return run.eval_loss is not None and len(tokens) > 1 and bool((np.diff(tokens) > 0).all())


def _course(run: RunFacts) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and held-out losses (K,) of a run."""
    tokens, losses = np.array([(x.tokens, x.loss) for x in run.curve if x.tokens]).reshape(-1, 2).T
    return tokens, losses


def _curves(runs: Sequence[RunFacts], baseline: Level) -> pd.DataFrame:
    """Losses where the first run was evaluated, from where to where all runs of the family were."""
    every = [_course(run)[0] for run in runs]
    places = np.unique(np.clip(every[0], max(x[0] for x in every), min(x[-1] for x in every)))
    places = places[np.unique(np.linspace(0, len(places) - 1, MOST_PLACES).round().astype(int))]
    curves = pd.concat(
        pd.DataFrame({**_identity(run), "tokens": places, "loss": _losses_at(run, places)}) for run in runs
    ).drop(columns="seed")
    means = curves[curves.variant == baseline].groupby("tokens").loss.mean()
    return curves.assign(difference=curves.loss - curves.tokens.map(means))


def _identity(run: RunFacts) -> dict[str, Any]:
    return {name: getattr(run, name) for name in ("run_id", "family", "variant", "seed")}


def _losses_at(run: RunFacts, places: np.ndarray) -> np.ndarray:
    """Losses between evaluations are linear in the logarithm of tokens."""
    tokens, losses = _course(run)
    return np.interp(np.log(places), np.log(tokens), losses)


def _departures(runs: Sequence[RunFacts]) -> pd.DataFrame:
    """When the runs of a family left the plateau."""
    unigram = float(np.median([run.word_frequency_loss for run in runs]))  # type: ignore[bad-argument-type]
    best = min(_course(run)[1][-1] for run in runs)
    has_fallen = best <= (1 - LEAST_FALL) * unigram
    threshold = unigram - SHARE_OF_THE_WAY * (unigram - best) if has_fallen else np.nan
    rows = []
    for run in runs:
        tokens, losses = _course(run)
        identity = _identity(run) | {"unigram_loss": unigram, "threshold": threshold}
        departure = {"tokens": _first_below(tokens, losses, threshold), "is_bound": losses[0] <= threshold}
        rows.append(identity | departure | {"end": tokens[-1], "final_loss": losses[-1]})
    return pd.DataFrame(rows)


def _first_below(tokens: np.ndarray, losses: np.ndarray, threshold: float) -> float:
    """Return at how many tokens a loss is first met; nan if never."""
    below = np.flatnonzero(losses <= threshold)
    if not len(below) or below[0] == 0:
        return float(tokens[0]) if len(below) else np.nan
    ends = [below[0], below[0] - 1]
    return float(np.exp(np.interp(threshold, losses[ends], np.log(tokens[ends]))))


def plateau_sentence(departures: pd.DataFrame) -> str:
    """Say whether all runs left the unigram plateau, and what losses tell where some did not."""
    is_told = departures.threshold.notna()
    sentences = [_of_those_that_fell(departures[is_told])] if is_told.any() else []
    if (near := departures[~is_told]).size:
        sentences.append(
            f"{len(near)} runs end at {span(near.final_loss, '.2f')} nats, not {LEAST_FALL:.0%} below the "
            f"unigram loss ({span(near.unigram_loss, '.2f')}): too high to tell whether they left its "
            "plateau."
        )
    return " ".join(sentences)


def _of_those_that_fell(departures: pd.DataFrame) -> str:
    plateau = f"the unigram plateau ({span(departures.unigram_loss, '.2f')} nats)"
    num_runs, staying = len(departures), departures[departures.tokens.isna()]
    if staying.empty:
        latest = (departures.tokens / departures.end).max()
        return f"All {num_runs} runs left {plateau}, the last after {latest:.0%} of training."
    counts = staying.variant.astype(str).value_counts().items()
    names = first_few([f"`{variant}` {number}" for variant, number in counts], NAMED)
    return (
        f"{len(staying)} of {num_runs} runs ({names}) did not leave {plateau}: losses tell who leaves first, "
        "not where a variant ends."
    )


def checks(analysis: Analysis, result: LearningCurves) -> Iterable[str]:
    """Say on the card whether runs left the unigram plateau."""
    if len(result.departures):
        yield plateau_sentence(result.departures)


def section(analysis: Analysis, result: LearningCurves, page: Page) -> Section:
    """Curves, when runs left the plateau, and gradient norms."""
    departures, summary, plateau = result.departures, "", ""
    if len(departures):
        if len(told := departures[departures.threshold.notna()]):
            summary = f"{told.tokens.count()} of {len(told)} runs left the unigram plateau"
        plateau = (
            "The unigram plateau is the loss of a model that knows only how frequent tokens are. A run has "
            "left it when its loss is half of the way to the best final loss of its family: after how many "
            "tokens is in tables/plateau_runs.csv."
        )
    body = [page.figure("learning-curves"), plateau, page.figure("gradient-norms")]
    return Section(title="Learning curves", summary=summary, body="\n\n".join(filter(None, body)))


def tables(analysis: Analysis, result: LearningCurves) -> Mapping[str, pd.DataFrame]:
    """Return mean curves, those of every run, and when each left the plateau."""
    frames = {"run_curves": result.curves, "plateau_runs": result.departures}
    if len(result.curves):
        places = result.curves.groupby(["family", "variant", "tokens"], sort=False)
        means = places.agg(
            num_runs=("loss", "size"), loss=("loss", "mean"), difference=("difference", "mean")
        )
        frames["learning_curves"] = means.reset_index()
    return frames


def figures(analysis: Analysis, result: LearningCurves) -> Mapping[str, Draw]:
    """Draw losses over tokens, and gradient norms."""
    return {
        "learning-curves": partial(draw_learning_curves, analysis, result.curves),
        "gradient-norms": partial(draw_gradient_norms, analysis),
    }


def draw_learning_curves(analysis: Analysis, curves: pd.DataFrame) -> Drawing | None:
    """Draw two panels a family, loss and difference; of many variants the difference, each in its panel."""
    if curves.empty:
        return None
    families = list(dict.fromkeys(curves.family))
    labels = ", ".join(map(family_label, families))
    if is_crowd(analysis):
        return _draw_crowd(analysis, curves), (
            f"Held-out loss against tokens in {labels}: a small panel for each {analysis.noun}, the best "
            f"first, with its runs' difference to the mean of {analysis.baseline} (thin) and its mean"
        )
    figure, grid = style.panels(2 * len(families), PANEL_IN, columns=2)
    for number, axes in enumerate(grid):
        of_family = curves[curves.family == families[number // 2]]
        _draw(axes, analysis, of_family, "difference" if number % 2 else "loss")
    figure.supxlabel(TOKENS, fontsize=9.5)
    figure.supylabel(NATS, fontsize=9.5)
    style.add_legend(figure, _handles(analysis, curves))
    return figure, (
        f"Held-out loss against tokens in {labels}: left, the runs of each {analysis.noun} (thin) and their "
        f"mean, right, their difference to the mean of {analysis.baseline}; the axes leave out the start"
    )


def _draw_crowd(analysis: Analysis, curves: pd.DataFrame) -> Figure:
    arms = dict(list(curves.groupby(["family", "variant"], sort=False)))
    ends = {arm: _at_the_end(runs, "difference") for arm, runs in arms.items() if arm[1] != analysis.baseline}
    label = f"difference to {analysis.baseline} ({NATS})"
    figure, grid = small_panels(analysis, ends, AT_THE_END, TOKENS, label)
    for (family, variant), axes in grid.items():
        _draw_runs(axes, arms[family, variant], "difference", ALONE)
        axes.axhline(0, color=style.GREY, lw=0.8, zorder=0)
        _limit(axes, curves[curves.family == family], "difference")
    return figure


def learning_curves_panel(analysis: Analysis, family: Family, name: Shown = "loss") -> style.Panel | None:
    """Return the held-out loss of one family, or its difference to the baseline; None without curves."""
    result = PART.of(analysis)
    if result is None or result.curves.empty:
        return None
    curves = result.curves[result.curves.family == family]

    def draw(axes: Axes) -> None:
        _draw(axes, analysis, curves, name)
        axes.set_xlabel(TOKENS)
        axes.set_ylabel(NATS)

    return style.Panel(draw, _handles(analysis, curves), PANEL_IN + 0.8) if len(curves) else None


def _draw(axes: Axes, analysis: Analysis, curves: pd.DataFrame, name: Shown) -> None:
    """Draw every variant of a family, within limits by what comes after the start."""
    styles = style.variant_styles(analysis.variants)
    for variant in dict.fromkeys(curves.variant):
        _draw_runs(axes, curves[curves.variant == variant], name, styles[variant])
    _limit(axes, curves, name)
    axes.locator_params(nbins=5)
    text = "held-out loss" if name == "loss" else f"difference to {analysis.baseline}"
    ends = {variant: _at_the_end(runs, name) for variant, runs in curves.groupby("variant", sort=False)}
    finding = style.extremes(AT_THE_END[0], ends, ".3f" if name == "loss" else AT_THE_END[1])
    heading = style.titled(f"{family_label(curves.family.iloc[0])}: {text}", finding, 38)
    axes.set_title(heading, fontsize=style.SMALL)


def _at_the_end(runs: pd.DataFrame, name: Shown) -> float:
    return float(runs[name][runs.tokens == runs.tokens.max()].mean())


def _draw_runs(axes: Axes, runs: pd.DataFrame, name: Shown, look: style.VariantStyle) -> None:
    """Draw each run thin, and their mean thick."""
    lines = runs.pivot(index="tokens", columns="run_id", values=name)
    axes.plot(lines.index / 1e6, lines, color=look.colour, lw=0.5, alpha=0.3)
    axes.plot(lines.index / 1e6, lines.mean(axis=1), color=look.colour, lw=1.6, ls=look.dashes)


def _limit(axes: Axes, curves: pd.DataFrame, name: Shown) -> None:
    values = curves[name][curves.tokens >= START * curves.tokens.max()].dropna()
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.06 * (high - low or 1)
    axes.set_ylim(low - room, high + room)


def _handles(analysis: Analysis, curves: pd.DataFrame) -> list[Line2D]:
    styles, present = style.variant_styles(analysis.variants), set(curves.variant)
    return [styles[name].line(str(name)) for name in analysis.variants if name in present]


def draw_gradient_norms(analysis: Analysis) -> Drawing | None:
    """Draw a small panel for each variant of each family, one line a run; None where none were logged."""
    runs = gradient_norms(analysis)
    if not runs:
        return None
    medians = {arm: float(np.median([norm for curve in x for _, norm in curve])) for arm, x in runs.items()}
    figure, grid = small_panels(analysis, medians, ("median", ".2f"), "training step", style.filled(NORM, 20))
    for arm, axes in grid.items():
        for curve in runs[arm]:
            axes.plot(*zip(*style.thin(curve), strict=True), color=ALONE.colour, lw=0.7, alpha=0.6)
        axes.set_yscale("log")
        style.label_log_axis(axes.yaxis)
        axes.locator_params(axis="x", nbins=3)
    families = dict.fromkeys(family_label(family) for family, _ in grid)
    return figure, (
        f"{NORM[0].upper()}{NORM[1:]} against training step, one line a run: a small panel for each "
        f"{analysis.noun} of {', '.join(families)}; logarithmic axis"
    )


def gradient_norms(analysis: Analysis) -> dict[Key, list[style.Curve]]:
    """Gradient norms of the runs that logged them, by family and variant."""
    curves: dict[Key, list[style.Curve]] = {}
    for family, variant in itertools.product(analysis.families, analysis.variants):
        of_runs = [run.grad_norms for run in analysis.facts if (run.family, run.variant) == (family, variant)]
        positive: list[style.Curve] = [[x for x in norms if x[1] > 0] for norms in of_runs]
        if drawable := [curve for curve in positive if len(curve) > 1]:
            curves[family, variant] = drawable
    return curves


PART = Part(
    name="learning-curves", compute=compute, section=section, figures=figures, tables=tables, checks=checks
)
