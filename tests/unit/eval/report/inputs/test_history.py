"""What is remembered of a study: lines that survive being cut off, and reports that are counted once."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from eval.report.inputs.history import (
    Claim,
    Report,
    data_key,
    read_history,
    remember_question,
    remember_report,
)
from pretrain.run.folders import StudyFolder


def report(data: str) -> Report:
    claims = {"blimp: kan - gelu": Claim(verdict="different", runs=3)}
    return Report(data=data, claims=claims, looks=[3, 6])


def test_reports_come_back_in_order_and_each_data_once(tmp_path: Path):
    for data in ("a", "b", "a"):
        remember_report(tmp_path, report(data))
    found = read_history(tmp_path).reports
    assert [each.data for each in found] == ["a", "b"]
    assert found[0].claims == {"blimp: kan - gelu": Claim(verdict="different", runs=3)}
    assert found[0].runs == (3, 3)
    assert found[0].looks == [3, 6]
    lines = StudyFolder(tmp_path).history_file.read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["report", "report"]


def test_a_line_cut_off_is_named_and_costs_no_other(tmp_path: Path):
    file = StudyFolder(tmp_path).history_file
    remember_report(tmp_path, report("a"))
    with file.open("a") as stream:
        stream.write('{"kind": "report", "data": "b", "few')
    remember_report(tmp_path, report("c"))
    found = read_history(tmp_path)
    assert [each.data for each in found.reports] == ["a", "c"]
    assert found.notes == ("history.jsonl: line 2 is damaged and was left out",)


def test_other_kinds_of_damage_are_named(tmp_path: Path):
    for line in ("[1]", '{"kind": "other"}', '{"kind": "question", "report": 3, "num_results": 0}', "\x00"):
        StudyFolder(tmp_path).history_file.write_text(line + "\n")
        assert len(read_history(tmp_path).notes) == 1


def test_what_was_asked_before_results_is_the_last_question_without_any(tmp_path: Path):
    assert read_history(tmp_path).before_results is None
    remember_question(tmp_path, {"margin": 1.0})
    remember_question(tmp_path, {"margin": 2.0})
    scores = tmp_path / "gpt_neo" / "gelu" / "seed1-abc" / "eval" / "rows.parquet"
    scores.parent.mkdir(parents=True)
    scores.touch()
    remember_question(tmp_path, {"margin": 2.0})
    remember_question(tmp_path, {"margin": 3.0})
    found = read_history(tmp_path)
    assert [(q.report["margin"], q.num_results) for q in found.questions] == [(1.0, 0), (2.0, 0), (3.0, 1)]
    assert found.before_results == found.questions[1]


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path):
    (tmp_path / "file").touch()
    remember_report(tmp_path / "file", report("a"))
    assert read_history(tmp_path / "file").reports == ()


def test_scores_are_named_whatever_their_order():
    runs = pd.DataFrame(
        {"run_id": ["a", "b"], "benchmark": "x", "task": "y", "metric": "z", "score": [1.0, 2.0]}
    )
    assert data_key(runs) == data_key(runs[::-1])
    assert data_key(runs) != data_key(runs.assign(score=[1.0, 2.1]))
    assert data_key(runs) != data_key(runs[:1])


def test_numbers_of_runs_that_none_has_are_damage(tmp_path: Path):
    file = StudyFolder(tmp_path).history_file
    remember_report(tmp_path, report("a"))
    line = json.loads(file.read_text())
    for runs in (0, -5, 10**9, 2**70):
        for claim in line["claims"].values():
            claim["runs"] = runs
        file.write_text(json.dumps(line) + "\n")
        assert read_history(tmp_path).notes == ("history.jsonl: line 1 is damaged and was left out",)
