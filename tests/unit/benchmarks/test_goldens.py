"""Goldens: ``compare`` names every difference between what two trees said, and only those."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.goldens import differences, main

SAID = {
    "answer": ["`kan` is worse by 0.25 nats.", "Cannot tell: pairs."],
    "rows": [{"variant": "gelu", "p": 0.03}, {"variant": "kan", "p": float("nan")}],
    "is_paired": True,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"is_paired": 1}, ["is_paired: True -> 1"]),
        ({"answer": ["`kan` is better.", SAID["answer"][1]]}, ["answer/0: `kan` is worse by 0.25 "]),
        ({"answer": SAID["answer"][1:]}, ['answer: - "`kan` is worse by 0.25 nats."']),
        ({"rows": [SAID["rows"][0], {"variant": "kan", "p": 0.5}]}, ["rows/1/p: nan -> 0.5"]),
        ({"rows": [SAID["rows"][0], {"variant": "kan"}]}, ["rows/1/p: gone"]),
        ({"more": 1}, ["more: new"]),
    ],
)
def test_each_difference_is_told_with_its_path(changes, expected):
    lines = list(differences(SAID, json.loads(json.dumps(SAID)) | changes))
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True))


@pytest.mark.parametrize(("tolerance", "is_told"), [(0.1, False), (0.001, True)])
def test_a_tolerance_is_for_numbers_also_in_texts(tolerance, is_told):
    before, after = {"a": 0.25, "b": "0.25 nats"}, {"a": 0.26, "b": "0.26 nats"}
    assert bool(list(differences(before, after, tolerance=tolerance))) == is_told
    assert list(differences({"b": "0.25 nats"}, {"b": "0.25 bits"}, tolerance=9.0))


def test_only_a_difference_that_is_meant_is_let_through(tmp_path: Path, capsys, monkeypatch):
    for folder, value in (("before", {"a": 1, "b": 2}), ("after", {"a": 1, "b": 3, "c": 4})):
        (tmp_path / folder / "reports").mkdir(parents=True)
        (tmp_path / folder / "reports" / "plain.json").write_text(json.dumps(value))
    meant = tmp_path / "meant.txt"
    command = ["goldens", "compare", str(tmp_path / "before"), str(tmp_path / "after"), "--meant", str(meant)]
    monkeypatch.setattr(sys, "argv", command)
    meant.write_text("# of this rebuild\nreports/*/c: new\n")
    assert main() == 1
    assert "reports/plain/b: 2 -> 3\n" in capsys.readouterr().out
    meant.write_text("reports/*/c: new\nreports/plain/b: *\n")
    assert main() == 0
    assert "meant: 1 differences as reports/plain/b: *" in capsys.readouterr().out
