"""Which changes of a line no test notices: mutants of modules, each run against the tests that would be picked.

``make mutants CHANGED=1`` mutates the lines that differ from the main branch, and prints each survivor with
its file and line; ``python -m benchmarks.mutants eval/scoring/causal.py`` mutates modules that are named. The
tests are those that ``make test CHANGED=...`` runs for the module, or those after ``--tests``. It all happens
in a copy of the checkout. The libraries are imported once and every mutant is a fork, so that one costs as
long as its tests (median 2 s); mutmut's rewritten functions would have other code hashes.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.changed import ROOT, changed_files, tests_by_distance

# What tests import and no mutant changes: imported once, before all forks.
PRELOADED = (
    "accelerate",
    "datasets",
    "hypothesis",
    "matplotlib.figure",
    "pandas",
    "pydantic_settings",
    "pytest",
    "scipy.optimize",
    "scipy.stats",
    "torch._dynamo",
    "transformers.models.gpt_neo.modeling_gpt_neo",
    "transformers.models.llama.modeling_llama",
    "transformers.models.roberta.modeling_roberta",
    "transformers.models.t5.modeling_t5",
)
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Mod: ast.Mult,
}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any"}
# Their two arguments are no pair that a slip of the pen would swap.
NOT_SWAPPED = {"isinstance", "getattr", "max", "min", "cast", "zip"}


class Mutant(NamedTuple):
    """One change of one place of a module."""

    line: int
    kind: str
    before: str
    after: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module's source; not of annotations, messages and decorators."""
    tree = ast.parse(source)
    skipped = {id(inner) for node in ast.walk(tree) for inner in _not_mutated(node)}
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        found += [_replace(source, *change) for change in _changes(node)]
    return found


def sample(source: str, number: int, seed: int, lines: set[int] | None = None) -> list[Mutant]:
    """``number`` mutants, of every kind in turn; only of ``lines`` where they are given."""
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in mutants(source):
        if lines is None or mutant.line in lines:
            by_kind.setdefault(mutant.kind, []).append(mutant)
    shuffle = random.Random(seed).shuffle
    for kind in sorted(by_kind):
        shuffle(by_kind[kind])
    picked: list[Mutant] = []
    while len(picked) < number and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(picked) < number:
                mutant = by_kind[kind].pop()
                picked += [mutant] if _is_valid(mutant.source) else []
    return sorted(picked, key=lambda mutant: mutant.line)


def _not_mutated(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("annotation", "returns"):
        annotation = getattr(node, field, None)
        if isinstance(annotation, ast.AST):
            yield from ast.walk(annotation)
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        yield from (inner for inner in ast.walk(node) if inner is not node)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        for decorator in node.decorator_list:
            yield from ast.walk(decorator)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield from ast.walk(node)


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """The place to replace, the kind of the change and the new text."""
    match node:
        case ast.Compare():
            changed = copy.deepcopy(node)
            changed.ops[0] = COMPARISONS[type(node.ops[0])]()
            yield node, "compare", f"({ast.unparse(changed)})"
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node.left):
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            yield node, "arithmetic", f"({ast.unparse(changed)})"
        case ast.BoolOp():
            changed = copy.deepcopy(node)
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, "and-or", f"({ast.unparse(changed)})"
        case ast.Constant(value=bool() as value):
            yield node, "constant", repr(not value)
        case ast.Constant(value=int() as value):
            yield node, "constant", repr(value + 1)
        case ast.Constant(value=float() as value):
            yield node, "constant", repr(value * 2 or 1.0)
        case ast.UnaryOp(op=ast.USub() | ast.Not()) if not isinstance(node.operand, ast.Constant):
            yield node, "sign", f"({ast.unparse(node.operand)})"
        case ast.If() | ast.While() | ast.IfExp():
            if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
                yield node.test, "condition", f"(not ({ast.unparse(node.test)}))"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield node, "dropped", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield node, "dropped", "pass"
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            changed = copy.deepcopy(node)
            changed.func = ast.Name(CALLS[name])
            yield node, "call", ast.unparse(changed)
        case ast.Call(args=[first, second, *_]) if not isinstance(first, ast.Starred):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name not in NOT_SWAPPED and not isinstance(second, ast.Starred):
                changed = copy.deepcopy(node)
                changed.args[:2] = changed.args[1::-1]
                yield node, "swapped", ast.unparse(changed)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str)


def _replace(source: str, place: ast.AST, kind: str, text: str) -> Mutant:
    raw, starts = source.encode(), [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[place.lineno - 1] + place.col_offset
    end = starts[place.end_lineno - 1] + place.end_col_offset
    before = raw[begin:end].decode()
    changed = (raw[:begin] + text.encode() + raw[end:]).decode()
    return Mutant(place.lineno, kind, " ".join(before.split()), " ".join(text.split()), changed)


def _is_valid(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:  # such as a constant of a pattern or of an f-string
        return False
    return True


class Suite:
    """Runs tests in a copy of the checkout, each time in a fork of a process that has the libraries."""

    def __init__(self, root: Path) -> None:
        self.root = root
        os.chdir(root)
        sys.path[:] = [str(root), *(entry for entry in sys.path if entry not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "benchmarks")]:
            del sys.modules[name]
        for name in ("HF_HUB_OFFLINE", "PYTHONDONTWRITEBYTECODE"):
            os.environ[name] = "1"
        os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(root)}
        sys.dont_write_bytecode = True
        for module in PRELOADED:
            importlib.import_module(module)

    def run(self, tests: Sequence[str], limit: float) -> tuple[str, float]:
        """``passed``, ``failed`` or ``timeout``, and the seconds that it took."""
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            child = os.fork()
            if child == 0:
                os._exit(self._run_here(tests, folder))
            status = None
            while status is None and time.monotonic() - started < limit:
                finished, code = os.waitpid(child, os.WNOHANG)
                status = os.waitstatus_to_exitcode(code) if finished else None
                time.sleep(0.02)
            try:
                os.killpg(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if status is None:
                os.waitpid(child, 0)
        outcome = "timeout" if status is None else "passed" if status in (0, 5) else "failed"
        return outcome, time.monotonic() - started

    def _run_here(self, tests: Sequence[str], folder: str) -> int:
        """In the fork: the exit status of pytest."""
        os.setsid()
        log = os.open(str(self.root.parent / "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.environ |= {"TMPDIR": folder, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
        tempfile.tempdir = None
        flags = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
        try:
            status = int(importlib.import_module("pytest").main([*flags, f"--basetemp={folder}/tests", *tests]))
            sys.stdout.flush()
        except BaseException:  # a mutant may raise anything anywhere, and the fork must end here
            return 3
        return status


def _copy(root: Path, target: Path) -> None:
    """What git has of a checkout and what it would take, as it lies there."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listing, cwd=root, text=True).splitlines():
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    subprocess.run(["git", "init", "--quiet"], cwd=target, check=True)
    subprocess.run(["git", "add", "--all"], cwd=target, check=True)
    shared = root.parent / "shared"
    if shared.is_dir():
        (target.parent / "shared").symlink_to(shared)


def _changed_lines(name: str) -> set[int] | None:
    """Lines of a file that differ from the main branch; None, all, for a file that git does not have."""
    base = subprocess.run(
        ["git", "merge-base", "HEAD", "main"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    command = ["git", "diff", "--unified=0", base or "HEAD", "--", name]
    text = subprocess.check_output(command, cwd=ROOT, text=True)
    hunks = re.findall(r"^@@ \S+ \+(\d+)(?:,(\d+))? @@", text, re.MULTILINE)
    lines = {int(start) + i for start, count in hunks for i in range(int(count or 1))}
    return lines or None


def main() -> None:
    """Run mutants and print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="files to mutate; without any, what differs from main")
    parser.add_argument("--tests", nargs="*", help="tests to run in place of those that are picked")
    parser.add_argument("--number", type=int, default=12, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--limit", type=float, default=120, help="seconds of tests for a mutant")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to which every mutant is added")
    args = parser.parse_args()
    by_hand = bool(args.modules)
    modules = args.modules or [
        name
        for name in changed_files()
        if name.endswith(".py") and not name.startswith(("tests/", "benchmarks/", "docs/"))
    ]
    killed = survived = 0
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copied = Path(folder) / "checkout"
        _copy(ROOT, copied)
        suite = Suite(copied)
        for name in modules:
            tests = args.tests or list(tests_by_distance([name]))
            picked = sample(
                (ROOT / name).read_text(), args.number, args.seed, None if by_hand else _changed_lines(name)
            )
            status, seconds = suite.run(tests, args.limit) if tests else ("no tests", 0.0)
            if status != "passed":
                print((Path(folder) / "log").read_text()[-1500:])
                print(f"{name}: {status} without a mutant", flush=True)
                continue
            for mutant in picked:
                (copied / name).write_text(mutant.source)
                outcome, _ = suite.run(tests, max(20, 3 * seconds))
                record = {"module": name, "outcome": outcome, **mutant._asdict()}
                del record["source"]
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                if outcome == "passed":
                    survived += 1
                    print(f"{name}:{mutant.line}: {mutant.kind}: {mutant.before} -> {mutant.after}", flush=True)
                else:
                    killed += 1
            shutil.copy2(ROOT / name, copied / name)
    print(f"{killed} of {killed + survived} mutants killed")


if __name__ == "__main__":
    main()
