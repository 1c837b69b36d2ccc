"""The plan that a command asks for: what its flags say of devices, prices and what runs at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from base.errors import UsageError
from ffn_variants.models.devices import visible_gpus
from pretrain.run.folders import RunFolder
from slurm.arguments import SubmitArgs
from slurm.plan.calibration import Calibration
from slurm.plan.devices import Device, find_device
from slurm.plan.lines import Machines, StudyPlan
from slurm.plan.make import plan_study, stages_of
from slurm.plan.speeds import SpeedSource
from slurm.queue.cluster import load_preset
from slurm.study.cells import Cell, trained_cells
from slurm.study.study import Study


def check_plan_flags(options: SubmitArgs) -> None:
    """Refuse flags of a plan that mean nothing, before anything is read.

    Raises:
        UsageError: Naming the flag.
    """
    price = options.price_per_hour
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise UsageError(f"--price-per-hour is {price:g}; give what an hour costs, as 2.5")
    if options.device is not None:
        find_device(options.device)
    if options.calibrate and options.cluster == "slurm":
        raise UsageError(
            "--calibrate times steps on this machine, and jobs of SLURM run elsewhere; call it on a node of "
            "theirs with --cluster local, or leave it out"
        )
    if options.calibrate and options.device is not None:
        raise UsageError("--calibrate measures this machine, and --device takes another's; leave one out")
    for flag in ("price_per_hour", "device", "calibrate"):
        if getattr(options, flag) not in (None, False) and not options.dry_run:
            raise UsageError(f"--{flag.replace('_', '-')} is for a plan; add --dry-run, or leave it out")


def make_plan(study: Study, todo: Sequence[Cell], options: SubmitArgs) -> StudyPlan:
    """Plan what a command would run, as its flags ask."""
    device = find_device(options.device) if options.device else None
    sources: list[SpeedSource] = [device] if device else []
    if options.calibrate:
        cells = [cell for stage in stages_of(study, todo) for cell in trained_cells(stage.cells)]
        untrained = [cell for cell in cells if not RunFolder(cell.run_dir).is_complete]
        sources.append(Calibration(untrained, options.workers))
    return plan_study(study, todo, _machines(options, device), sources, ask_finished=device is None)


def _machines(options: SubmitArgs, device: Device | None) -> Machines:
    """Say what runs share: GPUs and cores here, or jobs of a cluster."""
    price = None if options.price_per_hour is None else abs(options.price_per_hour)  # -0 costs 0
    if options.cluster == "slurm":
        preset = load_preset(options.preset)
        jobs = options.max_running or preset.max_running
        parallel = jobs * options.cells_at_once if jobs else None
        gpus = preset.nodes * preset.gpus_per_node / options.cells_at_once
        return Machines(parallel, gpus, True, price)
    here = len(visible_gpus())
    if device is not None:  # which need not be here
        here = options.workers if device.is_gpu else 0
    gpus = min(1.0, here / options.workers)
    return Machines(options.workers, gpus, False, price)
