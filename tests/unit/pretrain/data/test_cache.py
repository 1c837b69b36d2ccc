"""Files of the cache are there whole or not at all: what is cut, gone or unfinished is made again."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from base.errors import UsageError
from pretrain.data import prepare as preparing
from pretrain.data.prepare import cached_summary, prepare_data
from pretrain.resolution import load_config
from tests.cases import diagonal_is_fast

ODD = ("--data.validation-part", "odd", "--data.validation-fraction", "0.1")


def config_of(runs_dir: Path, *flags: str):
    small = ["--data.num-stories", "60", "--data.vocab-size", "300", "--data.block-size", "64"]
    return load_config(None, [*small, *ODD, "--runs-dir", str(runs_dir), *flags])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The cache of a small corpus."""
    runs_dir = tmp_path_factory.mktemp("runs")
    prepare_data(config_of(runs_dir))
    return runs_dir / ".cache"


@pytest.fixture
def cache(whole, tmp_path) -> Path:
    """The corpus's folder in a copy, which a test may damage."""
    shutil.copytree(whole, tmp_path / ".cache")
    (folder,) = (path for path in (tmp_path / ".cache").iterdir() if path.is_dir())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


DAMAGES: dict[str, Callable[[Path], None]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "deleted": lambda path: path.unlink(),
}
ROWS = ["train.input_ids", "train.position_ids", "validation.input_ids", "validation.lengths"]
FILES = [
    *(f"rows-64/{name}.bin" for name in (*ROWS, "validation.tokens")),
    "rows-64/summary.json",
    "documents.json",
]


@pytest.mark.parametrize(("name", "how"), diagonal_is_fast(FILES, DAMAGES))
def test_what_a_run_reads_is_made_again(cache, tmp_path, capsys, name, how):
    before = contents(tmp_path)
    DAMAGES[how](cache / name)
    data = prepare_data(config_of(tmp_path))
    assert "packed" in capsys.readouterr().out
    assert contents(tmp_path) == before
    assert data.train.num_tokens == int((data.train.input_ids != 0).sum())
    prepare_data(config_of(tmp_path))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_tokenizer_is_named_with_a_cure(cache, tmp_path, how):
    DAMAGES[how](cache / "tokenizer" / "tokenizer.json")
    with pytest.raises(UsageError, match=f"remove {cache}, and the same command makes it again"):
        prepare_data(config_of(tmp_path))


def test_nothing_is_left_of_rows_that_were_interrupted(cache, tmp_path, monkeypatch):
    before = contents(tmp_path)
    wider = config_of(tmp_path, "--data.block-size", "128")

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(preparing, "pack", die)
        with pytest.raises(KeyboardInterrupt):
            prepare_data(wider)
    assert contents(tmp_path) == before
    killed = cache / "rows-128.partial"
    killed.mkdir()
    (killed / "train.input_ids.bin").write_bytes(b"half")
    data = prepare_data(wider)
    assert data.train.num_tokens == int((data.train.input_ids != 0).sum())
    assert not killed.exists()


def test_several_that_meet_damage_at_once_name_it_and_make_it_once(cache, tmp_path, capsys):
    DAMAGES["cut"](cache / "rows-64" / "train.input_ids.bin")
    threads = [threading.Thread(target=prepare_data, args=[config_of(tmp_path)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out, err = capsys.readouterr()
    assert out.count("train documents,") == 1
    assert err == f"note: {cache / 'rows-64'} is damaged; made again\n"


def test_a_disk_that_cuts_all_it_is_given_ends_in_one_line(cache, tmp_path, monkeypatch):
    DAMAGES["cut"](cache / "rows-64" / "train.input_ids.bin")
    replace = os.replace

    def damage(aside: Path, path: Path) -> None:
        if (aside / "train.input_ids.bin").is_file():
            DAMAGES["cut"](aside / "train.input_ids.bin")
        replace(aside, path)

    monkeypatch.setattr("pretrain.data.prepare.os.replace", damage)
    with pytest.raises(UsageError, match="was written and cannot be read; check the disk"):
        prepare_data(config_of(tmp_path))


def test_reading_the_sizes_changes_nothing(cache, tmp_path):
    config = config_of(tmp_path)
    num_rows = len(np.fromfile(cache / "rows-64/train.input_ids.bin", np.uint16)) / 64
    summary = cached_summary(config)
    assert summary is not None
    assert summary["train"]["num_rows"] == num_rows
    (cache / "rows-64" / "summary.json").write_text("{")
    before = contents(tmp_path)
    assert cached_summary(config) is None
    assert contents(tmp_path) == before
