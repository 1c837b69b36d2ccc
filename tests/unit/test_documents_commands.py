"""Commands, flags, paths and dotted names that documents show are there."""

import ast
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from base.errors import UsageError
from ffn_ablations.cli import COMMANDS, find_command, load_main
from tests.unit.test_repository import MODULES, NAMED_AND_ABSENT, PACKAGES, ROOT, WRITTEN_BY_HAND, definitions

# What changed and what was measured long ago may name what is gone.
PAGES = [page for page in WRITTEN_BY_HAND if page.name not in ("CHANGELOG.md", "RESULTS.md")]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FLAG = re.compile(r"(?<![\w-])--[a-z][\w.-]*[a-z0-9]|(?<![\w-])--[a-z](?![\w-])")
OTHER_COMMANDS = {"--version", "--help", "--logdir", "--num_processes", "--multi_gpu", "--cpu"}
"""Of accelerate, tensorboard and every command."""
PLACEHOLDERS = {"--flag", "--no-flag"}
IN_RUNS = ("eval/items/", "eval/loss", "eval/rows.", "eval/done.json", "eval/expl", "eval/classifiers/")
"""What lies in a run's folder, or is a metric of a tracker, and begins as a package's path does."""
SUFFIXES = (".csv", ".html", ".json", ".md", ".py", ".yaml")
TOP = (*PACKAGES, "benchmarks", "configs", "docs", "examples", "tests")


@cache
def flags_of(command: str) -> frozenset[str]:
    """Return the flags that the whole help of a command shows."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        load_main(COMMANDS[command])(["--help", "all"])
    return frozenset(FLAG.findall(shown.getvalue()))


def texts(page: Path) -> Iterator[str]:
    """Commands of a page: lines of its blocks of shell, long ones joined, and code within prose."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.replace("\\\n", " ").splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose))


def words_of(line: str) -> Iterator[list[str]]:
    """Split a line of shell into its commands, and these into words; comments are left out."""
    with contextlib.suppress(ValueError):  # a quote that is no quote
        words = shlex.split(re.sub(r"([;|&])", r" \1 ", line), comments=True)
        command: list[str] = []
        for word in [*words, ";"]:
            if word in (";", "|", "&"):
                yield command
                command = []
            elif command or "=" not in word:
                command.append(word)


def command_of(words: list[str]) -> tuple[str, list[str]] | None:
    """Return the name of this project's command and its arguments; None for another program."""
    if words[:1] == ["do"]:
        words = words[1:]
    for start in (["ffn-ablations"], ["python", "-m", "ffn_ablations"]):
        if words[: len(start)] == start and len(words) > len(start) and words[len(start)][0].islower():
            command, arguments = find_command(words[len(start) :])
            return next(name for name, each in COMMANDS.items() if each is command), arguments
    if words[:2] == ["python", "pretrain/train.py"]:
        return "train", words[2:]
    return None


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_their_flags_exist(page: Path) -> None:
    absent = []
    for line in texts(page):
        for words in words_of(line):
            try:
                command = command_of(words)
            except UsageError as error:
                absent.append(str(error))
                continue
            if command:
                name, arguments = command
                flags = {word.partition("=")[0] for word in arguments if FLAG.match(word)}
                absent += [f"{name} {flag}" for flag in sorted(flags - flags_of(name) - OTHER_COMMANDS)]
    assert absent == [], f"{page.relative_to(ROOT)} shows what the commands do not have"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_other_programs_exist(page: Path) -> None:
    """Targets of make, modules behind ``python -m``, and the flags that a benchmark's source has."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for line in texts(page):
        for words in words_of(line):
            if words[:1] == ["make"]:
                assert {word for word in words[1:] if word[0].islower()} <= targets, line
            elif words[:2] == ["python", "-m"] and words[2].startswith(("benchmarks.", "tests.")):
                source = ROOT / f"{words[2].replace('.', '/')}.py"
                assert source.exists(), line
                text = source.read_text(encoding="utf-8")
                for flag in filter(FLAG.match, words[3:]):
                    assert flag in text or f"{flag[2:].replace('-', '_')}:" in text, line


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_flags_named_by_themselves_exist(page: Path) -> None:
    flags = OTHER_COMMANDS.union(PLACEHOLDERS, *map(flags_of, COMMANDS))
    for source in (ROOT / "benchmarks").glob("*.py"):
        flags.update(FLAG.findall(source.read_text(encoding="utf-8")))
    named = {line.split()[0].partition("=")[0] for line in texts(page) if FLAG.match(line)}
    assert sorted(named - flags) == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_paths_exist(page: Path) -> None:
    words = [word.partition(":")[0] for code in texts(page) for word in code.split()]
    paths = {word for word in words if re.fullmatch(rf"(?:{'|'.join(TOP)})/[\w/.-]*", word)}
    absent = [path for path in paths if not (ROOT / path).exists() and path not in NAMED_AND_ABSENT]
    assert [path for path in absent if not path.startswith(IN_RUNS)] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_dotted_names_exist(page: Path) -> None:
    dotted = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
    for code in texts(page):
        name = code.partition("(")[0]
        if not dotted.fullmatch(name) or name.endswith(SUFFIXES) or name in MODULES:
            continue
        module, attribute = next((m, name[len(m) + 1 :]) for m in _prefixes(name) if m in MODULES)
        path = MODULES[module]
        text = path.read_text(encoding="utf-8")
        assert attribute in definitions(path) or re.search(rf"\b{attribute}\b", text), f"{page.name}: {name}"


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:size]) for size in range(len(parts) - 1, 0, -1)]


def test_reading_orders_of_packages_name_their_modules() -> None:
    orders = 0
    for path in MODULES.values():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if path.name == "__init__.py" and "Reading order: " in docstring:
            orders += 1
            here = {other.stem for other in path.parent.iterdir()} | set(PACKAGES)
            order = docstring.partition("Reading order: ")[2].partition("\n\n")[0]
            assert set(re.findall(r"``([a-z_]+)``", order)) <= here, path
    assert orders > 5
