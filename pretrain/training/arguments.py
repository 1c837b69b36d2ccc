"""What the training command is given."""

from __future__ import annotations

from pathlib import Path

from base.command_line import Positional
from pretrain.config import RunConfig


class TrainArgs(RunConfig):
    """Pretrain a model."""

    config_file: Positional[Path | None] = None
    """YAML file, or the name of a shipped one, with values of the flags below, which win over it."""
    dry_run: bool = False
    """Print the resolved configuration, parameter counts, token budget and run folder, and write nothing."""
    seeds: tuple[str, ...] = ()
    """Train each of these in place of --seed, one after the other: 1,2,3 or 1-3."""
