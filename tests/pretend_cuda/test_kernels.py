"""What the fused functions become on sm_80 and sm_90, compiled without a GPU."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import pretend

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed: it has wheels for Linux only"
)
ROOT = Path(__file__).parents[2]


def rows(only: str, *library: Path) -> list[dict[str, Any]]:
    """Rows of the table whose names have ``only`` in them."""
    command = [sys.executable, "-m", "tests.pretend_cuda.kernel_rows", only, *library]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def assert_lean(row: dict[str, Any]) -> None:
    """One launch, nothing kept, nothing spilled, on both."""
    assert (row["launches"], row["temporaries"]) == (1, [])
    assert list(row["resources"]) == ["80", "90"]
    for figures in row["resources"].values():
        assert figures["spills"] == 0, row["function"]
        assert 0 < figures["registers"] <= 128, row["function"]


@pytest.mark.ci
def test_the_features_of_the_default_basis_are_one_lean_kernel():
    row, code = rows("kan grid 5 order 3, features, Triton")
    assert_lean(row)
    # Rounded to nearest on the way out, which the interpreter does not do; x read in one piece.
    assert "cvt.rn.bf16x2.f32" in code["ptx"]
    assert code["ptx"].count("ld.global") == 1


@pytest.mark.slow
def test_every_kernel_by_hand_is_lean():
    found = rows(", Triton")
    assert len(found) == 12
    for row in found:
        assert_lean(row)


@pytest.mark.slow
def test_the_table_tells_of_the_temporaries_of_inductors_kernels(tmp_path):
    if reason := pretend.why_not():
        pytest.skip(reason)
    # What the kernels by hand are for; should Inductor do without one day, they can go.
    (row,) = rows("kan grid 5 order 3, slopes, Inductor", pretend.build(tmp_path))
    assert row["backend"] == "Inductor"
    assert row["grows"]
    assert row["launches"] == 2
