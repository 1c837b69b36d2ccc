"""What a killed command left open is asked of SLURM; here of programs that print what a test says."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from base.errors import UsageError
from slurm.queue import handover
from slurm.queue.handover import script_of
from slurm.queue.settle import settle
from slurm.queue.submissions import Submission, read_submission, write_submission

KEY, OTHER = "0123456789ab", "ba9876543210"
CELLS = {"_0": ("gpt_neo/gelu/seed1-a",), "_1": ("gpt_neo/kan/seed1-b", "gpt_neo/relu/seed1-c")}
Programs = Callable[..., Callable[[], str]]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Sets what squeue prints; returns what reads what scancel was given."""

    def make(*lines: str, exit_code: int = 0) -> Callable[[], str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        cancelled = folder / "cancelled"
        texts = {
            "squeue": "cat <<'END'\n" + "".join(f"{line}\n" for line in lines) + f"END\nexit {exit_code}",
            "scancel": f"echo $@ >> {cancelled}",
        }
        for name, text in texts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return lambda: cancelled.read_text().strip() if cancelled.exists() else ""

    return make


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "thesis"
    (folder / "jobs").mkdir(parents=True)
    return folder


def intend(study: Path, key: str = KEY, **changes) -> None:
    script_of(study, key).touch()
    write_submission(study, Submission(key=key, elements=CELLS, **changes))


def test_a_study_without_jobs_asks_nobody(study: Path, programs: Programs) -> None:
    programs(exit_code=1)
    assert settle(study) == {}


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETED", "FAILED"])
def test_jobs_that_slurm_took_are_adopted(study: Path, programs: Programs, state: str, capsys) -> None:
    programs(f"12_0|{state}|||thesis-{KEY}", f"12_1|{state}|||thesis-{KEY}", "13|RUNNING|||thesis")
    intend(study)
    settle(study)
    found = read_submission(study, KEY)
    assert found
    assert (found.array, found.is_dropped) == ("12", False)
    assert found.elements == {"12_0": CELLS["_0"], "12_1": CELLS["_1"]}
    assert capsys.readouterr().out == "a command was killed, and SLURM has its 3 cells (SLURM 12)\n"


def test_jobs_that_slurm_does_not_have_are_dropped(study: Path, programs: Programs, capsys) -> None:
    cancelled = programs(f"12_0|RUNNING|||thesis-{OTHER}", f"13|RUNNING|||{KEY}-thesis")
    intend(study)
    settle(study)
    found = read_submission(study, KEY)
    assert found
    assert found.is_dropped
    assert capsys.readouterr().out == "a command was killed, and SLURM does not have its 3 cells\n"
    settle(study)
    assert not capsys.readouterr().out
    assert not cancelled()


def test_a_slurm_that_does_not_answer_decides_nothing(study: Path, programs: Programs) -> None:
    programs(exit_code=1)
    write_submission(study, Submission(key=OTHER, array="11", elements={"11": ()}))
    assert settle(study) is None
    intend(study)
    with pytest.raises(UsageError, match=rf"SLURM does not answer, and may have the jobs of .*{KEY}\.json"):
        settle(study)
    found = read_submission(study, KEY)
    assert found
    assert found.is_open


def test_dropped_jobs_that_appear_after_all_are_cancelled(study: Path, programs: Programs) -> None:
    cancelled = programs(f"12_0|PENDING|||thesis-{KEY}", f"13|PENDING|||thesis-{OTHER}")
    intend(study, is_dropped=True)
    write_submission(study, Submission(key=OTHER, array="13", elements={"13": ()}))
    settle(study)
    assert cancelled() == "12"


@pytest.mark.parametrize("content", [None, b"", b"{", bytes(40)])
def test_jobs_without_a_whole_record_are_cancelled(study: Path, programs: Programs, content) -> None:
    cancelled = programs(f"12_0|RUNNING|||thesis-{KEY}", "14|RUNNING|||thesis-ffffffffffff")
    intend(study, array="12")
    record = study / "submissions" / f"{KEY}.json"
    record.unlink() if content is None else record.write_bytes(content)
    settle(study)
    assert cancelled() == "12"


def test_an_sbatch_that_outlived_its_command_is_waited_for(study: Path, programs: Programs) -> None:
    programs(f"12_0|PENDING|||thesis-{KEY}")
    intend(study)
    with script_of(study, KEY).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        asked = threading.Thread(target=settle, args=(study,))
        asked.start()
        asked.join(timeout=1)
        assert asked.is_alive()
    asked.join(timeout=30)
    found = read_submission(study, KEY)
    assert found
    assert found.array == "12"


def test_an_sbatch_that_never_ends_is_told_of(study: Path, programs: Programs, monkeypatch) -> None:
    programs()
    monkeypatch.setattr(handover, "SBATCH_PATIENCE_S", 0.3)
    intend(study)
    with script_of(study, KEY).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="an sbatch of this study does not end"):
            settle(study)
