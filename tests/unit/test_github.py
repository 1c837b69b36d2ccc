"""What GitHub, Docker and citation tools read of this repository: bounded, and naming only what exists."""

import json
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ffn_ablations.cli import find_command

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
NOTES = runpy.run_path(str(ROOT / ".ci/release_notes.py"))["main"]


def load(path: Path) -> dict[str, Any]:
    # Of the loaders, this one reads `on:` as the word that it is on GitHub.
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_bounded_and_may_do_no_more_than_they_need(path: Path) -> None:
    content = load(path)
    assert content["permissions"]["contents"] == "read"
    for job in content["jobs"].values():
        assert int(job["timeout-minutes"]) <= 60
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+)", step.get("uses", "a@v1"))
            # What a stranger writes (titles, branches) is no part of a command.
            assert "${{" not in step.get("run", "")


def commands() -> list[list[str]]:
    """Every command that a workflow, the image or the container for developers runs, as words."""
    jobs = [job for path in WORKFLOWS for job in load(path)["jobs"].values()]
    texts = [step.get("run", "") for job in jobs for step in job["steps"]]
    lines = [line for text in texts for line in text.splitlines()]
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    lines += container["postCreateCommand"].split("&&")
    return [shlex.split(line) for line in lines]


def test_commands_and_files_named_there_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = {words[words.index("make") + 1] for words in commands() if "make" in words}
    assert {"test", "quickstart", "environment"} <= made <= targets
    named = {
        word.rstrip("/")
        for words in commands()
        for text in words
        for word in text.removeprefix("TESTS=").split()
        if re.match(r"(\.ci|tests|configs|docs)/|constraints", word)
    }
    assert ".ci/run" in named
    assert not [name for name in named if not (ROOT / name).exists()]


def test_what_is_called_of_this_project_is_a_command() -> None:
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    in_comments = [shlex.split(x) for x in re.findall(r"(?m)^#  +docker run.* ffn-ablations (.*)$", recipe)]
    called = [words[1:] for words in commands() if words[:1] == ["ffn-ablations"]] + in_comments
    assert ["study", "run", "quickstart"] in called
    for words in called:
        assert words == ["--version"] or find_command(words)


def test_the_image_has_what_the_package_is_built_of() -> None:
    """And nothing else: no run, no environment, no history."""
    kept = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert load(ROOT / "CITATION.cff")["version"] == project["project"]["version"]
    packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]}
    files = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    assert set(kept) == packages | files | {"configs", "constraints.txt"}
    assert set(kept) <= {path.name for path in ROOT.iterdir()}
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (extra,) = re.findall(r"--extra (\w+)", recipe)
    assert extra in project["project"]["optional-dependencies"]
    (entry,) = json.loads(re.findall(r"^ENTRYPOINT (.*)$", recipe, re.MULTILINE)[0])
    assert entry in project["project"]["scripts"]
    assert recipe.index("\nUSER 1000") < recipe.index("\nENTRYPOINT")


def test_a_tag_gets_the_notes_of_its_version(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.2.0\n")
    changes = "## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- new\n\n## [0.1.0]\n\n- old\n"
    (tmp_path / "CHANGELOG.md").write_text(changes)
    assert NOTES("v0.2.0", tmp_path) == 0
    assert capsys.readouterr().out == "- new\n"
