"""What variants cost, what they are matched in, and their loss against the cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from base.printing import duration, first_few
from report.analysis import Analysis
from report.document.markdown import table
from report.document.names import family_label
from report.figures.cost import draw_cost
from report.inputs.run_facts import SHOWN
from report.part import Draw, Page, Part, Section
from scores.rows import some_of

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
    return Cost(
        arms=arms,
        num_runs=len(trained),
        hours=sum(x.train_hours or 0.0 for x in trained.values()),
    )


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
    header = [
        analysis.stratum,
        analysis.noun,
        *COLUMNS,
        "training time",
        f"parameters against `{analysis.baseline}`",
        "FLOPs",
    ]
    rows = []
    for x in cost.arms.to_dict("records"):
        cells = [_number(x[field] / divisor, digits) for field, divisor, digits in COLUMNS.values()]
        cells += [
            "-" if np.isnan(x[TIME]) else duration(3600 * x[TIME]),
            _percent(x["parameters_ratio"]),
            _percent(x["flops_ratio"]),
            ", ".join(x["matched_in"]) or "-",
        ]
        rows.append([family_label(x["family"]), f"`{x['variant']}`", *cells])
    return table([*header, "matched in"], rows)


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:,.{digits}f}"


def _percent(ratio: float) -> str:
    return "-" if np.isnan(ratio) else f"{100 * (ratio - 1):+.1f}%"


def _text(analysis: Analysis) -> str:
    text = (
        "Means over runs. *MFLOP a token*: forward pass, two operations for each multiply-add of the matrix "
        "products, output head and attention over a full row included. *Matched in*: equal to the baseline "
        f"within {TOLERANCE:.0%} in width, parameters or FLOPs, or its FFN was given its width for that. "
        "*Tokens/s*, time and memory are of whatever machine trained them, which several runs may have "
        "shared: they say what a run cost, not how fast a variant is."
    )
    eager = [x.run_id for x in analysis.facts if x.is_compile_failed]
    if eager:
        text += f" Compiling failed in {some_of(eager, SHOWN)}, so that their times are those of eager runs."
    return text


def checks(analysis: Analysis, cost: Cost) -> Iterable[str]:
    """Name the variants that have far more or less than the baseline, each once, the farthest first."""
    in_budgets, named = [], set[str]()
    for budget, column, most in (("parameters", "parameters_ratio", NAMED), ("FLOPs", "flops_ratio", 2)):
        ratios = cost.arms.groupby("variant", sort=False)[column].mean().dropna()
        far = ratios[((ratios - 1).abs() > FAR) & ~ratios.index.isin(named)]
        far = far.sort_values(key=lambda ratio: -np.abs(np.log(ratio)))
        named |= set(far.index)
        if len(far):
            names = [f"`{name}` {_percent(ratio)}" for name, ratio in far.items()]
            in_budgets.append(f"in {budget}: {first_few(names, most)}")
    if in_budgets:
        yield f"Not matched with `{analysis.baseline}` {'; '.join(in_budgets)}."


def tables(analysis: Analysis, cost: Cost) -> Mapping[str, pd.DataFrame]:
    """Return costs by family and variant."""
    return {
        "cost": cost.arms.assign(matched_in=[", ".join(names) for names in cost.arms.matched_in]),
    }


def figures(analysis: Analysis, cost: Cost) -> Mapping[str, Draw]:
    """Draw the loss against each cost."""
    return {"cost": partial(draw_cost, analysis, cost.arms)}


PART = Part(name="cost", compute=compute, section=section, figures=figures, tables=tables, checks=checks)
