"""An archived run: what is left of a finished one without its model and checkpoints, fit for a repository."""

from __future__ import annotations

from dataclasses import dataclass

from base.checksums import FileState
from base.errors import UsageError
from base.records import read_record
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import Completion


@dataclass(frozen=True, kw_only=True)
class Archived:
    """What stands in place of a run's model."""

    weights: str
    """The hash that its scores name (see ``eval.models.identity``), of the model that was left out."""


def read_archived(run: RunFolder) -> Archived | None:
    """Read what stands in place of the model; None for a run that has one, or has neither."""
    return read_record(run.archive_marker, Archived) if run.is_archived else None


def refuse_archived(run: RunFolder) -> None:
    """Refuse what needs the model of a run that has none any more.

    Raises:
        UsageError: Saying how to come by it.
    """
    if run.is_archived:
        raise UsageError(
            f"{run.path} was archived without its model; remove the folder, and the command that trains this "
            "run makes it"
        )


def lasting_states(run: RunFolder, completion: Completion) -> dict[str, FileState]:
    """Return the state of every file that a finished run is to have: of an archived one not its model's."""
    model = f"{run.model_dir.name}/"
    return {
        name: state
        for name, state in completion.files.items()
        if not (run.is_archived and name.startswith(model))
    }
