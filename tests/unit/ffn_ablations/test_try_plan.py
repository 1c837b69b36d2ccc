"""What is run in so many minutes, of made-up seconds."""

import pytest

from base.errors import UsageError
from ffn_ablations.try_plan import RESERVE, choose
from tests.cases import listed

MEASURED = {"mini-gpt-neo": 13.0, "small-gpt-neo": 135.0}


@pytest.mark.parametrize(("minutes", "workers", "size", "seeds"), listed(__file__, "studies that fit"))
def test_the_largest_study_that_fits_is_chosen(minutes, workers, size, seeds):
    if seeds is None:
        with pytest.raises(UsageError, match=r"3 seeds of mini-gpt-neo, 9 runs, .* --minutes 3,"):
            choose(MEASURED, 3, minutes, workers)
        return
    plan = choose(MEASURED, 3, minutes, workers)
    assert (plan.size, plan.seeds) == (size, seeds)
    assert plan.seconds <= (1 - RESERVE) * 60 * minutes


def test_the_minutes_that_an_error_names_are_enough():
    spent = 100.0
    with pytest.raises(UsageError) as error:
        choose(MEASURED, 3, 1, 2, spent)
    named = int(str(error.value).split("--minutes ")[1].split(",")[0])
    assert choose(MEASURED, 3, named, 2, spent).seeds >= 3
    with pytest.raises(UsageError):
        choose(MEASURED, 3, named - 1, 2, spent)
