"""Which small changes of a line no test notices: mutants, each run against the tests that it concerns.

    make mutants CHANGED=1
    python -m benchmarks.mutants eval/scoring/causal.py --number 20

Without a file, the lines that differ from the main branch are mutated. Printed is each survivor with its
file and line. The tests are those of ``make test CHANGED=...``, or those after ``--tests``. A mutant is
killed when one of them fails, and survives when none has within ``--seconds``. All happens in a copy of the
checkout. The libraries are imported once and each mutant is a fork, so that it costs a few seconds, as its
tests do.
(mutmut is no choice here: it rewrites functions, whose code is part of a variant's identity.)
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import copy
import gc
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

from tqdm import tqdm

from tests.changed import ROOT, all_files, changed_files, concerned_tests, git, main_branch, new_files

# Benchmarks, documents and the tests themselves are not mutated.
NO_CORE = ("benchmarks/", "docs/", "examples/", "tests/", ".ci/")
# Plain asserts: pytest would rewrite and compile every test file again in each fork.
PYTEST_FLAGS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", "--assert=plain")
# Of pytest: all passed; there was no test.
PASSED = (0, 5)
# What tests import and no mutant changes: imported once, before all forks.
PRELOADED = (
    "accelerate",
    "datasets",
    "huggingface_hub.hf_api",
    "hypothesis.extra.numpy",
    "jsonschema",
    "matplotlib.backends.backend_svg",
    "matplotlib.pyplot",
    "pandas",
    "peft",
    "pydantic_settings",
    "pytest",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.linear_model",
    "torch._dynamo",
    "transformers.models.gpt_neo.modeling_gpt_neo",
    "transformers.models.llama.modeling_llama",
    "transformers.models.roberta.modeling_roberta",
    "transformers.models.t5.modeling_t5",
)
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
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
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
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


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
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
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _replace(source: str, place: ast.expr | ast.stmt, kind: str, text: str) -> Mutant:
    raw, starts = source.encode(), [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[place.lineno - 1] + place.col_offset
    end = starts[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
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
    """Runs tests in a copy of a checkout, each time in a fork of this process, which has the libraries."""

    def __init__(self, copied: Path) -> None:
        self.root, self.log = copied, copied.parent / "log"
        os.chdir(copied)
        sys.path[:] = [str(copied), *(entry for entry in sys.path if entry not in ("", str(ROOT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "benchmarks")]:
            del sys.modules[name]
        os.environ |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        for module in PRELOADED:
            importlib.import_module(module)
        compileall.compile_dir(copied, quiet=2)
        gc.freeze()  # a collection in a fork would copy the pages of all these libraries

    def outcome(self, tests: Sequence[str], seconds: float) -> str:
        """Return ``passed``, ``failed`` or ``timeout``, for a mutant that never ends."""
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            child = os.fork()
            if child == 0:
                os._exit(self._run_here(tests, folder, seconds))
            status, deadline = None, time.monotonic() + 2 * seconds + 30
            while status is None and time.monotonic() < deadline:
                finished, code = os.waitpid(child, os.WNOHANG)
                status = os.waitstatus_to_exitcode(code) if finished else None
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            if status is None:
                os.waitpid(child, 0)
        return "timeout" if status is None else "passed" if status in PASSED else "failed"

    def _run_here(self, tests: Sequence[str], folder: str, seconds: float) -> int:
        """In the fork: the exit status of pytest."""
        os.setsid()
        log = os.open(str(self.log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.environ |= {"TMPDIR": folder, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
        tempfile.tempdir = None
        flags = [*PYTEST_FLAGS, f"--basetemp={folder}/tests", f"--seconds={seconds}"]
        try:
            status = int(importlib.import_module("pytest").main([*flags, *tests]))
            sys.stdout.flush()
        except BaseException:  # a mutant may raise anything anywhere, and the fork must end here
            return 3
        return status


def copy_checkout(root: Path, target: Path) -> None:
    """Copy what git has of a checkout and what it would take, as it lies there."""
    for name in all_files(root):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name)
    for words in (["init", "--quiet"], ["add", "--all"]):  # tests ask git which files there are
        subprocess.run(["git", *words], cwd=target, check=True)
    if (root.parent / "shared").is_dir():
        (target.parent / "shared").symlink_to(root.parent / "shared")


def changed_lines(name: str) -> set[int] | None:
    """Return the lines of a file that differ from the main branch; None, all, where git does not have it."""
    if name in new_files():
        return None
    text = "\n".join(git(ROOT, "diff", "--unified=0", main_branch(ROOT), "--", name))
    hunks = re.findall(r"^@@ \S+ \+(\d+)(?:,(\d+))? @@", text, re.MULTILINE)
    return {int(start) + i for start, count in hunks for i in range(int(count or 1))}


def survivors(suite: Suite, name: str, picked: Sequence[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """Run the mutants of a module, and print those that no test noticed.

    Raises:
        SystemExit: If the tests fail without a mutant.
    """
    tests = options.tests or list(concerned_tests([name]))
    if suite.outcome(tests, options.seconds) != "passed":
        raise SystemExit(f"{suite.log.read_text()[-2000:]}\n{name}: its tests fail without a mutant")
    alive = []
    for mutant in tqdm(picked, name, leave=False):
        (suite.root / name).write_text(mutant.source, encoding="utf-8")
        outcome = suite.outcome(tests, options.seconds)
        if outcome == "passed":
            alive.append(mutant)
            tqdm.write(f"{name}:{mutant.line}: {mutant.kind}: {mutant.before} -> {mutant.after}")
        if options.out:
            record = {"module": name, "outcome": outcome, **mutant._asdict()}
            del record["source"]
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    shutil.copy2(ROOT / name, suite.root / name)
    return alive


def main() -> None:
    """Run mutants and print those that survive."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("modules", nargs="*", help="files to mutate; without any, what differs from main")
    parser.add_argument("--tests", nargs="*", help="tests to run in place of those that are concerned")
    parser.add_argument("--number", type=int, default=12, help="mutants of each module (default: 12)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--seconds", type=float, default=60, help="of tests for a mutant (default: 60)")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to which every mutant is added")
    options = parser.parse_args()
    options.out = options.out and options.out.resolve()
    modules = options.modules or [name for name in changed_files() if not name.startswith(NO_CORE)]
    modules = [name for name in modules if name.endswith(".py") and (ROOT / name).exists()]
    if not modules:
        raise SystemExit("no module differs from the main branch; name files to mutate")
    number = alive = 0
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copied = Path(folder) / "checkout"
        copy_checkout(ROOT, copied)
        suite = Suite(copied)
        for name in modules:
            lines = None if options.modules else changed_lines(name)
            source = (ROOT / name).read_text(encoding="utf-8")
            picked = sample(source, options.number, options.seed, lines)
            alive += len(survivors(suite, name, picked, options))
            number += len(picked)
    print(f"{number - alive} of {number} mutants killed")


if __name__ == "__main__":
    main()
