"""Which runs a command means, checks before anything is built, and that each seed is what it is alone."""

from __future__ import annotations

import json

import pytest
import torch

from base.command_line import read_flags
from base.errors import UsageError
from base.run.folder_names import RunFolder
from pretrain.config import OptimConfig, ResolvedConfig, RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir, sole_writer
from pretrain.train import TrainArgs
from pretrain.training.dry_run import check_usable, check_warmup, describe_run, describe_runs, say_once
from pretrain.training.seeds import configs_of_seeds, train_in_turn
from pretrain.training.training_run import train
from pretrain.training.update import build_scheduler

# Several seeds in one command: which runs it means, and that each is what it is alone.
FLAGS = [
    *("--model.hidden-size", "32", "--model.intermediate-size", "32", "--model.window-size", "9"),
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--optim.learning-rate", "0.01", "--optim.max-steps", "6", "--train.no-torch-compile"),
    *("--train.batch-size", "8", "--train.logging-steps", "2", "--train.save-steps", "2"),
]


@pytest.fixture
def seeds(tiny):
    """Make configurations as a command line does; each test has a study of its own."""

    def _seeds(numbers: str, *flags: str) -> list[ResolvedConfig]:
        output = tiny().output
        place = ["--runs-dir", output.runs_dir, "--study", output.study]
        return configs_of_seeds(read_flags(TrainArgs, [*FLAGS, *place, "--seeds", numbers, *flags]))

    return _seeds


@pytest.mark.parametrize("given", ["1,2,3", "1 2 3", "1, 2,3", "1-3", "1-2,3"])
def test_seeds_are_read_among_other_flags(given):
    flags = ["--ffn", "kan", "--seeds", *given.split(), "--study", "s"]
    configs = configs_of_seeds(read_flags(TrainArgs, flags))
    assert [config.seed for config in configs] == [1, 2, 3]
    assert {(config.model.ffn, config.output.study) for config in configs} == {("kan", "s")}


def test_they_are_the_runs_of_seed(seeds):
    both = seeds("1,3", "--ffn", "kan")
    place = ["--runs-dir", both[0].output.runs_dir, "--study", both[0].output.study]
    alone = [load_config(None, [*FLAGS, *place, "--ffn", "kan", "--seed", seed]) for seed in ("1", "3")]
    assert both == alone
    plan = describe_runs(both)
    assert plan == f"{describe_run(both[0])}\nseed 3           {run_dir(both[1])} (new)"


@pytest.mark.ci
def test_failed_ones_stop_no_others(seeds, capsys):
    """One that diverged before, one that another process trains, one that meets a defect."""
    configs = seeds("1,2,3,4")
    diverged, locked, broken, _ = map(run_dir, configs)
    for path in (diverged, broken):
        path.mkdir(parents=True)
    record = {"step": 2, "problem": "the loss is nan", "last_good_checkpoint": None}
    (diverged / "FAILED").write_text(json.dumps(record))
    (broken / "provenance.json").write_text('{"sessions": 3}')
    with sole_writer(locked), pytest.raises(UsageError, match=r"^3 of 4 seeds failed, .* above: 1,2,3; the"):
        train_in_turn(configs, train)
    told = capsys.readouterr().err
    assert f"error: {diverged} failed: the loss is nan at step 2; lower" in told
    assert f"error: {locked}: another process" in told
    assert "TypeError" in told
    assert [config.seed for config in configs if RunFolder(run_dir(config)).has_marker] == [4]


def test_of_several_processes_the_first_failure_ends_all(seeds, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    trained = []

    def fail(config: RunConfig) -> None:
        trained.append(config.seed)
        raise UsageError("diverged")

    with pytest.raises(UsageError, match=r"^diverged$"):
        train_in_turn(seeds("1,2"), fail)
    assert trained == [1]


@pytest.mark.parametrize("text", ["42", "2", "1", "0", "1-3", "1,3"])
def test_one_number_is_a_seed_and_not_how_many(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    configs_of_seeds(read_flags(TrainArgs, ["--seeds", text]))
    note = f"note: --seeds {text} is seed {text} alone; --seeds 1-{text} are {text} seeds\n"
    assert capsys.readouterr().out == (note if text in ("42", "2") else "")


def test_nothing_typed_is_no_training() -> None:
    with pytest.raises(UsageError, match=r"^usage: ffn-ablations train \[CONFIG\]"):
        configs_of_seeds(read_flags(TrainArgs, []))


# Checks of a run before anything is built.
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
