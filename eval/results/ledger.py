"""What is known of a run's scores: their weights, the protocol of each task, and the state of every file.

``eval/done.json`` has the SHA-256 and the size of ``rows.parquet``, ``rows.csv`` and every file of items. A
task is written in this order, so that a process killed between any two steps leaves every file believed:

1. New files lie beside the old ones, under names that nobody reads.
2. The ledger names both states of each, the new one as ``pending``, and no longer the task.
3. The new files take the places of the old ones.
4. The ledger names the new states alone, and the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from base.checksums import FileState, damage, file_states
from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.records import read_record, write_record
from pretrain.run.folders import RUN_NAME, RunFolder
from pretrain.run.manifest import config_hashes, read_completion


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a run's scores are, and how their files were left."""

    weights: str = ""
    """The hash of the model that was scored."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Benchmark, task, and where there is one, head, to everything that their scores depend on besides."""
    files: dict[str, FileState] = field(default_factory=dict)
    """By the name below ``eval/``; empty in ledgers from before there were checksums."""
    pending: dict[str, FileState] = field(default_factory=dict)
    """What the same files, or new ones, were about to become."""


def read_ledger(run: RunFolder) -> Ledger | None:
    """Read a run's ledger; None where there is none, or one that is damaged, which is told."""
    return read_record(run.ledger_file, Ledger)


def write_ledger(run: RunFolder, ledger: Ledger) -> None:
    """Replace a run's ledger in one step."""
    write_record(run.ledger_file, ledger)


def name_of(run: RunFolder, path: Path) -> str:
    """What a ledger calls a file of scores."""
    return path.relative_to(run.eval_dir).as_posix()


def damaged_files(run: RunFolder, ledger: Ledger) -> dict[str, str]:
    """Compare a run's files of scores with its ledger.

    Returns:
        By name what is wrong with a file, as in "is gone"; empty where every one is in a state of the ledger.
    """
    found = damage(run.eval_dir, ledger.files)
    if not ledger.pending:
        return found
    unlike_new = damage(run.eval_dir, ledger.pending)
    for name in ledger.pending.keys() - ledger.files.keys():
        if name in unlike_new and (run.eval_dir / name).exists():
            found[name] = unlike_new[name]
    return {name: wrong for name, wrong in found.items() if name not in ledger.pending or name in unlike_new}


def settled(run: RunFolder, ledger: Ledger) -> Ledger:
    """Return the ledger with nothing pending: the state of every whole file is the one that it is in.

    A ledger from before there were checksums gets those of the files as they are.
    """
    if not ledger.files and not ledger.pending:
        return replace(ledger, files=file_states(run.eval_dir, run.score_files()))
    unlike_new = damage(run.eval_dir, ledger.pending)
    became = {name: state for name, state in ledger.pending.items() if name not in unlike_new}
    return replace(ledger, files={**ledger.files, **became}, pending={})


def of_another_run(run: RunFolder, ledger: Ledger | None) -> str | None:
    """Say that what lies in a run's folder of scores is another run's, as the end of a sentence.

    The ledger has the checksums of all files of scores, and the weights that they are of, which the training
    recorded. Where one of these is not known, the rows' ids tell.
    """
    completion = read_completion(run)
    trained, scored = completion.weights if completion else "", ledger.weights if ledger else ""
    if ledger and ledger.files and scored and scored == trained:
        return None
    if others := [run_id for run_id in _row_ids(run) if not _is_of(run, run_id)]:
        return f"is of another run, {others[0]}"
    if scored and trained and scored != trained:
        return f"is of other weights ({scored}) than its training left ({trained})"
    return None


def _row_ids(run: RunFolder) -> list[str]:
    try:
        return sorted(set(map(str, pd.read_parquet(run.rows_file, columns=["run_id"])["run_id"])))
    except (OSError, ValueError):  # whoever reads the scores says so
        return []


def _is_of(run: RunFolder, run_id: str) -> bool:
    """Whether an id may be a run's, which lies where it was trained or elsewhere; a stranger's may be any."""
    hashes = set(config_hashes(run).values())
    if run_id == run.run_id or run_id.count("/") != 2 or not (hashes or run.is_run):
        return True
    kind, _, name = run_id.rpartition("/")
    named = RUN_NAME.fullmatch(name)
    is_name = named["hash"] in hashes if named and hashes else named or name == run.path.name
    return bool(is_name) and kind in (run.run_id.rpartition("/")[0], _configured(run))


def _configured(run: RunFolder) -> str | None:
    """Family and variant as a run's configuration has them."""
    try:
        config = read_yaml(run.config_file)
    except UsageError:
        return None
    return f"{config.get('family')}/{mapping(config.get('model')).get('ffn')}"


def items_damage(run: RunFolder, benchmark: str) -> str | None:
    """Say what is wrong with a run's items of a benchmark, as in "is gone"; None where nothing is known."""
    return look(run)[1].get(name_of(run, run.items_file(benchmark)))


def look(run: RunFolder) -> tuple[Ledger | None, Mapping[str, str]]:
    """Read a run's ledger, and what of its files of scores is not as it says, or is another run's.

    Another process may write meanwhile: what does not fit is looked at again when the ledger has changed.
    """
    ledger = read_ledger(run)
    if why := of_another_run(run, ledger):
        return ledger, {name_of(run, path): why for path in run.score_files()}
    while ledger is not None and (found := damaged_files(run, ledger)):
        if (again := read_ledger(run)) == ledger:
            return ledger, found
        ledger = again
    return ledger, {}
