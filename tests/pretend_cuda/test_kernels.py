"""What fused functions and whole models become when they are compiled, without a GPU."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import pretend

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed: it is for Linux only"
    ),
]
needs_pretending = pytest.mark.skipif(pretend.why_not() is not None, reason=str(pretend.why_not()))
ROOT = Path(__file__).parents[2]


def rows(only: str, *library: Path) -> list[dict[str, Any]]:
    """Rows of the table whose names have ``only`` in them."""
    command = [sys.executable, "-m", "tests.pretend_cuda.kernel_rows", only, *library]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_kernel_by_hand_is_one_launch_that_keeps_and_spills_nothing_on_sm_80_and_sm_90():
    found = rows(", Triton")
    assert len(found) == 2 * 5  # features and slopes of the five bases of B-splines
    for row in found:
        assert (row["launches"], row["temporaries"]) == (1, [])
        assert list(row["resources"]) == ["80", "90"]
        for figures in row["resources"].values():
            assert figures["spills"] == 0, row["function"]
            assert 0 < figures["registers"] <= 128, row["function"]


def test_the_features_of_the_default_basis_are_rounded_to_nearest_and_read_x_in_one_piece():
    """The interpreter, by which values are tested, does not round so."""
    _, code = rows("kan grid 5 order 3, features, Triton")
    assert "cvt.rn.bf16x2.f32" in code["ptx"]
    assert code["ptx"].count("ld.global") == 1


@needs_pretending
def test_the_table_tells_of_the_temporaries_of_inductors_kernels(tmp_path):
    # What the kernels by hand are for; should Inductor do without one day, they can go.
    (row,) = rows("kan grid 5 order 3, slopes, Inductor", pretend.build(tmp_path))
    assert row["backend"] == "Inductor"
    assert row["grows"]
    assert row["launches"] == 2
