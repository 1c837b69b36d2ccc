"""How numbers are written: never so short that they contradict what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from report.document.markdown import amount, interval, signed
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison
from report.significance.factor import Contrast
from scores.metrics import Metric

BETWEEN = Comparison(
    benchmark=Benchmark("x"),
    metric=Metric(name="x"),
    digits=1,
    contrast=Contrast(("a",), ("b",)),
    family="f",
    families=("f",),
    num_runs_plus=3,
    num_runs_minus=3,
)


def test_what_rounds_to_zero_has_no_sign():
    signs = [signed(value, 1) for value in (-0.04, 0.04, -0.06, 0.0, None)]
    assert signs == ["0.0", "0.0", "-0.1", "0.0", "-"]


def test_what_few_runs_leave_open_is_no_row_of_digits():
    percent = replace(BETWEEN, low=-38_968.9, high=7_359_932_210_872.9)
    assert interval(percent) == "[-38968.9, +7e+12]"
    assert [amount(x, percent) for x in (99.96, 100.0, 7e12)] == ["100.0 points", "any size", "any size"]
    assert amount(120.0, replace(percent, metric=Metric(name="x", unit="nats"))) == "120.0 nats"


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
    assert interval(replace(BETWEEN, low=low, high=high)) == text
