"""Where a study stands: its cells by what workers wrote and SLURM says, lists, time left, who may submit."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from base.errors import UsageError
from base.run.folder_names import StudyFolder
from slurm.cell_state import (
    SILENT,
    CellState,
    describe_levels,
    describe_time_left,
    is_followed,
    queued_state,
    read_listing,
    read_state,
    studies_table,
    survey,
    write_state,
)
from slurm.cluster import cells_name, read_queue, report_name
from slurm.commands import study_status
from slurm.jobs import _asking_slurm
from slurm.todo import describe_unfinished, sole_submitter
from tests.cases import listed

CELL = "gpt_neo/gelu/seed1-0a1b2c3d"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program named squeue that prints what a test says, as there is no SLURM in this test."""

    def answer(*lines: str, exit_code: int = 0) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "squeue"
        text = "".join(f"{line}|{cells_name(tmp_path)}\n" for line in lines)
        asked = f'#!/bin/sh\necho "$@" > {folder}/asked\n'
        program.write_text(f"{asked}cat <<'END'\n{text}END\nexit {exit_code}\n")
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return answer


def cell(name: str, job: str = "7_0", **more) -> CellState:
    return CellState(name=name, host="elsewhere", attempts=1, job=job, **more)


def state_of(study: Path, state: CellState) -> CellState:
    (study / CELL).mkdir(parents=True, exist_ok=True)
    write_state(study, CELL, state)
    return survey(study, [CELL])[CELL]


@pytest.mark.parametrize(("name", "line", "expected", "may_retry"), listed(__file__, "states of jobs"))
def test_only_what_was_killed_without_a_word_is_tried_again(tmp_path, queue, name, line, expected, may_retry):
    queue(*([line] if line else []))
    state = state_of(tmp_path, cell(name))
    assert (state.name, state.may_retry) == (expected, may_retry)


def test_a_state_names_what_the_queue_says_of_its_job(tmp_path: Path, queue) -> None:
    queue("7_0|PENDING||Priority")
    assert state_of(tmp_path, cell("queued")).error == "Priority"
    queue("7_0|PENDING||None")
    assert state_of(tmp_path, cell("queued")).error == ""
    queue("7_0|OUT_OF_MEMORY|n0|None")
    assert state_of(tmp_path, cell("running")).error == "its job ended without a result: out of memory"
    queue("7_0|RUNNING|n0|None")
    assert state_of(tmp_path, CellState(name="running", job="7_0")).host == "n0"
    queue("7_0|FAILED|n0|None")  # by a line of the preset's setup
    log = StudyFolder(tmp_path).jobs_dir / "now" / "7_0_0_log.err"
    log.parent.mkdir(parents=True)
    log.write_text("first\nmodule: command not found\n\n")
    state = state_of(tmp_path, cell("queued"))
    assert (state.log, state.error.endswith(": module: command not found")) == (str(log), True)


def test_a_queue_that_does_not_answer_says_nothing_about_a_job(tmp_path: Path, queue) -> None:
    queue("squeue: error: Unable to contact slurm controller", exit_code=1)
    assert read_queue(tmp_path) is None
    for name in ("running", "queued"):
        state = state_of(tmp_path, cell(name))
        assert (state.name, state.error) == (name, SILENT)


def test_a_study_without_jobs_asks_no_queue(tmp_path: Path, queue) -> None:
    queue()
    assert state_of(tmp_path, CellState(name="failed")).name == "failed"
    assert survey(tmp_path, ["gpt_neo/gelu/seed2-0"])["gpt_neo/gelu/seed2-0"].name == "waiting"
    assert not (tmp_path / "bin" / "asked").exists()


def test_the_queue_is_asked_once_and_by_the_names_of_the_study(tmp_path: Path, queue) -> None:
    queue("7_0|RUNNING|n0|None")
    state_of(tmp_path, cell("running"))
    asked = (tmp_path / "bin" / "asked").read_text().split()
    assert f"--name={cells_name(tmp_path)},{report_name(tmp_path)}" in asked
    assert "--me" in asked
    other = tmp_path / "elsewhere" / tmp_path.name
    assert cells_name(other) != cells_name(tmp_path)  # of a study of that name in another folder


def test_a_cell_that_ends_while_the_queue_is_asked_is_done(tmp_path: Path, queue, monkeypatch) -> None:
    def end(study: Path) -> dict:
        write_state(study, CELL, cell("done"))
        return {}

    monkeypatch.setattr("slurm.cell_state.read_queue", end)
    assert state_of(tmp_path, cell("running")).name == "done"


def test_handing_in_overwrites_nothing_that_the_job_has_written(tmp_path: Path) -> None:
    write_state(tmp_path, CELL, cell("failed", job="3", error="x"))
    queued_state(tmp_path, CELL, "7_0")
    assert read_state(tmp_path, CELL) == CellState(name="queued", job="7_0", attempts=1)
    write_state(tmp_path, CELL, cell("done"))
    (tmp_path / CELL).mkdir(parents=True)
    queued_state(tmp_path, CELL, "7_0")
    assert read_state(tmp_path, CELL).name == "done"


@pytest.mark.parametrize("who", ["nobody", "command", "job"])
def test_more_cells_come_where_somebody_is_to_start_them(tmp_path: Path, queue, who: str) -> None:
    queue()
    if who == "command":
        with sole_submitter(tmp_path):
            assert is_followed(tmp_path)
    if who == "job":
        program = tmp_path / "bin" / "squeue"
        program.write_text(f"#!/bin/sh\necho '9|PENDING||Dependency|{report_name(tmp_path)}'\n")
    assert is_followed(tmp_path) is (who == "job")


CELLS = ("gpt_neo/gelu/seed1-abc", "gpt_neo/kan/seed1-abd", "gpt_neo/relu/seed1-abe")
LIST = f"cells: [{', '.join(CELLS)}]\n"


def test_cells_are_those_that_were_submitted(tmp_path: Path, capsys) -> None:
    with pytest.raises(UsageError, match=r"holds no study\.yaml"):
        read_listing(tmp_path)
    levels = f"levels: {{{CELLS[1]}: {{variant: kan, size: '3'}}}}\n"
    stages = f"stages: {{tune: [{CELLS[0]}], main: []}}\n"
    (tmp_path / "study.yaml").write_text(f"name: x\nuntil: null\n{LIST}{levels}{stages}")
    listing = read_listing(tmp_path)
    assert listing.run_ids == CELLS
    assert listing.levels == {CELLS[1]: {"variant": "kan", "size": "3"}}
    assert listing.stages == {"tune": (CELLS[0],), "main": ()}
    (tmp_path / "tuning.json").write_text("{")
    study_status([str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("3 cells:")
    assert any("tuning.json is damaged" in line for line in lines)


@pytest.mark.parametrize(("levels", "words"), listed(__file__, "levels not shown"))
def test_levels_are_named_that_the_folder_does_not_show(levels: dict[str, str], words: str) -> None:
    assert describe_levels("gpt_neo/kan/seed1-abd", levels) == words


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"name: x\n", b"- x\n", b"\xff\xfe", b"cells: [", b"cells: 3\n"),
        b"num_cells: 2\ncells: [gpt_neo/gelu/seed1-abc]\n",
        b"cells: [gpt_neo/gelu/seed1-abc, 2]\n",
    ],
)
def test_a_damaged_list_is_refused_in_a_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=r"study\.yaml is damaged.*study run writes it again"):
        study_status([str(tmp_path)])


def test_each_study_of_a_folder_has_a_line_with_its_states(tmp_path: Path) -> None:
    for name, content in (("b", LIST), ("a", "cells: [gpt_neo/gelu/seed1-abc]\n"), ("broken", "cells: 3\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.yaml").write_text(content)
    (tmp_path / "no-study").mkdir()
    (tmp_path / "file").touch()
    for run_id, name in zip(CELLS, ("done", "failed", "done"), strict=True):
        write_state(tmp_path / "b", run_id, CellState(name=name))
    (tmp_path / "b" / CELLS[0]).mkdir(parents=True)  # that of the other was removed
    header, *rows = [line.split(None, 2) for line in studies_table(tmp_path).splitlines()]
    assert header == ["study", "cells", "state"]
    assert rows[0] == [str(tmp_path / "a"), "1", "1 waiting"]
    assert rows[1] == [str(tmp_path / "b"), "3", "1 done, 1 failed, 1 missing"]
    assert rows[2][:2] == [str(tmp_path / "broken"), "-"]
    assert "names no cells" in rows[2][2]
    assert len(rows) == 3
    assert studies_table(tmp_path / "no-study").startswith("no study; --runs-dir")


NOW = 1_000_000.0
WAITING, RUNNING = CellState(), CellState(name="running", started_s=NOW)
FAILED = CellState(name="failed", started_s=NOW - 10, finished_s=NOW - 9)  # it says nothing of the others
FROM_ARCHIVE = CellState(name="done")


def done(took_s: float) -> CellState:
    return CellState(name="done", started_s=NOW - 5000, finished_s=NOW - 5000 + took_s)


@pytest.mark.parametrize(
    ("states", "at_work", "words"),
    [
        # Five are left of 150 s each: by two at a time, and by five.
        ([done(100), done(200), *[RUNNING] * 2, *[WAITING] * 3], None, "2 of 7 cells, about 6 min 15 s left"),
        ([done(100), done(200), *[RUNNING] * 2, *[WAITING] * 3], 5, "2 of 7 cells, about 2 min 30 s left"),
        # None ends before a cell.
        ([done(600), RUNNING, WAITING], 100, "1 of 3 cells, about 10 min 00 s left"),
        ([done(100), FAILED, RUNNING], None, "2 of 3 cells, about 1 min 40 s left"),
        ([WAITING, WAITING], None, ""),
        ([done(5), done(5)], None, ""),
        ([done(5), WAITING], None, ""),
        ([FAILED, FROM_ARCHIVE, RUNNING], None, ""),
    ],
)
def test_what_is_left_is_shared_among_cells_at_work(states, at_work: int | None, words: str) -> None:
    assert describe_time_left(states, at_work) == words


def unfinished_cell(seed: int) -> Any:
    run_id = f"gpt_neo/gelu/seed{seed}-abc"
    return SimpleNamespace(run_id=run_id, run_dir=Path("runs/s") / run_id, label=f"gpt_neo/gelu/seed{seed}")


def test_cells_with_the_same_reason_share_a_line() -> None:
    def failed(seed: int, words: str) -> tuple[Any, CellState]:
        return unfinished_cell(seed), CellState(name="failed", error=words, log=f"{seed}.log")

    folders = {seed: unfinished_cell(seed).run_dir for seed in (1, 2, 3)}
    same = [failed(seed, f"UsageError: {folder}: the disk is full") for seed, folder in folders.items()]
    other = (unfinished_cell(4), CellState(name="missing"))
    assert describe_unfinished([*same, other]) == [
        "not done: gpt_neo/gelu/seed1 and 2 more: failed: UsageError: runs/s/gpt_neo/gelu/seed1-abc: "
        "the disk is full (log: 1.log)",
        "not done: gpt_neo/gelu/seed4: missing (log: none)",
    ]


def test_two_commands_do_not_submit_at_once(tmp_path: Path) -> None:
    with sole_submitter(tmp_path), pytest.raises(UsageError, match="nothing was submitted"):
        sole_submitter(tmp_path).__enter__()


def test_a_job_submits_as_a_login_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"SLURM_JOB_ID", "SBATCH_PARTITION", "SUBMITIT_EXECUTOR", "SLURM_CONF", "HOME_OF_MINE"}
    for name in names:
        monkeypatch.setenv(name, "x")
    with _asking_slurm():
        assert names & os.environ.keys() == {"SLURM_CONF", "HOME_OF_MINE"}
    assert names <= os.environ.keys()
    refused = pytest.raises(UsageError, match="sbatch refused the jobs: no such file")
    with refused, _asking_slurm():
        raise OSError("no such file")
