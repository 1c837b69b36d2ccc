"""What was run, what is missing, and every data check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from report.analysis import Analysis
from report.document.markdown import escape, family_label, span, table, title
from report.part import Page, Part, Section


def section(analysis: Analysis, has_design: bool, page: Page) -> Section:
    """How many runs there are, which are missing, and what made them."""
    design = analysis.source.design
    plan = (
        "of those planned in study.yaml" if design.written else "judged by the variants and seeds that occur"
    )
    parts = [_runs(analysis)]
    if len(analysis.missing):
        columns = [analysis.missing[name] for name in analysis.missing.columns]
        rows = [[title(b), family_label(f), f"`{v}`", seeds] for b, f, v, seeds in zip(*columns, strict=True)]
        parts += [
            f"**Missing scores, {plan}**",
            table(["metric", analysis.stratum, analysis.noun, "seeds"], rows),
        ]
    else:
        parts.append(f"No score is missing {plan}.")
    parts.append(_formulas(analysis))
    origins = Counter(facts.trained_with for facts in analysis.facts if facts.trained_with)
    trained = [f"- trained with {origin} (runs: {number})" for origin, number in sorted(origins.items())]
    parts += ["\n".join(trained), _warnings(analysis)]
    return Section(title="Design and data checks", summary="", body="\n\n".join(filter(None, parts)))


def tables(analysis: Analysis, has_design: bool) -> Mapping[str, pd.DataFrame]:
    """Return what is missing, and what each run's folder tells."""
    facts = pd.DataFrame(map(vars, analysis.facts))
    unlisted = ["places", "curve", "grad_norms", "unusable"]
    return {"missing": analysis.missing, "training": facts.drop(columns=unlisted, errors="ignore")}


def _warnings(analysis: Analysis) -> str:
    if not analysis.warnings:
        return "Data checks: found no repeated scores, copies, outliers or uneven numbers of runs."
    return "\n".join(["**Data checks**", "", *(f"- {escape(note)}" for note in analysis.warnings)])


def _runs(analysis: Analysis) -> str:
    """Say how many runs the arms have."""
    definition = "a run is one pretraining with its own seed"
    definition += ", here under each head" * analysis.is_of_heads
    counts = analysis.arms.set_index(["benchmark", "family", "variant"])["n"].to_dict()
    keys = [(b, f, v) for b in analysis.benchmarks for f in analysis.families for v in analysis.variants]
    numbers = span((counts.get(key, 0) for key in keys), "d")
    if " to " not in numbers:
        families, variants = len(analysis.families), len(analysis.variants)
        each = (
            f"{families} {analysis.stratum if families == 1 else analysis.strata}, "
            f"{variants} {analysis.noun}s, "
            f"{len(analysis.benchmarks)} outcome{'s' if analysis.benchmarks[1:] else ''}"
        )
        return f"{numbers} runs in every arm ({each}); {definition}."
    return f"{definition[0].upper()}{definition[1:]}. Runs per arm: {numbers}, each under *Scores*."


def _formulas(analysis: Analysis) -> str:
    """What the variants compute and where that is from, as their runs' records say; each once."""
    facts = analysis.facts if analysis.factor == "ffn" else ()
    formulas = dict.fromkeys((str(one.variant), one.formula, one.reference) for one in facts if one.formula)
    places = {str(name): place for place, name in enumerate(analysis.variants)}
    rows = [
        [f"`{text.replace('`', chr(39))}`" if text else "-" for text in formula]
        for formula in sorted(formulas, key=lambda formula: places.get(formula[0], len(places)))
    ]
    return (
        "**Formulas of the variants**\n\n" + table(["variant", "formula", "reference"], rows) if rows else ""
    )


PART = Part(name="design", section=section, tables=tables)
