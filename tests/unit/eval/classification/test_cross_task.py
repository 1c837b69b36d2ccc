"""What was fine-tuned on one task, scored on another: against a plain re-statement, and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from sklearn.metrics import accuracy_score, f1_score
from torch import nn
from transformers import AutoTokenizer

from eval.backbones import backbone_runs
from eval.classification.find_tasks import classification_tasks, find_task
from eval.classification.schema import benchmarks_asked_for, read_task_file
from eval.classification.score_task import train
from eval.config import EvalConfig
from eval.evaluate import evaluate_run
from eval.finetuning import FinetuneConfig
from eval.work_units import check_sources, is_evaluated
from ffn_variants import UsageError
from scores.store import read_baselines

WORDS = {"weather": ("rain", "sun"), "food": ("mud", "cake")}


@pytest.fixture
def tasks(tmp_path) -> dict[str, str]:
    """Two tasks of two labels each, told by a word, and one of three; by name the paths of their files."""
    generator = np.random.default_rng(0)
    paths = {}
    for name, words in (*WORDS.items(), ("meals", ("bread", "soup", "cake"))):
        for split, size in (("train", 48), ("validation", 30)):
            labels = generator.integers(0, len(words), size).tolist()
            rows = [{"text": f"the dog saw {words[y]} {n} times", "label": y} for n, y in enumerate(labels)]
            path = tmp_path / f"{name}.{split}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = {split: f"{name}.{split}.jsonl" for split in ("train", "validation")}
        named = {"labels": list(range(len(words))), "metrics": ["accuracy", "macro_f1"]}
        paths[name] = str(tmp_path / f"{name}.yaml")
        Path(paths[name]).write_text(yaml.safe_dump({"files": files, "text": "text"} | named))
    return paths


def config(tasks: dict[str, str], **changes) -> EvalConfig:
    finetune = FinetuneConfig(head=("linear",), num_train_epochs=2, learning_rate=0.01, seeds=(3,))
    given = {"suites": (), "classify": (tasks["weather"],), "score_on": (tasks["food"],)}
    return EvalConfig(**given | {"finetune": finetune} | changes)


@pytest.mark.parametrize("head", ["linear", "linear frozen"])
def test_the_classifier_of_one_task_answers_the_validation_file_of_another(tasks, model, tmp_path, head):
    finetune = config(tasks).finetune.model_copy(update={"head": (head,)})
    asked = config(tasks, finetune=finetune)
    (run,) = backbone_runs(model, (3,), tmp_path / "runs")
    rows = evaluate_run(run, asked, progress=False)
    found = rows.set_index(["benchmark", "task", "metric"])["score"]

    weather = find_task(tasks["weather"], asked)
    settings = weather.finetuning(finetune)
    trained = train(model, [weather], asked, settings, 3).classifier.eval()
    linear = next(
        layer for layer in trained.modules() if isinstance(layer, nn.Linear) and layer.out_features == 2
    )
    tokenizer = AutoTokenizer.from_pretrained(model)

    def by_hand(name: str) -> tuple[list[int], list[int]]:
        lines = (tmp_path / f"{name}.validation.jsonl").read_text().splitlines()
        examples = [json.loads(line) for line in lines]
        answers = []
        for example in examples:
            tokens = tokenizer(example["text"], return_tensors="pt")["input_ids"]
            with torch.no_grad():
                last = trained.body(input_ids=tokens).last_hidden_state[0, -1]
                answers.append(int(linear(last).argmax()))
        return [example["label"] for example in examples], answers

    for benchmark, task, name in (
        ("classification", "weather", "weather"),
        ("cross-task", "food<-weather", "food"),
    ):
        labels, answers = by_hand(name)
        assert found[benchmark, task, "accuracy"] == pytest.approx(100 * accuracy_score(labels, answers))
        macro = 100 * f1_score(labels, answers, average="macro", zero_division=0)
        assert found[benchmark, task, "macro_f1"] == pytest.approx(macro)
    items = pd.read_parquet(run / "eval/items/cross-task.parquet")
    assert items["prediction"].tolist() == by_hand("food")[1]
    assert set(rows["task"]) == {"weather", "food<-weather"}
    assert rows.loc[rows["task"] == "food<-weather", "n_items"].unique().tolist() == [30]
    # The answer that is right most often in the training set of the first, held against the second.
    counts = [
        json.loads(line)["label"] for line in (tmp_path / "weather.train.jsonl").read_text().splitlines()
    ]
    majority = int(np.argmax(np.bincount(counts)))
    constant = 100 * float(np.mean(np.array(by_hand("food")[0]) == majority))
    assert read_baselines(run)["cross-task"]["food<-weather"]["accuracy"] == pytest.approx(constant)


def test_scores_of_one_training_are_not_those_of_another(tasks, model, tmp_path):
    both = config(
        tasks, classify=(tasks["weather"], tasks["food"]), score_on=(tasks["food"], tasks["weather"])
    )
    groups = [[task.name for task in group] for group in classification_tasks(both)]
    assert groups == [["weather", "food<-weather"], ["food", "weather<-food"]]
    assert benchmarks_asked_for(both) == ("classification", "cross-task")
    (run,) = backbone_runs(model, (3,), tmp_path / "runs")
    evaluate_run(run, config(tasks), progress=False)
    assert is_evaluated(run, config(tasks))
    assert is_evaluated(run, config(tasks, score_on=()))
    assert not is_evaluated(run, both)
    validation = tmp_path / "food.validation.jsonl"
    validation.write_text(validation.read_text() + json.dumps({"text": "a cake", "label": 1}) + "\n")
    assert not is_evaluated(run, config(tasks))
    assert is_evaluated(run, config(tasks, score_on=()))


def test_labels_must_agree(tasks, tmp_path):
    with pytest.raises(UsageError, match=r"^a classifier of weather cannot be scored on meals: labels are"):
        classification_tasks(config(tasks, score_on=(tasks["meals"],)))
    with pytest.raises(UsageError, match=r"^--score-on .*food.yaml needs --classify"):
        classification_tasks(config(tasks, classify=()))
    with pytest.raises(UsageError, match=r"^--score-on .*weather.yaml names no other task than --classify"):
        classification_tasks(config(tasks, score_on=(tasks["weather"],)))
    with pytest.raises(UsageError, match=r"unknown classification task .* 'imbd'"):
        classification_tasks(config(tasks, score_on=("imbd",)))

    def name_labels(task: str, names: list[str]) -> None:
        path = Path(tasks[task])
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"label_names": names}))

    name_labels("weather", ["bad", "good"])
    name_labels("food", ["Good", "bad"])
    with pytest.raises(UsageError, match=r"label bad is number 0 of the first and number 1 of the second"):
        classification_tasks(config(tasks))
    name_labels("food", ["negative", "good"])
    assert check_sources(config(tasks)) == [
        "food<-weather: labels stand for each other by number: bad = negative"
    ]


def test_no_task_of_ones_own_takes_the_benchmarks_name(tasks):
    path = Path(tasks["food"])
    path.write_text(path.read_text() + "benchmark: cross-task\n")
    with pytest.raises(UsageError, match="benchmark cross-task has tasks of its own"):
        read_task_file(path)
