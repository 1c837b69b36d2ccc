"""What is told of a run before anything is built."""

from __future__ import annotations

import pytest
import torch

from base.errors import UsageError
from ffn_variants import count_parameters
from pretrain.config import OptimConfig
from pretrain.config_sources import say_once
from pretrain.model.build import build
from pretrain.resolution import load_config
from pretrain.training.optim import build_scheduler
from pretrain.training.usable import check_usable, check_warmup, count_roughly

SIZES = ["--model.hidden-size", "256", "--model.intermediate-size", "512", "--data.vocab-size", "2000"]


@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5", "llama"])
@pytest.mark.parametrize("ffn", ["gelu", "kan", "swiglu", "gr-kan"])
def test_parameters_are_estimated_within_a_fifth(family, ffn):
    """Against the model itself; what is refused is a factor of four away."""
    config = load_config(None, ["--family", family, "--ffn", ffn, *SIZES])
    exact = count_parameters(build(config, config.data.vocab_size))["total"]
    assert count_roughly(config) == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize(
    "sizes",
    [{"model": {"hidden_size": 10**6}}, {"data": {"vocab_size": 10**12}}, {"data": {"block_size": 10**12}}],
)
def test_a_model_far_beyond_memory_is_refused(sizes):
    with pytest.raises(
        UsageError, match=r"parameters need [\d,]+ GiB of memory to train, and this machine has"
    ):
        check_usable(load_config(None, overrides=sizes))


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


def test_usual_models_are_not_refused():
    check_usable(load_config(None))
    check_usable(load_config(None, ["--model.hidden-size", "1024", "--data.vocab-size", "50000"]))
