"""Queued jobs run the code as it was submitted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from base.files import PACKAGES
from pretrain.run.code_version import copied_from, is_as_copied
from slurm.snapshot import snapshot_environment, take_snapshot

# The file that is edited, in whichever copy of the code.
MODULE = Path("slurm/cell_state.py")


def take(root: Path, study: Path) -> Path:
    """Take a snapshot with the code of a folder, as a submission from there does."""
    code = "import pathlib, sys, slurm.snapshot as s; print(s.take_snapshot(pathlib.Path(sys.argv[1])))"
    where = {"env": os.environ | {"PYTHONPATH": str(root)}, "cwd": study.parent}
    done = subprocess.run([sys.executable, "-c", code, str(study)], **where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def said_of(snapshot: Path, folder: Path) -> dict[str, object]:
    """What a run in a folder records of the code, where a snapshot is first on its path."""
    code = "import json, pretrain.run.code_version as p; print(p.__file__); print(json.dumps(p.git_state()))"
    env = os.environ | snapshot_environment(snapshot)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
    place, state = done.stdout.splitlines()
    assert place == str(snapshot / "pretrain/run/code_version.py")
    return json.loads(state)


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A clone of this project's packages with a commit of its own."""
    root = tmp_path / "checkout"
    for name in PACKAGES:
        shutil.copytree(repository / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (root / ".git" / "info" / "exclude").write_text("__pycache__\n")
    for command in (["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *command], check=True)
    return root


def git(checkout: Path, *command: str) -> str:
    whole = ["git", "-C", checkout, *command]
    return subprocess.run(whole, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.ci
def test_a_snapshot_is_the_code_as_it_was(checkout: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    clean, commit = take(checkout, study), git(checkout, "rev-parse", "HEAD")
    assert clean == study / "code" / commit[:12]
    copied = {path.relative_to(clean).as_posix() for path in clean.rglob("*") if path.is_file()}
    assert copied == {*git(checkout, "ls-files").splitlines(), "SNAPSHOT.json"}
    assert said_of(clean, checkout) == {"commit": commit, "clean": True}
    assert take(checkout, study) == clean

    module = checkout / MODULE
    before = module.read_text()
    module.write_text(before + "\nEDITED = True\n")
    dirty = take(checkout, study)
    assert dirty.name.startswith(f"{commit[:12]}-")
    assert said_of(dirty, checkout) == {"commit": commit, "clean": False}
    assert "+EDITED = True" in dirty.with_name(f"{dirty.name}.diff").read_text()
    assert (clean / MODULE).read_text() == before


@pytest.mark.slow
def test_code_that_is_in_no_checkout_is_copied_too(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(checkout / ".git")
    study = tmp_path / "study"
    study.mkdir()
    copy = take(checkout, study)
    assert copy.name.startswith("code-")
    assert said_of(copy, tmp_path) == {"commit": None, "clean": None}


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda copy: flip(copy / MODULE),
        pytest.param(lambda copy: (copy / MODULE).unlink(), marks=pytest.mark.ci),
        lambda copy: (copy / "torch.py").write_text("raise SystemExit('another torch')"),
        pytest.param(lambda copy: flip(copy / "SNAPSHOT.json"), marks=pytest.mark.ci),
        lambda copy: (copy / "SNAPSHOT.json").unlink(),
    ],
)
def test_an_edited_snapshot_is_told_of_and_taken_anew(tmp_path: Path, capsys, damage) -> None:
    copy = take_snapshot(tmp_path)
    assert is_as_copied(copy)
    assert take_snapshot(tmp_path) == copy
    assert not capsys.readouterr().err
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    damage(copy)
    assert not is_as_copied(copy)
    assert not copied_from(copy)["clean"]

    assert take_snapshot(tmp_path) == copy
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    (line,) = capsys.readouterr().err.splitlines()
    assert "files are not as they were copied" in line
    assert copy.with_name(f"{copy.name}.broken").is_dir()
    assert not list(copy.parent.glob("*.tmp-*"))


def test_compiled_files_in_a_snapshot_are_not_believed(tmp_path: Path) -> None:
    copy = take_snapshot(tmp_path)
    (copy / "base" / "__pycache__").mkdir()
    (copy / "base" / "__pycache__" / "files.cpython-311.pyc").write_bytes(b"x")
    assert take_snapshot(tmp_path) == copy
    assert not list(copy.rglob("__pycache__"))
