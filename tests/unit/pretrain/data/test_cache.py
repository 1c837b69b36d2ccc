"""A damaged cache is never trained on: what is wrong in it is made again, to the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from base.errors import UsageError
from base.records import read_record
from pretrain.data import shards
from pretrain.data.cache import RowsRecord, TokensRecord
from pretrain.data.prepare import cached_summary, prepare_data
from pretrain.resolution import load_config


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Shards of 2,000 characters, so that a small corpus has several."""
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 2000)


def config_of(runs_dir: Path, *flags: str):
    small = ["--data.num-stories", "60", "--data.vocab-size", "300", "--data.block-size", "64"]
    return load_config(None, [*small, "--runs-dir", str(runs_dir), *flags])


@pytest.fixture
def cache(tmp_path) -> Path:
    """The cache folder of a small corpus."""
    prepare_data(config_of(tmp_path))
    (folder,) = (path for path in (tmp_path / ".cache").iterdir() if path.is_dir())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zeroed": zero,
    "flipped": flip,
    "deleted": lambda path: path.unlink(),
}
FILES = [
    "rows-64/train.input_ids.bin",
    "rows-64/train.position_ids.bin",
    "rows-64/validation.input_ids.bin",
    "rows-64/summary.json",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.ci
def test_what_a_run_reads_is_made_again(cache, tmp_path, capsys, name, how):
    before = contents(tmp_path)
    capsys.readouterr()
    DAMAGES[how](cache / name)
    data = prepare_data(config_of(tmp_path))
    said = capsys.readouterr()
    assert sum(name in line for line in said.err.splitlines()) in (1, 2)  # a record is set aside as well
    assert "made again" in said.err
    assert contents(tmp_path) == before
    assert data.train.num_tokens == int((data.train.input_ids != 0).sum())
    prepare_data(config_of(tmp_path))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["train-00001.tokens.npy", "train-00001.offsets.npy", "documents.json"])
@pytest.mark.ci
def test_a_shard_is_made_again_before_it_is_packed(cache, tmp_path, capsys, name, how):
    wider = config_of(tmp_path, "--data.block-size", "128")
    prepare_data(wider)
    before = contents(tmp_path)
    shutil.rmtree(cache / "rows-128")
    kept = (cache / "train-00000.tokens.npy").stat().st_mtime_ns
    capsys.readouterr()
    DAMAGES[how](cache / name)
    prepare_data(config_of(tmp_path))  # which does not read it
    assert capsys.readouterr() == ("", "") or name == "documents.json"
    prepare_data(wider)
    assert "made again" in capsys.readouterr().err
    assert contents(tmp_path) == before
    if name != "documents.json":
        assert (cache / "train-00000.tokens.npy").stat().st_mtime_ns == kept


def test_a_lost_last_shard_is_noticed(cache, tmp_path):
    """Nothing else would tell: its neighbours are whole."""
    last = sorted(cache.glob("train-*.tokens.npy"))[-1]
    expected = prepare_data(config_of(tmp_path, "--data.block-size", "32")).train.num_documents
    shutil.rmtree(cache / "rows-32")
    last.unlink()
    last.with_name(last.name.replace("tokens", "offsets")).unlink()
    assert prepare_data(config_of(tmp_path, "--data.block-size", "32")).train.num_documents == expected


@pytest.mark.parametrize(
    "name", ["train-00000.tokens.npy", "train-00002.offsets.npy", "tokenizer/tokenizer.json"]
)
def test_a_shard_that_a_power_cut_emptied_is_not_continued_from(cache, tmp_path, name, monkeypatch):
    before = contents(tmp_path)
    shutil.rmtree(cache)
    calls = iter(range(3))

    def die(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return encode(*arguments)

    encode = shards._encode
    monkeypatch.setattr(shards, "_encode", die)
    with pytest.raises(KeyboardInterrupt):
        prepare_data(config_of(tmp_path))
    monkeypatch.setattr(shards, "_encode", encode)
    partial = cache.with_suffix(".partial")
    zero(partial / name)
    prepare_data(config_of(tmp_path))
    assert contents(tmp_path) == before


def as_of_before(cache: Path) -> None:
    """Give a cache the records that it had before there were checksums."""
    for file in (TokensRecord.file(cache), RowsRecord.file(cache / "rows-64")):
        record = json.loads(file.read_text())
        del record["files"]
        file.write_text(json.dumps(record))


def test_a_cache_of_before_is_used_and_gets_checksums(cache, tmp_path, capsys):
    as_of_before(cache)
    rows = (cache / "rows-64" / "train.input_ids.bin").stat().st_mtime_ns
    prepare_data(config_of(tmp_path))
    prepare_data(config_of(tmp_path, "--data.block-size", "32"))
    said = capsys.readouterr()
    assert (said.err, "tokenising" in said.out) == ("", False)
    assert (cache / "rows-64" / "train.input_ids.bin").stat().st_mtime_ns == rows
    for file, kind in (
        (RowsRecord.file(cache / "rows-64"), RowsRecord),
        (TokensRecord.file(cache), TokensRecord),
    ):
        assert read_record(file, kind).files


@pytest.mark.parametrize("name", ["rows-64/train.input_ids.bin", "tokenizer/tokenizer.json"])
def test_a_cache_of_before_with_zeroes_is_made_again(cache, tmp_path, capsys, name):
    before = {key: value for key, value in contents(tmp_path).items() if key.endswith((".bin", ".npy"))}
    as_of_before(cache)
    zero(cache / name)
    capsys.readouterr()
    prepare_data(config_of(tmp_path))
    assert "made again" in capsys.readouterr().err
    assert {key: contents(tmp_path)[key] for key in before} == before


def test_two_that_find_damage_at_once_make_it_once(cache, tmp_path, capsys):
    zero(cache / "rows-64" / "train.input_ids.bin")
    capsys.readouterr()
    threads = [threading.Thread(target=prepare_data, args=[config_of(tmp_path)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().out.count("train documents,") == 1


def test_a_disk_that_damages_all_it_is_given_ends_in_one_line(cache, tmp_path, monkeypatch):
    zero(cache / "rows-64" / "train.input_ids.bin")
    replace = os.replace

    def damage(aside: Path, path: Path) -> None:
        if (aside / "train.input_ids.bin").is_file():
            flip(aside / "train.input_ids.bin")
        replace(aside, path)

    monkeypatch.setattr("pretrain.data.prepare.os.replace", damage)
    with pytest.raises(UsageError, match="was made again and is damaged again; check the disk"):
        prepare_data(config_of(tmp_path))


def test_sizes_are_told_without_a_change(cache, tmp_path):
    summary = cached_summary(config_of(tmp_path))
    assert (
        summary["train"]["num_rows"]
        == len(np.fromfile(cache / "rows-64/train.input_ids.bin", np.uint16)) / 64
    )
    RowsRecord.file(cache / "rows-64").write_text("{")
    before = contents(tmp_path)
    assert cached_summary(config_of(tmp_path)) is None
    assert contents(tmp_path) == before
