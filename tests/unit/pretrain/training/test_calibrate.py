"""Timing steps of a run that is not trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.training import calibrate as calibration
from pretrain.training.calibrate import calibrate
from pretrain.training.loop import Timing


@pytest.fixture
def config(repository: Path, tmp_path: Path) -> RunConfig:
    return load_config(
        repository / "configs" / "tiny.yaml",
        overrides={
            "model": {"hidden_size": 32, "intermediate_size": 32},
            "data": {"num_stories": 100, "vocab_size": 300, "block_size": 64},
            "optim": {"max_steps": 40},
            "train": {"torch_compile": False},
            "output": {"runs_dir": str(tmp_path / "runs")},
        },
    )


def test_a_run_s_own_steps_are_timed_and_nothing_is_written(config: RunConfig, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    timing, device = calibrate(config, folder)
    assert timing.updates == calibration.UPDATES - calibration.UNTIMED
    assert device.startswith(("cpu", "cuda", "NVIDIA"))
    assert not (tmp_path / "runs").exists()
    assert not (folder / calibration.NO_RUN).exists()
    full = timing.updates * config.train.batch_size * config.data.block_size
    assert 0.9 * full < timing.tokens <= full
    assert timing.seconds > 0


def test_a_run_of_few_steps_has_no_more(config: RunConfig, tmp_path: Path) -> None:
    short = config.model_copy(update={"optim": config.optim.model_copy(update={"max_steps": 3})})
    timing, _ = calibrate(short, tmp_path / "temporary")
    assert timing.updates == 1


def test_evaluations_of_a_run_slow_it() -> None:
    """25 steps of 100 tokens in 5 s, and an evaluation of 2 s every ten steps: 0.2 s a step."""
    assert Timing(5.0, 2500, 25, 0.2).tokens_per_s == pytest.approx(2500 / (5 + 25 * 0.2))
