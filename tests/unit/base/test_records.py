"""State files: every damage is told from what was written, and other versions are read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.records import peek_record, read_record, set_aside, unsealed, write_record


@dataclass(frozen=True)
class Place:
    name: str
    step: int = 0
    losses: list[float] = field(default_factory=list)


PLACE = Place("gelu/seed1", 3, [0.1, 1e-300, float("inf")])


@pytest.fixture
def path(tmp_path):
    write_record(tmp_path / "made" / "place.json", PLACE)
    return tmp_path / "made" / "place.json"


def test_what_was_written_is_read(path, capsys):
    assert read_record(path, Place) == PLACE
    assert read_record(path, dict) == peek_record(path) == {"name": "gelu/seed1", "step": 3,
                                                           "losses": [0.1, 1e-300, float("inf")]}  # fmt: skip
    assert [file.name for file in path.parent.iterdir()] == ["place.json"]
    assert capsys.readouterr() == ("", "")


def test_an_absent_file_is_none(tmp_path, capsys):
    assert read_record(tmp_path / "a.json", Place) is None
    (tmp_path / "file").touch()
    assert read_record(tmp_path / "file" / "a.json", Place) is None
    assert capsys.readouterr() == ("", "")


def damages(content: bytes) -> dict[str, bytes]:
    middle = content.index(b"3")
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "zeroed": bytes(len(content)),
        "another number": content[:middle] + b"7" + content[middle + 1 :],
        "binary": b"\xff\xfe" + content,
        "a list": b"[1]",
        "nested": b"[" * 10_000,
        "key gone": json.dumps({"step": 3}).encode(),
        "other type": json.dumps({"name": "a", "step": "many"}).encode(),
    }


@pytest.mark.parametrize("damage", damages(b"3 "))
def test_a_damaged_file_is_set_aside_in_one_line(damage, path, capsys):
    content = damages(path.read_bytes())[damage]
    path.write_bytes(content)
    assert read_record(path, Place) is None
    line = capsys.readouterr().err
    assert line.startswith(f"note: {path} is damaged (")
    assert line.count("\n") == 1
    assert [file.name for file in path.parent.iterdir()] == ["place.json.broken"]
    assert path.with_name("place.json.broken").read_bytes() == content
    assert read_record(path, Place) is None
    assert capsys.readouterr().err == ""


def test_no_flipped_bit_changes_a_value(path, capsys):
    """A flip is found, or it hit the seal's own name or a space and every value is as it was."""
    whole = path.read_bytes()
    believed = 0
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        try:
            values = unsealed(bytes(changed))
        except ValueError:
            continue
        believed += 1
        assert {name: values[name] for name in ("name", "step", "losses")} == peek_record(path)
    assert believed < len(whole)  # the eight bits of "sha256" and of spaces


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text().filter(lambda key: key != "sha256"), values))
@pytest.mark.ci
def test_any_json_values_come_back(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("records") / "a.json"
    write_record(path, content)
    assert read_record(path, dict) == content


def test_an_older_version_has_neither_seal_nor_all_keys(tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a"}')
    assert read_record(tmp_path / "a.json", Place) == Place("a")


def test_a_newer_version_has_further_keys(tmp_path):
    write_record(tmp_path / "a.json", {"name": "a", "step": 2, "gpu_hours": 3.5})
    assert read_record(tmp_path / "a.json", Place) == Place("a", 2)


def test_of_several_broken_ones_the_newest_stays(path, capsys):
    for content in (b"one", b"two"):
        path.write_bytes(content)
        assert read_record(path, Place) is None
    assert path.with_name("place.json.broken").read_bytes() == b"two"


def test_a_folder_is_set_aside(tmp_path, capsys):
    for name in "ab":
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / name).touch()
        assert set_aside(tmp_path / "model", "it is\nempty") == tmp_path / "model.broken"
    assert os.listdir(tmp_path / "model.broken") == ["b"]
    assert capsys.readouterr().err.count("\n") == 2


def test_what_cannot_be_renamed_is_told_all_the_same(path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("base.records.os.replace", refuse)
    path.write_text("{")
    assert read_record(path, Place) is None
    assert capsys.readouterr().err == (
        f"note: {path} is damaged (it is no JSON), taken as not there; it stays, as Read-only file system\n"
    )
    assert path.read_text() == "{"


def test_a_folder_in_its_place_is_set_aside(tmp_path, capsys):
    (tmp_path / "a.json").mkdir()
    assert read_record(tmp_path / "a.json", Place) is None
    assert "a.json is damaged (it is a folder); kept as a.json.broken" in capsys.readouterr().err
    write_record(tmp_path / "a.json", PLACE)
    assert read_record(tmp_path / "a.json", Place) == PLACE


def test_what_cannot_be_read_is_told(path, monkeypatch, capsys):
    def refuse(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("base.records.Path.read_bytes", refuse)
    assert read_record(path, Place) is None
    assert capsys.readouterr().err == (
        f"note: {path} cannot be read (Input/output error); taken as not there\n"
    )
