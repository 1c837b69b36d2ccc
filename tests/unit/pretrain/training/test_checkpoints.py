"""Checkpoints: what they hold, how they are written, and what becomes of damage."""

import errno
import pickle
import re
import zipfile

import pytest
import torch
from torch import nn

from base.errors import UsageError
from pretrain.config import OptimConfig
from pretrain.training.checkpoints import load_newest, restore, save_checkpoint, snapshot
from pretrain.training.update import build_optimizer, build_scheduler


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


def save(folder, step: int = 1, keep: int = 9, run: str = "", **state):
    training = make()
    advance(*training)
    return save_checkpoint(folder, snapshot(*training, {"step": step, **state}, run), keep)


def test_what_is_loaded_is_what_was_saved(tmp_path):
    """That a run goes on to the same bits is tested for each optimizer."""
    path = save(tmp_path, losses=[0.1], run="a")
    content, newest = load_newest(tmp_path, "a")
    assert (content["state"], newest) == ({"step": 1, "losses": [0.1]}, path)
    expected, loaded = make(), make(seed=1)
    advance(*expected)
    restore(content, path, *loaded)
    assert all(
        torch.equal(value, loaded[0].state_dict()[name]) for name, value in expected[0].state_dict().items()
    )


@pytest.mark.parametrize("change", ["shape", "absent", "state"])
def test_weights_of_another_version_are_refused_in_one_line(tmp_path, change):
    content, path = load_newest(save(tmp_path).parent)
    if change == "shape":
        content["weights"]["0.bias"] = content["weights"]["0.bias"][:1]
    elif change == "absent":
        del content["weights"]["0.bias"]
    else:
        content["state"]["rows_per_step"] = 16
    with pytest.raises(UsageError, match=r"another version of this project \(.*(0.bias|rows_per_).*\); give"):
        restore(content, path, *make())


def test_only_the_newest_are_kept(tmp_path):
    for step in range(1, 5):
        save(tmp_path, step, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_0000003", "step_0000004"]


def test_nothing_is_left_of_one_that_cannot_be_written(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(content, file) -> None:
        file.write(b"some of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step_0000001"]


class RunsCode:
    def __reduce__(self):
        return print, ("from a pickle",)


def run_code(path) -> None:
    path.write_bytes(pickle.dumps(RunsCode()))


def run_code_in_a_zip(path) -> None:
    torch.save({"run": "", "state": {"step": 2}, "weights": RunsCode()}, path)


DAMAGES = {
    "empty": (lambda path: path.write_bytes(b""), "not a zip file"),
    "pickle": (run_code, "not a zip file"),
    "code": (run_code_in_a_zip, "Weights only load failed"),
    "other content": (lambda path: torch.save({"step": 2}, path), "run"),
    "other run": (lambda path: save(path.parent / "x", 2, run="b").replace(path), "it is of another run"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_read_is_set_aside_and_the_one_before_is_used(tmp_path, damage, capsys):
    change, words = DAMAGES[damage]
    older, newest = (save(tmp_path, step, run="a") for step in (1, 2))
    change(newest)
    (tmp_path / "step_0000003.tmp-1").write_bytes(b"of a process that was killed")
    content, path = load_newest(tmp_path, "a")
    printed = capsys.readouterr()
    assert re.search(
        rf"step_0000002 is damaged \(.*{words}.*; the checkpoint before it is used\)", printed.err
    )
    assert (content["state"]["step"], path) == (1, older)
    assert {entry.name for entry in tmp_path.glob("step*")} == {"step_0000001", "step_0000002.broken"}
    assert "from a pickle" not in printed.out


def test_no_flipped_bit_changes_what_is_loaded(tmp_path):
    """One in every part of the file and between: it is found, or it lies where nothing is read from."""
    path = save(tmp_path, run="a")
    whole, expected = path.read_bytes(), load_newest(tmp_path, "a")[0]["weights"]
    with zipfile.ZipFile(path) as file:
        places = [info.header_offset + 64 for info in file.infolist()]
    damaged = 0
    for place in {*range(0, len(whole), 37), *places}:
        content = bytearray(whole)
        content[place] ^= 16
        path.write_bytes(content)
        newest = load_newest(tmp_path, "a", tidy=False)
        damaged += newest is None
        assert newest is None or all(torch.equal(newest[0]["weights"][k], expected[k]) for k in expected)
    assert damaged > 20


def test_a_process_that_only_looks_changes_nothing(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2).write_bytes(b"")
    content, _ = load_newest(tmp_path, tidy=False)
    assert content["state"]["step"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"step_0000001", "step_0000002"}
    assert load_newest(tmp_path / "nowhere") is None
