"""Checks of a run before anything is built."""

from __future__ import annotations

import pytest
import torch

from base.errors import UsageError
from pretrain.config import OptimConfig
from pretrain.resolution import load_config
from pretrain.training.dry_run import check_usable, check_warmup, say_once
from pretrain.training.update import build_scheduler


@pytest.mark.parametrize("optim", [{"warmup_ratio": 0.05}, {"warmup_steps": 3}])
def test_one_step_of_a_warm_up_is_refused(optim):
    config = load_config(None, overrides={"optim": {"max_steps": 1, **optim}})
    with pytest.raises(UsageError, match="whose rate is 0, so it trains nothing; give --optim"):
        check_usable(config)


@pytest.mark.parametrize(
    ("warmup", "steps", "share"), [(50, 6, "10%"), (7, 7, "86%"), (6, 7, None), (0, 1, None)]
)
def test_a_warm_up_that_outlasts_the_run_is_told(warmup, steps, share, capsys):
    """The last rate by torch's own scheduler, too."""
    say_once.cache_clear()
    optim = OptimConfig(warmup_steps=warmup, learning_rate=1.0)
    check_warmup(optim, steps)
    told = capsys.readouterr().err
    assert ("outlasts the run" in told) is (share is not None)
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    scheduler = build_scheduler(optimizer, optim, steps)
    rates = []
    for _ in range(steps):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert (max(rates) < 1) is (share is not None)
    if share:
        assert f"ends at {max(rates):.0%} of optim.learning_rate" in told
        assert share in told
