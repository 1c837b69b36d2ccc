"""Every command of the README in its order, on a small model; .ci/run runs the first in a fresh clone."""

import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cases import FEW_TASKS
from tests.processes import run_command

TAKES_LONG = "ffn-ablations train gpt-neo"
TRIES = "ffn-ablations try"
"""How commands begin that read TinyStories from the hub, or fill minutes: here with ``--dry-run``."""
STORIES = "Once upon a time.\n\n" * 200


def blocks(readme: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)


def commands(readme: str) -> list[str]:
    """The lines of all blocks of shell, without what stands behind a #."""
    lines = [line for block in blocks(readme, "bash") for line in block.splitlines()]
    return [command for line in lines if (command := shlex.join(shlex.split(line, comments=True)))]


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def small(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where ``tiny`` is another model of four steps, and the study of the page has two seeds."""
    shutil.copytree(repository / "examples", tmp_path / "examples")
    tiny = yaml.safe_load((repository / "configs/tiny.yaml").read_text(encoding="utf-8"))
    tiny["data"] |= {"num_stories": 200, "vocab_size": 400}
    tiny["optim"] = {"max_steps": 4}
    tiny["train"] = {"torch_compile": False}
    for folder in (tmp_path, tmp_path / "examples"):
        (folder / "tiny.yaml").write_text(yaml.safe_dump(tiny), encoding="utf-8")
    study = tmp_path / "examples/my-study.yaml"
    content = yaml.safe_load(study.read_text(encoding="utf-8")) | {"seeds": [1, 2]}
    content["evaluation"] |= {"max_pairs": 4, "pair_tasks": FEW_TASKS}
    study.write_text(yaml.safe_dump(content), encoding="utf-8")
    for program in ("sbatch", "srun"):  # a dry run looks for them and starts neither
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{tmp_path}")
    (tmp_path / "my-texts").mkdir()
    (tmp_path / "my-texts/stories.txt").write_text(STORIES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.ci
@pytest.mark.usefixtures("own_variants")
def test_every_command_runs_on_a_small_model(readme: str, small: Path, run_study: Callable[..., int]) -> None:
    """Without those about the zoo, which test_shipped_studies.py has, and those of accelerate.

    Each run is scored on one paradigm.
    """
    readme = readme.replace('=["embedded-pairs"]', '=["embedded-pairs"], pair_tasks=["wh_gap"]')
    readme = readme.replace(" embedded-pairs ", " embedded-pairs --pair-tasks wh_gap ")
    assert readme.count("wh_gap") == 2
    for command in commands(readme):
        words = shlex.split(command)
        if words[0] != "ffn-ablations" or "zoo" in command or command.startswith(TRIES):
            continue
        if words[1:3] == ["study", "run"]:
            assert run_study(*words[3:]) == 0, command
            continue
        dry_run = ["--dry-run"] if command.startswith(TAKES_LONG) else []
        done = run_command("ffn_ablations", *words[1:], *dry_run)
        assert done.returncode == 0, (command, done.stderr)
    for block in blocks(readme, "python"):
        exec(block, {})
    assert (small / "runs/my-study/report/report.md").is_file()
    assert (small / "runs/default/gpt_neo/kan/my-kan/eval/rows.parquet").is_file()
    assert (small / "my-study.tar.xz").is_file()


@pytest.mark.slow
def test_the_layer_of_the_page_is_tried(readme: str, small: Path) -> None:
    (command,) = (command for command in commands(readme) if command.startswith(TRIES))
    done = run_command("ffn_ablations", *shlex.split(command)[1:], "--dry-run")
    assert done.returncode == 0, done.stderr


@pytest.mark.ci
def test_the_page_shows_what_its_report_prints(readme: str, small: Path, repository: Path) -> None:
    shown = " ".join(re.findall(r"^> (.*)$", readme, re.MULTILINE)).split()
    assert "**Answer.**" in shown
    assert run_command("report", "examples/scores.csv").stdout.split()[: len(shown)] == shown
    figure = repository / re.search(r"!\[[^]]*\]\((.*?)\)", readme)[1]
    svgs = [path.read_text(encoding="utf-8") for path in (small / "scores-report/figures/forest.svg", figure)]
    assert len({tuple(re.findall("<!-- .* -->", svg)) for svg in svgs}) == 1  # words and numbers


def test_it_shows_the_study_that_it_runs(readme: str, repository: Path) -> None:
    _, *study = (repository / "examples/my-study.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    assert blocks(readme, "yaml") == ["".join(study)]


def test_ci_runs_the_first_commands_in_the_order_of_the_page(readme: str, repository: Path) -> None:
    in_ci = (repository / ".ci/run").read_text(encoding="utf-8")
    made = [command for command in commands(readme) if command.startswith("make")]
    assert made
    assert [line for line in in_ci.splitlines() if line in made] == made
