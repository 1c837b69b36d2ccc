"""What is proposed to run next, at the level of its own test, against scipy and simulated studies."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from report.page import card, next_steps
from report.parts.methods import methods_text
from report.statistics.looks import nominal_levels
from report.write import number_tables
from tests.unit.report.studies import analysed, table

PLAN = (3, 6, 10)
LOOKS = tuple(map(str, PLAN))


def scores(num_runs: int, mean: float, sd: float = 1.0) -> np.ndarray:
    return 60 + mean + sd * stats.zscore(np.arange(float(num_runs)), ddof=1)


def study(num_runs: Sequence[int], means: Sequence[float], looks: Sequence[str] = (), **request):
    arms = zip(("gelu", "a", "b"), num_runs, means, strict=False)
    cells = {("m", name): scores(n, mean) for name, n, mean in arms}
    return analysed(table(cells), looks=tuple(looks), **request)


def seeds_by_scipy(effect: float, level: float) -> int:
    """The first number at which the t-test of two arms with deviation 1 finds the effect in 80%."""
    for number in range(2, 1000):
        df = 2 * (number - 1)
        critical = stats.t.isf(level / 2, df)
        if stats.nct.sf(critical, df, effect / np.sqrt(2 / number)) >= 0.8:
            return number
    raise AssertionError


def proposed(*args, **request) -> str:
    (step, *_) = next_steps(study(*args, **request))
    return step


def test_what_the_last_look_finds_is_reckoned_at_its_level():
    within = seeds_by_scipy(1.5, nominal_levels(PLAN, 10, 0.05)[-1])
    assert within == 9
    analysis = study((3, 3), (0, 1.5), LOOKS)
    assert number_tables(analysis)["power"].seeds_to_detect_estimate.item() == within
    (step,) = next_steps(analysis)
    assert step.startswith(
        "The plan's next look is at 6 runs in every arm; its last with 10 seeds in every arm (14 runs) would"
    )


@pytest.mark.parametrize("num_runs", [3, 10, 12])
def test_what_lies_beyond_a_plan_takes_a_new_study_that_is_read_once(num_runs: int):
    number = seeds_by_scipy(0.7, 0.05)
    step = proposed((num_runs, num_runs), (0, 0.7), LOOKS, margin=("blimp=0.05",))
    assert step.startswith("No further look of the plan has 80% power; a new study, read once, with ")
    assert f"with {number} seeds in every arm ({2 * number} runs) would show a difference" in step


def test_the_first_screen_says_which_look_this_is_and_that_a_plan_was_outrun():
    at_4, at_12 = (study((n, n), (0, 0.9), LOOKS) for n in (4, 12))
    for analysis, runs in ((at_4, 4), (at_12, 12)):
        assert f"This look is at {runs} runs in every arm, planned were looks at 3, 6, 10." in card(analysis)
        assert "unless one follows the last planned" in methods_text(analysis)
    assert "error rates do not hold" not in card(at_4)
    assert "error rates do not hold: judge by the report at a planned number" in card(at_12)
    assert "This look" not in card(study((4, 4), (0, 0.9)))


def test_seeds_for_equivalence_are_for_the_test_that_holm_makes():
    """``a`` differs, so that the equivalence of ``b`` is tested at half of the level."""
    analysis = study((5, 5, 5), (0, 9, 0.1), margin=("1",))
    number = int(number_tables(analysis)["power"].set_index("contrast").seeds_for_equivalence["b - gelu"])

    def shown(runs: int) -> float:
        arms = np.random.default_rng(runs).normal(size=(2, 20_000, runs))
        error = np.sqrt(arms.var(-1, ddof=1).sum(0) / runs)
        estimate = np.abs(np.subtract(*arms.mean(-1)))
        return float((estimate + stats.t.isf(0.025, 2 * (runs - 1)) * error < 1).mean())

    assert shown(number) > 0.79
    assert shown(number - 1) < 0.81


def test_runs_are_those_that_each_arm_lacks():
    step = proposed((10, 3, 6), (0, 2, -9), margin=("blimp=0.05",))
    assert step.startswith("7 seeds in every arm (5 runs)")  # 0 + 4 + 1
