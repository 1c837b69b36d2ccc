"""The report's tables, one function per section, each made from an analysis alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from eval.aggregate import SINGLE_TASK
from eval.report.analysis import Analysis
from eval.report.format import (
    best_of,
    bold,
    count,
    details,
    escape,
    interval,
    millions,
    p_value,
    share,
    signed,
    spread,
    table,
)
from eval.report.names import family_label
from eval.report.sources import RunFacts
from eval.significance import DIFFERENT, POWER, Comparison

BUDGETS = {"params": "parameters", "flops": "FLOPs"}
COMPARISON_HEADER = ("scope", "difference", "interval", "p", "p (Holm)", "g", "detectable", "runs", "verdict")


def scores_section(analysis: Analysis) -> str:
    """Mean, spread over seeds and number of seeds; variants down, benchmarks across."""
    rows = []
    for family in analysis.families:
        columns = [_score_column(analysis, benchmark, family) for benchmark in analysis.benchmarks]
        for variant in analysis.variants:
            rows.append([family_label(family), f"`{variant}`", *(c.get(variant, "-") for c in columns)])
    header = ["family", "variant", *(f"{name} ↑" for name in analysis.benchmarks)]
    return (
        "## Scores\n\n"
        + table(header, rows)
        + "\n\nPercent: mean ± standard deviation over seeds (number of seeds); ↑ higher is better, the "
        "best mean of a family in bold. A benchmark's score is the unweighted mean over its tasks."
    )


def _score_column(analysis: Analysis, benchmark: str, family: str) -> dict[str, str]:
    cells = analysis.cells
    chosen = cells[(cells.benchmark == benchmark) & (cells.family == family)]
    best = best_of(dict(zip(chosen.variant, chosen["mean"], strict=True)))
    return {
        variant: f"{bold(f'{mean:.1f}', variant in best)}{spread(sd)} ({n})"
        for variant, mean, sd, n in zip(
            chosen.variant, chosen["mean"], chosen["sd"], chosen["n"], strict=True
        )
    }


def seeds_section(analysis: Analysis) -> str:
    """Every single score."""
    seeds = sorted(analysis.runs.seed.unique())
    scores = analysis.runs.set_index(["benchmark", "family", "variant", "seed"]).score.to_dict()
    parts = ["### Every seed"]
    for benchmark in analysis.benchmarks:
        rows = []
        for family in analysis.families:
            for variant in analysis.variants:
                values = [scores.get((benchmark, family, variant, seed)) for seed in seeds]
                shown = ["-" if value is None else f"{value:.1f}" for value in values]
                rows.append([family_label(family), f"`{variant}`", *shown])
        header = ["family", "variant", *(f"seed {seed}" for seed in seeds)]
        parts.append(details(f"{benchmark}, percent", table(header, rows)))
    return "\n\n".join(parts)


def differences_section(analysis: Analysis) -> str:
    """Every comparison with everything that is known of it."""
    parts = [
        f"## Differences to `{analysis.baseline}`",
        f"Percentage points with {analysis.confidence:.0%} intervals. *Detectable* is the smallest true "
        f"difference that this test finds with {POWER:.0%} power at the spread seen here, before "
        "correction; g is Hedges' standardised difference; runs counts the two arms.",
    ]
    for benchmark in analysis.benchmarks:
        rows = [
            [f"`{variant}`", *_comparison_cells(comparison)]
            for scope in analysis.scopes(benchmark)
            for variant, comparison in zip(analysis.others, analysis.of(benchmark, scope), strict=True)
        ]
        parts += [f"### {benchmark}", table(["variant", *COMPARISON_HEADER], rows)]
    if analysis.contrasts:
        rows = [[c.benchmark, f"`{c.contrast}`", *_comparison_cells(c)] for c in analysis.contrasts]
        parts += [
            "### Contrasts asked for",
            "Families weigh the same, and so do the variants of a group. Each stands by itself: not "
            "corrected.",
            table(["benchmark", "contrast", *COMPARISON_HEADER], rows),
        ]
    return "\n\n".join(parts)


def _comparison_cells(comparison: Comparison) -> list[str]:
    detectable = comparison.minimum_detectable_effect
    verdict = comparison.verdict
    return [
        family_label(comparison.family),
        signed(comparison.estimate),
        interval(comparison),
        p_value(comparison.p),
        p_value(comparison.p_holm),
        signed(comparison.hedges_g),
        "-" if detectable is None else f"{detectable:.2f}",
        f"{comparison.num_runs_plus} / {comparison.num_runs_minus}",
        f"{verdict}: {comparison.reason}" if comparison.reason else bold(verdict, verdict == DIFFERENT),
    ]


def tasks_section(analysis: Analysis) -> str:
    """Means per task, tasks down and variants across; empty when the source names no tasks."""
    parts = []
    for benchmark in analysis.benchmarks:
        tasks = analysis.tasks[analysis.tasks.benchmark == benchmark]
        if set(tasks.task) == {SINGLE_TASK}:
            continue
        for family in (name for name in analysis.families if name in set(tasks.family)):
            baselines = analysis.source.baselines.get(benchmark, {})
            body = _task_table(tasks[tasks.family == family], analysis.variants, baselines)
            parts.append(details(f"{benchmark}, {family_label(family)}", body))
    if not parts:
        return ""
    text = "Mean over seeds in percent, the best in bold. Untested: among many tasks some best is luck."
    if analysis.source.baselines:
        text += (
            " *Constant answer* is what the one answer scores that does best on the training set: for "
            "accuracy the majority class."
        )
    return "\n\n".join(["## Tasks", text, *parts])


def _task_table(
    tasks: pd.DataFrame, variants: Sequence[str], baselines: Mapping[str, Mapping[str, float]]
) -> str:
    rows = []
    for (group, task, metric), cells in tasks.groupby(["group", "task", "metric"], sort=True):
        means = dict(zip(cells.variant, cells["mean"], strict=True))
        best = best_of(means)
        shown = [bold(f"{means[name]:.1f}", name in best) if name in means else "-" for name in variants]
        row = [str(group), str(task), str(metric).replace("_", " "), *shown]
        if baselines:
            constant = baselines.get(str(task), {}).get(str(metric))
            row.append("-" if constant is None else f"{constant:.1f}")
        rows.append(row)
    header = ["group", "task", "metric ↑", *(f"`{name}`" for name in variants)]
    return table([*header, "constant answer"] if baselines else header, rows)


def training_section(analysis: Analysis, figure: str) -> str:
    """Parameters and held-out loss, where the source is a study's folder and its runs tell them."""
    known = [x for x in analysis.facts if x.eval_loss is not None or x.num_parameters is not None]
    if not known:
        return ""
    rows = [
        row
        for family in analysis.families
        for row in _training_rows(analysis, family, [x for x in known if x.family == family])
    ]
    against = f"against `{analysis.baseline}`"
    header = ["family", "variant", "parameters", against, "of them FFN", "held-out loss ↓"]
    text = (
        "Held-out loss at the end of training in nats per token: mean ± standard deviation over seeds "
        "(number of seeds). Families have different objectives, so losses compare within a family only."
    )
    parts = ["## Size and held-out loss", table(header, rows), text, figure]
    return "\n\n".join(part for part in parts if part)


def budget_section(analysis: Analysis) -> str:
    """The FFN's width, what chose it and what it costs; empty where no run tells."""
    known = {(x.family, x.variant): x for x in reversed(analysis.facts) if x.intermediate_size is not None}
    if not known:
        return ""
    rows = [
        [family_label(family), f"`{variant}`", *_budget_cells(facts, known.get((family, analysis.baseline)))]
        for family in analysis.families
        for variant in analysis.variants
        if (facts := known.get((family, variant)))
    ]
    against = f"against `{analysis.baseline}`"
    header = ["family", "variant", "FFN width", "matched in"]
    header += ["FFN parameters", against, "FFN MFLOP", against, "MFLOP", against]
    text = (
        "MFLOP are those of one token's forward pass, two operations for each multiply-add of the matrix "
        "products: of all FFNs and of the whole model, its output head at every token and attention over a "
        "full row included. *Matched in* says what decided the width of the FFN; - is a width as given."
    )
    return f"### FFN budget\n\n{table(header, rows)}\n\n{text}"


def _budget_cells(facts: RunFacts, base: RunFacts | None) -> list[str]:
    cells = [count(facts.intermediate_size), BUDGETS.get(facts.ffn_budget or "", "-")]
    for name, shown in (
        ("num_ffn_parameters", count),
        ("ffn_flops_per_token", millions),
        ("flops_per_token", millions),
    ):
        value = getattr(facts, name)
        cells += [shown(value), share(value, getattr(base, name, None))]
    return cells


def _training_rows(analysis: Analysis, family: str, known: Sequence[RunFacts]) -> list[list[str]]:
    runs = {name: [x for x in known if x.variant == name] for name in analysis.variants}
    losses = {name: [x.eval_loss for x in group if x.eval_loss is not None] for name, group in runs.items()}
    best = best_of({name: float(np.mean(loss)) for name, loss in losses.items() if loss}, lower=True)
    sizes = {name: next((x.num_parameters for x in group), None) for name, group in runs.items()}
    rows = []
    for name, group in runs.items():
        if not group:
            continue
        loss, shown = losses[name], "-"
        if loss:
            sd = float(np.std(loss, ddof=1)) if len(loss) > 1 else float("nan")
            shown = f"{bold(f'{np.mean(loss):.3f}', name in best)}{spread(sd, 3)} ({len(loss)})"
        relative = share(sizes[name], sizes[analysis.baseline])
        ffn = count(group[0].num_ffn_parameters)
        rows.append([family_label(family), f"`{name}`", count(sizes[name]), relative, ffn, shown])
    return rows


def design_section(analysis: Analysis) -> str:
    """What was run and what is missing."""
    plan = analysis.source.plan
    origin = (
        "of those planned in study.yaml" if plan.written else "judged by the variants and seeds that occur"
    )
    counts = analysis.cells.set_index(["benchmark", "family", "variant"])["n"].to_dict()
    rows = []
    for benchmark in analysis.benchmarks:
        for family in analysis.families:
            shown = [str(counts.get((benchmark, family, name), 0)) for name in analysis.variants]
            rows.append([benchmark, family_label(family), *shown])
    parts = [
        "## Design",
        "Runs per cell; a run is one pretraining with its own seed.",
        table(["benchmark", "family", *(f"`{name}`" for name in analysis.variants)], rows),
        _items(analysis),
    ]
    if len(analysis.missing):
        columns = [analysis.missing[name].astype(str) for name in analysis.missing.columns]
        rows = [[b, family_label(f), f"`{v}`", seeds] for b, f, v, seeds in zip(*columns, strict=True)]
        parts += [f"Missing scores, {origin}:", table(["benchmark", "family", "variant", "seeds"], rows)]
    else:
        parts.append(f"No score is missing {origin}.")
    origins = Counter(facts.trained_with for facts in analysis.facts if facts.trained_with)
    made = [f"- trained with {origin} (runs: {runs})" for origin, runs in sorted(origins.items())]
    parts.append("\n".join([*made, *(f"- {escape(note)}" for note in analysis.notes)]))
    return "\n\n".join(part for part in parts if part)


def _items(analysis: Analysis) -> str:
    rows = []
    for benchmark in analysis.benchmarks:
        tasks = analysis.tasks[analysis.tasks.benchmark == benchmark].drop_duplicates("task")
        if set(tasks.task) == {SINGLE_TASK}:
            continue
        low, high = int(tasks.n_items.min()), int(tasks.n_items.max())
        each = count(low) if low == high else f"{low:,} to {high:,}"
        metrics = ", ".join(sorted(set(tasks.metric))).replace("_", " ")
        row = [benchmark, str(len(tasks)), count(int(tasks.n_items.sum())), each, metrics]
        found = analysis.source.contamination.get(benchmark)
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
