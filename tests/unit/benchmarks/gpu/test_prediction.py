"""The table on paper, from counts that are given."""

from __future__ import annotations

from benchmarks.gpu import prediction
from benchmarks.gpu.counting import Counts, Launched
from benchmarks.gpu.workload import CASES


def counts() -> Counts:
    product = Launched("aten::mm", [[57344, 512], [512, 512]], 10**9, 989 * 10**9)
    attention = Launched("aten::_flash_attention_backward", [[57344, 4, 128]], 10**6, 1)
    return Counts([product, attention], [10**6], 3 * 2**30)


def test_the_table_has_every_part_and_says_whether_the_bar_is_reached(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(prediction.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(prediction, "count_updates", lambda cases, compiled: [counts() for _ in cases])
    prediction.main(["--device", "H100", "--json", str(tmp_path / "paper.json")])
    printed = capsys.readouterr().out
    for part in prediction.PARTS:
        assert printed.count(f"\n| {part} | ") == 4
    assert printed.count("| **s of a run**, ") == 4
    assert all(f"- {case.name}: " in printed for case in CASES)
    assert "peak memory, GiB | 3.00 |" in printed
    assert "Nothing here was measured" not in printed
    assert "nothing here was measured" in printed


def test_a_run_takes_its_steps_and_the_bar_is_not_bent(monkeypatch):
    monkeypatch.setattr(prediction, "count_updates", lambda cases, compiled: [counts() for _ in cases])
    counted = prediction.count(CASES[:1])
    paper = prediction.predict(counted[CASES[0].name])
    h100 = paper["devices"]["H100"]
    device_s = sum(h100["parts_s"].values())
    assert abs(h100["run_in_graph_s"] - 466e6 / (112 * 502) * device_s) < 1e-6
    (line,) = prediction.verdicts({CASES[0].name: paper})
    assert ("NOT reached, by " in line) == (h100["run_in_graph_s"] > 95)


def test_attention_is_given_the_scores_within_documents(monkeypatch):
    monkeypatch.setattr(prediction, "count_updates", lambda cases, compiled: [counts() for _ in cases])
    (counted,) = prediction.count(CASES[:1]).values()
    flops = counted.launches[1].flops
    every_pair = 10 * 112 * 512 * 512 * 512  # five products of all scores of a row
    assert 0.2 * every_pair < flops < 0.6 * every_pair
