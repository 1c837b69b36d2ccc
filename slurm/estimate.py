"""What a study costs: tokens and FLOPs by its configs, hours by finished runs of the same sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from base.files import mapping
from base.records import peek_record
from pretrain.config import RunConfig
from pretrain.data.prepare import cached_summary
from pretrain.model.build import build
from pretrain.model.costs import cost_facts
from pretrain.resolution import resolve
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.run_dir import read_run
from pretrain.training.dry_run import token_budget, vocab_size
from slurm.cells import Cell, RunCell, trained_cells

# Forward and backward pass: twice the forward's operations go back.
TRAINING_OVER_FORWARD = 3


@dataclass(frozen=True)
class Speed:
    """Training speed of finished runs of one shape."""

    tokens_per_s: float
    device: str
    num_runs: int


def describe_cost(cells: Sequence[Cell]) -> str:
    """Say what is to be trained, a line for each family and variant; evaluation comes on top."""
    if not cells:
        return "nothing to run"
    untrained = [cell for cell in trained_cells(cells) if not RunFolder(cell.run_dir).is_complete]
    if not untrained:
        return "\nno training: all of these cells are trained and have only to be evaluated"
    groups: dict[tuple[str, str], list[RunCell]] = {}
    for cell in untrained:
        groups.setdefault((cell.config.family, cell.config.model.ffn), []).append(cell)
    header = (
        f"  {'family':<8} {'variant':<18} {'runs':>4} {'tokens a run':>14} {'PFLOP a run':>12}  hours a run"
    )
    lines = [
        f"\ncost of training {len(untrained)} of these {len(cells)} cells, evaluation not counted:",
        header,
    ]
    total, total_flops, unknown = 0.0, 0.0, 0
    for (family, variant), group in groups.items():
        tokens, speed = token_budget(group[0].config), measured_speed(group[0])
        flops = _flops(group[0].config, tokens) if tokens else None
        hours = tokens / speed.tokens_per_s / 3600 if tokens and speed else None
        total, total_flops = total + (hours or 0) * len(group), total_flops + (flops or 0) * len(group)
        unknown += len(group) if hours is None else 0
        shown = f"{hours:.2f} ({speed.device}; runs measured: {speed.num_runs})" if hours and speed else "-"
        lines.append(
            f"  {family:<8} {variant:<18} {len(group):>4} {f'{tokens:,}' if tokens else '-':>14} "
            f"{_petaflops(flops) if flops else '-':>12}  {shown}"
        )
    if total_flops:
        lines.append(f"  {_petaflops(total_flops)} PFLOP of training in all, forward and backward")
    if total:
        lines.append(f"  {total:.1f} hours of training on the devices named, at the speed measured there")
    if unknown:
        lines.append(
            f"  {unknown} cells of sizes that no finished run below the runs folder has: train one of each "
            "and call this again for their hours"
        )
    return "\n".join(lines)


def measured_speed(cell: RunCell) -> Speed | None:
    """Average the speed of finished runs of the same family, model and row length, in any study."""
    config = resolve(cell.config)
    speeds: dict[str, list[float]] = {}
    runs_dir = cell.study_dir.parent
    for study in sorted(runs_dir.glob("*/")):
        for run in StudyFolder(study).run_folders(config.family, config.model.ffn):
            if run.is_complete and (found := _speed_of(run, config)):
                speeds.setdefault(found[0], []).append(found[1])
    if not speeds:
        return None
    device, values = max(speeds.items(), key=lambda item: len(item[1]))
    return Speed(sum(values) / len(values), device, len(values))


def _speed_of(run: RunFolder, config: RunConfig) -> tuple[str, float] | None:
    record = peek_record(run.provenance_file)
    speed = mapping(record.get("results")).get("mean_tokens_per_s")
    if not isinstance(speed, int | float) or speed <= 0:
        return None
    other = resolve(read_run(run.path))
    is_same = (other.model, other.data.block_size) == (config.model, config.data.block_size)
    return (str(record.get("device", "a device")), float(speed)) if is_same else None


def _petaflops(flops: float) -> str:
    petaflops = flops / 1e15
    return f"{petaflops:,.0f}" if petaflops >= 100 else f"{petaflops:.3g}"


def _flops(config: RunConfig, tokens: int) -> float:
    size, _ = vocab_size(config, cached_summary(config))
    facts = cost_facts(config, build(config, size))
    return TRAINING_OVER_FORWARD * facts["flops_per_token"]["total"] * tokens
