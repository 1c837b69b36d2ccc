"""What a study asked before its results, and every report that was written of it since.

``history.jsonl`` in the study's folder has an object a line, in the order of time, each with a checksum of
its own, of two kinds. A
``question`` is the report section of the study's file whenever it changed, with the number of runs that had
results by then. A ``report`` is one on the whole study that answered its own question, on scores that none
had been about before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, TypeAdapter

from base.records import parse_record
from pretrain.run.folders import StudyFolder


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Question:
    """The report section of a study's file."""

    report: dict[str, Any]
    num_results: int
    """Runs that were trained or scored when it was written."""
    date: str = field(default_factory=_now)
    kind: Literal["question"] = "question"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a report said of one comparison."""

    verdict: str
    runs: Annotated[int, Field(ge=1, lt=10**6)]
    """Of its arms, the smallest number."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report of a study."""

    data: str
    """Stands for the runs and their scores (``data_key``)."""
    claims: dict[str, Claim]
    """By what is compared, at least one."""
    looks: list[int] | Literal["any"] | None = None
    """Those planned when it was written."""
    date: str = field(default_factory=_now)
    kind: Literal["report"] = "report"

    @property
    def runs(self) -> tuple[int, int]:
        """The smallest and the largest number of runs of a claim."""
        runs = [claim.runs for claim in self.claims.values()]
        return min(runs, default=0), max(runs, default=0)


_LINE = TypeAdapter[Question | Report](Annotated[Question | Report, Field(discriminator="kind")])


@dataclass(frozen=True, kw_only=True)
class History:
    """What is remembered of a study, the oldest first; nothing where there is no file."""

    questions: tuple[Question, ...] = ()
    reports: tuple[Report, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines that cannot be read, in sentences."""

    @property
    def before_results(self) -> Question | None:
        """The last question that was written while no run had a result."""
        return next((q for q in reversed(self.questions) if not q.num_results), None)


def read_history(folder: Path) -> History:
    """Read what is remembered of a study; a damaged line is named and left out."""
    file = StudyFolder(folder).history_file
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return History()
    found: list[Question | Report] = []
    notes = [] if lines else [f"{file.name} is empty: reports that went before are not known"]
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_LINE.validate_python(parse_record(line)))
        except (ValueError, RecursionError):
            notes.append(f"{file.name}: line {number} is damaged and was left out")
    return History(
        questions=tuple(x for x in found if isinstance(x, Question)),
        reports=tuple(x for x in found if isinstance(x, Report)),
        notes=tuple(notes),
    )


def remember_question(folder: Path, report: Mapping[str, Any]) -> None:
    """Note what a study's file asks, where that is new.

    Args:
        folder: The study's folder.
        report: The file's report section.
    """
    known, asked = read_history(folder).questions, json.loads(json.dumps(report, default=str))
    if known and known[-1].report == asked:
        return
    runs = StudyFolder(folder).run_folders()
    num_results = sum(run.is_complete or run.is_scored for run in runs)
    _append(folder, Question(report=asked, num_results=num_results))


def remember_report(folder: Path, report: Report) -> None:
    """Note a report, unless one on the same scores is known."""
    if all(known.data != report.data for known in read_history(folder).reports):
        _append(folder, report)


def data_key(rows: pd.DataFrame) -> str:
    """Name scores: equal for the same, whatever their order.

    Args:
        rows: run_id, benchmark, task, metric and score, and whatever else.
    """
    columns = rows[["run_id", "benchmark", "task", "metric", "score"]].astype({"benchmark": str})
    hashes = np.sort(pd.util.hash_pandas_object(columns, index=False).to_numpy())
    return hashlib.sha256(hashes.tobytes()).hexdigest()[:16]


def _append(folder: Path, line: Question | Report) -> None:
    """Write a line in one step, behind what an interrupted writer may have left of its own."""
    file = StudyFolder(folder).history_file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab+") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - 1, 0))
            is_cut_off = stream.read(1) not in (b"", b"\n")
            text = json.dumps(_LINE.dump_python(line, mode="json"))
            stream.write(b"\n" * is_cut_off + text.encode() + b"\n")
    except OSError:
        return  # a report of a folder that cannot be written to is written elsewhere, and is no less a report
