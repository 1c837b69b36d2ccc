"""Learning rates and first weights that are chosen on held-out data, against trainings one by one."""

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

RATES = (1e-6, 3e-3, 0.1)


@pytest.fixture
def task(tmp_path) -> str:
    """One task of two labels, told by a word."""
    generator = np.random.default_rng(0)
    for name, size in (("train", 160), ("validation", 40)):
        labels = generator.integers(0, 2, size).tolist()
        rows = [
            {"text": f"the dog {n % 7} saw {('rain', 'sun')[y]} {n} times", "label": y}
            for n, y in enumerate(labels)
        ]
        (tmp_path / f"weather.{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {name: f"weather.{name}.jsonl" for name in ("train", "validation")}
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


@pytest.mark.parametrize(
    ("head", "scales"), [("linear frozen", ()), ("fourier-kan frozen", (0.01, 1.0)), ("linear", ())]
)
@pytest.mark.ci
def test_the_candidate_with_the_best_held_out_part_is_reported_for_each_seed(model, task, head, scales):
    tuned = config(task, head, head_learning_rates=RATES, init_scales=scales)
    _, items = evaluate_tasks(model, [find_task(task, tuned)], tuned)["weather"]
    for seed in (3, 4):
        ranked = []
        for rate in RATES:
            for scale in scales or (None,):
                name = head if scale is None else f"fourier-kan init_scale={scale} frozen"
                alone = config(task, name, head_learning_rate=rate, seeds=(seed,))
                words = f"head_learning_rate={rate:g}" + ("" if scale is None else f" init_scale={scale:g}")
                ranked.append((held_out_score(model, alone, seed), words, alone))
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


def test_scales_are_for_heads_that_have_them_and_are_given_none():
    given = {"head_learning_rates": RATES, "init_scales": (0.1, 1.0)}
    heads = ("linear", "fourier-kan frozen", "fourier-kan init_scale=0.5", "rbf-kan", "default")
    found = FinetuneConfig(head=heads, **given)
    scales = {str(head): found.resolve("rte", head).init_scales for head in found.heads}
    tried = {"fourier-kan frozen", "rbf-kan"}
    assert scales == {head: ((0.1, 1.0) if head in tried else ()) for head in heads}
    record = found.resolve("rte", parse_head("linear")).record()
    assert record["head_learning_rates"] == list(RATES)
    assert "init_scales" not in record


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "babylm23", "head_learning_rates": (1e-3,)}, "validation file that is reported"),
        ({"select_on": "validation", "init_scales": (1.0, 0.1)}, "set select_on to held-out"),
        ({"head_learning_rate": 1e-3, "head_learning_rates": (1e-3, 1e-2)}, "leave out one"),
        ({"head_learning_rates": (0.0,)}, "greater than 0"),
    ],
)
def test_choices_that_cannot_be_made_are_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        FinetuneConfig(**given)
