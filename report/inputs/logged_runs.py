"""Folders that trackers write on a machine: events of TensorBoard, and summaries of Weights & Biases."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.printing import first_few
from base.records import read_json
from report.readers.reading import SHOWN, TableOfRows
from report.readers.tables import to_rows
from report.request import Request

EVENTS, SUMMARY = "events.out.tfevents.*", "wandb-summary.json"
_STEP = "_step"
_TIME = re.compile(r"\d+\.\d+")
"""A folder with the hyperparameters of the run above it."""


def read_logged_runs(path: Path, request: Request) -> TableOfRows | None:
    """Read what runs logged last, each in a folder of its own.

    Args:
        path: A folder with those of runs at any depth.
        request: What the user said of them; ``names`` is how their paths are read.

    Returns:
        None for a folder that holds none.

    Raises:
        UsageError: Without the package that reads events, for damaged files, or names that do not fit.
    """
    pattern = next((each for each in (EVENTS, SUMMARY) if any(path.rglob(each))), None)
    if pattern is None:
        return None
    runs: dict[str, dict[str, Any]] = {}
    for folder in sorted({file.parent for file in path.rglob(pattern)}):
        above = [each for each in reversed(folder.parents) if each.is_relative_to(path)]
        run = next(each for each in (*above, folder) if any(each.glob(pattern)))
        values = _last_events(folder) if pattern == EVENTS else _summary(folder)
        if run != folder:
            values.pop(_STEP, None)  # that of the run itself says how far it came
        part = "" if run == folder or _TIME.fullmatch(folder.name) else f"{folder.relative_to(run)}/"
        name = run.relative_to(path).as_posix() if run != path else path.resolve().name
        runs.setdefault(name, {}).update({f"{part}{key}": value for key, value in values.items()})
    names = list(runs) if request.names else _shortened(list(runs))
    table = pd.DataFrame(list(runs.values()))
    ends = table[_STEP] if _STEP in table.columns else pd.Series(0, table.index)
    early = [f"{name} ({end:g})" for name, end in zip(names, ends, strict=True) if end < ends.max()]
    notes = [f"ended before step {ends.max():g}: {first_few(early, SHOWN)}"] if early else []
    table = table.astype(object).where(table.notna(), "").assign(run_name=names)
    rows = to_rows(table, request, str(path))
    return TableOfRows(table=rows.table, notes=(*notes, *rows.notes))


def _shortened(names: list[str]) -> list[str]:
    """Take folders off the end of paths that tell no two runs apart, such as ``version_0``."""
    paths = [PurePosixPath(name) for name in names]
    while all(len(path.parts) > 1 for path in paths) and len({path.parent for path in paths}) == len(paths):
        paths = [path.parent for path in paths]
    return [str(path) for path in paths]


def _last_events(folder: Path) -> dict[str, Any]:
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        raise UsageError(
            f"{folder} holds events of TensorBoard, and tensorboard is not installed; "
            'pip install "ffn-ablations[tensorboard]" installs it'
        ) from None
    events = EventAccumulator(str(folder), size_guidance={"scalars": 1})  # of several the last one is kept
    events.Reload()
    last = {tag: events.Scalars(tag)[-1] for tag in events.scalars.Keys()}
    steps = {_STEP: max(event.step for event in last.values())} if last else {}
    return {tag: event.value for tag, event in last.items()} | steps


def _summary(folder: Path) -> dict[str, Any]:
    """Read a run's summary, and its configuration where that lies beside it."""
    # W&B's own, which is written otherwise than the configuration of a run of this project.
    config = mapping(read_yaml(file)) if (file := folder / "config.yaml").is_file() else {}
    settings = {key: entry["value"] for key, entry in config.items() if "value" in mapping(entry)}
    summary = mapping(read_json(folder / SUMMARY))
    values = {key: value for key, value in (settings | summary).items() if key == _STEP or key[0] != "_"}
    flat = pd.json_normalize(values).iloc[0].to_dict()
    return {key: value for key, value in flat.items() if isinstance(value, str | int | float)}
