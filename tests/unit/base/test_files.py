"""Reading JSON: what a file that is absent, cut off or of another kind stands for."""

from __future__ import annotations

import json

import pytest

from base.files import read_json, read_json_if_whole, write_text


def test_an_object_is_read(tmp_path):
    path = tmp_path / "made" / "a.json"
    write_text(path, '{"word": "naïve", "count": 2}')
    assert read_json(path) == read_json_if_whole(path) == {"word": "naïve", "count": 2}
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


def test_an_absent_file_holds_nothing(tmp_path):
    assert read_json(tmp_path / "a.json") == read_json_if_whole(tmp_path / "a.json") == {}


@pytest.mark.parametrize("text", ['{"count": 2', "", "\udcff"])
def test_a_damaged_file(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_json_if_whole(path) == {}
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        read_json(path)


def test_a_file_that_holds_no_object(tmp_path):
    write_text(tmp_path / "a.json", "[1]")
    assert read_json_if_whole(tmp_path / "a.json") == {}
