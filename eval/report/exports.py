"""Every number of a report, as tables and as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from eval.report.analysis import Analysis
from eval.report.power import EFFECTS
from eval.report.sections.answer import answer
from eval.report.sections.context import Context
from eval.significance.comparison import Comparison


def number_tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Return the tables of a report by name, each row a record; those without rows are left out."""
    facts = pd.DataFrame([asdict(facts) for facts in analysis.facts])
    tables = {
        "scores": analysis.arms,
        "means_over_phenomena": analysis.part_means,
        "seeds": analysis.runs[["run_id", "family", "variant", "seed", "benchmark", "score"]],
        "comparisons": _comparisons(analysis.comparisons),
        "contrasts": _comparisons(analysis.contrasts),
        "phenomena": _comparisons(analysis.parts),
        "power": pd.DataFrame(_power(analysis)),
        "sensitivity": pd.DataFrame(_sensitivity(analysis)),
        "noise": pd.DataFrame(map(asdict, analysis.items.components)),
        "seeds_and_items": pd.DataFrame(
            {**asdict(c), "families": "+".join(c.families)} for c in analysis.items.comparisons
        ),
        "tasks": analysis.tasks,
        "missing": analysis.missing,
        "training": facts.drop(columns=["curve", "grad_norms"], errors="ignore"),
        "source_study": pd.DataFrame(
            {"benchmark": benchmark, "contrast": contrast, **found._asdict()}
            for (benchmark, contrast), found in analysis.source_study.items()
        ),
    }
    always = ("missing",)
    return {name: table for name, table in tables.items() if len(table) or name in always}


def _comparisons(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **asdict(c),
            "families": "+".join(c.families),
            "dropped": ", ".join(c.dropped),
            "verdict": c.verdict,
        }
        for c in comparisons
    )


def _power(analysis: Analysis) -> Iterable[dict[str, Any]]:
    for x in analysis.power:
        yield {
            "benchmark": x.comparison.benchmark,
            "contrast": x.comparison.contrast,
            "family": x.comparison.family,
            "sd": x.sd,
            "minimum_detectable_effect": x.comparison.minimum_detectable_effect,
            **{f"seeds_for_{effect:g}": n for effect, n in zip(EFFECTS, x.seeds, strict=True)},
            "seeds_for_equivalence": x.seeds_for_equivalence,
        }


def _sensitivity(analysis: Analysis) -> Iterable[dict[str, Any]]:
    for x in analysis.sensitivities:
        others = {
            "without_outliers": x.without_outliers,
            "paired": x.paired,
            "mean_of_parts": x.mean_of_parts,
        }
        yield {
            "benchmark": x.comparison.benchmark,
            "contrast": x.comparison.contrast,
            "verdict": x.comparison.verdict,
            "lowest_estimate": x.lowest_estimate,
            "highest_estimate": x.highest_estimate,
            "num_left_out": x.num_left_out,
            "changed": "; ".join(f"{verdict} without {run}" for run, verdict in x.changed),
            **{f"{name}_estimate": c.estimate if c else None for name, c in others.items()},
            **{f"{name}_low": c.low if c else None for name, c in others.items()},
            **{f"{name}_high": c.high if c else None for name, c in others.items()},
            **{f"{name}_verdict": c.verdict if c else None for name, c in others.items()},
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
        "source": source,
        "source_kind": analysis.source.kind,
        "command": context.command,
        "versions": dict(context.versions),
        "factor": analysis.source.factor,
        "baseline": analysis.baseline,
        **asdict(analysis.inference),
        "families": list(analysis.families),
        "variants": list(analysis.variants),
        "benchmarks": list(analysis.benchmarks),
        "warnings": list(analysis.warnings),
        **{name: _records(table) for name, table in tables.items()},
        "baselines": dict(analysis.source.baselines),
        "contamination": {name: asdict(found) for name, found in analysis.source.contamination.items()},
        "curves": {x.run_id: [list(point) for point in x.curve] for x in analysis.facts if x.curve},
        "grad_norms": {x.run_id: [list(p) for p in x.grad_norms] for x in analysis.facts if x.grad_norms},
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values; what is not estimable is null, as JSON has no nan."""
    return json.loads(table.to_json(orient="records", double_precision=15))
