"""What the training command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from pydantic import Field
from tyro.conf import FlagCreatePairsOff, Positional

from base.command_line import CommandLine, Section, check
from pretrain.config import RunConfig
from pretrain.config_sources import merge_sources


class TrainArgs(Section):
    """Pretrain a model."""

    config_file: Annotated[Path | None, Positional, tyro.conf.arg(metavar="[CONFIG.yaml]")] = None
    """YAML file, or the name of a shipped one, with values of the flags below, which win over it."""
    dry_run: Annotated[bool, FlagCreatePairsOff] = False
    """Print the resolved configuration, parameter counts, token budget and run folder, and write nothing."""
    seeds: tuple[str, ...] = ()
    """Train each of these in place of --seed, one after the other: 1,2,3 or 1-3."""
    run: Annotated[RunConfig, tyro.conf.arg(name="")] = Field(RunConfig())
    """Everything that defines a run."""


def config_path(line: CommandLine[TrainArgs]) -> Path | None:
    """Return the YAML file that a command line names."""
    path = line.typed.values.get(("config_file",))
    return None if path is None else Path(path)


def shown_defaults(line: CommandLine[TrainArgs]) -> TrainArgs:
    """Return what ``--help`` shows: the values of the YAML file, with those for the variant asked for.

    Raises:
        UsageError: If the file is unusable.
    """
    sources = merge_sources(config_path(line), None, line.typed.below("run"))
    return TrainArgs(run=check(RunConfig, sources.values, source=sources.name))
