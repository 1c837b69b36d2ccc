"""How much each recipe of training lets a study see, and for what: a study with the axis ``recipe``.

A recipe is the instrument that variants are measured with. All of it is exploratory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from base.printing import first_few
from report.analysis import Analysis
from report.document.markdown import amount, bold, family_label, records_table, title
from report.part import Page, Part, Section
from report.parts import power
from report.parts.cost import hours_text
from report.parts.learning_curves import LEAST_FALL
from report.parts.power import MetricPower, seeds_text
from report.significance.axes import RECIPE, Family, places_of, plain
from report.statistics.power import POWER
from report.verdicts.findings import shown_first

FAR_BEHIND = 6.0
"""Robust deviations behind the median of its arm at which a run counts as late."""
DEVIATIONS_PER_MAD = 1.4826
"""Of normal numbers, the standard deviation over the median absolute deviation."""
SAME_TOKENS = 1.01
"""Ratio up to which unigram losses are of one tokenizer and text; rows of another length leave out others."""
TRAINS_WORSE = 0.05
"""Share of the best recipe's baseline score that another may lose: it sees what FFNs do in worse models."""
FEWEST_RUNS = 3
"""Of an arm in which one run can be told from the others."""


def compute(analysis: Analysis) -> pd.DataFrame | None:
    """Judge every recipe by the leading metric, one row each; None in a study without several."""
    seen = _seen(analysis)
    if not seen or len(analysis.source.axes.get(RECIPE, ())) < 2 or analysis.factor == RECIPE:
        return None
    recipes = pd.DataFrame(_judge(analysis, row) for row in seen)
    besides = recipes.family.map(_beside)
    lost = -seen[0].comparisons[0].metric.sign * recipes.baseline_score
    lost = (lost - lost.groupby(besides).transform("min")) / recipes.baseline_score.abs()
    possible = recipes[(recipes.late_runs == "") & (lost <= TRAINS_WORSE)].dropna(subset="hours_to_tell")
    best = possible.sort_values("hours_to_tell").groupby(besides).head(1)
    compare = seen[0].comparisons[0].unit != "nats" or not _other_tokens(analysis)
    return recipes.assign(is_recommended=recipes.index.isin(best.index) & compare)


def _seen(analysis: Analysis) -> list[MetricPower]:
    """What every recipe could see of the leading metric."""
    rows = [row for row in power.PART.of(analysis) or () if row.family is not None and row.power]
    leading = shown_first(analysis)[0]
    if _other_tokens(analysis):
        leading = next((row.benchmark for row in rows if row.comparisons[0].unit == "bits per byte"), leading)
    return [row for row in rows if row.benchmark == leading]


def _other_tokens(analysis: Analysis) -> bool:
    """Whether recipes cut text into other tokens, or are evaluated on another, as unigram losses tell."""
    losses = pd.Series([x.word_frequency_loss for x in analysis.facts], dtype=float)
    of_settings = losses.groupby([_beside(x.family) for x in analysis.facts])
    return bool((of_settings.max() > SAME_TOKENS * of_settings.min()).any())


def _beside(setting: Family) -> str:
    """A setting as a text without its recipe: one is recommended for each."""
    return f"{plain(setting)} {[place for place in places_of(setting) if place[0] != RECIPE]}"


def _judge(analysis: Analysis, seen: MetricPower) -> dict[str, Any]:
    """Return a row of tables/recipes.csv; hours are of training, one run after the other."""
    runs = analysis.runs[(analysis.runs.benchmark == seen.benchmark) & (analysis.runs.family == seen.family)]
    facts = [x for x in analysis.facts if x.family == seen.family]
    hours = pd.Series([x.train_hours for x in facts], dtype=float).mean()
    # On the unigram plateau seeds are alike and runs are short, and nothing of a variant is seen.
    falls = [1 - x.eval_loss / x.word_frequency_loss for x in facts if x.eval_loss and x.word_frequency_loss]
    needed = median(each.seeds_to_detect_margin or np.inf for each in seen.power)
    seeds = np.ceil(needed) if np.isfinite(needed) else np.nan
    return {
        "family": seen.family,
        "benchmark": seen.benchmark,
        "baseline_score": runs.score[runs.variant == analysis.baseline].mean(),
        "spread_between_seeds": seen.spreads and seen.spreads.noise,
        "spread_between_variants": seen.spreads and seen.spreads.signal,
        "detectable_difference": seen.detectable,
        "num_runs": len(runs),
        "late_runs": " ".join(_late_runs(runs, seen.comparisons[0].metric.sign, seen.margin or 0.0)),
        "run_hours": hours,
        "difference_to_tell": seen.margin,
        "seeds_to_tell": seeds,
        "hours_to_tell": hours * seeds * seen.num_arms if max(falls, default=1) >= LEAST_FALL else np.nan,
    }


def _late_runs(runs: pd.DataFrame, sign: int, margin: float) -> list[str]:
    """Name runs that are behind their arm by what is to be told, and by far more than runs usually differ.

    Losses of 3.20, 3.21, 3.19 and 3.62 in one arm: against the median of 3.205 the last is 0.415 behind, and
    others differ by 0.01.
    """
    arms = runs.groupby("variant").score
    behind = -sign * (runs.score - arms.transform("median"))
    usual = DEVIATIONS_PER_MAD * float(behind.abs().median())
    is_late = (behind > max(FAR_BEHIND * usual, margin)) & (arms.transform("size") >= FEWEST_RUNS)
    return list(runs.run_id[is_late])


def section(analysis: Analysis, recipes: pd.DataFrame, page: Page) -> Section:
    """One line a recipe."""
    seen = _seen(analysis)
    unit = max((row.comparisons[0] for row in seen), key=lambda each: each.digits)
    told = amount(seen[0].margin, unit)
    rows = [
        {
            "recipe": bold(family_label(recipe["family"]), recipe["is_recommended"]),
            f"`{analysis.baseline}`": f"{recipe['baseline_score']:.{unit.digits}f}",
            **power.spread_cells(row, unit),
            "late runs": f"{len(recipe['late_runs'].split())} of {recipe['num_runs']}",
            "a run": hours_text(recipe["run_hours"]),
            f"seeds to find {told}": seeds_text(recipe["seeds_to_tell"]),
            "training for that": hours_text(recipe["hours_to_tell"]),
        }
        for row, recipe in zip(seen, recipes.to_dict("records"), strict=True)
    ]
    text = (
        f"On {title(unit.benchmark)}, exploratory. *Detectable*: the smallest true difference found with "
        f"{POWER:.0%} power, corrected over {len(seen[0].power)} comparisons, the median over variants. "
        f"*Late*: behind the median of its arm by {told} and by {FAR_BEHIND:g} usual deviations. Times are "
        "of one run after the other on the machine that trained them; bold: the least time to find that "
        f"difference, of the recipes without a late run and with a `{analysis.baseline}` within "
        f"{TRAINS_WORSE:.0%} of the best; no time where no run ends "
        f"{LEAST_FALL:.0%} below the unigram loss."
    )
    if late := " ".join(recipes.late_runs).split():
        text += f" Late: {first_few(late, 4)}."
    return Section(
        title="Which recipe sees most?",
        summary="; ".join(map(family_label, recipes.family[recipes.is_recommended])),
        body=f"{records_table(rows)}\n\n{text}",
    )


def checks(analysis: Analysis, recipes: pd.DataFrame) -> Iterator[str]:
    """Say which recipe needs the least time."""
    unit = _seen(analysis)[0].comparisons[0]
    if unit.unit == "nats" and _other_tokens(analysis):
        yield "Recipes of other tokens or texts do not compare in nats a token: score the suite `perplexity`."
    for best in recipes[recipes.is_recommended].to_dict("records"):
        yield (
            f"Of the recipes that train well {family_label(best['family'])} needs the least training to find"
            f" {amount(best['difference_to_tell'], unit)}: {hours_text(best['hours_to_tell'])}."
        )


def tables(analysis: Analysis, recipes: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """Return every recipe."""
    return {"recipes": recipes}


PART = Part(name="recipes", compute=compute, section=section, tables=tables, checks=checks)
