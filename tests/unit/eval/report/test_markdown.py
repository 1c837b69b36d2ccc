"""How numbers are written: never so short that they contradict what is said of them."""

from __future__ import annotations

import pytest

from eval.report.markdown import interval, signed
from eval.results.outcome import Outcome
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison
from eval.significance.contrasts import Contrast


def between(low: float, high: float) -> Comparison:
    return Comparison(
        benchmark=Benchmark("x"),
        outcome=Outcome(name="x"),
        digits=1,
        contrast=Contrast(("a",), ("b",)),
        family="f",
        families=("f",),
        num_runs_plus=3,
        num_runs_minus=3,
        low=low,
        high=high,
    )


def test_what_rounds_to_zero_has_no_sign():
    assert [signed(value, 1) for value in (-0.04, 0.04, -0.06, 0.0, None)] == [
        "0.0",
        "0.0",
        "-0.1",
        "0.0",
        "-",
    ]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-2.4, -0.04, "[-2.40, -0.04]"),
        (0.004, 2.0, "[+0.004, +2.000]"),
        (-2.4, 0.04, "[-2.4, 0.0]"),
        (-2.4, -0.06, "[-2.4, -0.1]"),
    ],
)
def test_an_interval_without_zero_does_not_end_at_zero(low: float, high: float, text: str):
    assert interval(between(low, high)) == text
