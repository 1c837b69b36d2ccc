"""Size, cost and the course of training, where the source is a study's folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.report.analysis import Analysis
from eval.report.markdown import best_of, bold, count, details, millions, share, spread, table
from eval.report.names import family_label
from eval.report.run_facts import RunFacts
from eval.report.sections.context import Context
from eval.significance.arms import Key
from eval.significance.axes import Family

BUDGETS = {"params": "parameters", "flops": "FLOPs"}


def training_section(analysis: Analysis, context: Context) -> str:
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
    norms = context.figure("gradient-norms")
    parts = ["## Training", table(header, rows), text, details("Gradient norms", norms) if norms else ""]
    return "\n\n".join(part for part in parts if part)


def cost_section(analysis: Analysis, context: Context) -> str:
    """Quality against what it costs; empty where no run tells its cost."""
    figures = [figure for figure in context.figures_of("cost", analysis) if figure]
    rows = [
        [family_label(family), f"`{variant}`", *_cost_cells(runs)]
        for family in analysis.families
        for variant in analysis.variants
        if (runs := [x for x in analysis.facts if (x.family, x.variant) == (family, variant)])
    ]
    if not any(cell != "-" for row in rows for cell in row[2:]):
        return ""
    header = ["family", "variant", "parameters", "MFLOP a token", "tokens/s", "hours", "peak memory (MB)"]
    text = (
        "Means over seeds. *MFLOP a token*: forward pass. *Tokens/s* and *hours* are those of pretraining on "
        "whatever machine it ran, which several runs may have shared."
    )
    return "\n\n".join(["## Quality and cost", table(header, rows), text, *figures])


def _cost_cells(runs: Sequence[RunFacts]) -> list[str]:
    return [
        count(runs[0].num_parameters),
        millions(runs[0].flops_per_token),
        _mean([x.tokens_per_s for x in runs], 0),
        _mean([x.train_hours for x in runs], 2),
        _mean([x.peak_memory_mb for x in runs], 0),
    ]


def _mean(values: Sequence[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):,.{digits}f}" if known else "-"


def budget_section(analysis: Analysis) -> str:
    """The FFN's width, what chose it and what it costs; empty where no run tells."""
    known: dict[Key, RunFacts] = {
        (x.family, x.variant): x for x in reversed(analysis.facts) if x.intermediate_size is not None
    }
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


def _training_rows(analysis: Analysis, family: Family, known: Sequence[RunFacts]) -> list[list[str]]:
    runs = {name: [x for x in known if x.variant == name] for name in analysis.variants}
    losses = {name: [x.eval_loss for x in group if x.eval_loss is not None] for name, group in runs.items()}
    best = best_of({name: float(np.mean(loss)) for name, loss in losses.items() if loss}, True, 3)
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
