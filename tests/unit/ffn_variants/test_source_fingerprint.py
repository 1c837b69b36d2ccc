"""The fingerprint of a variant's source: what changes it, what does not; nothing that runs is missed."""

import ast
import importlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import yaml

from base.files import CODE_ROOT, PACKAGES
from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants import source_fingerprint as source_module
from ffn_variants.source_fingerprint import EARLIER_SOURCES, is_same_source, read_source, source_fingerprint
from tests.cases import in_turn, kinds_before_the_rest, own_spec

D, F = 8, 16

EARLIER: dict[str, str] = json.loads(EARLIER_SOURCES.read_text())


def test_every_variant_has_its_own_fingerprint():
    found = {name: source_fingerprint(name) for name in FFN_VARIANTS}
    assert all(re.fullmatch("[0-9a-f]{12}", digits) for digits in found.values()), found
    assert len(set(found.values())) == len(found)


@pytest.mark.ci
def test_fingerprints_are_the_same_in_another_process_from_a_copy_of_the_code(tmp_path):
    for package in PACKAGES:
        shutil.copytree(CODE_ROOT / package, tmp_path / "copy" / package)
    command = (
        "import json, ffn_variants; from ffn_variants.source_fingerprint import source_fingerprint as f;"
        "print(json.dumps([ffn_variants.__file__, {name: f(name) for name in ffn_variants.FFN_VARIANTS}]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "copy"), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, cwd=tmp_path, capture_output=True, check=True
    )
    file, found = json.loads(done.stdout)
    assert Path(file).is_relative_to(tmp_path)
    assert found == {name: source_fingerprint(name) for name in FFN_VARIANTS}


def forget() -> None:
    """Have the next fingerprint written anew, of files as they were parsed."""
    source_module._text_of_files.cache_clear()
    source_module._written.cache_clear()


def run_definitions(use: Callable[[], None]) -> set[tuple[Path, str]]:
    """The files and top-level definitions of this project that run while something is called."""
    lines: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        # A lambda alone may be the variant's, and what it calls is noted by itself.
        if event == "call" and frame.f_code.co_name != "<lambda>":
            lines.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    try:
        use()
    finally:
        sys.setprofile(None)
    found = set()
    for file, line in lines:
        path = Path(file)
        if not path.is_relative_to(CODE_ROOT / "ffn_variants"):
            continue
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
            if first <= line <= (statement.end_lineno or 0) and hasattr(statement, "name"):
                found.add((path, statement.name))
    return found


NOT_OF_A_VARIANT = {"build_ffn", "get_variant", "FFNSpec", "ActivationFFN"}
"""What calls a variant's ``build``, and the linear layers around an activation."""


@pytest.mark.parametrize("name", kinds_before_the_rest(FFN_VARIANTS))
def test_whatever_runs_is_in_the_fingerprint(name):
    """Traced: build, forward, backward, knots and pruning. A change of any of it changes the fingerprint."""
    options = {"splines": "sparse"} if "splines" in FFN_VARIANTS[name].options else {}

    def use() -> None:
        ffn = build_ffn(name, D, F, **options)
        x = torch.randn(32, D, requires_grad=True)
        width = F if name == "spline-activation" else D
        layers = {layer: torch.randn(32, getattr(layer, "in_features", width)) for layer in ffn.modules()}
        for _ in range(2):
            ffn(x).sum().backward()
            for layer, inputs in layers.items():
                if "update_grid" in vars(type(layer)) or hasattr(type(layer), "needed_mask"):
                    layer.update_grid(inputs)
        for layer, inputs in layers.items():
            if hasattr(type(layer), "needed_mask"):
                layer.prune(inputs, 0.1)

    ran = {(path, each) for path, each in run_definitions(use) if each not in NOT_OF_A_VARIANT}
    assert ran or name in ("gelu", "relu", "silu", "none")
    before = source_fingerprint(name)
    for path, definition in ran:
        (statement,) = read_source(path).statements[definition]
        assert isinstance(statement, ast.FunctionDef | ast.ClassDef)
        statement.body.append(ast.Expr(ast.Call(ast.Name("something", ast.Load()), [], [])))
        forget()
        try:
            assert source_fingerprint(name) != before, definition
        finally:
            statement.body.pop()
            forget()
    assert source_fingerprint(name) == before


NUMBERS = itertools.count()
EDITS = yaml.safe_load(Path(__file__).with_name("fingerprint_edits.yaml").read_text(encoding="utf-8"))
SAME, OTHER = EDITS["same"], EDITS["other"]
BUILDS = {"class": "Mine", "function": "make", "lambda": "pair[0]", "closure": "bound(Mine)"}


@pytest.fixture
def fingerprint_of(tmp_path, monkeypatch) -> Callable[..., str]:
    """Write a package with a variant, edited or not, and take the variant's fingerprint."""

    def take(
        build: str,
        edit: tuple[str, str, str] | None = None,
        packages: tuple[str, ...] = ("theirs",),
        **fields: Any,
    ) -> str:
        number = next(NUMBERS)
        package = tmp_path / str(number) / "theirs"
        package.mkdir(parents=True)
        for name, text in EDITS["files"].items():
            if edit and edit[0] == name:
                assert text.count(edit[1]) == 1 or name == "more.py"
                text = text.replace(edit[1], edit[2])
            (package / name).write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(package.parent)
        monkeypatch.setattr(source_module, "CODE_ROOT", package.parent)
        monkeypatch.setattr(source_module, "PACKAGES", packages)
        for name in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
            monkeypatch.delitem(sys.modules, name)
        mine = importlib.import_module("theirs.mine")
        spec = own_spec("mine", eval(build, vars(mine)), **fields)
        monkeypatch.setitem(FFN_VARIANTS, "mine", spec)
        return source_fingerprint("mine")

    return take


@pytest.mark.parametrize(("edit", "build"), in_turn([*SAME, *OTHER], list(BUILDS), fast={*SAME, *OTHER}))
def test_what_computes_counts_and_nothing_else(fingerprint_of, build, edit):
    plain, edited = (fingerprint_of(BUILDS[build], change) for change in (None, (SAME | OTHER)[edit]))
    assert "" not in (plain, edited)
    assert (edited == plain) is (edit in SAME)


def test_what_build_is_given_counts(fingerprint_of):
    builds = ("bound(Mine)", "bound(Other)", "pair[0]", "pair[1]")
    assert len({*(fingerprint_of(build) for build in builds), ""}) == 5


def test_a_definition_may_move_to_another_file(fingerprint_of):
    moved = ("mine.py", "from theirs.more import bend", "SLOPE = 0.5\ndef bend(x):\n    return SLOPE * x")
    assert fingerprint_of("Mine", moved) == fingerprint_of("Mine")


@pytest.mark.parametrize("edit", ["neighbour", "unused"])
def test_of_an_installed_package_the_whole_file_counts(fingerprint_of, edit):
    plain, same, other = (
        fingerprint_of("Mine", change, packages=()) for change in (None, SAME["docstring"], SAME[edit])
    )
    assert plain == same
    assert len({plain, other, ""}) == 3


def test_without_source_the_compiled_code_counts(monkeypatch):
    found = []
    for last in ("x", "x + 1", "(lambda y: y)(x)", "x"):
        written: dict[str, Any] = {"__name__": "notebook"}
        body = f"    def forward(self, x):\n        return {last}\n"
        exec(f"from torch import nn\nclass Mine(nn.Module):\n{body}", written)
        monkeypatch.setitem(FFN_VARIANTS, "mine", own_spec("mine", written["Mine"]))
        found.append(source_fingerprint("mine"))
    assert found[0] == found[3]
    assert len({*found}) == 3
    assert is_same_source("mine", None)
    assert not is_same_source("mine", found[1])


@pytest.mark.parametrize("name", EARLIER)
def test_what_earlier_source_computed_is_what_the_present_one_computes(name):
    """If it still does, the present hash goes to the front of its line; if it does not, the line goes."""
    assert EARLIER[name].split()[0] == source_fingerprint(name)


def test_earlier_source_of_another_than_the_present_one_says_nothing(fingerprint_of, tmp_path, monkeypatch):
    present = fingerprint_of("Mine")
    monkeypatch.setattr(source_module, "EARLIER_SOURCES", tmp_path / "earlier.json")
    for same_as in (present, "c" * 12):
        (tmp_path / "earlier.json").write_text(json.dumps({"mine": f"{same_as} {'a' * 12}"}))
        assert is_same_source("mine", "a" * 12) == (same_as == present)


def test_earlier_sources_are_the_same_and_others_are_not(fingerprint_of):
    fingerprint_of("Mine", earlier_sources=("a" * 12,))
    assert is_same_source("mine", "a" * 12)
    assert is_same_source("mine", source_fingerprint("mine"))
    assert is_same_source("mine", None)
    assert is_same_source("mine", "")
    assert not is_same_source("mine", "b" * 12)
