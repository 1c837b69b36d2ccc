"""The file of predictions against the format that the BabyLM 2025 pipeline publishes, key by key.

``FORMAT`` is a second statement of what its ``collate_preds.py`` reads and writes: which keys there are,
which subtasks stand under them, what a prediction has. Scores are then computed from the file and the data
alone.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import spearmanr

from base.errors import run_cli
from eval.commands.babylm_predictions import main
from eval.config import EvalConfig
from eval.runner.evaluate import evaluate_run
from eval.suites.registry import SUITES
from ffn_variants.models.loading import load_language_model
from pretrain.training.checkpoints import save_checkpoint
from tests.babylm_data import lines, write_data

TEXTS = (
    *("blimp-filtered", "blimp-supplement", "ewok", "entity-tracking", "wug", "wug-past", "comps"),
    *("reading", "aoa"),
)
BOXES = tuple(f"{kind}_{n}_ops" for kind in ("regular", "ambiref", "move_contents") for n in (0, 1))
FORMAT: dict[str, tuple[tuple[str, ...], dict[str, type]]] = {
    "blimp": (SUITES["blimp"].tasks, {"id": str, "pred": str}),
    "blimp_supplement": (
        ("hypernym", "qa_congruence_easy", "qa_congruence_tricky", "subject_aux_inversion", "turn_taking"),
        {"id": str, "pred": str},
    ),
    "ewok": (
        (
            *("agent-properties", "social-relations", "physical-relations", "material-dynamics"),
            *("physical-interactions", "spatial-relations", "social-properties", "quantitative-properties"),
            *("social-interactions", "material-properties", "physical-dynamics"),
        ),
        {"id": str, "pred": str},
    ),
    "entity_tracking": (BOXES, {"id": str, "pred": str}),
    "wug_adj": (("wug_adj",), {"id": str, "pred": str, "prob": float}),
    "wug_past": (("wug_past",), {"id": str, "pred": str, "prob": float}),
    "comps": (("base", "wugs_dist_before", "wugs_dist_in_between", "wugs"), {"id": str, "pred": str}),
    "reading": (("reading",), {"id": int, "pred": float, "prev_pred": float}),
    "glue": (("boolq", "wsc"), {"id": str, "pred": int}),
}
AOA = {
    "step": str, "word_count": int, "target_word": str, "context_id": int, "context": str, "surprisal": float,
}  # fmt: skip
STEPS = (1, 2, 5, 10, 20)


def check_format(content: dict[str, Any]) -> None:
    assert content.keys() == {*FORMAT, "aoa"}
    for key, (subtasks, fields) in FORMAT.items():
        assert content[key].keys() == set(subtasks), key
        for subtask, part in content[key].items():
            assert part.keys() == {"predictions"}
            assert part["predictions"]
            for number, prediction in enumerate(part["predictions"]):
                assert {name: type(value) for name, value in prediction.items()} == fields
                assert prediction["id"] == (number if key == "reading" else f"{subtask}_{number}")
    about = content["aoa"]["metadata"]
    assert {name: type(value) for name, value in about.items()} == {
        "model_name": str, "use_bos_only": bool, "total_steps": int, "completed_steps": int,
    }  # fmt: skip
    for result in content["aoa"]["results"]:
        assert {name: type(value) for name, value in result.items()} == AOA
        assert re.fullmatch(r"chck_\d+M", result["step"])
        assert result["word_count"] == int(result["step"][5:-1]) * 10**6


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("babylm"))
    glue = folder / "full_eval" / "glue_filtered"
    for split in ("train", "validation"):
        lines(
            glue / f"boolq.{split}.jsonl",
            [
                {"question": f"is it {n}", "passage": f"It is {n}.", "label": n % 2, "idx": n}
                for n in range(8)
            ],
        )
        lines(
            glue / f"wsc.{split}.jsonl",
            [
                {"span1_text": "Ben", "span2_text": "he", "text": f"Ben ran {n}.", "label": n % 2, "idx": n}
                for n in range(6)
            ],
        )
    return folder


CONFIG = {
    "suites": (*TEXTS, "glue"),
    "protocol": {"preset": "babylm25", "overflow": "truncate"},
    "check_contamination": False,
    "finetune": {
        "tasks": ("boolq", "wsc"),
        "num_train_epochs": 1,
        "select_on": "validation",
        "max_length": 32,
    },
}


@pytest.fixture(scope="module", params=["gpt_neo", "roberta"])
def scored(request, tmp_path_factory, write_run, data) -> Path:
    """A run with checkpoints, scored on everything."""
    run = write_run(tmp_path_factory.mktemp("runs"), request.param)
    objective = {"gpt_neo": "causal", "roberta": "masked"}[request.param]
    model, _ = load_language_model(run / "model", objective, "cpu")
    for step in STEPS:
        torch.manual_seed(step)
        weights = {name: w.detach() + torch.randn_like(w) / step for name, w in model.named_parameters()}
        save_checkpoint(run / "checkpoints", {"weights": weights, "state": {"step": step}, "run": ""}, keep=9)
    glue = data / "full_eval" / "glue_filtered"
    evaluate_run(
        run, EvalConfig.model_validate(CONFIG | {"babylm25_dir": data, "glue_dir": glue}), progress=False
    )
    return run


def export(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run_cli(lambda: main([*map(str, arguments)]))
    return int(str(ended.value.code))


def score_of(rows: pd.DataFrame, benchmark: str, metric: str) -> float:
    own = rows[(rows["benchmark"] == benchmark) & (rows["metric"] == metric)]
    return float(own["score"].mean())


@pytest.mark.ci
def test_a_run_s_file_is_as_published_and_gives_the_run_s_scores(scored, data, tmp_path, capsys):
    out = tmp_path / "new" / "all.json"
    assert export(scored, "--babylm25-dir", data, "--out", out, "--words", 20_000_000) == 0
    said = capsys.readouterr()
    assert "blimp 134," in said.out
    assert "missing: glue (mnli, mrpc, multirc, qqp, rte); score with: python -m eval" in said.err
    assert "blimp 134 of 59,875, blimp_supplement 10 of 5,218" in said.err
    assert "checkpoints 5 of 19, aoa 17 of 8,005" in said.err
    assert "fast_eval_results, scores of checkpoints" in said.err
    assert said.err.count("\n") == 3
    content = json.loads(out.read_text())
    check_format(content)
    rows, full = pd.read_parquet(scored / "eval" / "rows.parquet"), data / "full_eval"

    def right(key: str, folder: str, target: str, prefix: str = "") -> float:
        shares = []
        for subtask, part in content[key].items():
            known = [row[target] for row in rows_of(full / folder / f"{prefix}{subtask}.jsonl")]
            preds = [prediction["pred"].strip() for prediction in part["predictions"]]
            assert len(preds) == len(known)
            shares.append(100 * np.mean([p == k.strip() for p, k in zip(preds, known, strict=True)]))
        return float(np.mean(shares))

    for key, suite, folder, target in (
        ("blimp", "blimp-filtered", "blimp_filtered", "sentence_good"),
        ("blimp_supplement", "blimp-supplement", "supplement_filtered", "sentence_good"),
        ("ewok", "ewok", "ewok_filtered", "Target1"),
    ):
        assert right(key, folder, target) == pytest.approx(score_of(rows, suite, "accuracy"))
    boxes = []
    for kind in ("regular", "ambiref", "move_contents"):
        for n in (0, 1):
            known = [row for row in rows_of(full / "entity_tracking" / f"{kind}.jsonl") if row["numops"] == n]
            found = content["entity_tracking"][f"{kind}_{n}_ops"]["predictions"]
            pairs = zip(found, known, strict=True)
            boxes.append(100 * np.mean([own["pred"] == row["options"][0] for own, row in pairs]))
    assert np.mean(boxes) == pytest.approx(score_of(rows, "entity-tracking", "accuracy_by_operations"))
    files = {
        "base": "comps_base", "wugs": "comps_wugs", "wugs_dist_before": "comps_wugs_dist-before",
        "wugs_dist_in_between": "comps_wugs_dist-in-between",
    }  # fmt: skip
    comps = []
    for subtask, file in files.items():
        known = rows_of(full / "comps" / f"{file}.jsonl")
        sentences = [f"{row['prefix_acceptable']} {row['property_phrase']}" for row in known]
        found = [prediction["pred"] for prediction in content["comps"][subtask]["predictions"]]
        comps.append(100 * np.mean([a == b for a, b in zip(found, sentences, strict=True)]))
    assert np.mean(comps) == pytest.approx(score_of(rows, "comps", "accuracy"))
    for key, suite, file in (
        ("wug_adj", "wug", "wug_adj_nominalization"),
        ("wug_past", "wug-past", "wug_past_tense"),
    ):
        known = rows_of(full / file / f"{file}.jsonl")
        found = content[key][key]["predictions"]
        assert all(own["pred"] in row["sentences"].split("\t") for own, row in zip(found, known, strict=True))
        expected = 100 * spearmanr([own["prob"] for own in found], [row["ratio"] for row in known])[0]
        assert expected == pytest.approx(score_of(rows, suite, "spearman_correlation"))
    table = pd.read_csv(full / "reading" / "reading_data.csv", keep_default_na=False)
    found = content["reading"]["reading"]["predictions"]
    assert [math.isnan(own["prev_pred"]) for own in found] == [not text for text in table["prev_item"]]
    for task, part in content["glue"].items():
        known = [row["label"] for row in rows_of(full / "glue_filtered" / f"{task}.validation.jsonl")]
        preds = [own["pred"] for own in part["predictions"]]
        own = rows[(rows["benchmark"] == "glue") & (rows["task"] == task) & (rows["metric"] == "accuracy")]
        right_ones = [a == b for a, b in zip(preds, known, strict=True)]
        assert 100 * np.mean(right_ones) == pytest.approx(own["score"].item())
    results = content["aoa"]["results"]
    assert list(dict.fromkeys(result["step"] for result in results)) == [f"chck_{step}M" for step in STEPS]
    contexts = json.loads((full / "aoa" / "cdi_childes.json").read_text())
    expected = [
        (word, number, one["context"])
        for word, found in contexts.items()
        if len(word) > 1
        for number, one in enumerate(found)
    ]
    of_first = [r for r in results if r["step"] == "chck_1M"]
    assert [(r["target_word"], r["context_id"], r["context"]) for r in of_first] == expected


@pytest.mark.ci
def test_checkpoints_are_scored_on_the_fast_data_and_never_twice(scored, data, tmp_path, capsys):
    """What the last of them is scored is what the run is that has its weights."""
    asked = ("--babylm25-dir", data, "--words", 20_000_000, "--fast", "--out")
    assert export(scored, *asked, tmp_path / "a.json") == 0
    said = capsys.readouterr().err
    assert [line.split(",")[0] for line in said.splitlines()[:5]] == [f"scoring chck_{n}M" for n in STEPS]
    assert "are not in it" not in said
    fast = json.loads((tmp_path / "a.json").read_text())["fast_eval_results"]
    assert {key: set(part[0]) for key, part in fast.items()} == {
        **{key: set(FORMAT[key][0]) for key in ("blimp", "blimp_supplement", "ewok")},
        "entity_tracking": {"regular_0_ops", "regular_1_ops"},
        "wug_adj": {"wug_adj"},
        "wug_past": {"wug_past"},
        "reading": {"spr", "rt"},
    }
    assert all(len(part) == 5 for part in fast.values())
    assert all(-1 <= value <= 1 for part in fast.values() for step in part for value in step.values())

    other = tmp_path / "gpt_neo" / "swish" / "other"
    shutil.copytree(scored, other, ignore=shutil.ignore_patterns("eval", "checkpoints"))
    weights = load_file(scored / "checkpoints" / f"step_{STEPS[-1]:07d}" / "model.safetensors")
    save_file(weights, other / "model" / "model.safetensors", metadata={"format": "pt"})
    config = CONFIG | {"suites": ("blimp-fast", "ewok", "wug", "reading"), "babylm25_dir": data / "fast_eval"}
    rows = evaluate_run(other, EvalConfig.model_validate(config), progress=False).set_index("benchmark")
    assert np.mean(list(fast["blimp"][-1].values())) == pytest.approx(
        rows.loc["blimp-fast", "score"].mean() / 100
    )
    assert np.mean(list(fast["ewok"][-1].values())) == pytest.approx(rows.loc["ewok", "score"].mean() / 100)
    assert fast["wug_adj"][-1]["wug_adj"] == pytest.approx(rows.loc["wug", "score"] / 100)
    reading = rows.loc["reading"].set_index("task")["score"] / 100
    assert fast["reading"][-1]["spr"] == pytest.approx(reading["self-paced"], abs=1e-6)
    assert fast["reading"][-1]["rt"] == pytest.approx(reading["eye-tracking"], abs=1e-6)

    path = scored / "checkpoints" / f"step_{STEPS[0]:07d}" / "model.safetensors"
    kept = path.read_bytes()
    try:
        path.write_bytes(b"broken")
        assert export(scored, *asked, tmp_path / "b.json") == 0
        assert "scoring" not in capsys.readouterr().err
        assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
        (scored / "eval" / "babylm_fast.json").unlink()
        assert export(scored, *asked, tmp_path / "b.json") == 2
        assert "cannot be read" in capsys.readouterr().err
    finally:
        path.write_bytes(kept)


def test_what_is_missing_is_said_in_one_line(make_run, data, tmp_path, capsys):
    run, out = make_run(), tmp_path / "all.json"
    assert export(run, "--babylm25-dir", data, "--out", out) == 2
    assert "has no scores" in capsys.readouterr().err
    config = {"suites": ("ewok", "comps"), "babylm25_dir": data, "check_contamination": False}
    evaluate_run(
        run, EvalConfig.model_validate(config | {"pair_tasks": ("base", "social-relations")}), progress=False
    )
    assert export(run, "--babylm25-dir", data, "--out", out) == 0
    (first, *_) = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "note: missing: blimp-filtered, blimp-supplement, ewok (agent-properties, material-"
    )
    assert (
        "comps (wugs, wugs_dist_before, wugs_dist_in_between), reading, aoa, glue; score with: python"
        in first
    )
    command = first.partition("score with: ")[2]
    assert f"--protocol babylm25 --babylm25-dir {data}" in command
    assert (
        "--suites blimp-filtered blimp-supplement ewok entity-tracking wug wug-past comps reading aoa"
        in command
    )
    assert json.loads(out.read_text()).keys() == {"ewok", "comps"}
    # Of other data the texts would be others.
    (write_data(tmp_path / "other", 3), out.unlink())
    assert export(run, "--babylm25-dir", tmp_path / "other", "--out", out) == 2
    assert "nothing that the leaderboard takes; missing: " in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.ci
def test_mistakes_are_told_in_one_line_and_nothing_is_written(scored, data, tmp_path, capsys):
    out = tmp_path / "all.json"
    for arguments, words in (
        ((tmp_path,), "is no run folder"),
        ((scored, "--out", tmp_path), "is a folder"),
        ((scored,), "--babylm25-dir FOLDER"),
        ((scored, "--babylm25-dir", tmp_path / "absent"), "no folder"),
        ((scored, "--babylm25-dir", data, "--words", 0), "--words is 0"),
        ((scored, "--babylm25-dir", data, "--words", "some"), "--words"),
        ((scored, "--babylm25-dir", data, "--words", 37), "no checkpoint"),
        ((scored, "--babylm25-dir", data, "--fast"), "--fast needs --words"),
        ((scored, "--babylm25-dri", data), "did you mean --babylm25-dir"),
    ):
        assert export(*arguments, *(() if "--out" in arguments else ("--out", out))) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    path = scored / "eval" / "items" / "ewok.parquet"
    kept = path.read_bytes()
    try:
        path.write_bytes(b"broken")
        assert export(scored, "--babylm25-dir", data, "--out", out) == 2
        assert "score ewok again: python -m eval" in capsys.readouterr().err
    finally:
        path.write_bytes(kept)
    assert not out.exists()
