"""GLUE: fine-tune a run's model on a task, choose the epoch, report the metrics on the validation file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from eval.classification_metrics import BINARY_METRICS, METRICS, majority_scores
from eval.classification_tasks import ClassificationTask, data_source, read_examples
from eval.classifier import make_classifier
from eval.config import EvalConfig
from eval.encoding import Encoded, cached, encode, tokenizer_key
from eval.finetune import evaluation_interval, fine_tune, num_steps, predict
from eval.finetune_config import FineTuning
from eval.loading import check_loaded, choose_device, load_pretrained, load_tokenizer
from eval.scoring import num_positions
from ffn_variants.errors import UsageError

# Characters of a token of English in a vocabulary of about 10,000; only estimates of time use it.
CHARACTERS_PER_TOKEN = 4
# A forward pass is a third of a training step.
FORWARD_SHARE = 1 / 3

_LENGTHS: dict[tuple[str, ...], np.ndarray] = {}


@dataclass(frozen=True)
class TaskData:
    """What tasks with one training set are evaluated with.

    Attributes:
        train: The training file.
        validation: The validation file of each task, by name.
    """

    train: Encoded
    validation: dict[str, Encoded]


def evaluate_tasks(
    model_dir: Path,
    tasks: list[ClassificationTask],
    config: EvalConfig,
    report: Callable[[str], None] = lambda message: None,
) -> dict[str, tuple[dict[str, float], pd.DataFrame]]:
    """Fine-tune with every seed and evaluate on every task that shares the training set.

    Args:
        model_dir: What ``save_pretrained`` wrote, tokenizer included.
        tasks: One task, or MNLI and its mismatched part; the first one's settings hold for all.
        config: Where examples come from and how models are fine-tuned.
        report: Told of progress every few seconds.

    Returns:
        For each task its metrics in percent, means over the seeds, and its items, one an example and seed:
        suite, task, seed, idx, label, prediction, logits, truncated.

    Raises:
        UsageError: For data or a model that cannot be fine-tuned.
    """
    first = tasks[0]
    settings = config.finetune.resolve(first.name)
    _check_metrics(first, settings)
    tokenizer = load_classifier_tokenizer(model_dir)
    scores: dict[str, list[dict[str, float]]] = {task.name: [] for task in tasks}
    items: dict[str, list[pd.DataFrame]] = {task.name: [] for task in tasks}
    for seed in settings.seeds:
        model = load_classifier(model_dir, first.num_labels, seed, tokenizer, config.device)
        max_length = min(settings.max_length, num_positions(model))
        data = read_task_data(tasks, tokenizer, max_length, config)
        say = _with_prefix(report, f"seed {seed} " if len(settings.seeds) > 1 else "")
        say(describe_truncation(data, max_length))
        train, selection = split(data, first, settings, seed)
        metric = METRICS[settings.metric_for_best_model]
        classifier = make_classifier(model)
        fine_tune(classifier, train, selection, metric, settings, seed, say)
        for task in tasks:
            found = data.validation[task.name]
            logits = predict(classifier, found, settings.per_device_train_batch_size, settings.dtype)
            names = dict.fromkeys((*task.metrics, *settings.extra_metrics))
            scores[task.name].append({name: METRICS[name](found.labels, logits.argmax(1)) for name in names})
            items[task.name].append(_items(task, seed, found, logits))
    return {
        task.name: (
            pd.DataFrame(scores[task.name]).mean().to_dict(),
            pd.concat(items[task.name], ignore_index=True),
        )
        for task in tasks
    }


def load_classifier_tokenizer(model_dir: Path) -> PreTrainedTokenizerBase:
    """Load a run's tokenizer.

    Raises:
        UsageError: If it has no padding token, which a classifier needs to batch examples.
    """
    tokenizer = load_tokenizer(model_dir)
    if tokenizer.pad_token_id is None:
        raise UsageError(
            f"the tokenizer in {model_dir} has no pad_token, which fine-tuning in batches needs; set "
            "tokenizer.pad_token to one that no text contains, and save it there again"
        )
    return tokenizer


def load_classifier(
    model_dir: Path,
    num_labels: int,
    seed: int,
    tokenizer: PreTrainedTokenizerBase,
    device: str | None = None,
) -> PreTrainedModel:
    """Load a run's backbone under a new classification head.

    Args:
        model_dir: What ``save_pretrained`` wrote.
        num_labels: Outputs of the head.
        seed: Seeds torch's global generator, which the head's weights and later the dropout draw from.
        tokenizer: Says which token is padding.
        device: Where to put it; None chooses.

    Raises:
        UsageError: If weights other than the head's are missing.
    """
    torch.manual_seed(seed)
    model, info = load_pretrained(
        AutoModelForSequenceClassification,
        model_dir,
        num_labels=num_labels,
        pad_token_id=tokenizer.pad_token_id,
    )
    check_loaded(info, backbone=model.base_model_prefix, folder=model_dir)
    return model.to(choose_device(device))


def read_task_data(
    tasks: Sequence[ClassificationTask],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    config: EvalConfig,
) -> TaskData:
    """Read and tokenise the training set of tasks that share one, and their validation files.

    What this process has tokenised before is not read again.
    """
    key = tokenizer_key(tokenizer)

    def part(task: ClassificationTask, name: str) -> Encoded:
        def make() -> Encoded:
            rows = read_examples(task, name, config)
            idx = [str(row.get("idx", number)) for number, row in enumerate(rows)]
            labels = [int(row["label"]) for row in rows]
            try:
                return encode(tokenizer, [task.make_input(row) for row in rows], labels, max_length, idx)
            except UsageError as error:
                raise UsageError(f"{task.name} {name}, {error}") from None

        source = data_source(task, name, config)
        return cached((key, source, task.benchmark, task.name, name, str(max_length)), make)

    settings = config.finetune.resolve(tasks[0].name)
    size, seed = settings.max_validation_examples, settings.seeds[0]
    validation = {task.name: _subset(part(task, "validation"), size, seed) for task in tasks}
    return TaskData(part(tasks[0], "train"), validation)


def split(
    data: TaskData, task: ClassificationTask, settings: FineTuning, seed: int
) -> tuple[Encoded, Encoded]:
    """Return what is trained on, and what the epoch is chosen on.

    Raises:
        UsageError: If what is trained on has one class, or is too small to be split.
    """
    train, selection = _subset(data.train, settings.max_train_examples, seed), data.validation[task.name]
    if len(train) < 2:
        raise UsageError(f"{task.name}: {len(train)} training examples are too few to fine-tune on")
    if settings.select_on == "held-out":
        train, selection = hold_out(train, settings.held_out_fraction, seed)
    if len(np.unique(train.labels)) < 2:
        raise UsageError(
            f"{task.name}: all {len(train)} training examples have label {train.labels[0]}, so that there is "
            "nothing to learn; add examples of the other labels or leave the task out"
        )
    return train, selection


def hold_out(data: Encoded, fraction: float, seed: int) -> tuple[Encoded, Encoded]:
    """Split a training set at random into what is trained on and what the epoch is chosen on."""
    order = np.random.default_rng([seed, 1]).permutation(len(data))
    size = min(max(1, round(fraction * len(data))), len(data) - 1)
    return data.take(np.sort(order[size:])), data.take(np.sort(order[:size]))


def describe_truncation(data: TaskData, max_length: int) -> str:
    """Say how many inputs are longer than what the model reads."""
    parts = {"training": data.train, **{f"{name} validation": part for name, part in data.validation.items()}}
    counts = [f"{part.truncated.sum()} of {len(part)} {name}" for name, part in parts.items()]
    return f"cut to {max_length} tokens: {', '.join(counts)} inputs"


def majority_baselines(
    tasks: Sequence[ClassificationTask], config: EvalConfig
) -> dict[str, dict[str, dict[str, float]]]:
    """Score constant answers, with no model: benchmark, task, metric, percent; for ``write_baselines``."""
    baselines: dict[str, dict[str, dict[str, float]]] = {}
    for task in tasks:
        names = tuple(dict.fromkeys((*task.metrics, *config.finetune.resolve(task.name).extra_metrics)))
        train, validation = (
            np.array([int(row["label"]) for row in read_examples(task, part, config)])
            for part in ("train", "validation")
        )
        baselines.setdefault(task.benchmark, {})[task.name] = majority_scores(names, train, validation)
    return baselines


def estimated_cost(task: ClassificationTask, config: EvalConfig) -> float:
    """Estimate the work of fine-tuning on a task, if nothing stops early.

    Returns:
        Tokens times passes over them, over all seeds; a token that is only evaluated counts a third.
    """
    settings = config.finetune.resolve(task.name)
    size, train_tokens = _size(task, "train", config, settings.max_train_examples)
    _, validation_tokens = _size(task, "validation", config, settings.max_validation_examples)
    evaluated = validation_tokens
    if settings.select_on == "held-out":
        evaluated = train_tokens * settings.held_out_fraction
        size, train_tokens = round(size * (1 - settings.held_out_fraction)), train_tokens - evaluated
    epochs, steps = settings.num_train_epochs, num_steps(size, settings)
    evaluations = epochs * steps // evaluation_interval(steps, settings)
    forward = FORWARD_SHARE * (evaluations * evaluated + validation_tokens)
    return len(settings.seeds) * (epochs * train_tokens + forward)


def _size(task: ClassificationTask, part: str, config: EvalConfig, limit: int | None) -> tuple[int, float]:
    """Examples of a file, or as many as the limit allows, and about how many tokens they have."""
    lengths = _text_lengths(task, part, data_source(task, part, config), config)
    tokens = np.minimum(lengths / CHARACTERS_PER_TOKEN, config.finetune.resolve(task.name).max_length)
    count = min(len(tokens), limit or len(tokens))
    return count, float(tokens.mean() * count)


def _text_lengths(task: ClassificationTask, part: str, source: str, config: EvalConfig) -> np.ndarray:
    """(n,) characters of each example of a file."""
    key = (task.benchmark, task.name, part, source)
    if key not in _LENGTHS:
        texts = (task.make_input(row) for row in read_examples(task, part, config))
        _LENGTHS[key] = np.array([len(first) + len(second or "") for first, second in texts])
    return _LENGTHS[key]


def _check_metrics(task: ClassificationTask, settings: FineTuning) -> None:
    wrong = {settings.metric_for_best_model, *settings.extra_metrics} & {*BINARY_METRICS}
    if task.num_labels > 2 and wrong:
        raise UsageError(
            f"{task.name} has {task.num_labels} labels and {wrong.pop()} is for two; leave "
            "--finetune.metric-for-best-model out or choose accuracy"
        )


def _with_prefix(report: Callable[[str], None], prefix: str) -> Callable[[str], None]:
    return lambda message: report(prefix + message)


def _subset(data: Encoded, size: int | None, seed: int) -> Encoded:
    if size is None or size >= len(data):
        return data
    return data.take(np.sort(np.random.default_rng([seed, 2]).permutation(len(data))[:size]))


def _items(task: ClassificationTask, seed: int, data: Encoded, logits: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "suite": task.benchmark,
            "task": task.name,
            "seed": seed,
            "idx": data.idx,
            "label": data.labels,
            "prediction": logits.argmax(1),
            "logits": list(logits.astype(float)),
            "truncated": data.truncated,
        }
    )
