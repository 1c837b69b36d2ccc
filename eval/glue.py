"""GLUE: fine-tune a run's model on a task, choose the epoch, report the metrics on the validation file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from eval.config import EvalConfig, GlueConfig
from eval.finetune import Encoded, fine_tune, predict
from eval.glue_tasks import ClassificationTask, read_examples
from eval.loading import check_loaded, choose_device, load_pretrained, load_tokenizer
from eval.scoring import num_positions
from ffn_variants.errors import UsageError


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the share of right predictions, in percent."""
    return 100 * float(accuracy_score(labels.tolist(), predictions.tolist()))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of label 1, in percent; 0 where neither labels nor predictions have it."""
    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), pos_label=1, zero_division=0))


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Matthews correlation times 100; 0 where all labels or all predictions are the same."""
    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn's answer too, but with a warning
    return 100 * float(matthews_corrcoef(labels.tolist(), predictions.tolist()))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews_correlation,
}


def evaluate_tasks(
    model_dir: Path,
    tasks: list[ClassificationTask],
    config: EvalConfig,
    report: Callable[[str], None] = lambda message: None,
) -> dict[str, tuple[dict[str, float], pd.DataFrame]]:
    """Fine-tune once and evaluate on every task that shares the training set.

    Args:
        model_dir: What ``save_pretrained`` wrote, tokenizer included.
        tasks: One task, or MNLI and its mismatched part.
        config: Where examples come from and how models are fine-tuned.
        report: Told of each epoch.

    Returns:
        For each task its metrics in percent, and its items: task, idx, label, prediction, logits.
    """
    glue, first = config.glue, tasks[0]
    examples = {task.name: _subset(_read(task, "validation", config), glue, train=False) for task in tasks}
    train_examples = _subset(_read(first, "train", config), glue, train=True)
    model, tokenizer = load_classifier(model_dir, first.num_labels, glue.seed, config.device)
    max_length = min(glue.max_length, num_positions(model))
    validation = {task.name: encode(tokenizer, task, examples[task.name], max_length) for task in tasks}
    train = encode(tokenizer, first, train_examples, max_length)
    selection = validation[first.name]
    if glue.select_on == "held-out":
        train, selection = hold_out(train, glue.held_out_fraction, glue.seed)
    fine_tune(model, train, selection, METRICS[first.metrics[0]], glue, report)
    results = {}
    for task in tasks:
        logits = predict(model, validation[task.name], glue.per_device_train_batch_size)
        labels, predictions = validation[task.name].labels, logits.argmax(1)
        metrics = {name: METRICS[name](labels, predictions) for name in task.metrics}
        results[task.name] = (metrics, _items(task, examples[task.name], labels, logits))
    return results


def load_classifier(
    model_dir: Path, num_labels: int, seed: int, device: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a run's backbone under a new classification head, and its tokenizer.

    Args:
        model_dir: What ``save_pretrained`` wrote.
        num_labels: Outputs of the head.
        seed: Seeds torch's global generator, which the head's weights and later the dropout draw from.
        device: Where to put it; None chooses.

    Raises:
        UsageError: If weights other than the head's are missing, or the tokenizer has no padding token.
    """
    tokenizer = load_tokenizer(model_dir)
    if tokenizer.pad_token_id is None:
        raise UsageError(f"the tokenizer in {model_dir} has no pad_token, which fine-tuning in batches needs")
    torch.manual_seed(seed)
    model, info = load_pretrained(
        AutoModelForSequenceClassification,
        model_dir,
        num_labels=num_labels,
        pad_token_id=tokenizer.pad_token_id,
    )
    check_loaded(info, backbone=model.base_model_prefix, folder=model_dir)
    return model.to(choose_device(device)), tokenizer


def encode(
    tokenizer: PreTrainedTokenizerBase, task: ClassificationTask, examples: list[dict], max_length: int
) -> Encoded:
    """Turn examples into tokens as the tokenizer does it: ``<s> A </s>`` or ``<s> A </s></s> B </s>``.

    An input of over ``max_length`` tokens loses tokens of whichever text is longer, from its end.
    """
    firsts, seconds = zip(*(task.make_input(example) for example in examples), strict=True)
    pairs = list(seconds) if seconds[0] is not None else None
    tokens = tokenizer(list(firsts), pairs, truncation="longest_first", max_length=max_length)
    return Encoded(tokens["input_ids"], np.array([int(example["label"]) for example in examples]))


def hold_out(data: Encoded, fraction: float, seed: int) -> tuple[Encoded, Encoded]:
    """Split a training set at random into what is trained on and what the epoch is chosen on."""
    order = np.random.default_rng([seed, 1]).permutation(len(data))
    size = min(max(1, round(fraction * len(data))), len(data) - 1)
    return data.take(np.sort(order[size:])), data.take(np.sort(order[:size]))


def _read(task: ClassificationTask, split: str, config: EvalConfig) -> list[dict]:
    examples = read_examples(task, split, config)
    if len(examples) < 2:
        raise UsageError(f"{task.name}: {len(examples)} {split} examples are too few to fine-tune on")
    return examples


def _subset(examples: list[dict], config: GlueConfig, train: bool) -> list[dict]:
    size = config.max_train_examples if train else config.max_validation_examples
    if size is None or size >= len(examples):
        return examples
    chosen = np.random.default_rng([config.seed, 2]).permutation(len(examples))[:size]
    return [examples[index] for index in np.sort(chosen)]


def _items(
    task: ClassificationTask, examples: list[dict], labels: np.ndarray, logits: np.ndarray
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "suite": task.benchmark,
            "task": task.name,
            "idx": [str(example.get("idx", number)) for number, example in enumerate(examples)],
            "label": labels,
            "prediction": logits.argmax(1),
            "logits": list(logits.astype(float)),
        }
    )
