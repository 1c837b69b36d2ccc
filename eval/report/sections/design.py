"""What was run, what is missing, and every data check."""

from __future__ import annotations

from collections import Counter

from eval.report.analysis import Analysis
from eval.report.markdown import count, escape, table
from eval.report.names import family_label
from eval.results.run_scores import SINGLE_TASK


def design_section(analysis: Analysis) -> str:
    """Runs per arm, items per benchmark, missing scores."""
    design = analysis.source.design
    origin = (
        "of those planned in study.yaml" if design.written else "judged by the variants and seeds that occur"
    )
    counts = analysis.arms.set_index(["benchmark", "family", "variant"])["n"].to_dict()
    rows = []
    for benchmark in analysis.benchmarks:
        for family in analysis.families:
            shown = [str(counts.get((benchmark, family, name), 0)) for name in analysis.variants]
            rows.append([str(benchmark), family_label(family), *shown])
    parts = [
        "## Design",
        "Runs per cell; a run is one pretraining with its own seed"
        + (", here under each head." if analysis.is_of_heads else "."),
        table(["benchmark", "family", *(f"`{name}`" for name in analysis.variants)], rows),
        _items(analysis),
    ]
    if len(analysis.missing):
        columns = [analysis.missing[name] for name in analysis.missing.columns]
        rows = [[str(b), family_label(f), f"`{v}`", seeds] for b, f, v, seeds in zip(*columns, strict=True)]
        parts += [f"Missing scores, {origin}:", table(["benchmark", "family", analysis.noun, "seeds"], rows)]
    else:
        parts.append(f"No score is missing {origin}.")
    origins = Counter(facts.trained_with for facts in analysis.facts if facts.trained_with)
    parts.append("\n".join(f"- trained with {made} (runs: {runs})" for made, runs in sorted(origins.items())))
    return "\n\n".join(part for part in parts if part)


def checks_section(analysis: Analysis) -> str:
    """Every warning in full."""
    if not analysis.warnings:
        return "### Data checks\n\nNothing was found: no repeated, copied, far-off or unbalanced scores."
    return "### Data checks\n\n" + "\n".join(f"- {escape(note)}" for note in analysis.warnings)


def _items(analysis: Analysis) -> str:
    rows = []
    for benchmark in analysis.benchmarks:
        tasks = analysis.tasks[analysis.tasks.benchmark == benchmark].drop_duplicates("task")
        if set(tasks.task) == {SINGLE_TASK}:
            continue
        low, high = int(tasks.n_items.min()), int(tasks.n_items.max())
        each = count(low) if low == high else f"{low:,} to {high:,}"
        metrics = ", ".join(sorted(set(tasks.metric))).replace("_", " ")
        row = [str(benchmark), str(len(tasks)), count(int(tasks.n_items.sum())), each, metrics]
        found = analysis.source.contamination.get(benchmark.name)
        seen = "-" if found is None else f"{found.num_found:,} of {found.num_texts:,} texts"
        rows.append([*row, seen])
    header = ["benchmark", "tasks", "items", "items per task", "metrics", "seen in training"]
    if not rows:
        return ""
    text = (
        "*Seen in training*: texts of four or more words that stand in one training document word for word, "
        "of those looked for; a text that several items share counts once."
    )
    return table(header, rows) + (f"\n\n{text}" if analysis.source.contamination else "")
