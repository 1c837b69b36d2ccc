"""Checkpoints: what they hold, how they are written, and what becomes of errors."""

from __future__ import annotations

import errno
import json
import threading

import pytest
import torch
from torch import nn

from base.errors import UsageError
from pretrain.config import OptimConfig
from pretrain.training import checkpoints as module
from pretrain.training.checkpoints import (
    CheckpointWriter,
    all_finite,
    load_newest,
    take_snapshot,
    write_checkpoint,
)
from pretrain.training.optim import build_optimizer, build_scheduler


def make(seed: int = 0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    optimizer = build_optimizer(model, OptimConfig())
    return model, optimizer, build_scheduler(optimizer, OptimConfig(), 10)


def advance(model, optimizer, scheduler) -> None:
    model(torch.arange(8.0).view(2, 4)).square().sum().backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()


def numbers(model, optimizer, scheduler) -> list[float]:
    moments = [
        optimizer.state[parameter][key].flatten()
        for parameter in model.parameters()
        for key in ("step", "exp_avg", "exp_avg_sq")
    ]
    weights = [value.flatten() for value in model.state_dict().values()]
    return torch.cat([*weights, *moments]).tolist() + scheduler.get_last_lr()


def test_what_is_loaded_is_what_was_saved_and_goes_on_alike(tmp_path):
    saved = make()
    advance(*saved)
    write_checkpoint(tmp_path, take_snapshot(*saved, {"step": 1, "losses": [0.1]}), keep=2)
    loaded = make(seed=1)
    assert load_newest(tmp_path, *loaded) == ({"step": 1, "losses": [0.1]}, tmp_path / "step_0000001")
    assert numbers(*loaded) == numbers(*saved)
    advance(*saved)
    advance(*loaded)
    assert numbers(*loaded) == numbers(*saved)


def test_weights_of_other_shapes_are_refused_in_one_line(tmp_path):
    saved = make()
    advance(*saved)
    snapshot = take_snapshot(*saved, {"step": 1})
    name = next(iter(snapshot.weights))
    snapshot.weights[name] = snapshot.weights[name][:1].clone()
    write_checkpoint(tmp_path, snapshot, keep=1)
    with pytest.raises(UsageError, match=f"{name} is .*, so another version of this project began it; give"):
        load_newest(tmp_path, *make())


def test_a_snapshot_does_not_change_with_training(tmp_path):
    training = make()
    advance(*training)
    before = numbers(*training)
    snapshot = take_snapshot(*training, {"step": 1})
    advance(*training)
    assert numbers(*training) != before
    write_checkpoint(tmp_path, snapshot, keep=1)
    loaded = make(seed=1)
    load_newest(tmp_path, *loaded)
    assert numbers(*loaded) == before


def test_no_file_is_a_pickle(tmp_path):
    training = make()
    advance(*training)
    path = write_checkpoint(tmp_path, take_snapshot(*training, {"step": 1}), keep=1)
    assert sorted(file.name for file in path.iterdir()) == [
        "model.safetensors",
        "optimizer.safetensors",
        "sha256.json",
        "state.json",
    ]
    for file in path.glob("*.json"):
        json.loads(file.read_text())


def test_training_does_not_wait_while_one_is_written_and_only_one_is(tmp_path, monkeypatch):
    """Holds the first write at a gate; the second one waits for it, the training thread did not."""
    gate, fill = threading.Event(), module._fill

    def gated(folder, snapshot):
        assert gate.wait(30)
        fill(folder, snapshot)

    monkeypatch.setattr(module, "_fill", gated)
    training = make()
    writer = CheckpointWriter(tmp_path / "checkpoints", 2, None, tmp_path / "metrics.jsonl")
    writer.save(take_snapshot(*training, {"step": 1}))
    writer.check()  # returns at once
    assert not list(tmp_path.glob("checkpoints/step_0000001"))
    threading.Timer(0.2, gate.set).start()
    writer.save(take_snapshot(*training, {"step": 2}))
    assert (tmp_path / "checkpoints" / "step_0000001").is_dir()
    writer.wait()
    assert writer.newest == tmp_path / "checkpoints" / "step_0000002"


def test_only_the_newest_are_kept(tmp_path):
    training = make()
    for step in range(1, 5):
        write_checkpoint(tmp_path, take_snapshot(*training, {"step": step}), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_0000003", "step_0000004"]


def test_a_full_disk_is_a_warning_and_the_older_ones_stay(tmp_path, monkeypatch):
    training = make()
    writer = CheckpointWriter(tmp_path, 1, None, tmp_path / "metrics.jsonl")
    writer.save(take_snapshot(*training, {"step": 1}))
    writer.wait()

    def full(folder, snapshot, fill=module._fill):
        fill(folder, snapshot)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_fill", full)
    writer.save(take_snapshot(*training, {"step": 2}))
    with pytest.warns(UserWarning, match=r"\(No space left on device\); training goes on .*step_0000001 rem"):
        writer.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step_0000001"]
    monkeypatch.undo()
    writer.save(take_snapshot(*training, {"step": 3}))
    writer.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step_0000003"]


def test_any_other_error_of_the_thread_reaches_the_training(tmp_path):
    training = make()
    writer = CheckpointWriter(tmp_path, 1, None, tmp_path / "metrics.jsonl")
    writer.save(take_snapshot(*training, {"step": 1, "loss": object()}))  # which is no JSON
    with pytest.raises(TypeError, match="not JSON serializable"):
        writer.wait()
    writer.wait()  # told once


@pytest.mark.parametrize("what", ["weight", "moment"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_found(what, value):
    model, optimizer, scheduler = make()
    advance(model, optimizer, scheduler)
    assert all_finite(model, optimizer)
    tensor = model[1].bias if what == "weight" else optimizer.state[model[1].bias]["exp_avg"]
    tensor.data[2] = value
    assert not all_finite(model, optimizer)
