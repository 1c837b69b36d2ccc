"""What a user writes: flags, names, options and names of configurations."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import yaml
from pydantic import Field

from base.command_line import Positional, parse_flags, read_flags
from base.config_input import FOLDERS, find_config, shipped
from base.errors import UsageError, run_cli
from base.files import CODE_ROOT
from base.options import LONGEST_NAME, check_name, like, parse_option_text, write_option_text
from base.sections import Section
from eval.command import EvaluateArgs
from ffn_ablations.cli import COMMANDS, load_main
from ffn_ablations.list_studies import main
from pretrain.config import RunConfig
from tests.cases import listed


# Mistakes on a command line, as a user reads them.
class Inner(Section):
    """A part."""

    size: int = Field(8, ge=2)
    """How large."""
    is_round: bool = True
    """Have no corners."""


class Everything(Section):
    """One field of each type."""

    short_names: ClassVar = {("inner", "size"): "size"}

    place: Positional[Path]
    """Where to."""
    whole: int = Field(1, ge=0, lt=9)
    """How many."""
    number: float | None = Field(None, gt=0, le=2)
    text: str = ""
    switch: bool = False
    left_open: bool | None = None
    chosen: bool | Literal["auto"] = "auto"
    colour: Literal["red", "green"] = "red"
    several: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    pair: tuple[int, ...] = (3, 4)
    """Two numbers."""
    word: Literal["none"] | None = None
    either: Literal["run"] | tuple[int, ...] | None = None
    options: dict[str, int | float | bool | str] | None = None
    inner: Inner = Inner()
    """What is inside."""


@pytest.mark.parametrize(("line", "given"), listed(__file__, "flags"))
def test_flags_are_read(line: str, given: dict[str, object]) -> None:
    read = parse_flags(Everything, ["here", *line.split()])
    assert read == Everything.model_validate({"place": "here", **given})
    assert {name for name in type(read).model_fields if name in given or name == "place"} == {
        path[0] for path in read_flags(Everything, ["here", *line.split()]).values
    }


def test_flags_are_those_of_the_process_where_no_others_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["a command", "here", "--whole", "3"])
    assert parse_flags(Everything) == Everything.model_validate({"place": "here", "whole": 3})


MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("line", "told"), MISTAKES.items())
def test_a_mistake_is_one_line_that_says_what_is_allowed(line: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_flags(Everything, line.split())
    assert str(error.value) == told


@pytest.mark.parametrize("line", ["--help", "-h", "a --whole x --help", "--zzz --help"])
def test_help_goes_before_mistakes(line: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_flags(Everything, line.split(), prog="a command")
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith("usage: a command PLACE [--FLAG VALUE ...]\n\nOne field of each type.\n")
    shown = set(re.findall(r"(?m)(?:^ *|, )(--?[a-z][\w.-]*)", said))
    fields = {f"--{name.replace('_', '-')}" for name in Everything.model_fields} - {"--place", "--inner"}
    assert shown == fields | {"-h", "--help", "--size", "--inner.size", "--inner.no-is-round", "--no-chosen"}
    assert "How many. (default: 1)" in said
    assert "Two numbers. (default: 3 4)" in said
    assert "Turns off: Have no corners." in said
    assert not re.search(r"default: [(T]", said), "a tuple, or what a switch is anyway"
    assert "null" not in said


@pytest.mark.parametrize("command", ["study run", "train", "eval", "report"])
def test_help_is_one_screen_and_all_lists_the_rest(command, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = []
    for words in (["--help"], ["--help", "all"]):
        with pytest.raises(SystemExit):
            load_main(COMMANDS[command])(words)
        said.append(capsys.readouterr().out)
    few, all_flags = (set(re.findall(r"(?m)^  (?:-h, )?(--[a-z][\w.-]*)", text)) for text in said)
    assert len(said[0].splitlines()) <= 52 < len(said[1].splitlines())
    assert "ffn-ablations" in said[0].split("options:")[0]
    assert 10 < len(few) < len(all_flags)


@pytest.mark.parametrize(
    ("kind", "line", "given"),
    [
        (RunConfig, "--optim.learning_rate 1e-2 --lr 1", {"optim.learning_rate": "1"}),
        (RunConfig, "--runs_dir a_b --epochs=3", {"output.runs_dir": "a_b", "optim.num_train_epochs": "3"}),
        (
            EvaluateArgs,
            "a --max-pairs 9 --suites b c",
            {"runs": ["a"], "max_pairs": "9", "suites": ["b", "c"]},
        ),
        (EvaluateArgs, "a --finetune.head b c", {"runs": ["a"], "finetune.head": ["b", "c"]}),
    ],
)
def test_a_flag_of_two_names_reads_the_same_by_each(kind, line: str, given: dict[str, object]) -> None:
    values = read_flags(kind, line.split()).values
    assert {".".join(path): value for path, value in values.items()} == given


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word() -> None:
    command = [sys.executable, "-m", "ffn_ablations", "list", "variants"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_a_pipe_that_breaks_elsewhere_is_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        raise BrokenPipeError("a worker's")

    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(BrokenPipeError, match="a worker's"):
            run_cli(main)


def test_a_message_does_not_repeat_thousands_of_characters(capsys: pytest.CaptureFixture) -> None:
    def main() -> None:
        raise UsageError(f"--seeds is {'9' * 5000}; give whole numbers, as 1-5")

    with pytest.raises(SystemExit, match="2"):
        run_cli(main)
    assert capsys.readouterr().err == f"error: --seeds is {'9' * 77}...; give whole numbers, as 1-5\n"


# Names, options and how users write them.
# What a user may call a folder.
GOOD = ["a", "0", "seed3-1a2b", "my-own_run.v2", "größe", "a+b=c@d,50%", "x" * LONGEST_NAME]
BAD = ["", ".", "..", ".a", "-a", "_a", "a/b", "/a", "a b", "a\nb", "a\x1b", "a\0", "a;b", "$a", "a*", "a`b`"]


@pytest.mark.parametrize("name", GOOD)
def test_names(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", [*BAD, "a|b", "a>b", "a'b", 'a"b', "a\\b", "a~b", "a#b", "x" * 5000, "ö" * 150]
)
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match="cannot name a folder; give letters, digits and") as told:
        check_name(name)
    assert len(str(told.value)) < 300


# Names with options, as users write heads and variants.
def test_what_is_written_is_read_back() -> None:
    options = {"grid_size": 3, "scale": 0.5, "activation": "gelu"}
    text = write_option_text("kan", options, ["frozen"])
    assert text == "kan activation=gelu grid_size=3 scale=0.5 frozen"
    read = parse_option_text(text, "head", ("frozen",))
    assert (read.name, dict(read.options), read.words) == ("kan", options, ("frozen",))
    assert parse_option_text("  kan   b=1 a=x ", "variant").options == {"b": 1, "a": "x"}


@pytest.mark.parametrize(
    ("default", "value", "wanted"),
    [(5, 3.0, "3"), (1.0, 2, "2.0"), (5, 2.5, "2.5"), ("a", 3, "3"), (None, 1, "1")],
)
def test_numbers_take_the_type_of_the_default_where_that_changes_nothing(default, value, wanted) -> None:
    assert str(like(default, value)) == wanted


# Which file a name means: an own one, or one that ships.
@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_a_name_means_the_shipped_one_from_any_folder() -> None:
    assert find_config(Path("tiny"), "config") == CODE_ROOT / "configs/tiny.yaml"
    assert find_config(Path("thesis.yaml"), "study") == CODE_ROOT / "configs/studies/thesis.yaml"
    assert find_config(Path("one-gpu"), "preset") == CODE_ROOT / "configs/clusters/one-gpu.yaml"


def test_an_own_file_goes_before_and_a_folder_does_not(here: Path) -> None:
    (here / "tiny").mkdir()
    assert find_config(Path("tiny"), "config") == CODE_ROOT / "configs/tiny.yaml"
    (here / "tiny.yaml").touch()
    assert find_config(Path("tiny"), "config") == Path("tiny.yaml")
    assert find_config(Path("tiny.yaml"), "config") == Path("tiny.yaml")
    (here / "gpt-neo").touch()
    assert find_config(Path("gpt-neo"), "config") == Path("gpt-neo")
    assert find_config(Path("tiny"), "config", Path("tiny.yaml")) == CODE_ROOT / "configs/tiny.yaml"
    assert find_config(Path("tiny"), "config", here / "tiny/study.yaml") == CODE_ROOT / "configs/tiny.yaml"


NAMES = [name for kind in FOLDERS for name in shipped(kind)]


def test_a_copy_is_the_file_itself_and_is_written_once(here, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        main([name])
        shown = capsys.readouterr().out
        main([name, "--copy"])
        assert capsys.readouterr().out == f"{name}.yaml\n"
        (original,) = (CODE_ROOT / "configs").rglob(f"{name}.yaml")
        assert (here / f"{name}.yaml").read_text() == original.read_text() == shown
    with pytest.raises(UsageError, match="exists here already"):
        main([NAMES[0], "--copy"])


def test_the_list_has_every_name_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    listed = dict(line.split(None, 1) for line in lines)
    assert listed.keys() == set(NAMES)
    assert len(NAMES) == len(set(NAMES)) == len(list((CODE_ROOT / "configs").rglob("*.yaml")))
    assert listed["quickstart"] == "A complete small study that needs no network and no data"
    assert len({len(line) - len(listed[line.split()[0]]) for line in lines}) == 1  # one column
    assert max(map(len, listed.values())) <= 90
