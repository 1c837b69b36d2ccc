"""``python -m eval RUN --classify``: a task of one's own, from its file to the means of a report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eval.classification.score_task import METRICS
from scores.rows import read_rows
from scores.run_scores import normalise_rows, run_scores

QUICK = ("--finetune.num-train-epochs", "1", "--workers", "1")


@pytest.fixture(scope="module")
def run(tmp_path_factory, write_run) -> Path:
    return write_run(tmp_path_factory.mktemp("runs"), ffn="gelu")


@pytest.fixture
def task(tmp_path) -> Path:
    """A task of three labels by name, in a table."""
    words = {"rain": "the rain fell", "snow": "it snowed all day", "sun": "a bright sun"}
    for split, size in (("train", 60), ("validation", 21)):
        rows = [(f"{words[name]}, {n}", name) for n, name in enumerate([*words] * (size // 3))]
        pd.DataFrame(rows, columns=["remark", "mood"]).to_csv(tmp_path / f"{split}.csv", index=False)
    path = tmp_path / "weather.yaml"
    path.write_text(
        "files: {train: train.csv, validation: validation.csv}\ntext: remark\nlabel: mood\n"
        "metrics: [macro_f1, cohen_kappa, accuracy]\n"
    )
    return path


def test_a_task_of_ones_own_is_scored_and_only_it(run, task, evaluate, capsys):
    assert evaluate(run, "--classify", task, *QUICK) == 0
    assert "classification\n" in capsys.readouterr().out
    rows = read_rows(run / "eval" / "rows.parquet")
    of_task = rows[rows["task"] == "weather"]
    assert of_task["metric"].tolist() == ["macro_f1", "cohen_kappa", "accuracy"]
    assert set(rows["benchmark"]) == {"classification"}
    assert set(of_task["group"]) == {"classification"}
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    items = items[items["task"] == "weather"]
    labels, predictions = items["label"].to_numpy(), items["prediction"].to_numpy()
    assert len(items) == 21
    for metric, score in zip(of_task["metric"], of_task["score"], strict=True):
        assert score == pytest.approx(METRICS[metric](labels, predictions)), metric
    assert run_scores(normalise_rows(rows))[0].score.item() == of_task["score"].iloc[0]
    baselines = json.loads((run / "eval" / "baselines.json").read_text())["classification"]["weather"]
    assert baselines["accuracy"] == pytest.approx(100 / 3)
    assert baselines["cohen_kappa"] == 0


def test_inputs_that_are_all_cut_are_told(run, task, evaluate, capsys):
    task = task.rename(task.with_name("cut.yaml"))
    task.write_text(task.read_text().replace("text: remark", 'text: "{remark}; {remark}; {remark}"'))
    assert evaluate(run, "--classify", task, "--finetune.max-length", "8", *QUICK) == 0
    said = "note: classification/cut: 100% of the inputs are longer than what the model reads, and cut"
    assert said in capsys.readouterr().err
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    assert items[items["task"] == "cut"]["truncated"].all()


def test_tasks_with_one_and_with_several_labels_share_a_benchmark(run, task, evaluate, tmp_path):
    for split in ("train", "validation"):
        table = pd.read_csv(tmp_path / f"{split}.csv")
        rows = [{"remark": text, "moods": [mood, "any"]} for text, mood in table.to_numpy()]
        (tmp_path / f"{split}.json").write_text(json.dumps(rows))
    several = tmp_path / "moods.yaml"
    several.write_text(
        "files: {train: train.json, validation: validation.json}\ntext: remark\nlabel: moods\n"
        "labels: [rain, snow, sun, any]\nmulti_label: true\nmetrics: [accuracy, micro_f1]\n"
    )
    assert evaluate(run, "--classify", task, several, "--head", "linear", *QUICK) == 0
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    of_head = items[items["head"] == "linear"]
    one, many = (of_head[of_head["task"] == name] for name in ("weather", "moods"))
    assert one["label"].tolist() == [0, 1, 2] * 7
    assert np.vstack(many["labels"].to_list()).tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]] * 7
    scores = read_rows(run / "eval" / "rows.parquet").set_index(["task", "head", "metric"])["score"]
    right = [(own == given).all() for own, given in zip(many["labels"], many["predictions"], strict=True)]
    assert scores["moods", "linear", "accuracy"] == pytest.approx(100 * np.mean(right))
    assert scores["weather", "linear", "accuracy"] == pytest.approx(
        100 * (one["label"] == one["prediction"]).mean()
    )


def test_a_faulty_task_leaves_the_baselines_of_the_others(run, task, evaluate, capsys):
    whole, faulty = task.with_name("whole.yaml"), task.with_name("faulty.yaml")
    whole.write_text(task.read_text())
    faulty.write_text(task.read_text().replace("text: remark", "text: remrk"))
    chosen = ("--finetune.max-validation-examples", "10")
    assert evaluate(run, "--classify", faulty, whole, *chosen, *QUICK) == 2
    assert "no text in column 'remrk'" in capsys.readouterr().err
    baselines = json.loads((run / "eval" / "baselines.json").read_text())["classification"]
    assert "faulty" not in baselines
    # Of the examples that are reported on, not of the whole file.
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    labels = items[items["task"] == "whole"]["label"]
    assert len(labels) == 10
    assert baselines["whole"]["accuracy"] == pytest.approx(100 * (labels == 0).mean())


def test_a_changed_task_is_scored_again_and_an_unchanged_one_is_not(run, task, evaluate, capsys):
    task = task.rename(task.with_name("changing.yaml"))

    def score(old: str, new: str) -> tuple[list[str], dict]:
        """Change the task and score it; returns its metrics and how it was scored."""
        task.write_text(task.read_text().replace(old, new))
        assert evaluate(run, "--classify", task, *QUICK) == 0
        rows = read_rows(run / "eval" / "rows.parquet")
        done = json.loads((run / "eval" / "done.json").read_text())["tasks"]
        (protocol,) = (record for key, record in done.items() if "changing" in key)
        return rows.loc[rows["task"] == "changing", "metric"].tolist(), protocol

    metrics, first = score("", "")
    assert metrics == ["macro_f1", "cohen_kappa", "accuracy"]
    assert score("", "")[1] == first
    assert "everything asked for is scored already" in capsys.readouterr().err
    gained, _ = score("cohen_kappa", "micro_f1, cohen_kappa")
    assert gained == ["macro_f1", "micro_f1", "cohen_kappa", "accuracy"]
    assert score("text: remark", 'text: "so: {remark}"')[1] != first
