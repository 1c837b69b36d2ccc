"""Every command of the README, in its order, in a fresh clone under a fresh HOME."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

RUN_BY_CI = ("make ", ". .venv/bin/activate")
"""How commands begin that .ci/run calls by itself."""
DRY_RUN = {
    "ffn-ablations train gpt-neo": "reads TinyStories from the hub",
    "accelerate launch": "is for four GPUs, and reads TinyStories from the hub",
}
"""How commands begin that cannot be run here: they are given ``--dry-run``, for this reason."""


def blocks(readme: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)


def commands(readme: str) -> list[str]:
    """The lines of all blocks of shell, without what stands behind a #."""
    lines = [line for block in blocks(readme, "bash") for line in block.splitlines()]
    return [command for line in lines if (command := shlex.join(shlex.split(line, comments=True)))]


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of what is committed, with the texts of a user in it."""
    folder = tmp_path_factory.mktemp("readme") / "clone"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", repository, folder], check=True)
    texts = folder / "my-texts"
    texts.mkdir()
    (texts / "stories.txt").write_text("\n".join(["Once upon a time.", "<|endoftext|>"] * 200))
    return folder


def run(command: list[str], clone: Path) -> str:
    home = clone.parent / "home"
    home.mkdir(exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(clone)}
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_"))}
    done = subprocess.run(command, cwd=clone, env=bare | ours, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_command_runs_in_the_order_of_the_page(readme: str, clone: Path) -> None:
    for command in commands(readme):
        if not command.startswith(RUN_BY_CI):
            dry_run = ["--dry-run"] if command.startswith(tuple(DRY_RUN)) else []
            run([*shlex.split(command), *dry_run], clone)
    loads_the_model, *_ = blocks(readme, "python")
    run([sys.executable, "-c", loads_the_model], clone)


def test_the_page_shows_what_its_report_prints(readme: str, clone: Path) -> None:
    (shown,) = blocks(readme, "text")
    assert run(["ffn-ablations", "report", "examples/scores.csv"], clone).startswith(shown)


def test_it_shows_the_study_that_it_runs(readme: str, repository: Path) -> None:
    _, *study = (repository / "examples/my-study.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    assert blocks(readme, "yaml") == ["".join(study)]


def test_ci_runs_the_first_commands_in_the_order_of_the_page(readme: str, repository: Path) -> None:
    in_ci = (repository / ".ci/run").read_text(encoding="utf-8")
    made = [command for command in commands(readme) if command.startswith("make")]
    assert made
    assert [line for line in in_ci.splitlines() if line in made] == made


@pytest.mark.slow
def test_every_block_of_python_runs(readme: str, clone: Path) -> None:
    run(["ffn-ablations", "train", "tiny", "--ffn", "kan", "--run-name", "my-kan"], clone)
    for block in blocks(readme, "python"):
        run([sys.executable, "-c", block], clone)
