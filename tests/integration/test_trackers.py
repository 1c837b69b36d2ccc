"""Runs in a tracker, after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import config_hash, run_dir
from pretrain.training.loop import Loop
from pretrain.training.training_run import train


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    flags = ["--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"]
    flags += ["--model.hidden-size", "16", "--model.intermediate-size", "16", "--train.no-torch-compile"]
    flags += ["--optim.max-steps", "20", "--train.save-steps", "8", "--train.logging-steps", "4"]
    flags += ["--train.eval-steps", "20", "--train.batch-size", "4", "--runs-dir", str(tmp_path)]
    return load_config(None, [*flags, "--tracker", "tensorboard"])


@pytest.mark.ci
def test_tensorboard_has_every_line_once_after_a_kill(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    update = Loop._update

    def killed(loop: Loop, step):
        if loop.state.step == 14:  # after a checkpoint, and after lines behind it
            raise KeyboardInterrupt
        return update(loop, step)

    monkeypatch.setattr(Loop, "_update", killed)
    with pytest.raises(KeyboardInterrupt):
        train(config)
    monkeypatch.undo()
    run = train(config)
    events = EventAccumulator(str(run / "logs" / "default")).Reload()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name in ("loss", "learning_rate", "grad_norm", "eval_loss"):
        expected = {line["step"]: line[name] for line in lines if name in line}
        scalars = events.Scalars(name)
        assert [event.step for event in scalars] == list(expected)
        assert [event.value for event in scalars] == pytest.approx(list(expected.values()), rel=1e-6)
    assert [event.step for event in events.Scalars("loss")] == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("tracker", ["none", "wandb", "trackio"])
def test_a_tracker_changes_no_run(config: RunConfig, tracker: str) -> None:
    others = config.train.model_copy(update={"tracker": tracker})
    assert config_hash(config.model_copy(update={"train": others})) == config_hash(config)


def test_a_tracker_that_does_not_start_is_one_line(config: RunConfig) -> None:
    logs = run_dir(config) / "logs"
    logs.mkdir(parents=True)
    (logs / "default").write_text("a file where a folder should be")
    with pytest.raises(
        UsageError, match=r"the tracker tensorboard does not start: .*metrics.jsonl has every"
    ):
        train(config)
