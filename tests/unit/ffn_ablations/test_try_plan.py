"""What is run in so many minutes, of made-up seconds."""

import pytest

from base.errors import UsageError
from ffn_ablations.try_plan import RESERVE, Seconds, choose, may_fit_larger, study_seconds

FAST = [Seconds(2, 0.01, 0.1)] * 3
"""A run of mini-gpt-neo takes 14 s, one of tiny 6.17 s."""
SLOW = [Seconds(2, 0.04, 0.5)] * 3
"""A run of small-gpt-neo takes 135 s."""


@pytest.mark.parametrize(
    ("minutes", "workers", "size", "seeds", "is_tuned"),
    [
        (2, 1, "mini-gpt-neo", None, None),  # 9 runs take 126 s
        (2.6, 1, "mini-gpt-neo", 3, False),
        (4, 1, "mini-gpt-neo", 4, False),
        (8, 1, "mini-gpt-neo", 9, False),  # five seeds and a tuning would be 45 runs, 630 s
        (13, 1, "mini-gpt-neo", 5, True),
        (13, 2, "mini-gpt-neo", 20, True),
        (100, 1, "mini-gpt-neo", 20, True),  # 45 runs of the larger take 101 minutes
        (120, 1, "small-gpt-neo", 5, True),
        (1000, 1, "small-gpt-neo", 20, True),
    ],
)
def test_the_largest_study_that_fits_is_chosen(minutes, workers, size, seeds, is_tuned):
    measured = {"mini-gpt-neo": FAST, "small-gpt-neo": SLOW}
    if seeds is None:
        with pytest.raises(UsageError, match=r"3 seeds of mini-gpt-neo, 9 runs, .* --minutes 3,"):
            choose(measured, minutes, workers)
        return
    plan = choose(measured, minutes, workers)
    assert (plan.size, plan.seeds, plan.is_tuned) == (size, seeds, is_tuned)
    assert plan.seconds <= (1 - RESERVE) * 60 * minutes


def test_the_minutes_that_an_error_names_are_enough():
    spent = 100.0
    with pytest.raises(UsageError) as error:
        choose({"tiny": FAST}, 1, 2, spent)
    named = int(str(error.value).split("--minutes ")[1].split(",")[0])
    assert choose({"tiny": FAST}, named, 2, spent).seeds >= 3
    with pytest.raises(UsageError):
        choose({"tiny": FAST}, named - 1, 2, spent)


def test_a_forecast_is_of_runs_side_by_side_and_stages_in_turn():
    assert study_seconds(FAST, "mini-gpt-neo", 3, False, 1) == pytest.approx(9 * 14)
    assert study_seconds(FAST, "mini-gpt-neo", 3, False, 2) == pytest.approx(5 * 14)
    # Three rates and two more at two seeds: 18 and 12 runs of three arms.
    assert study_seconds(FAST, "mini-gpt-neo", 3, True, 4) == pytest.approx((3 + 5 + 3) * 14)
    assert not may_fit_larger(FAST, "mini-gpt-neo", 45 * 14 * 5.9, 1)
    assert may_fit_larger(FAST, "mini-gpt-neo", 45 * 14 * 6.1, 1)
