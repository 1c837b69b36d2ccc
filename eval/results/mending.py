"""Brings a run's folder of scores into a state in which everything can be believed, and loses nothing.

What does not fit its checksum is set aside and scored again, what is of other weights is kept in a folder of
its own, and what a killed process left is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from base.errors import UsageError
from base.files import write_atomically
from base.records import set_aside
from eval.results.csv_text import to_csv
from eval.results.ledger import (
    Ledger,
    damaged_files,
    of_another_run,
    read_ledger,
    settled,
    write_ledger,
)
from eval.results.rows import read_csv_rows, read_rows
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import file_states, read_completion

NEW = ".new"
"""What the name of a file ends with that has not taken its place yet."""


def mend(run_dir: Path, weights: str) -> list[str]:
    """Mend what can be mended, before more is written; only whoever alone evaluates the run may.

    Args:
        run_dir: The run's folder.
        weights: The hash of its model, which was found whole.

    Returns:
        What was done, in sentences without the run's name.

    Raises:
        UsageError: If the scores are of other weights, and nothing tells why.
    """
    run = RunFolder(run_dir)
    for left in (*run.eval_dir.rglob(f"*{NEW}"), *run.eval_dir.rglob("*.tmp-*")):
        left.unlink(missing_ok=True)
    if (ledger := read_ledger(run)) is None:
        if not run.score_files():
            return []
        return [f"no ledger says how these scores were made; {_keep(run, 'unknown')}"]
    if ledger.weights != weights:
        _check_trained_anew(run, ledger)
        why = of_another_run(run, ledger) or "is of other weights than model/"
        return [f"eval/{run.rows_file.name} {why}; {_keep(run, ledger.weights[:8] or 'unknown')}"]
    return _mend_files(run, ledger)


def _check_trained_anew(run: RunFolder, ledger: Ledger) -> None:
    """A model that its training vouches for is another one; whoever names a backbone may change it."""
    completion = read_completion(run)
    if run.is_backbone or (completion is not None and completion.files):
        return
    if not ledger.tasks and not run.score_files():
        return
    raise UsageError(
        f"{run.path}: its scores are of other weights than those in model/, and this run is from before "
        "checksums, so nothing says which are right; put the model back, or move eval/ away to score this one"
    )


def _keep(run: RunFolder, label: str) -> str:
    """Move all that is not of these weights into a folder of its own; returns where it is."""
    number, place = 1, run.eval_dir / f"earlier-{label}"
    while place.exists():
        number += 1
        place = run.eval_dir / f"earlier-{label}-{number}"
    place.mkdir(parents=True)
    # The ledger first: what is left without one is kept by the next attempt.
    for path in sorted(run.eval_dir.iterdir(), key=lambda path: path != run.ledger_file):
        if not path.name.startswith((".", "earlier-")):
            path.rename(place / path.name)
    return f"they are kept in {place.relative_to(run.path)}, and everything is scored again"


def _mend_files(run: RunFolder, ledger: Ledger) -> list[str]:
    found, now, said = damaged_files(run, ledger), settled(run, ledger), []
    both = (run.rows_file.name, run.rows_csv_file.name)
    damaged_rows = {name: wrong for name, wrong in found.items() if name in both}
    if not ledger.files and (unusable := of_another_run(run, ledger) or _unusable(run, ledger)):
        damaged_rows = dict.fromkeys(both, unusable)
    if damaged_rows:
        now, line = _mend_rows(run, now, damaged_rows)
        said.append(line)
    for name in sorted(found.keys() - damaged_rows.keys()):
        now, line = _without_items(run, now, name, found[name])
        said.append(line)
    if said:
        write_ledger(run, now)
    return said


def _unusable(run: RunFolder, ledger: Ledger) -> str | None:
    """Say why rows cannot be read, of which no checksum is known."""
    if not ledger.tasks:
        return None
    try:
        read_rows(run.rows_file)
    except UsageError as error:
        return str(error) if run.rows_file.is_file() else "is gone"
    return None


def _mend_rows(run: RunFolder, ledger: Ledger, wrong: Mapping[str, str]) -> tuple[Ledger, str]:
    """Write a damaged table of rows again from the other one; without one, the tasks are scored again."""
    table, text = run.rows_file, run.rows_csv_file
    both = {path.name for path in (table, text)}
    names = " and ".join(sorted(wrong))
    for path in (table, text):
        if path.name in wrong and path.exists():
            set_aside(path, wrong[path.name])
    if both <= wrong.keys() or not both - wrong.keys() <= ledger.files.keys():
        files = {name: state for name, state in ledger.files.items() if name not in both}
        why = next(iter(wrong.values()))
        said = f"eval/{names} cannot be believed ({why}); {len(ledger.tasks)} tasks are scored again"
        return replace(ledger, tasks={}, files=files), said
    if table.name in wrong:
        rows = read_csv_rows(text)
        write_atomically(table, lambda temporary: rows.to_parquet(temporary, index=False))
    else:
        rows = read_rows(table)
        write_atomically(text, lambda temporary: temporary.write_text(to_csv(rows), encoding="utf-8"))
    files = {**ledger.files, **file_states(run.eval_dir, (table, text))}
    (other,) = both - wrong.keys()
    return replace(ledger, files=files), f"eval/{names} {wrong[names]}; it is written again from eval/{other}"


def _without_items(run: RunFolder, ledger: Ledger, name: str, wrong: str) -> tuple[Ledger, str]:
    """Set a damaged file of items aside, and forget that its benchmark was scored."""
    path = run.eval_dir / name
    if path.exists():
        set_aside(path, wrong)
    benchmark = path.stem
    kept = {task: record for task, record in ledger.tasks.items() if task.split("/")[0] != benchmark}
    files = {other: state for other, state in ledger.files.items() if other != name}
    return replace(ledger, tasks=kept, files=files), f"eval/{name} {wrong}; {benchmark} is scored again"
