"""A study's plan as a reader sees it."""

from __future__ import annotations

from collections.abc import Sequence

from base.progress import duration
from base.table import format_table
from slurm.plan.lines import Machines, PlanLine, PlanStage, StudyPlan, Totals

MANY = 10
"""Of fewer hours, decimals are told."""


def render(plan: StudyPlan) -> str:
    """Write the plan: a table for each stage, and totals of every stage, of its work, and of all."""
    if not plan.stages:
        return "nothing to run"
    lines = ["\nplan, of what is not done yet:"]
    for stage in plan.stages:
        if stage.is_certain or len(plan.stages) == 1:
            lines += _stage(stage)
    lines += ["", *_totals(plan), *_notes(plan)]
    return "\n".join(lines)


def _stage(stage: PlanStage) -> list[str]:
    of_a_run = ("tokens a run", "PFLOP a run", "time a run")
    header = ("", "family", "variant", "at", "runs", "parameters", *of_a_run)
    rows = [header, *(_row(line) for line in stage.lines)]
    told = [f"\n{_stage_name(stage)}:", *_columns(rows)]
    if not any(line.work == "training" for line in stage.lines):
        told.append("  no training: all of these cells are trained and have only to be evaluated")
    return told


def _row(line: PlanLine) -> tuple[str, ...]:
    parameters, tokens = ("-" if x is None else f"{x:,}" for x in (line.parameters, line.tokens))
    flops = "-" if line.flops is None else petaflops(line.flops)
    hours = "-"
    if line.hours:
        hours = f"{duration(3600 * line.hours.hours)} ({line.hours.source})"
    more = f"  [{line.note}]" if line.note else ""
    place = line.place or "-"
    counts = (f"{line.runs:,}", parameters, tokens, flops)
    return (line.work, line.family, line.variant, place, *counts, hours + more)


def _totals(plan: StudyPlan) -> list[str]:
    named = [(_stage_name(stage), plan.of_stage(stage)) for stage in plan.stages]
    named += [("all training", plan.of_work("training")), ("all evaluation", plan.of_work("evaluation"))]
    named.append(("in all", plan.in_all()))
    if any(not stage.is_certain for stage in plan.stages):
        named.append(("at most", plan.in_all(most=True)))
    priced = plan.machines.price_per_hour is not None
    header = ["total", "runs", "tokens", "PFLOP", "run hours", "GPU-hours", "wall hours"]
    rows = [tuple([*header, "price"] if priced else header)]
    rows += [_total_row(name, total, priced) for name, total in named]
    return _columns(rows)


def _stage_name(stage: PlanStage) -> str:
    return stage.name if stage.is_certain else f"+ at most: {stage.name}"


def _total_row(name: str, total: Totals, priced: bool) -> tuple[str, ...]:
    is_known = total.hours > 0 or not total.unknown
    at_least = "+" if is_known and total.unknown else ""
    numbers = (total.hours, total.gpu_hours, total.wall_hours)
    hours = [_hours(number) + at_least if is_known else "-" for number in numbers]
    price = [f"{total.price:,.2f}{at_least}" if is_known and total.price is not None else "-"]
    flops = petaflops(total.flops) if total.flops else "-"
    return (name, f"{total.runs:,}", f"{total.tokens:,}", flops, *hours, *(price if priced else []))


def _notes(plan: StudyPlan) -> list[str]:
    total = plan.in_all()
    notes = [f"  {_shared(plan.machines)}"]
    if total.unknown:
        notes.append(
            f"  hours of {total.unknown} runs are not known, or not all: no finished run below the runs "
            "folder has their sizes; --calibrate trains some steps of each, --device NAME asks a table"
        )
    if total.wall_hours:
        notes.append(f"  about {duration(3600 * total.wall_hours)} from the first run to the last")
    if any(line.hours and not line.hours.is_measured for stage in plan.stages for line in stage.lines):
        notes.append("  hours that are called an estimate or predicted were not measured")
    return [*notes, *(f"  note: {note}" for note in plan.notes)]


def _shared(machines: Machines) -> str:
    runs = "all runs of a stage" if machines.parallel is None else f"{machines.parallel} runs"
    words = f"wall hours: {runs} at the same time, each as fast as alone"
    if machines.price_per_hour is None:
        return words
    of = "GPU-hour" if machines.gpus_per_run else "hour of a machine"
    return f"{words}; price: {machines.price_per_hour:g} per {of}"


def petaflops(flops: float) -> str:
    """Write 10^15 floating-point operations, with three digits where they are few."""
    value = flops / 1e15
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours >= MANY else f"{hours:.2f}" if hours >= 0.1 else f"{hours:.3g}"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"  {line}" for line in format_table(rows).splitlines()]
