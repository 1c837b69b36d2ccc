"""Queued jobs run the code as it was submitted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm.snapshot import PACKAGES, snapshot_environment, take_snapshot


def take(root: Path, study: Path) -> Path:
    """Take a snapshot with the code of a folder, as a submission from there does."""
    code = "import pathlib, sys, slurm.snapshot as s; print(s.take_snapshot(pathlib.Path(sys.argv[1])))"
    env = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(study)], env=env, cwd=study.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A clone of this project's packages with a commit of its own."""
    root = tmp_path / "checkout"
    for name in PACKAGES:
        shutil.copytree(repository / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *command], check=True)
    return root


def test_a_snapshot_is_the_code_as_it_was(checkout: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    clean = take(checkout, study)
    commit = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert clean == study / "code" / commit[:12]
    tracked = subprocess.run(["git", "-C", checkout, "ls-files"], capture_output=True, text=True, check=True)
    copied = {path.relative_to(clean).as_posix() for path in clean.rglob("*") if path.is_file()}
    assert copied == {*tracked.stdout.split(), "SNAPSHOT.json"}
    assert json.loads((clean / "SNAPSHOT.json").read_text()) == {"commit": commit, "clean": True}
    assert take(checkout, study) == clean

    module = checkout / "slurm" / "state.py"
    before = module.read_text()
    module.write_text(before + "\nEDITED = True\n")
    dirty = take(checkout, study)
    assert dirty.name.startswith(f"{commit[:12]}-")
    assert json.loads((dirty / "SNAPSHOT.json").read_text()) == {"commit": commit, "clean": False}
    assert "+EDITED = True" in dirty.with_name(f"{dirty.name}.diff").read_text()
    assert (clean / "slurm" / "state.py").read_text() == before
    files = {path.relative_to(clean) for path in clean.rglob("*.py")}
    assert files == {p.relative_to(checkout) for name in PACKAGES for p in (checkout / name).rglob("*.py")}

    # A process with the snapshot first on its path runs that, and its runs record the commit.
    code = "import slurm.state, pretrain.run.provenance as p; print(slurm.state.__file__, p.git_state())"
    env = os.environ | snapshot_environment(clean)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=checkout, capture_output=True, text=True, check=True
    )
    assert done.stdout.split(" ", 1)[0] == str(clean / "slurm" / "state.py")
    assert commit in done.stdout


def test_code_that_is_in_no_checkout_is_copied_too(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(checkout / ".git")
    study = tmp_path / "study"
    study.mkdir()
    copy = take(checkout, study)
    assert copy.name.startswith("code-")
    assert json.loads((copy / "SNAPSHOT.json").read_text()) == {"commit": None, "clean": None}


def test_this_checkout_can_be_copied(tmp_path: Path) -> None:
    assert (take_snapshot(tmp_path) / "slurm" / "submit.py").is_file()
