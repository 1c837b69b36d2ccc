"""Metrics of classification against their formulas, and learning rates chosen on held-out data."""

from __future__ import annotations

import itertools
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
from eval.classification.score_task import METRICS, evaluate_tasks, majority_scores, train
from eval.config import EvalConfig
from eval.finetuning import (
    BINARY_METRICS,
    METRIC_NAMES,
    MULTI_LABEL_METRICS,
    FinetuneConfig,
    unfit_metric,
)
from scores.head_descriptions import parse_head
from tests.cases import first_is_fast


# Metrics of classification against their formulas in numpy, and what constant answers score.
def f1_of(true: np.ndarray, predicted: np.ndarray) -> float:
    """2 TP / (2 TP + FP + FN) of decisions 0 and 1; 0 where there are none."""
    both, either = (true & predicted).sum(), true.sum() + predicted.sum()
    return float(2 * both / either) if either else 0.0


@pytest.fixture(params=[2, 5])
def answers(request) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions that agree more often than by chance."""
    rng = np.random.default_rng(request.param)
    labels = rng.integers(0, request.param, 200)
    return labels, np.where(rng.random(200) < 0.6, labels, rng.integers(0, request.param, 200))


def test_shares_and_means_of_f1_are_their_formulas(answers):
    labels, predictions = answers
    each = [f1_of(labels == c, predictions == c) for c in np.unique(labels)]
    right = pytest.approx(100 * (labels == predictions).mean())
    assert set(METRICS) == set(METRIC_NAMES)
    assert METRICS["macro_f1"](labels, predictions) == pytest.approx(100 * np.mean(each))
    assert METRICS["micro_f1"](labels, predictions) == right
    assert METRICS["accuracy"](labels, predictions) == right
    if len(each) == 2:
        assert METRICS["f1"](labels, predictions) == pytest.approx(100 * each[1])


def test_agreement_beyond_chance_is_its_formula(answers):
    labels, predictions = answers
    num = labels.max() + 1
    table = np.zeros((num, num))
    np.add.at(table, (labels, predictions), 1)
    share = table / table.sum()
    chance = (share.sum(0) * share.sum(1)).sum()
    kappa = (np.trace(share) - chance) / (1 - chance)
    assert METRICS["cohen_kappa"](labels, predictions) == pytest.approx(100 * kappa)
    one_hot = [np.eye(num)[x] for x in (labels, predictions)]
    first, second = (x - x.mean(0) for x in one_hot)
    root = np.sqrt((first * first).sum() * (second * second).sum())
    correlation = (first * second).sum() / root  # R_K of Gorodkin (2004)
    assert METRICS["matthews_correlation"](labels, predictions) == pytest.approx(100 * correlation)


def test_agreement_of_one_answer_is_zero():
    ones = np.ones(4, dtype=int)
    assert METRICS["cohen_kappa"](ones, ones) == METRICS["matthews_correlation"](ones, ones) == 0
    assert METRICS["cohen_kappa"](np.array([0, 1, 0, 1]), ones) == 0


def test_with_several_labels_an_example_is_right_as_a_whole_and_f1_counts_decisions():
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 4)) < (0.5, 0.3, 0.6, 0.0)).astype(np.int64)
    predictions = np.where(rng.random((50, 4)) < 0.8, labels, 1 - labels)
    predictions[:, 3] = 0
    right = (labels == predictions).all(1)
    each = [f1_of(labels[:, c] == 1, predictions[:, c] == 1) for c in range(4)]
    assert each[3] == 0
    assert METRICS["accuracy"](labels, predictions) == pytest.approx(100 * right.mean())
    assert METRICS["macro_f1"](labels, predictions) == pytest.approx(100 * np.mean(each))
    assert METRICS["micro_f1"](labels, predictions) == pytest.approx(
        100 * f1_of(labels == 1, predictions == 1)
    )


@pytest.mark.parametrize("several", [False, True])
def test_no_constant_answer_does_better_on_the_training_set(several):
    rng = np.random.default_rng(1)
    if several:
        labels = (rng.random((60, 4)) < (0.7, 0.45, 0.2, 0.05)).astype(np.int64)
        constants = [np.array(answer) for answer in itertools.product([0, 1], repeat=4)]
        names = MULTI_LABEL_METRICS
    else:
        labels, constants = rng.choice(3, 60, p=[0.2, 0.5, 0.3]), [np.array(c) for c in range(3)]
        names = tuple(name for name in METRICS if name not in BINARY_METRICS)
    found = majority_scores(names, labels, labels)
    for name in names:
        best = max(METRICS[name](labels, np.broadcast_to(c, labels.shape)) for c in constants)
        assert found[name] == pytest.approx(best), name


@pytest.mark.parametrize(
    ("metric", "num_labels", "several", "message"),
    [
        ("f1", 3, False, "f1 is for two labels and there are 3; choose accuracy, macro_f1, micro_f1, cohen"),
        ("f1", 2, True, "f1 is for one label an example; with several choose accuracy, macro_f1, micro_f1"),
        ("matthews_correlation", 5, True, "matthews_correlation is for one label an example"),
        ("f1", 2, False, ""),
        ("f1", None, False, ""),
        ("cohen_kappa", 9, False, ""),
        ("micro_f1", 9, True, ""),
    ],
)
def test_a_metric_fits_a_task_or_says_which_do(metric, num_labels, several, message):
    reason = unfit_metric(metric, num_labels, several)
    assert reason.startswith(message) if message else reason is None


def test_constant_answers_by_hand():
    train, labels = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1, 0])
    scores = majority_scores(("accuracy", "f1", "matthews_correlation", "mean_accuracy_f1"), train, labels)
    assert list(scores.values()) == pytest.approx([40, 100 * 2 * 3 / (2 * 3 + 2), 0, (0 + 40) / 2])


# Learning rates that are chosen on held-out data, against trainings one by one.
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
