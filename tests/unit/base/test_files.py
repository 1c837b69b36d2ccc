"""Reading JSON: what a file that is absent, cut off or of another kind stands for."""

from __future__ import annotations

import os
import time

import pytest

from base.files import ABANDONED_S, remove_leftovers, write_text
from base.records import parse_record, peek_record


def test_an_object_is_read(tmp_path):
    path = tmp_path / "made" / "a.json"
    write_text(path, '{"word": "naïve", "count": 2}')
    assert parse_record(path.read_bytes()) == peek_record(path) == {"word": "naïve", "count": 2}
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


def test_an_absent_file_holds_nothing(tmp_path):
    assert peek_record(tmp_path / "a.json") == {}


@pytest.mark.parametrize("text", ['{"count": 2', "", "\udcff"])
def test_a_damaged_file(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert peek_record(path) == {}
    with pytest.raises(ValueError, match=r"it is empty|it is no JSON"):
        parse_record(path.read_bytes())


def test_a_file_that_holds_no_object(tmp_path):
    write_text(tmp_path / "a.json", "[1]")
    assert peek_record(tmp_path / "a.json") == {}


def test_what_killed_processes_left_goes(tmp_path):
    (tmp_path / "model.tmp-12").mkdir()
    (tmp_path / "model.tmp-12" / "config.json").touch()
    kept = [tmp_path / name for name in ("a.json", "a.json.broken", "inside/b.json.tmp-12")]
    for path in [*kept, tmp_path / "a.json.tmp-12"]:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    remove_leftovers(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not (tmp_path / "model.tmp-12").exists()


def test_where_others_may_write_only_what_is_old_goes(tmp_path):
    old, new = tmp_path / "a.tmp-1", tmp_path / "b.tmp-2"
    for path in (old, new):
        path.touch()
    long_ago = time.time() - ABANDONED_S - 60
    os.utime(old, (long_ago, long_ago))
    remove_leftovers(tmp_path, ABANDONED_S)
    assert (old.exists(), new.exists()) == (False, True)
