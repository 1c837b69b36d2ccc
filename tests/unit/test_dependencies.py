"""What the code imports is declared, and what is installed for it is pinned: no version comes by chance."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from base.files import PACKAGES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURS = {*PACKAGES, "benchmarks", "tests", "docs"}
# Of kernels: it comes with every torch that can use it, and without one they are never built.
BROUGHT_BY_TORCH = {"triton"}
DISTRIBUTIONS = packages_distributions()
PINS = {
    canonicalize_name(line.split("==")[0]): Version(line.split("==")[1])
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
}


def names_of(lines: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


def imported(folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Packages that are not Python's own, each with a file that imports it."""
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=aliases):
                    modules = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case _:
                    modules = []
            for name in (module.partition(".")[0] for module in modules):
                if name not in sys.stdlib_module_names and name not in OURS:
                    yield name, path.relative_to(ROOT).as_posix()


def undeclared(folders: Iterable[str], declared: set[str]) -> list[str]:
    return sorted(
        f"{path} imports {name}: declare it in pyproject.toml, and pin it in constraints.txt"
        for name, path in set(imported(folders))
        if not declared & {canonicalize_name(each) for each in (name, *DISTRIBUTIONS.get(name, ()))}
    )


def test_every_import_is_declared() -> None:
    chosen = {extra: lines for extra, lines in EXTRAS.items() if extra not in ("dev", "docs")}
    users = names_of([*PROJECT["dependencies"], *(line for lines in chosen.values() for line in lines)])
    assert undeclared(PACKAGES, users | BROUGHT_BY_TORCH) == []
    assert undeclared(("benchmarks",), users | names_of(EXTRAS["dev"])) == []


def installed_for(lines: Iterable[str], extras: frozenset[str] = frozenset()) -> dict[str, str]:
    """Versions of all that requirements bring here, and of what that brings in turn."""
    found: dict[str, str] = {}
    waiting = [(line, extras) for line in lines]
    while waiting:
        line, within = waiting.pop()
        asked = Requirement(line)
        if asked.marker and not any(asked.marker.evaluate({"extra": extra}) for extra in within or {""}):
            continue
        name = canonicalize_name(asked.name)
        known = name in found
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
        if not known or asked.extras:
            waiting += [(more, frozenset(asked.extras)) for more in distribution(name).requires or ()]
    return found


def test_everything_that_is_installed_is_pinned_and_allowed() -> None:
    lines = [*PROJECT["dependencies"], *EXTRAS["torch"], *EXTRAS["dev"], *EXTRAS["docs"]]
    found = installed_for(lines)
    found.pop("ffn-ablations", None)
    assert len(found) > 100
    assert not found.keys() - PINS.keys() - {"setuptools"}
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        assert name not in PINS or PINS[name] in requirement.specifier, requirement


def test_every_dependency_has_a_lowest_version_and_no_highest() -> None:
    for line in (*PROJECT["dependencies"], *EXTRAS["torch"]):
        assert re.fullmatch(r"[a-z0-9-]+>=[\d.]+", line), line
