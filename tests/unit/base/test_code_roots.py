"""Code of several places that is mixed is told of in one line, and no run of it counts as clean."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from base.code_roots import PACKAGES, code_roots, mixed_code
from base.files import CODE_ROOT

STATE = "import json; from pretrain.run.provenance import git_state; print(json.dumps(git_state()))"


def copy(folder: Path) -> Path:
    """Another clone."""
    for name in PACKAGES:
        shutil.copytree(CODE_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def python(*arguments: object, path: Path | str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, **options)


def test_code_of_one_place_is_not_mixed():
    assert set(PACKAGES) <= code_roots().keys()
    assert set(code_roots().values()) == {CODE_ROOT}
    assert mixed_code(code_roots()) is None


def test_the_script_of_one_clone_with_the_packages_of_another(tmp_path):
    clone = copy(tmp_path / "clone")
    done = python(clone / "pretrain/train.py", "--fnn", "kan", path=CODE_ROOT, cwd=clone)
    warning, error = done.stderr.splitlines()
    assert error.startswith("error: unknown flag --fnn")
    assert warning == (
        f"warning: code of several places is mixed: the file that runs lies in {clone}; base, ffn_variants, "
        f"pretrain, eval, slurm, ffn_ablations lie in {CODE_ROOT}; for one of them, set PYTHONPATH={clone} "
        f"or install it: pip install -e {clone}"
    )
    cured = python(clone / "pretrain/train.py", "--fnn", "kan", path=clone, cwd=clone)
    assert cured.stderr.splitlines() == [error]


@pytest.mark.parametrize("module", ["pretrain.train", "eval", "eval.report", "slurm.submit", "slurm.status"])
@pytest.mark.ci
def test_packages_of_different_clones(tmp_path, module):
    clone = tmp_path / "clone"
    shutil.copytree(CODE_ROOT / "slurm", clone / "slurm")
    done = python("-m", module, "--nonsense", path=f"{clone}{os.pathsep}{CODE_ROOT}", cwd=tmp_path)
    warning = done.stderr.splitlines()[0]
    assert warning.startswith("warning: code of several places is mixed: ")
    assert str(clone) in warning
    assert str(CODE_ROOT) in warning


@pytest.mark.slow
def test_a_run_of_mixed_code_is_not_clean(tmp_path):
    clone = copy(tmp_path / "clone")
    (clone / "pretrain/state.py").write_text(STATE, encoding="utf-8")
    state = json.loads(python(clone / "pretrain/state.py", path=CODE_ROOT, check=True).stdout)
    assert state["clean"] is False
    assert state["mixed"] == {"the file that runs": str(clone)} | dict.fromkeys(PACKAGES, str(CODE_ROOT))
    assert "mixed" not in json.loads(python("-c", STATE, path=CODE_ROOT, check=True, cwd=tmp_path).stdout)


def test_somebody_else_s_script_may_lie_anywhere(tmp_path):
    (tmp_path / "eval").mkdir()
    script = tmp_path / "eval" / "theirs.py"
    script.write_text("from base.code_roots import *\nprint(mixed_code(code_roots()))", encoding="utf-8")
    assert python(script, path=CODE_ROOT, check=True).stdout == "None\n"
