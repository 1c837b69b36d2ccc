"""Learning rates that are chosen on held-out data, against trainings one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from base.errors import UsageError
from eval.classification.classifier import load_classifier_tokenizer
from eval.classification.data import read_task_data, split
from eval.classification.find_tasks import find_task
from eval.classification.prediction import predict
from eval.classification.score_task import evaluate_tasks, train
from eval.config import EvalConfig
from eval.finetuning import FinetuneConfig
from scores.head_descriptions import parse_head
from tests.cases import first_is_fast

RATES = (1e-6, 3e-3, 0.1)


@pytest.fixture
def task(tmp_path) -> str:
    """One task of two labels, told by a word."""
    for name, size in (("train", 160), ("validation", 40)):
        labels = np.random.default_rng(size).integers(0, 2, size).tolist()
        rows = [
            {"text": f"the dog {n % 7} saw {('rain', 'sun')[y]} {n} times", "label": y}
            for n, y in enumerate(labels)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"train": "train.jsonl", "validation": "validation.jsonl"}
    path = tmp_path / "weather.yaml"
    path.write_text(yaml.safe_dump({"files": files, "text": "text", "labels": [0, 1]}))
    return str(path)


def config(task: str, head: str, **changes) -> EvalConfig:
    settings = {"num_train_epochs": 3, "held_out_fraction": 0.4, "seeds": (3, 4), "pooling": "mean"}
    finetune = FinetuneConfig(head=(head,), **settings | changes)
    return EvalConfig(suites=(), classify=(task,), finetune=finetune)


def held_out_score(model: Path, asked: EvalConfig, seed: int) -> tuple[float, float]:
    """Accuracy and minus the mean loss of one training on its held-out part, from its logits."""
    task = find_task(asked.classify[0], asked)
    settings = task.finetuning(asked.finetune)
    data = read_task_data([task], load_classifier_tokenizer(model), 32, asked, settings, seed)
    _, part = split(data, task, settings, seed)
    logits = predict(train(model, [task], asked, settings, seed).classifier, part, 64).logits.astype(float)
    loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(logits)), part.labels]
    return 100 * float(np.mean(logits.argmax(1) == part.labels)), -float(loss.mean())


@pytest.mark.parametrize("head", first_is_fast(["linear frozen", "linear"]))
@pytest.mark.ci
def test_the_candidate_with_the_best_held_out_part_is_reported_for_each_seed(model, task, head):
    tuned = config(task, head, head_learning_rates=RATES)
    _, items = evaluate_tasks(model, [find_task(task, tuned)], tuned)["weather"]
    for seed in (3, 4):
        ranked = []
        for rate in RATES:
            alone = config(task, head, head_learning_rate=rate, seeds=(seed,))
            ranked.append((held_out_score(model, alone, seed), f"head_learning_rate={rate:g}", alone))
        _, words, alone = max(ranked, key=lambda own: own[0])
        own = items[items["seed"] == seed]
        assert set(own["chosen"]) == {words}
        _, expected = evaluate_tasks(model, [find_task(task, alone)], alone)["weather"]
        np.testing.assert_array_equal(np.stack(own["logits"]), np.stack(expected["logits"]))
        assert "chosen" not in expected
    assert len({score for score, _, _ in ranked}) > 1


def test_a_rate_that_diverges_is_not_chosen_and_several_are_told(model, task):
    asked = config(task, "linear frozen", head_learning_rates=(1e38, 1e-3))
    _, items = evaluate_tasks(model, [find_task(task, asked)], asked)["weather"]
    assert set(items["chosen"]) == {"head_learning_rate=0.001"}
    asked = config(task, "linear frozen", head_learning_rates=(1e38, 3e38))
    with pytest.raises(UsageError, match="diverged"):
        evaluate_tasks(model, [find_task(task, asked)], asked)


def test_rates_are_recorded_where_there_are_some():
    head = parse_head("linear")
    tuned = FinetuneConfig(head=("linear",), head_learning_rates=RATES).resolve("rte", head).record()
    assert tuned["head_learning_rates"] == list(RATES)
    assert "head_learning_rates" not in FinetuneConfig(head=("linear",)).resolve("rte", head).record()


def test_what_archived_studies_left_empty_is_passed_over_and_what_they_set_is_not():
    empty = {
        "eval_steps": None,
        "warmup_ratio": None,
        "min_lr_rate": None,
        "threshold": None,
        "init_scales": [],
    }
    assert FinetuneConfig.model_validate(empty) == FinetuneConfig()
    for changes in ({"eval_steps": 200}, {"init_scales": [0.1]}):
        with pytest.raises(ValidationError, match=next(iter(changes))):
            FinetuneConfig.model_validate({**empty, **changes})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "babylm23", "head_learning_rates": (1e-3,)}, "validation file that is reported"),
        ({"select_on": "validation", "head_learning_rates": (1.0, 0.1)}, "set select_on to held-out"),
        ({"head_learning_rate": 1e-3, "head_learning_rates": (1e-3, 1e-2)}, "leave out one"),
        ({"head_learning_rates": (0.0,)}, "greater than 0"),
    ],
)
def test_choices_that_cannot_be_made_are_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        FinetuneConfig(**given)
