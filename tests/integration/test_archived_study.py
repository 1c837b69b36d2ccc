"""A tuned study archived without its models, brought back elsewhere, and gone on with there."""

import contextlib
import io
import json
import lzma
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import run_command
from tests.unit.report.studies import analysed, numbers, render

pytestmark = pytest.mark.ci  # its runs are shared by all of its tests

RESTORE = ("slurm.archive", "study.tar.xz", "--restore")
TUNE = {"optim.learning_rate": [1e-3, 1e-2], "seeds": [101], "widen": 0, "shared": False}


@pytest.fixture(scope="module")
def write(write_study: Callable[..., Path]) -> Callable[..., None]:
    """Write a tuned study, and texts of its own beside it, into a folder."""

    def _write(folder: Path, max_pairs: int = 4) -> None:
        texts = [f"Once there was a cat who saw {i} dogs and {i % 7} birds." for i in range(80)]
        rows = [json.dumps({"text": text}) for text in texts]
        for name, some in (("train.jsonl", rows[:64]), ("held-out.jsonl", rows[64:])):
            (folder / name).write_text("\n".join(some) + "\n")
        files = {"train_files": ["train.jsonl"], "validation_files": ["held-out.jsonl"]}
        data = {"source": "files", "vocab_size": 270, "block_size": 64, **files}
        config = {"data": data, "output": {"runs_dir": "runs"}}
        write_study(folder, tune=TUNE, config=config, evaluation={"max_pairs": max_pairs})

    return _write


def run_in(folder: Path, module: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    with contextlib.chdir(folder):
        return run_command(module, *args)


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, write: Callable[..., None], run_study: Callable[..., int]
) -> Path:
    """A folder with a study that is finished, and its archive."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder)
    with contextlib.chdir(folder):
        assert run_study("study.yaml", "--no-report") == 0
    done = run_in(folder, "slurm.archive", "runs/study")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("study.tar.xz: 8 runs, ")
    return folder


@pytest.fixture
def elsewhere(finished: Path, tmp_path: Path, write: Callable[..., None]) -> Path:
    """Another folder with the same texts and study, where the archive was brought back."""
    write(tmp_path)
    shutil.copy(finished / "study.tar.xz", tmp_path)
    done = run_in(tmp_path, *RESTORE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/study: 8 finished runs brought back, without their models\n"
    return tmp_path


def members_of(path: Path) -> dict[str, bytes]:
    """The files of an archive by their names."""
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def rewrite(path: Path, change: Callable[[dict[str, bytes]], object], kind: bytes = tarfile.REGTYPE) -> None:
    """Write an archive again with other members; metrics become links to a place of the machine, say."""
    files = members_of(path)
    change(files)
    with tarfile.open(path, "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.endswith("metrics.jsonl"):
                member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member, io.BytesIO(content))


def test_the_report_is_the_same(finished: Path, elsewhere: Path) -> None:
    before, after = (analysed(folder / "runs/study") for folder in (finished, elsewhere))
    assert numbers(after) == numbers(before)
    assert "<summary>Cost: 8 runs, " in render(after)
    status = run_in(elsewhere, "slurm.status", "runs/study").stdout
    assert status.count("done  from an archive") == 8
    assert not list(elsewhere.glob("runs/study/*/*/*/model"))


@pytest.mark.slow
def test_nothing_is_run_again_and_a_newcomer_is_judged_beside_the_others(elsewhere, run_study, capsys):
    before = {path: path.read_bytes() for path in elsewhere.glob("runs/study/*/*/*/COMPLETED")}
    with contextlib.chdir(elsewhere):
        assert run_study("study.yaml", "--no-report") == 0
        assert "0 cells run" in capsys.readouterr().out
        assert run_study("study.yaml", "--add", "silu") == 0
    assert {path: path.read_bytes() for path in before} == before
    report = json.loads((elsewhere / "runs/study/report/report.json").read_text())
    assert "silu" in json.dumps(report["comparisons"])


def test_archiving_is_repeatable_to_the_byte(finished: Path, elsewhere: Path) -> None:
    """A study that was brought back gives the archive that it came from."""
    again = run_in(elsewhere, "slurm.archive", "runs/study", "--out", "again.tar.xz")
    assert again.returncode == 0, again.stderr
    assert (elsewhere / "again.tar.xz").read_bytes() == (finished / "study.tar.xz").read_bytes()


def test_nothing_tells_whose_machine_it_was(finished: Path) -> None:
    content = lzma.decompress((finished / "study.tar.xz").read_bytes())
    assert str(finished).encode() not in content
    assert b'"host"' not in content


@pytest.mark.parametrize("more", [("--add", "silu"), ("--seeds", "3")])
def test_texts_that_changed_since_are_refused_before_anything_is_trained(elsewhere, more):
    with (elsewhere / "train.jsonl").open("a") as file:
        file.write(json.dumps({"text": "A story that was not there."}) + "\n")
    done = run_in(elsewhere, "slurm.submit", "study.yaml", *more)
    assert done.returncode == 2
    assert "was trained on other texts than train.jsonl holds now" in done.stderr
    assert not (elsewhere / "runs/study/gpt_neo/silu").exists()


def test_scores_that_were_not_archived_are_refused_in_a_line(elsewhere, write):
    write(elsewhere, max_pairs=6)
    done = run_in(elsewhere, "slurm.submit", "study.yaml")
    assert done.returncode == 2
    assert "4 runs were archived without their models and lack scores" in done.stderr
    planned = run_in(elsewhere, "slurm.submit", "study.yaml", "--dry-run")
    assert (planned.returncode, planned.stderr) == (2, done.stderr)
    scored = run_in(elsewhere, "eval", "runs/study")
    assert scored.returncode == 2
    assert "8 runs that were archived without their models" in scored.stderr


@pytest.mark.parametrize(("module", "args"), [("pretrain.generate", ()), ("eval.push", ("--repo", "me/it"))])
def test_what_needs_a_model_says_that_it_was_left_out(elsewhere: Path, module: str, args) -> None:
    run = next(elsewhere.glob("runs/study/*/*/*/COMPLETED")).parent
    done = run_in(elsewhere, module, str(run.relative_to(elsewhere)), *args)
    assert done.returncode == 2
    assert "was archived without its model; remove the folder, and the command that trains" in done.stderr


def lose_the_list(path: Path) -> None:
    rewrite(path, lambda files: files.pop(next(name for name in files if "study.yaml" in name)))


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-60]), "is damaged, or no archive of a study"),
        (lambda path: path.write_text("gpt_neo"), "is damaged, or no archive of a study"),
        (lose_the_list, "is no archive of a study"),
        (lambda path: rewrite(path, lambda files: files.update({"../outside": b""})), "outside the dest"),
        (lambda path: rewrite(path, len, tarfile.SYMTYPE), "absolute path"),
    ],
)
def test_a_damaged_or_hostile_archive_is_named_and_nothing_is_written(attack, words, finished, tmp_path):
    shutil.copy(finished / "study.tar.xz", tmp_path)
    attack(tmp_path / "study.tar.xz")
    done = run_in(tmp_path, *RESTORE)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["study.tar.xz"]


def test_a_study_that_is_there_stays(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "runs/study").mkdir(parents=True)
    shutil.copy(finished / "study.tar.xz", tmp_path)
    done = run_in(tmp_path, *RESTORE)
    assert done.returncode == 2
    assert "runs/study is there; remove it, or name another folder" in done.stderr
    assert [*(tmp_path / "runs").iterdir()] == [tmp_path / "runs/study"]
    assert run_in(tmp_path, *RESTORE, "--runs-dir", "other").returncode == 0


def test_cells_that_failed_are_not_done_afterwards(finished: Path, tmp_path: Path) -> None:
    """A failed cell, and one that is trained and not scored, are left out; the first is told and counted."""
    there = shutil.copytree(finished / "runs", tmp_path / "there") / "study"
    failed, unscored = sorted((there / "cells").glob("*relu--seed[12]-*.json"))
    for cell, name in ((failed, "failed"), (unscored, "running")):
        state = json.loads(cell.read_text())
        state.pop("sha256", None)
        cell.write_text(json.dumps(state | {"name": name, "error": "it broke", "pid": 1}))
        (there / cell.stem.replace("--", "/") / "COMPLETED").unlink()
    kept = run_in(tmp_path, "slurm.archive", "there/study")
    assert kept.stdout.startswith("study.tar.xz: 6 runs, ")
    assert "left out, not finished: gpt_neo/relu/seed1" in kept.stdout
    done = run_in(tmp_path, *RESTORE)
    assert done.returncode == 0, done.stderr
    status = run_in(tmp_path, "slurm.status", "runs/study").stdout
    assert "8 cells: 6 done, 1 failed, 1 waiting" in status
    assert "it broke" in status


@pytest.mark.parametrize(
    ("name", "words"),
    [("study.yaml", "names no cells"), ("gpt_neo/relu/{run}/provenance.json", "is damaged")],
)
def test_a_damaged_study_is_not_archived(name: str, words: str, elsewhere: Path) -> None:
    run = next(elsewhere.glob("runs/study/gpt_neo/relu/seed1-*")).name
    (elsewhere / "runs/study" / name.format(run=run)).write_text("{}")
    kept = run_in(elsewhere, "slurm.archive", "runs/study", "--out", "again.tar.xz")
    assert (kept.returncode, kept.stderr.count("\n")) == (2, 1)
    assert words in kept.stderr
    assert not (elsewhere / "again.tar.xz").exists()
