"""Archived runs of which a study asks more than was archived."""

from __future__ import annotations

from collections.abc import Iterable

from base.errors import UsageError
from pretrain.run.folders import RunFolder
from slurm.study.cells import Cell


def check_archived(cells: Iterable[Cell]) -> None:
    """Refuse to score runs whose models were left out: nothing can be measured of them.

    Args:
        cells: Those that are to be run.

    Raises:
        UsageError: Naming one of them, and how many there are.
    """
    if lacking := [cell for cell in cells if RunFolder(cell.run_dir).is_archived]:
        raise UsageError(
            f"{len(lacking)} runs were archived without their models and lack scores that the study asks "
            f"for, such as {lacking[0].run_dir}; ask for what they have, or remove their folders, and they "
            "are trained here"
        )
