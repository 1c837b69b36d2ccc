"""What only the full installation has is told in one line, and nothing else is taken for it."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from base import errors
from base.errors import run_cli

ROOT = Path(__file__).parents[3]


def test_the_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {re.split("[><=]", line)[0] for line in project["optional-dependencies"]["torch"]}
    distributions = {"sklearn": "scikit-learn"}  # all others are imported by their own names
    assert {distributions.get(name, name.replace("_", "-")) for name in errors.EXTRA_PACKAGES} == named
    assert not named & {re.split("[><=]", line)[0] for line in project["dependencies"]}


def test_what_is_not_installed_is_told_in_one_line(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    def main() -> int:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn.linear_model")

    with pytest.raises(SystemExit, match="2"):
        run_cli(main)
    assert capsys.readouterr().err == (
        'error: this needs sklearn, which is not installed; pip install "ffn-ablations[torch]" installs it\n'
    )
    for name in ("pretrain.trani", "numpy", "torchvision", None):  # ours, or of another package
        assert errors.missing_extra(ModuleNotFoundError("x", name=name)) is None


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'torch.fx2'", name="torch.fx2"),  # torch itself is there
        ImportError("cannot import name 'x' from 'torch'", name="torch"),
        ValueError("torch"),
    ],
)
def test_what_is_a_defect_keeps_its_traceback(error: Exception) -> None:
    assert errors.missing_extra(error) is None
