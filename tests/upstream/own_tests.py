"""transformers' own tests: where they come from, and how one of them is run on given classes."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import transformers

PACKAGE = "transformers_own_tests"
ELSEWHERE = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}
"""What the tests of models import and the source distribution does not have."""


def download(folder: Path) -> Path:
    """Get the tests of the installed version out of its source distribution; skip where it cannot be had."""
    wanted = f"transformers=={transformers.__version__}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "transformers", wanted]
    done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        pytest.skip(f"the source distribution of {wanted} cannot be had: {reason}")
    (archive,) = folder.glob("transformers-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz") / "tests"


def load(folder: Path, config: pytest.Config) -> Any:
    """Import the module that has ``ModelTesterMixin``, once pytest knows the marks that it uses."""
    file = folder / "test_modeling_common.py"
    if not file.is_file():
        pytest.skip(
            f"transformers {transformers.__version__} has no tests of models in its source distribution"
        )
    for mark in re.findall(r"\bmark\.(\w+)", file.read_text(encoding="utf-8")):
        config.addinivalue_line("markers", mark)
    _module(PACKAGE).__path__ = [str(folder)]
    for name, mixin in ELSEWHERE.items():
        if not (folder / f"{name.replace('.', '/')}.py").is_file():
            _module(f"{PACKAGE}.{name.partition('.')[0]}").__path__ = []
            setattr(_module(f"{PACKAGE}.{name}"), mixin, type(mixin, (), {}))
    common: Any = importlib.import_module(f"{PACKAGE}.test_modeling_common")
    names = common.get_values
    # The tests tell by a class's name what labels it takes; the project's names are FFN and the stock one.
    common.get_values = lambda mapping: [*names(mapping), *(f"FFN{name}" for name in names(mapping))]
    return common


def _module(name: str) -> ModuleType:
    sys.modules[name] = ModuleType(name)
    return sys.modules[name]


def outcome(case: type[unittest.TestCase], name: str) -> str:
    """Run one test; returns ``passed``, or what it says: of a failure, or why it is skipped."""
    result = unittest.TestResult()
    case(name).run(result)
    for _, text in [*result.errors, *result.failures]:
        return f"failed: {text.strip().splitlines()[-1]}"
    return f"skipped: {result.skipped[0][1]}" if result.skipped else "passed"
