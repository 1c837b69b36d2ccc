"""How much each recipe of training lets a study see, and for what: a study with the axis ``recipe``.

A recipe is the instrument that variants are measured with. All of it is exploratory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from base.printing import duration
from report.analysis import Analysis
from report.document.markdown import amount, bold, family_label, records_table, title
from report.part import Page, Part, Section
from report.parts import cost, power
from report.parts.power import MetricPower, seeds_text
from report.significance.axes import RECIPE, Family, places_of
from report.statistics.power import POWER, runs_to_detect
from report.verdicts.findings import shown_first
from scores.rows import some_of

NEGLIGIBLE = 0.03
"""What is to be told where the study names no margin, in the unit of the metric: nats of a loss."""
FAR_BEHIND = 6.0
"""Robust deviations behind the median of its arm at which a run counts as late."""
DEVIATIONS_PER_MAD = 1.4826
"""Of normal numbers, the standard deviation over the median absolute deviation."""
FEWEST_RUNS = 3
"""Of an arm in which one run can be told from the others."""
SECONDS_AN_HOUR = 3600


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One recipe in one setting, seen by the leading metric."""

    seen: MetricPower
    """What it could see."""
    baseline_score: float
    """Mean over runs of the baseline."""
    late: tuple[str, ...]
    """Runs far behind the others of their arm, as a loss that leaves its plateau late."""
    num_runs: int
    run_hours: float | None
    """Of training, the mean over all runs."""
    seeds_to_tell: int | None
    """In every arm, to find a difference of the margin; the median over variants."""

    @property
    def setting(self) -> Family:
        """Where."""
        assert self.seen.family is not None
        return self.seen.family

    @property
    def hours_to_tell(self) -> float | None:
        """Of training, one run after the other, to find a difference of the margin."""
        if self.run_hours is None or self.seeds_to_tell is None:
            return None
        return self.run_hours * self.seeds_to_tell * self.seen.num_arms


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """All recipes, and which one tells most for its time."""

    recipes: tuple[Recipe, ...]
    to_tell: float
    """The difference that is asked for."""

    @property
    def recommended(self) -> dict[Family, Recipe]:
        """By what stands beside it, the recipe that needs the least time, of those without a late run."""
        best: dict[Family, Recipe] = {}
        for recipe in sorted(self.recipes, key=lambda recipe: recipe.hours_to_tell or np.inf):
            if recipe.hours_to_tell and not recipe.late:
                best.setdefault(_beside(recipe.setting), recipe)
        return best


def _beside(setting: Family) -> Family:
    """A setting as a text without its recipe."""
    others = [f"{axis} {level}" for axis, level in places_of(setting) if axis != RECIPE]
    return ", ".join([setting if isinstance(setting, str) else setting.family, *others])


def compute(analysis: Analysis) -> Recipes | None:
    """Judge every recipe by the leading metric; None in a study without the axis."""
    rows = power.PART.of(analysis)
    if not rows or RECIPE not in analysis.source.axes or analysis.factor == RECIPE:
        return None
    leading = shown_first(analysis)[0]
    seen = [row for row in rows if row.benchmark == leading and row.family is not None and row.power]
    margin = next((row.margin for row in seen if row.margin is not None), NEGLIGIBLE)
    return (
        Recipes(recipes=tuple(_judge(analysis, row, margin) for row in seen), to_tell=margin)
        if seen
        else None
    )


def _judge(analysis: Analysis, seen: MetricPower, margin: float) -> Recipe:
    runs = analysis.runs[(analysis.runs.benchmark == seen.benchmark) & (analysis.runs.family == seen.family)]
    costs = cost.PART.of(analysis)
    hours = costs.arms.loc[costs.arms.family == seen.family, cost.TIME].dropna() if costs else ()
    return Recipe(
        seen=seen,
        baseline_score=float(runs.score[runs.variant == analysis.baseline].mean()),
        late=_late_runs(runs, seen.comparisons[0].metric.sign, margin),
        num_runs=len(runs),
        run_hours=float(np.mean(hours)) if len(hours) else None,
        seeds_to_tell=_seeds_to_tell(analysis, seen, margin),
    )


def _late_runs(runs: pd.DataFrame, sign: int, margin: float) -> tuple[str, ...]:
    """Name runs that are behind their arm by what is to be told, and by far more than runs usually differ.

    Losses of 3.20, 3.21, 3.19 and 3.62 in one arm: against the median of 3.205 the last is 0.415 behind, and
    others differ by 0.01.
    """
    arms = runs.groupby("variant").score
    behind = -sign * (runs.score - arms.transform("median"))
    usual = DEVIATIONS_PER_MAD * float(behind.abs().median())
    is_late = (behind > max(FAR_BEHIND * usual, margin)) & (arms.transform("size") >= FEWEST_RUNS)
    return tuple(runs.run_id[is_late])


def _seeds_to_tell(analysis: Analysis, seen: MetricPower, margin: float) -> int | None:
    """Find the seeds that find a difference of the margin, for half of the variants."""
    arms, needed = analysis.tables[seen.benchmark], []
    for each in seen.power:
        sample = arms.sample(each.comparison.contrast, each.comparison.families, analysis.inference.paired)
        level = each.comparison.level_simultaneous or analysis.inference.level / len(seen.power)
        variances = [noise.variance for noise in sample.noises]
        seeds = runs_to_detect(margin, variances, sample.weights, level, choice=sample.choice)
        needed.append(np.inf if seeds is None else seeds)
    middle = median(needed)
    return None if np.isinf(middle) else int(np.ceil(middle))


def section(analysis: Analysis, recipes: Recipes, page: Page) -> Section:
    """One line a recipe."""
    unit = max((recipe.seen.comparisons[0] for recipe in recipes.recipes), key=lambda each: each.digits)
    seeds = _num_seeds(analysis)
    told = amount(recipes.to_tell, unit)
    num_compared = len(recipes.recipes[0].seen.power)
    best = {id(recipe) for recipe in recipes.recommended.values()}
    rows = []
    for recipe in recipes.recipes:
        spreads = recipe.seen.spreads
        rows.append(
            {
                "recipe": bold(family_label(recipe.setting), id(recipe) in best),
                f"`{analysis.baseline}`": f"{recipe.baseline_score:.{unit.digits}f}",
                "between seeds": amount(spreads.noise if spreads else None, unit),
                "between variants": amount(spreads.signal if spreads else None, unit),
                "ratio (of equals)": f"{spreads.ratio:.1f} ({spreads.ratio_of_equals:.1f})"
                if spreads
                else "-",
                "late runs": f"{len(recipe.late)} of {recipe.num_runs}",
                f"{seeds} seeds find": amount(recipe.seen.detectable, unit),
                "a run": _time(recipe.run_hours),
                f"seeds to find {told}": seeds_text(recipe.seeds_to_tell),
                "training for that": _time(recipe.hours_to_tell),
            }
        )
    text = (
        f"On {title(unit.benchmark)}, exploratory. *Seeds find*: the smallest true difference found "
        f"with {POWER:.0%} power, corrected over {num_compared} comparisons, the median over "
        f"variants. *Late*: behind the median of its arm by {told} and by {FAR_BEHIND:g} usual deviations. "
        "Times are of one run after the other on the machine that trained them; bold: the least time to find "
        "that difference, of the recipes without a late run."
    )
    late = [run for recipe in recipes.recipes for run in recipe.late]
    if late:
        text += f" Late: {some_of(late, 4)}."
    return Section(
        title="Which recipe sees most?",
        summary="; ".join(family_label(recipe.setting) for recipe in recipes.recommended.values()),
        body=f"{records_table(rows)}\n\n{text}",
    )


def _num_seeds(analysis: Analysis) -> str:
    """Write how many seeds the arms have."""
    counts = analysis.arms.n
    return str(counts.min()) if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def _time(hours: float | None) -> str:
    return "-" if hours is None else duration(SECONDS_AN_HOUR * hours)


def checks(analysis: Analysis, recipes: Recipes) -> Iterator[str]:
    """Say which recipe needs the least time, and what the others need."""
    for beside, best in recipes.recommended.items():
        others = [
            f"{family_label(recipe.setting)} {_time(recipe.hours_to_tell)}"
            + (f" but {len(recipe.late)} late" if recipe.late else "")
            for recipe in recipes.recipes
            if _beside(recipe.setting) == beside and recipe is not best and recipe.hours_to_tell
        ]
        if others:
            told = amount(recipes.to_tell, best.seen.comparisons[0])
            yield (
                f"Of the recipes without a late run {family_label(best.setting)} needs the least training to "
                f"find {told}: {_time(best.hours_to_tell)} ({', '.join(others)})."
            )


def tables(analysis: Analysis, recipes: Recipes) -> Mapping[str, pd.DataFrame]:
    """Return every recipe."""
    rows = [
        {
            "family": recipe.setting,
            "benchmark": recipe.seen.benchmark,
            "baseline_score": recipe.baseline_score,
            "spread_between_seeds": recipe.seen.spreads and recipe.seen.spreads.noise,
            "spread_between_variants": recipe.seen.spreads and recipe.seen.spreads.signal,
            "detectable_difference": recipe.seen.detectable,
            "num_runs": recipe.num_runs,
            "late_runs": " ".join(recipe.late),
            "run_hours": recipe.run_hours,
            "difference_to_tell": recipes.to_tell,
            "seeds_to_tell": recipe.seeds_to_tell,
            "hours_to_tell": recipe.hours_to_tell,
        }
        for recipe in recipes.recipes
    ]
    return {"recipes": pd.DataFrame(rows)}


PART = Part(name="recipes", compute=compute, section=section, tables=tables, checks=checks)
