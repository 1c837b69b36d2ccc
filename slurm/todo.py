"""Which cells of a study a command has to run, and which it must not."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from base.config_input import read_yaml
from base.errors import OccupiedError, UsageError
from base.files import mapping, sole_holder
from base.printing import first_few
from base.records import peek_record
from base.run.folder_names import RunFolder, StudyFolder
from base.run.manifest import recorded_texts
from eval.work_units import is_evaluated
from ffn_variants.names import is_registered
from pretrain.data.prepare import tokens_fingerprint
from pretrain.run.run_folder import is_finished
from scores.stages import TUNE
from slurm.cell_state import CellState, survey
from slurm.study.cells import BackboneCell, Cell, RunCell, trained_cells
from slurm.study.study import Study

Item = TypeVar("Item")


@dataclass(frozen=True)
class Todo:
    """Where every cell of a study stands, and which of them a command is to run."""

    states: Mapping[str, CellState]
    cells: tuple[Cell, ...]


def sole_submitter(study_dir: Path) -> AbstractContextManager[None]:
    """Keep a second command from running or handing in the same cells, which would be in vain.

    Raises:
        OccupiedError: On entering, if another command of this study is at work.
    """
    at_work = OccupiedError(
        f"{study_dir}: another command of this study is at work; it does all that is missing, "
        "so nothing was submitted"
    )
    return sole_holder(StudyFolder(study_dir).submit_lock_file, at_work)


def find_todo(study: Study, retry_failed: bool) -> Todo:
    """Leave out what is done, at work or queued, and what failed by itself unless it is to be tried again.

    What was trained through another source of its variant is neither done nor run again: it has failed.

    What runs here though no other command can be at work is to be run: its worker's command was killed, and
    it saves and ends.
    """
    states = dict(survey(study.folder, [cell.run_id for cell in study.cells]))
    cells = []
    for cell in study.cells:
        state = states[cell.run_id]
        if state.name == "queued" or (state.name == "running" and state.job):
            continue
        if change := _other_source(cell):
            states[cell.run_id] = replace(state, name="failed", error=change)
        elif is_done(cell):
            states[cell.run_id] = replace(state, name="done", error="")
        elif state.name != "failed" or retry_failed:
            cells.append(cell)
    return Todo(states, tuple(cells))


def _other_source(cell: Cell) -> str | None:
    """Say through which other source of its variant a run was trained; None for the same.

    Of a variant in a file that this process did not load, nothing is known.
    """
    if not isinstance(cell, RunCell) or (cell.variant_file and not is_registered(cell.variant_file.name)):
        return None
    if not cell.run_dir.exists():
        return None
    from pretrain.run.provenance import source_change  # torch, without which a plan is shown

    return source_change(cell.run_dir, cell.config.model.ffn)


def is_done(cell: Cell) -> bool:
    """Whether a cell has a model and every score that the study asks for.

    A tuning run that diverged is done as well: its rate is as bad as can be. A cell whose files cannot be
    read is not: running it tells why, and stops no other.
    """
    run = RunFolder(cell.run_dir)
    if cell.stage == TUNE and run.has_diverged:
        return True
    try:
        has_model = run.is_backbone if isinstance(cell, BackboneCell) else is_finished(cell.run_dir)
        return has_model and is_evaluated(cell.run_dir, cell.evaluation)
    except (UsageError, OSError):
        return False


def in_parts(items: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    """Cut a list: cells into jobs, as those of a job share one start, or jobs into arrays."""
    return [tuple(items[i : i + size]) for i in range(0, len(items), size)]


def unfinished(study: Study) -> list[tuple[Cell, CellState]]:
    """Return the cells that are not done, whoever was to do them, with their states."""
    states = find_todo(study, retry_failed=False).states
    return [(cell, states[cell.run_id]) for cell in study.cells if states[cell.run_id].name != "done"]


def describe_unfinished(cells: Iterable[tuple[Cell, CellState]]) -> list[str]:
    """Say why cells are not done; those with the same reason in one line, whatever folders it names."""
    groups: dict[str, list[tuple[Cell, str]]] = defaultdict(list)
    for cell, state in cells:
        reason = f"{state.name}: {state.error}" if state.error else state.name
        line = f"{reason} (log: {state.log or 'none'})"
        groups[reason.replace(str(cell.run_dir), "").replace(cell.run_id, "")].append((cell, line))
    lines = []
    for group in groups.values():
        labels = first_few([cell.label for cell, _ in group], 1)
        lines.append(f"not done: {labels}: {group[0][1]}")
    return lines


def check_same_texts(study: Study, todo: Todo) -> None:
    """Refuse to train more runs of a study whose texts are others than its finished runs were trained on.

    Files may have changed under their names, or the runs may have come from an archive. Finished runs of
    other seeds and variants than those that are asked for now count too.

    Raises:
        UsageError: Naming such a run and the corpus.
    """
    due = [cell for cell in trained_cells(todo.cells) if not RunFolder(cell.run_dir).has_marker]
    data = {_corpus(cell.config.data.model_dump(mode="json")): cell.config.data for cell in due}
    fingerprints = {corpus: tokens_fingerprint(config) for corpus, config in data.items()}
    for run in StudyFolder(study.folder).run_folders() if due else ():
        before = recorded_texts(run) if run.has_marker else None
        now = fingerprints.get(_corpus(_data_of(run))) if before else None
        if now and before != now:
            corpus = peek_record(run.provenance_file).get("corpus", "its corpus")
            raise UsageError(
                f"{run.path} was trained on other texts than {corpus} holds now (fingerprint {before}, now "
                f"{now}), so new runs could not be compared with it; put the texts back, or give the study "
                "another name"
            )


def trained_files(run: RunFolder) -> dict[str, list[str]]:
    """Return the files that a run was trained on and judged on, as its config names them."""
    data = _data_of(run)
    return {name: list(data.get(name) or ()) for name in ("train_files", "validation_files")}


def _data_of(run: RunFolder) -> dict[str, Any]:
    """Read what a run's config says of its data; nothing where it cannot be read."""
    with suppress(UsageError):
        return mapping(read_yaml(run.config_file).get("data"))
    return {}


def _corpus(data: dict[str, Any]) -> str:
    """Write the settings that decide a corpus's tokens; how rows are cut and what is held out do not."""
    return json.dumps(
        {name: value for name, value in data.items() if name not in ("validation_part", "block_size")}
    )


def check_archived(cells: Sequence[Cell]) -> None:
    """Refuse to score runs whose models were left out: nothing can be measured of them.

    Args:
        cells: Those that are to be run.

    Raises:
        UsageError: Naming one of them, and how many there are.
    """
    if archived := [cell for cell in cells if RunFolder(cell.run_dir).is_archived]:
        raise UsageError(
            f"{len(archived)} runs were archived without their models and lack scores that the study asks "
            f"for, such as {archived[0].run_dir}; ask for what they have, or remove their folders, and they "
            "are trained here"
        )
