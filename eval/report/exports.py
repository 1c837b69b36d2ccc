"""Every number of a report, as tables and as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from eval.report.analysis import Analysis
from eval.report.curves.equal_cost import EqualAnswer, training_times
from eval.report.curves.plateaus import Plateau
from eval.report.curves.sizes import SizeLaw, SizeVerdict
from eval.report.scores.outcome_table import OutcomeRow
from eval.report.scores.power import Power
from eval.report.scores.published import BesidePublished
from eval.report.sections.answer import answer, explored
from eval.report.sections.context import Context
from eval.report.sections.learning_curves import plateau_sentence
from eval.report.sections.ranking import ranking_table
from eval.report.sections.sizes import sizes_sentence
from eval.report.tuning.choices import HeadTrials, tuning_tables
from eval.report.verdicts.findings import AtSharedRate
from eval.report.verdicts.sensitivity import fragile_because
from eval.significance.axes import Benchmark, places_of, without_places
from eval.significance.comparison import Comparison

AXES = ("benchmark", "family", "variant", "contrast")
"""Columns that hold more than text."""


def number_tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Return the tables of a report by name, each row a record; those without rows are left out."""
    published, facts = analysis.published, pd.DataFrame(map(vars, analysis.facts))
    tables = {
        "scores": analysis.arms,
        "means_over_phenomena": analysis.part_means,
        "seeds": analysis.runs[["run_id", "family", "variant", "seed", "benchmark", "score"]],
        "comparisons": _comparisons(analysis.comparisons),
        "contrasts": _comparisons(analysis.contrasts),
        "phenomena": _comparisons(analysis.parts),
        "outcomes": pd.DataFrame(map(_outcome, analysis.outcome_rows)),
        "power": pd.DataFrame(map(_power, analysis.power)),
        "failures": pd.DataFrame(map(vars, analysis.failures)),
        "sensitivity": pd.DataFrame(_sensitivity(analysis)),
        "tasks": analysis.tasks,
        "ranking": ranking_table(analysis),
        "missing": analysis.missing,
        "training": facts.drop(columns=["places", "curve", "grad_norms", "unusable"], errors="ignore"),
        "training_times": training_times(analysis.facts),
        "learning_curves": pd.DataFrame(map(vars, analysis.curves.points)),
        "plateaus": pd.DataFrame(_plateau(x, analysis) for x in analysis.curves.plateaus),
        "plateau_leads": pd.DataFrame(vars(x) for p in analysis.curves.plateaus for x in p.leads),
        "plateau_runs": pd.DataFrame(vars(x) for p in analysis.curves.plateaus for x in p.departures),
        "equal_costs": pd.DataFrame(map(_equal, analysis.costs.answers)),
        "frontier": pd.DataFrame(map(vars, analysis.costs.points)),
        "size_differences": pd.DataFrame(map(vars, analysis.sizes.differences)),
        "size_trends": pd.DataFrame(map(_trend, analysis.sizes.verdicts)),
        "size_laws": pd.DataFrame(map(_law, analysis.sizes.laws)),
        "source_study": pd.DataFrame(
            {"benchmark": benchmark, "contrast": contrast, **found._asdict()}
            for (benchmark, contrast), found in analysis.source_study.items()
        ),
        "shared_rate": pd.DataFrame(map(_at_shared_rate, analysis.at_shared_rate)),
        **tuning_tables(analysis.tuned),
        "head_tuning": pd.DataFrame(map(_head_trials, analysis.head_trials)),
        "published_levels": pd.DataFrame(map(_beside, published.levels if published else ())),
        "published_effects": pd.DataFrame(map(_beside, published.effects if published else ())),
    }
    always, axes = ("missing",), [name for name in analysis.source.axes if name != analysis.factor]
    return {name: _labelled(table, axes) for name, table in tables.items() if len(table) or name in always}


def _labelled(table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Write out what stands at the axes of a table: of settings the family, and their places beside it."""
    table = table.copy()
    if axes and "family" in table.columns:
        families = table["family"].to_list()
        place = list(table.columns).index("family")
        for number, axis in enumerate(axes, start=1):
            name = f"{axis} level" if axis in table.columns else axis
            levels = [dict(places_of(family)).get(axis) for family in families]
            table.insert(place + number, name, pd.Series(levels, table.index, dtype="object"))
        names = [without_places(family) for family in families]
        table["family"] = pd.Series(names, table.index, dtype="object")
    for name in AXES:
        if name in table.columns:
            table[name] = pd.Series([_label(value) for value in table[name]], table.index, dtype="object")
    return table


def _label(value: object) -> str | None:
    # The average over families has no name, which a column of text holds as nan.
    return None if value is None or value != value else str(value)


def _fields(comparison: Comparison) -> dict[str, Any]:
    own = {**vars(comparison), "families": "+".join(map(str, comparison.families))}
    own |= {"unit": comparison.unit, "better": comparison.outcome.better}
    own |= {"p_sequential": comparison.p_sequential}
    if comparison.choice_error is None:
        own.pop("choice_error")
    for name in ("outcome", "look"):
        own.pop(name, None)
    return own


def _comparisons(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **_fields(c),
            "dropped": ", ".join(c.dropped),
            "verdict": c.verdict,
        }
        for c in comparisons
    )


def _head_trials(found: HeadTrials) -> dict[str, Any]:
    kept = "; ".join(f"{name} {times}x" for name, times in found.chosen.items())
    return {"head": found.head, "num_trials": "/".join(map(str, found.num_trials)), "chosen": kept}


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


def _plateau(plateau: Plateau, analysis: Analysis) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(plateau).items() if name not in ("departures", "leads")},
        "num_runs": len(plateau.departures),
        "num_left": len(plateau.left),
        "spread": plateau.spread,
        "is_about_speed": plateau.is_about_speed,
        "sentence": plateau_sentence(plateau, analysis.baseline),
    }


def _equal(row: EqualAnswer) -> dict[str, Any]:
    """The numbers of its comparison are under ``comparisons``."""
    c = row.comparison
    own = {"benchmark": c.benchmark, "family": c.family, "variant": row.variant, "equal": row.question}
    own |= {"level": str(row.level), "ratio": row.ratio, "verdict": c.verdict, "unit": c.unit}
    return own | {"estimate": c.estimate, "low": c.low, "high": c.high}


def _trend(row: SizeVerdict) -> dict[str, Any]:
    return {**vars(row), "sizes": "+".join(row.sizes)}


def _law(law: SizeLaw) -> dict[str, Any]:
    """Losses are in nats; ``predicted`` is of the largest size, from the others. No law, no numbers of it."""
    own: dict[str, Any] = {"family": law.family, "variant": law.variant, "sizes": "+".join(law.sizes)}
    fitted: dict[str, Any] = {"scale": law.scale}
    for name, interval in (("floor", law.floor_interval), ("exponent", law.exponent_interval)):
        low, high = interval or (None, None)
        fitted |= {name: getattr(law, name), f"{name}_low": low, f"{name}_high": high}
    own |= {"is_law": law.is_law, "has_floor": law.has_floor}
    own |= fitted if law.is_law else dict.fromkeys(fitted)
    found = law.prediction
    if found is None:
        return own
    own |= {
        "predicted": found.predicted,
        "predicted_with_floor": found.has_floor,
        "measured": found.observed,
        "error": found.error,
    }
    low, high = found.error_interval or (None, None)
    return own | {"error_low": low, "error_high": high, "error_in_spreads": found.in_spreads}


def _beside(row: BesidePublished) -> dict[str, Any]:
    """Numbers are in the unit of the scores; an interval is of 95%."""
    named = {
        f"{name}{end}": value
        for name in ("own", "published", "difference")
        for end, value in zip(("", "_low", "_high"), getattr(row, name), strict=True)
    }
    counts = {"num_own": row.num_own, "num_published": row.num_published}
    said = {"table": row.table, "published_of": row.models}
    return {**row.outcome._asdict(), **row.model._asdict(), **said, **named, **counts}


def _outcome(row: OutcomeRow) -> dict[str, Any]:
    """Spreads, differences and margins are in ``unit``."""
    outcome, spreads = row.comparisons[0].outcome, row.spreads
    return {
        "benchmark": row.benchmark,
        "family": row.family,
        "unit": row.comparisons[0].unit,
        "better": outcome.better,
        "margin": row.margin,
        "spread_between_variants": spreads and spreads.signal,
        "spread_between_seeds": spreads and spreads.noise,
        "signal_to_noise": spreads and spreads.ratio,
        "signal_to_noise_of_equals": spreads and spreads.ratio_of_equals,
        "detectable_difference": row.detectable,
        "detectable_difference_in_margins": row.detectable_in_margins,
        "seeds_for_half_of_the_verdicts": row.seeds_for(0.5),
        "seeds_for_every_verdict": row.seeds_for(1.0),
        "chance": outcome.chance,
        "num_arms": row.num_arms,
        "num_arms_above_chance": None if outcome.chance is None else row.num_above_chance,
        "is_at_chance": row.is_at_chance,
    }


def _power(power: Power) -> dict[str, Any]:
    """Standard deviation, differences and margin are in ``unit``."""
    comparison = power.comparison
    return {
        "benchmark": comparison.benchmark,
        "contrast": comparison.contrast,
        "family": comparison.family,
        "unit": comparison.unit,
        "sd": power.sd,
        "detectable_difference": power.detectable,
        "seeds_to_detect_estimate": power.seeds_to_detect,
        "seeds_for_equivalence": power.seeds_for_equivalence,
        "seeds_for_verdict": power.seeds,
    }


def _sensitivity(analysis: Analysis) -> Iterable[dict[str, Any]]:
    for x in analysis.sensitivities:
        yield {
            "benchmark": x.comparison.benchmark,
            "contrast": x.comparison.contrast,
            "verdict": x.comparison.verdict,
            "lowest_estimate": x.lowest_estimate,
            "highest_estimate": x.highest_estimate,
            "num_left_out": x.num_left_out,
            "fragile": "; ".join(fragile_because(x, analysis.inference.level)),
            "changed": "; ".join(f"{verdict} without {run}" for run, verdict in x.changed),
        }


def as_json(analysis: Analysis, context: Context, tables: dict[str, pd.DataFrame], source: str) -> str:
    """Write every number as JSON.

    Args:
        analysis: What was computed.
        context: How the report was made.
        tables: What ``number_tables`` returns.
        source: The source's path as it is to be shown.
    """
    content = {
        "title": analysis.source.title,
        "answer": list(answer(analysis)),
        "explored": explored(analysis),
        **({"across_sizes": said} if (said := sizes_sentence(analysis)) else {}),
        "source": source,
        "source_kind": analysis.source.kind,
        "command": context.command,
        "versions": dict(context.versions),
        "factor": analysis.source.factor,
        **(
            {"axes": {name: list(own) for name, own in axes.items()}}
            if (axes := analysis.source.axes)
            else {}
        ),
        "baseline": str(analysis.baseline),
        **asdict(analysis.inference),
        "families": list(map(str, analysis.families)),
        "variants": list(map(str, analysis.variants)),
        "benchmarks": list(map(str, analysis.benchmarks)),
        "primary": list(map(str, analysis.primary)),
        "outcome_definitions": {str(name): asdict(outcome) for name, outcome in analysis.outcomes.items()},
        "warnings": list(analysis.warnings),
        **{name: _records(table) for name, table in tables.items()},
        "baselines": _by_label(analysis, analysis.source.baselines),
        "curves": {x.run_id: [y._asdict() for y in x.curve] for x in analysis.facts if x.curve},
        "grad_norms": {x.run_id: [list(p) for p in x.grad_norms] for x in analysis.facts if x.grad_norms},
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _by_label(analysis: Analysis, known: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a benchmark is known of it under every head."""
    shown = (*analysis.benchmarks, *analysis.not_compared)
    return {
        str(benchmark): value
        for name, value in known.items()
        for benchmark in [found for found in shown if found.name == name] or [Benchmark(name)]
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values; what is not estimable is null, as JSON has no nan."""
    return json.loads(table.to_json(orient="records", double_precision=15))
