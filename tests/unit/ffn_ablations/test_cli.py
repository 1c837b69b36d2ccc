"""The one command: its commands and settings, what it loads, and files named as its packages are."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from base.errors import UsageError
from base.files import PACKAGES
from eval.config import EvalConfig
from ffn_ablations.cli import COMMANDS, main, overview
from ffn_ablations.flags_as_keywords import typed_values
from pretrain.config import RunConfig
from tests.processes import HEAVY, NUMBERS, run_fresh

# The one command: every command is there under its name, and what is mistyped is told.
ROOT = Path(__file__).parents[3]


def test_the_first_help_has_every_command_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main([]) == main(["study", "-h"]) == 0
    said = capsys.readouterr().out
    assert said == f"{overview()}\n" * 3
    lines = overview().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for words, (_, text) in COMMANDS.items():
        kind, _, what = words.partition(" ")
        of_its_own = rf"  {words}  +{re.escape(text)}$"
        line = rf"  list (\w+\|)*{what}(\|\w+)*  +" if kind == "list" else of_its_own
        assert any(re.match(line, each) for each in lines)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_help_of_each_calls_it_by_its_name(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--help"])
    said = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert re.match(rf"usage: ffn-ablations {words}[ \n]", said)
    assert "python -m" not in said


def test_no_module_but_two_runs_by_itself() -> None:
    """The command, and what a launcher of several processes starts."""
    running = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
    }
    assert running - {"slurm/worker.py"} == {"ffn_ablations/__main__.py", "pretrain/train.py"}


def test_the_page_of_commands_lists_them_all() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `ffn-ablations ([\w -]+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(words, text) for words, (_, text) in COMMANDS.items()]


WITHOUT_ARGUMENTS = {words for words in COMMANDS if words.startswith("list ")} | {"replicate", "doctor"}


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - WITHOUT_ARGUMENTS))
def test_a_command_without_what_it_needs_says_so(command: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"usage|is missing: .+ --help says more|name .+"):
        main(command.split())
    assert not list(tmp_path.iterdir())


# Settings as keywords.
def test_nested_dotted_and_short_names_find_the_same_fields() -> None:
    nested = typed_values(RunConfig, {"model": {"ffn": "kan"}, "optim": {"max_steps": 3}, "seed": 2})
    dotted = typed_values(RunConfig, {"ffn": "kan", "optim.max_steps": np.int64(3), "seed": 2})
    assert nested.values == dotted.values
    assert nested.values == {("model", "ffn"): "kan", ("optim", "max_steps"): 3, ("seed",): 2}
    assert type(dotted.values["optim", "max_steps"]) is int


def test_options_are_one_value_and_paths_are_texts() -> None:
    found = typed_values(RunConfig, {"model": {"ffn_options": {"grid_size": 5}}, "runs_dir": Path("a") / "b"})
    assert found.values == {("model", "ffn_options"): {"grid_size": 5}, ("output", "runs_dir"): "a/b"}
    files = typed_values(EvalConfig, {"include_path": (Path("c"),), "finetune": {"head": ["linear"]}})
    assert files.values == {("include_path",): ["c"], ("finetune", "head"): ["linear"]}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"fnn": "kan"}, "unknown setting 'fnn', did you mean ffn?"),
        ({"warmupratio": 3}, "unknown setting 'warmupratio', did you mean warmup_ratio?"),
        ({"dropout": 0.1}, "unknown setting 'dropout'; write hidden_dropout and attention_dropout"),
        ({"optim": {"maxsteps": 3}}, "unknown setting 'optim.maxsteps', did you mean optim.max_steps?"),
        ({"optim": 3}, "optim is a section: give a mapping of settings, not 3"),
        ({"ffn": "kan", "model": {"ffn": "gelu"}}, "ffn and model.ffn are the same setting; give it once"),
    ],
)
def test_a_mistake_names_what_was_meant(values: dict, said: str) -> None:
    with pytest.raises(UsageError) as told:
        typed_values(RunConfig, values)
    assert str(told.value) == said


# Files and folders of whoever works somewhere, named as packages of this project are.
USES = "import ffn_ablations; print(ffn_ablations.compare.__module__)"


def in_folder(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.ci
def test_folders_of_its_names_do_no_harm(tmp_path: Path) -> None:
    for folder in ("report/figures", "report/paper", "scores/suites", "eval", "base/run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "report/figures/forest.svg").touch()
    assert in_folder(tmp_path, "-c", USES).stdout == "ffn_ablations.comparing\n"
    assert in_folder(tmp_path, "-m", "ffn_ablations", "report", "--help").returncode == 0


@pytest.mark.parametrize("name", ["base.py", "report/__init__.py"])
def test_a_file_in_place_of_a_package_is_named_and_not_run(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("print('this was run')")
    done = in_folder(tmp_path, "-c", "import ffn_ablations")
    assert (done.returncode, done.stdout) == (1, "")
    said = f"{tmp_path / name} has the name of a package of ffn-ablations"
    assert said in done.stderr.splitlines()[-1]
    (line,) = in_folder(tmp_path, "-m", "ffn_ablations", "report", "--help").stderr.splitlines()
    assert said in line


def test_a_script_of_its_name_is_told_before_it_imports_itself(tmp_path: Path) -> None:
    (tmp_path / "report.py").write_text(f"print('begun')\n{USES}")
    done = in_folder(tmp_path, "report.py")
    assert done.stdout == "begun\n"
    assert done.stderr.splitlines()[-1].endswith("rename it")


@pytest.mark.ci
def test_a_table_has_its_report_beside_whoever_asks_under_its_own_name(repository, tmp_path):
    """Not in ``report/``: in a clone that folder holds code."""
    done = in_folder(tmp_path, "-m", "ffn_ablations", "report", str(repository / "examples/scores.csv"))
    assert done.stdout.splitlines()[-1] == "scores-report/report.md"
    assert [path.name for path in tmp_path.iterdir()] == ["scores-report"]


# What a command loads for its own work: no library of models where it only reads flags, files or rows.
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("train --help", 0),
        ("train --fnn kan", 2),
        ("try mine.py:MyFFN --minuts 3", 2),
        ("train tiny --ffn kann", 2),
        ("study run {folder}/mistaken.yaml", 2),
        ("report {table} --out {folder}", 0),
        ("report {table} --metric accuracy", 2),
        ("study status {folder}", 0),
        ("list variants", 0),
        ("train tiny --dry-run", 0),
        ("study run quickstart --dry-run --runs-dir {folder}/runs", 0),
    ],
)
@pytest.mark.ci
def test_help_mistakes_rows_and_states_load_no_library_of_models(command, status, repository, tmp_path):
    (tmp_path / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    study = "name: x\nfamilies: {gpt_neo: tiny}\nvariants: [gelu]\nseeds: [1]\nconfig: {optim: {steps: 3}}\n"
    (tmp_path / "mistaken.yaml").write_text(study)
    words = command.format(table=repository / "examples/scores.csv", folder=tmp_path).split()
    is_told_first = status or words[0] != "report"
    assert run_fresh(*words, of=(*HEAVY, *NUMBERS) if is_told_first else HEAVY) == (status, [])
