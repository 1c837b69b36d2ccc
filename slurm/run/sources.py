"""Cells whose runs were trained through another source of their variant than the present one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ffn_variants.registry import is_registered
from ffn_variants.source import cure, describe_change
from pretrain.run.folders import RunFolder
from pretrain.run.recorded import recorded_source
from pretrain.run.variant_source import source_change
from slurm.study.cells import Cell, trained_cells


def other_sources(cells: Iterable[Cell]) -> dict[str, str]:
    """Say by run id what is wrong with cells that are neither done nor to be run.

    Of a variant in a file that this process did not load, nothing is known.
    """
    known = [cell for cell in trained_cells(cells) if not cell.own or is_registered(cell.own.name)]
    changes = {cell.run_id: source_change(cell.run_dir, cell.config.model.ffn) for cell in known}
    return {run_id: change for run_id, change in changes.items() if change}


def other_source_lines(cells: Iterable[Cell]) -> list[str]:
    """Tell of such cells in one line for each variant and source."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in trained_cells(cells):
        recorded = recorded_source(RunFolder(cell.run_dir)).fingerprint
        groups[cell.config.model.ffn, recorded].append(cell)
    return [
        f"left alone: {ffn}: {len(group)} runs were trained through {describe_change(ffn, recorded)}, such "
        f"as {group[0].run_dir}; remove their folders to train them anew, {cure(recorded)}"
        for (ffn, recorded), group in groups.items()
    ]
