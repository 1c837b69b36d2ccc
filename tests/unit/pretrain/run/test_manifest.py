"""What a finished training left: every change of a file is told, and nothing else."""

from __future__ import annotations

import hashlib
import os

import pytest

from base.files import FileState, damage
from base.run.folder_names import RunFolder
from base.run.manifest import read_completion, write_completion
from tests.cases import run_damage

RESULTS = {"step": 10, "eval_loss": 3.25}


@pytest.fixture
def run(tmp_path) -> RunFolder:
    run = RunFolder(tmp_path / "study" / "gpt_neo" / "gelu" / "mine")
    run.model_dir.mkdir(parents=True)
    for path in (run.config_file, run.model_dir / "config.json", run.model_dir / "model.safetensors"):
        path.write_bytes(path.name.encode() * 10)
    write_completion(run, RESULTS, "1234abcd")
    return run


def test_states_are_sizes_and_checksums(run):
    completion = read_completion(run)
    assert (completion.results, completion.config_hash) == (RESULTS, "1234abcd")
    assert set(completion.files) == {"model/model.safetensors", "model/config.json"}
    for name, state in completion.files.items():
        content = (run.path / name).read_bytes()
        assert state == FileState(len(content), hashlib.sha256(content).hexdigest())
    assert run_damage(run) == {}


@pytest.mark.parametrize("name", ["model/config.json", "model/model.safetensors"])
def test_each_damage_of_each_file_is_told(run, name):
    path = run.path / name
    whole = path.read_bytes()
    for content, wrong in (
        (b"", f"has 0 bytes, and had {len(whole)}"),
        (whole[: len(whole) // 2], f"has {len(whole) // 2} bytes, and had {len(whole)}"),
        (bytes(len(whole)), "has other content than when it was written"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "has other content than when it was written"),
    ):
        path.write_bytes(content)
        assert run_damage(run) == {name: wrong}
    path.unlink()
    assert run_damage(run) == {name: "is gone"}
    path.mkdir()
    assert name in run_damage(run)
    path.rmdir()
    path.write_bytes(whole)
    assert run_damage(run) == {}


def test_content_is_looked_at_once_and_sizes_always(run, monkeypatch):
    read = []
    monkeypatch.setattr("base.files.sha256_of", lambda path: read.append(path) or "0" * 64)
    states = read_completion(run).files
    names = ["model/config.json"]
    path = run.path / names[0]
    os.utime(path, (1, 1))  # as if nobody had read it yet
    for _ in range(3):
        damage(run.path, {name: states[name] for name in names})
    assert read == [path]
    path.write_bytes(b"short")
    assert damage(run.path, {name: states[name] for name in names}) == {
        "model/config.json": "has 5 bytes, and had 110"
    }


@pytest.mark.parametrize("content", [b"", b"{", b'{"results": [], "files": 3}', b'{"step": 10}', bytes(50)])
def test_a_damaged_marker_is_none(run, content, capsys):
    run.completion_marker.write_bytes(content)
    assert read_completion(run) is None
    assert run_damage(run) == {}
    assert capsys.readouterr().err.count("\n") == 1
