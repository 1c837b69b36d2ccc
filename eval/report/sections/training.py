"""Size and cost, where the source is a study's folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from base.progress import duration
from eval.report.analysis import Analysis
from eval.report.curves.equal_cost import clock, training_times
from eval.report.document.markdown import count, details, millions, share, table
from eval.report.document.names import family_label
from eval.report.inputs.run_facts import SHOWN, RunFacts
from eval.report.sections.context import Context
from eval.results.rows import some_of
from eval.significance.arms import Key

BUDGETS = {"params": "parameters", "active-params": "parameters met by a token", "flops": "FLOPs"}


def gradient_norms(context: Context) -> str:
    """The figure of gradient norms, folded away; empty where no run logged them."""
    figure = context.figure("gradient-norms")
    return details("Gradient norms", figure) if figure else ""


def cost_section(analysis: Analysis, context: Context) -> str:
    """Quality against what it costs, size and speed; empty where no run tells its cost."""
    sizes: dict[Key, int] = {
        (x.family, x.variant): x.num_parameters for x in reversed(analysis.facts) if x.num_parameters
    }
    rows = [
        [family_label(family), f"`{variant}`", *_cost_cells(runs, sizes.get((family, analysis.baseline)))]
        for family in analysis.families
        for variant in analysis.variants
        if (runs := [x for x in analysis.facts if (x.family, x.variant) == (family, variant)])
    ]
    if not any(cell != "-" for row in rows for cell in row[2:]):
        return ""
    header = [analysis.stratum, "variant", "parameters", f"against `{analysis.baseline}`", "of them FFN"]
    header += ["MFLOP a token", "tokens/s", "hours", "peak memory (MB)"]
    text = (
        "Means over seeds. *MFLOP a token*: forward pass. *Tokens/s* and *hours* are those of pretraining on "
        "whatever machine it ran, which several runs may have shared."
    )
    text += _slowed(analysis)
    figure = "" if analysis.costs.benchmark else context.figure("cost")  # it stands with "Equal what?"
    parts = ["## Quality and cost", figure, _in_all(analysis), table(header, rows), text]
    parts += [_times(analysis), _budget(analysis)]
    return "\n\n".join(part for part in parts if part)


def _in_all(analysis: Analysis) -> str:
    """Say how many runs were trained, those of tuning too, and for how long; empty where no run tells."""
    compared = {x.run_id: x for x in analysis.facts}
    others = {x.run_id: x for own in analysis.source.stages.values() for x in own} | compared
    hours = [x.train_hours for x in others.values() if x.train_hours is not None]
    if not hours:
        return ""
    some = f", {len(compared):,} of which are compared" if len(others) > len(compared) else ""
    time = duration(3600 * sum(hours))
    return f"{len(others):,} runs were trained{some}: {time} of training, one after the other."


def _slowed(analysis: Analysis) -> str:
    """Name the runs whose time is not their variant's."""
    slowed = [x.run_id for x in analysis.facts if x.is_compile_failed]
    if not slowed:
        return ""
    return (
        " In some runs compiling failed, so that at least a part of them was eager: their *tokens/s* and "
        f"*hours* are not those of compiled runs ({some_of(slowed, SHOWN)})."
    )


def _cost_cells(runs: Sequence[RunFacts], base: int | None) -> list[str]:
    return [
        count(runs[0].num_parameters),
        share(runs[0].num_parameters, base),
        count(runs[0].num_ffn_parameters),
        millions(runs[0].flops_per_token),
        _mean([x.tokens_per_s for x in runs], 0),
        _mean([x.train_hours for x in runs], 2),
        _mean([x.peak_memory_mb for x in runs], 0),
    ]


def _mean(values: Sequence[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):,.{digits}f}" if known else "-"


def _times(analysis: Analysis) -> str:
    """Training time with its spread over runs; empty where no run tells."""
    found = training_times(analysis.facts)
    if found.empty:
        return ""
    rows = [
        [
            family_label(x["family"]) if x["family"] else "all",
            f"`{x['variant']}`" if x["variant"] else "all",
            str(x["n"]),
            clock(x["mean_s"]) + ("" if np.isnan(x["sd_s"]) else f" ± {clock(x['sd_s'])}"),
        ]
        for x in found.to_dict("records")
    ]
    text = (
        "Wall time of pretraining, mean ± standard deviation over runs (n - 1). Times compare only between "
        "runs that had the same machine to themselves: on different or shared ones they say what a run cost, "
        "not how fast a variant is."
    )
    return details("Training time", f"{table([analysis.stratum, 'variant', 'runs', 'time'], rows)}\n\n{text}")


def _budget(analysis: Analysis) -> str:
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
    header = [analysis.stratum, "variant", "FFN width", "matched in"]
    header += ["FFN parameters", against, "FFN MFLOP", against, "MFLOP", against]
    text = (
        "MFLOP are those of one token's forward pass, two operations for each multiply-add of the matrix "
        "products: of all FFNs and of the whole model, its output head at every token and attention over a "
        "full row included. *Matched in* says what decided the width of the FFN; - is a width as given."
    )
    return details("FFN budget", f"{table(header, rows)}\n\n{text}")


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
