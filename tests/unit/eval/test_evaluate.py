"""Equal errors are one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import UsageError
from eval.evaluate import Failure, failure_lines


@pytest.mark.parametrize(
    ("failures", "lines"),
    [
        ([("a", "passive", "no data")], ["a passive: no data"]),
        ([(run, task, "no data") for run in "ab" for task in "xyz"], ["a x: no data (and so of 5 more)"]),
        # What names its own task or run is one line, too.
        ([("a", task, f"no set ({task})") for task in "xyz"], ["a x: no set (x) (and so of 2 more)"]),
        (
            [("a", "x", "no data"), ("a", "y", "no data"), ("a", "x", "no memory")],
            ["a x: no data (and so of 1 more)", "a x: no memory"],
        ),
        ([(run, None, f"{run}: has no model") for run in "ab"], ["a: has no model", "b: has no model"]),
    ],
)
def test_equal_errors_are_one_line(failures, lines) -> None:
    assert (
        failure_lines([Failure(Path(run), task, UsageError(words)) for run, task, words in failures]) == lines
    )
