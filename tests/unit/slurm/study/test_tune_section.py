"""What a study may say of its tuning, and the line about what it may not."""

from typing import Any

import pytest

from base.errors import UsageError
from slurm.study.tune_section import describe_tuning, read_tune
from tests.cases import listed

RATE = "optim.learning_rate"
GIVEN: dict[str, Any] = {RATE: [1e-3, 3e-4, 3e-3], "seeds": [101, 102]}
WORDS: dict[str, Any] = {"optim.lr_scheduler_type": ["linear", "cosine"], "seeds": [101]}


def test_what_is_not_said_is_a_grid_that_may_grow_and_a_shared_rate():
    tune = read_tune(GIVEN)
    assert tune.fields == {RATE: (3e-4, 1e-3, 3e-3)}  # in their order
    assert (tune.select, tune.budget, tune.widen, tune.shared) == ("held-out-loss", "equal", 2, True)
    assert read_tune(None) is None
    assert read_tune(tune) is tune


def test_numbers_that_yaml_takes_for_words_are_numbers():
    tune = read_tune({RATE: ["3e-4", 1e-3, 0.003], "seeds": "101-103"})
    assert tune.fields == {RATE: (3e-4, 1e-3, 3e-3)}
    assert tune.seeds == (101, 102, 103)


def test_words_are_not_widened_unless_that_is_asked_for():
    assert read_tune(WORDS).widen == 0
    assert read_tune(WORDS | {RATE: [1e-3, 3e-3]}).widen == 2


@pytest.mark.parametrize(("change", "grown"), listed(__file__, "descriptions"))
def test_it_is_described_in_a_line(change, grown):
    said = describe_tuning(read_tune(GIVEN | change))
    assert said == f"{RATE} 0.0003, 0.001, 0.003 at seeds 101, 102{grown}"


def test_a_thousand_points_are_allowed_and_one_more_is_not():
    rates = [i / 2000 for i in range(1, 1002)]
    assert len(read_tune(GIVEN | {RATE: rates[:-1]}).fields[RATE]) == 1000
    with pytest.raises(UsageError, match="the fields make 1,001 points; 1,000 are allowed"):
        read_tune(GIVEN | {RATE: rates})


@pytest.mark.parametrize(("num_steps", "found"), [(100, [200, 100, 50]), (1, [2, 1, 1])])
def test_a_larger_batch_reads_as_many_tokens_in_fewer_steps(load, num_steps, found):
    usual = load().cells[0].config
    tokens = num_steps * usual.train.batch_size * usual.data.block_size
    sizes = [usual.train.batch_size * factor // 2 for factor in (1, 2, 4)]
    tune = {"train.batch_size": sizes, "seeds": [101], "widen": 0}
    study = load(variants=["gelu"], tokens=[tokens], tune=tune)
    assert [cell.config.train.batch_size for cell in study.cells] == sizes
    assert [cell.config.optim.max_steps for cell in study.cells] == found
