"""Run the tests that a change concerns: those that import what changed, the nearest first, for a minute.

    make test CHANGED=1
    make test CHANGED="report/page.py base/files.py"

What changed is what git sees against the main branch, committed or not, new files too. The tests of the whole
repository (its links, packages, declared imports) follow those that import a changed file themselves; then
come those that import such an importer, and so on. What was not begun within ``--seconds`` is skipped, and
the last lines say how much: ``make test`` runs everything.
"""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Beyond so many steps of imports nearly every test is concerned with every module.
FARTHEST = 3
# Two workers that take files in the order given.
IN_ORDER = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
SECONDS = 20


def changed_files(root: Path = ROOT) -> list[str]:
    """Files that differ from where this branch left ``main``, and those that git does not have yet."""
    return sorted({*git(root, "diff", "--name-only", main_branch(root)), *new_files(root)})


def new_files(root: Path = ROOT) -> list[str]:
    """Files that git does not have yet, and would take."""
    return git(root, "ls-files", "--others", "--exclude-standard")


def all_files(root: Path) -> list[str]:
    """What lies there of what git has, and what it would take."""
    names = {*git(root, "ls-files"), *new_files(root)}
    return sorted(name for name in names if (root / name).is_file())


def main_branch(root: Path) -> str:
    """The commit where this branch left ``main``; the last one where there is no such branch."""
    bases = git(root, "merge-base", "HEAD", "origin/main") or git(root, "merge-base", "HEAD", "main")
    return bases[0] if bases else "HEAD"


def concerned_tests(files: Collection[str], root: Path = ROOT) -> dict[str, int]:
    """By test file, in the order in which to run them, the steps of imports to the nearest of ``files``."""
    importers = _importers(root)
    steps = dict.fromkeys(files, 0)
    frontier = list(steps)
    for step in range(1, FARTHEST + 1):
        reached = sorted({importer for name in frontier for importer in importers[name]} - set(steps))
        steps |= dict.fromkeys(reached, step)
        frontier = reached
    of_the_repository = {path.relative_to(root).as_posix() for path in root.glob("tests/unit/test_*.py")}
    steps = dict.fromkeys(of_the_repository, 2) | steps
    tests = {name: step for name, step in steps.items() if _is_test(name) and (root / name).exists()}

    def place(test: str) -> tuple[int, bool, int, str]:
        return tests[test], test not in of_the_repository, -_likeness(test, files), test

    return {test: tests[test] for test in sorted(tests, key=place)}


def _likeness(test: str, files: Collection[str]) -> int:
    """How many parts of its path a test shares with a changed file: those that mirror it come first."""
    parts = set(Path(test.replace("test_", "")).with_suffix("").parts)
    return max(len(parts & set(Path(name).with_suffix("").parts)) for name in files)


def _is_test(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_")


@cache
def _importers(root: Path) -> dict[str, set[str]]:
    """By file the files that import it, or that name it as text where it is no module.

    A test that names a folder of ``configs`` reads what lies in it, a new file too.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    files = all_files(root)
    trees = {
        name: ast.parse((root / name).read_text(encoding="utf-8")) for name in files if name.endswith(".py")
    }
    by_name: dict[str, list[str]] = defaultdict(list)
    of_folders: dict[str, list[str]] = defaultdict(list)
    for name in set(files) - set(trees):
        by_name[Path(name).name].append(name)
        if name.startswith("configs/"):
            of_folders[Path(name).parent.name].append(name)
    exports = {name: dict(_exports(trees[name])) for name in trees if name.endswith("__init__.py")}
    for name, tree in trees.items():
        texts = {**of_folders, **by_name} if _is_test(name) else by_name
        for imported in _imported(tree, exports, texts):
            if imported in trees or not imported.endswith(".py"):
                importers[imported].add(name)
        for folder in Path(name).parents:
            conftest = str(folder / "conftest.py")
            if conftest in trees and conftest != name:
                importers[conftest].add(name)
    return importers


def _exports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a package imports for those who import it from there: the name, and the module that has it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((alias.asname or alias.name, node.module) for alias in node.names)


def _imported(
    tree: ast.Module, exports: dict[str, dict[str, str]], by_name: dict[str, list[str]]
) -> Iterator[str]:
    """Files that a module may need: by imports, by dotted names in texts, by names of data files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            package = exports.get(f"{node.module.replace('.', '/')}/__init__.py", {})
            for alias in node.names:
                yield from _files(f"{node.module}.{alias.name}")
                yield from _files(package.get(alias.name, node.module))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if text.isascii() and text.replace(".", "").isidentifier() and "." in text:
                yield from _files(text)
                yield from _files(text.rpartition(".")[0])
            yield from by_name.get(Path(text[-100:]).name, ())


def _files(dotted: str) -> tuple[str, str]:
    path = dotted.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def git(root: Path, *arguments: str) -> list[str]:
    """The lines that a command of git prints; none where it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main() -> None:
    """Run pytest on the tests of the files that are named, or of those that changed."""
    named = [name for name in sys.argv[1:] if name != "1"]
    for name in named:
        if not (ROOT / name).exists():
            raise SystemExit(
                f"error: there is no file {name}; name files from {ROOT.name}/, or say CHANGED=1"
            )
    files = named or changed_files()
    if not files:
        raise SystemExit("nothing differs from the main branch; name files: make test CHANGED=report/page.py")
    tests = list(concerned_tests(files))
    print(f"{len(tests)} test files for {len(files)} changed: {', '.join(files[:5])}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *IN_ORDER, "--seconds", str(SECONDS), *tests]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()
