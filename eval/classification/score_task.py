"""Fine-tune a run's model on a classification task and report its metrics on the validation file.

Metrics are scikit-learn's, in percent. Labels and predictions are (N,) integers for N examples, or (N, C) of
0 and 1 where any number of C labels may be right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, matthews_corrcoef

from base.errors import UsageError
from base.printing import Tell
from eval.classification.classification_task import ClassificationTask
from eval.classification.classifier import (
    Batch,
    Classifier,
    Examples,
    HeadClassifier,
    load_classifier_tokenizer,
    load_for_task,
)
from eval.classification.data import read_task_data, reported_rows, split
from eval.classification.examples import read_examples
from eval.classification.finetune import Best, DivergedError, finetune
from eval.classification.prediction import Predictions, decide, features, fits_memory, predict
from eval.config import EvalConfig
from eval.data_files import fingerprint
from eval.finetuning import Finetuning, candidates, unfit_metric
from eval.identity import model_files
from eval.scoring.log_likelihood import num_positions
from scores.head_descriptions import HeadChoice


@dataclass(frozen=True)
class Trained:
    """A fine-tuned classifier.

    Attributes:
        classifier: The whole, with its best weights.
        validation: What each task is reported on, by name; features where the backbone is frozen.
        best: How these came about.
        settings: How, with what was chosen on held-out data.
    """

    classifier: Classifier
    validation: dict[str, Examples]
    best: Best
    settings: Finetuning

    @property
    def held_out(self) -> tuple[float, float]:
        """What candidates are compared by; ``UsageError`` if nothing was evaluated."""
        if self.best.key is None:
            raise UsageError(
                "training ended before its first evaluation, so nothing says which candidate is best; raise "
                "--finetune.num-train-epochs"
            )
        return self.best.key


def evaluate_tasks(
    model_dir: Path,
    tasks: list[ClassificationTask],
    config: EvalConfig,
    head: HeadChoice | None = None,
    tell: Tell = lambda message: None,
) -> dict[str, tuple[dict[str, float], pd.DataFrame]]:
    """Fine-tune with every seed and evaluate on every task that shares the training set.

    Args:
        model_dir: What ``save_pretrained`` wrote, tokenizer included.
        tasks: One task, or MNLI and its mismatched part; the first one's settings hold for all.
        config: Where examples come from and how models are fine-tuned.
        head: One of the config's; None takes the first.
        tell: Told of progress.

    Returns:
        For each task its metrics in percent, means over the seeds, and its items, one an example and seed:
        suite, task, seed, idx, label, prediction, logits, truncated, and under a head that reads segments
        what each of them says of the prediction. Where an example may have several labels, labels and
        predictions take the place of label and prediction, a 0 or 1 for each label. Where a learning rate
        was chosen, chosen names it.

    Raises:
        UsageError: For data or a model that cannot be fine-tuned.
    """
    settings = tasks[0].finetuning(config.finetune, head)
    scores: dict[str, list[dict[str, float]]] = {task.name: [] for task in tasks}
    items: dict[str, list[pd.DataFrame]] = {task.name: [] for task in tasks}
    for seed in settings.seeds:
        say = _with_prefix(tell, f"seed {seed} " if len(settings.seeds) > 1 else "")
        trained = train(model_dir, tasks, config, settings, seed, say)
        size, dtype = settings.per_device_train_batch_size, settings.dtype
        for task in tasks:
            data = trained.validation[task.name]
            predicted = predict(trained.classifier, data, size, dtype)
            labels = decide(predicted.logits, data.labels.ndim == 2)
            names = dict.fromkeys((*task.metrics, *settings.extra_metrics))
            scores[task.name].append({name: METRICS[name](data.labels, labels) for name in names})
            table = _items(task, seed, data, predicted, labels)
            if settings.head_learning_rates:
                table["chosen"] = f"head_learning_rate={trained.settings.head_learning_rate:g}"
            items[task.name].append(table)
    return {
        task.name: (
            pd.DataFrame(scores[task.name]).mean().to_dict(),
            pd.concat(items[task.name], ignore_index=True),
        )
        for task in tasks
    }


def train(
    model_dir: Path,
    tasks: Sequence[ClassificationTask],
    config: EvalConfig,
    settings: Finetuning,
    seed: int,
    tell: Tell = lambda message: None,
) -> Trained:
    """Fine-tune on the training set that tasks share, with every candidate where there are several.

    Args:
        model_dir: What ``save_pretrained`` wrote, tokenizer included.
        tasks: The first one's settings hold for all.
        config: Where examples come from.
        settings: How, and under which head.
        seed: Of the head's weights, the held-out part, the order of examples and dropout.
        tell: Told of progress.

    Raises:
        UsageError: For data or a model that cannot be fine-tuned.
    """
    first, options = tasks[0], candidates(settings)
    for name in (settings.metric_for_best_model, *settings.extra_metrics):
        if reason := unfit_metric(name, first.num_labels, first.multi_label):
            raise UsageError(f"{first.name}: {reason}, or leave --finetune.metric-for-best-model out")
    tokenizer = load_classifier_tokenizer(model_dir)
    parts: Mapping[str, Examples] = {}
    best: Trained | None = None
    diverged: DivergedError | None = None
    for number, option in enumerate(options, start=1):
        say = _with_prefix(tell, f"candidate {number}/{len(options)} " if len(options) > 1 else "")
        classifier = load_for_task(model_dir, first, option, seed, tokenizer, config.device)
        if not parts:
            max_length = min(settings.max_length, num_positions(classifier.body))
            data = read_task_data(tasks, tokenizer, max_length, config, settings, seed)
            training, selection = split(data, first, settings, seed)
            whole = {"train": training, "selection": selection, **data.validation}
            parts = _on_features(classifier, whole, model_dir, settings, say)
        metric = METRICS[option.metric_for_best_model]
        try:
            result = finetune(classifier, parts["train"], parts["selection"], metric, option, seed, say)
        except DivergedError as error:
            diverged = error
            continue
        validation = {task.name: parts[task.name] for task in tasks}
        candidate = Trained(classifier, validation, result, option)
        if best is None or candidate.held_out > best.held_out:
            best = candidate
    if best is None:
        assert diverged is not None
        raise diverged
    return best


def _on_features(
    classifier: Classifier, parts: Mapping[str, Batch], model_dir: Path, settings: Finetuning, tell: Tell
) -> Mapping[str, Examples]:
    """Compute what a frozen backbone makes of every part, so that only the head is left to train.

    Anything else, and more vectors than may be kept, is returned as it is.
    """
    if not (isinstance(classifier, HeadClassifier) and classifier.is_frozen) or classifier.frozen_dropout:
        return parts
    if not fits_memory(classifier, parts.values()):
        return parts
    tell("computing the frozen backbone's vectors")
    weights = fingerprint(model_files(model_dir))
    return {name: features(classifier, part, weights, settings.dtype) for name, part in parts.items()}


def _with_prefix(tell: Tell, prefix: str) -> Tell:
    return lambda message: tell(prefix + message)


def _items(
    task: ClassificationTask, seed: int, data: Examples, predicted: Predictions, labels: np.ndarray
) -> pd.DataFrame:
    # The items of a benchmark share a file, whose columns hold integers or lists, not both.
    if labels.ndim == 2:
        answers: dict[str, Any] = {"labels": data.labels.tolist(), "predictions": labels.tolist()}
    else:
        answers = {"label": pd.array(data.labels, "Int64"), "prediction": pd.array(labels, "Int64")}
    columns = {
        "suite": task.benchmark,
        "task": task.name,
        "seed": seed,
        "idx": data.idx,
        **answers,
        "logits": list(predicted.logits.astype(float)),
        "truncated": data.truncated,
    }
    if predicted.segment_scores is not None:
        columns["segment_scores"] = [scores.astype(float).tolist() for scores in predicted.contributions()]
    return pd.DataFrame(columns)


Metric = Callable[..., Any]


def _unless_constant(metric: Metric) -> Metric:
    """Make a metric 0 where labels and predictions are all the same one: scikit-learn divides 0 by 0."""
    return lambda *both: 0.0 if len(np.union1d(*both)) == 1 else metric(*both)


_SHARES: dict[str, Metric] = {
    # Right is an example with all its labels right.
    "accuracy": accuracy_score,
    # Of label 1; 0 where neither labels nor predictions have it.
    "f1": partial(f1_score, pos_label=1, zero_division=0),
    # The unweighted mean over the labels that occur, or over all C; one without any example has 0.
    "macro_f1": partial(f1_score, average="macro", zero_division=0),
    # Of all decisions pooled; with one label an example that is the accuracy.
    "micro_f1": partial(f1_score, average="micro", zero_division=0),
    "cohen_kappa": _unless_constant(cohen_kappa_score),
    "matthews_correlation": _unless_constant(matthews_corrcoef),
}
_MEANS = {"mean_accuracy_f1": ("accuracy", "f1"), "mean_f1_matthews": ("f1", "matthews_correlation")}
"""As the source study averages MRPC and QQP, and MultiRC."""


def _in_percent(metric: Metric, labels: np.ndarray, predictions: np.ndarray) -> float:
    return 100 * float(metric(labels.tolist(), predictions.tolist()))


def _mean_of(names: tuple[str, str], labels: np.ndarray, predictions: np.ndarray) -> float:
    first, second = (METRICS[name](labels, predictions) for name in names)
    return (first + second) / 2


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    **{name: partial(_in_percent, metric) for name, metric in _SHARES.items()},
    **{name: partial(_mean_of, names) for name, names in _MEANS.items()},
}
"""From (N,) or (N, C) labels and predictions to percent."""


def majority_scores(metrics: Sequence[str], train_labels: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Score the constant answer that does best on the training set under each metric.

    For accuracy that is the majority class, as the BabyLM pipelines publish it; for F1 it is label 1, which
    their published baselines answer too. Matthews correlation and kappa of a constant are 0.

    Args:
        metrics: Names in ``METRICS``.
        train_labels: (N,) or (N, C), choose the constant; among equals the lowest label.
        labels: Of the validation file, scored.
    """
    constants = _constant_answers(train_labels)
    scores = {}
    for name in metrics:
        on_train = [METRICS[name](train_labels, np.broadcast_to(c, train_labels.shape)) for c in constants]
        best = constants[int(np.argmax(on_train))]
        scores[name] = METRICS[name](labels, np.broadcast_to(best, labels.shape))
    return scores


def _constant_answers(labels: np.ndarray) -> list[np.ndarray]:
    """The answers among which the best constant one is under every metric.

    With (N, C) these are the most frequent set of labels, which has the best accuracy, and the k most
    frequent labels for each k: one of them has the best micro F1, and all C the best macro F1.
    """
    if labels.ndim == 1:
        return list(np.unique(labels))
    sets, counts = np.unique(labels, axis=0, return_counts=True)
    ranks = np.argsort(np.argsort(-labels.sum(axis=0), kind="stable"))
    return [sets[counts.argmax()], *((ranks < k).astype(labels.dtype) for k in range(labels.shape[1] + 1))]


# All runs and heads of a study have the same.
@lru_cache(maxsize=64)
def majority_baselines(task: ClassificationTask, config: EvalConfig) -> dict[str, float]:
    """Score constant answers on what is reported on, with no model: by metric, in percent."""
    settings = task.finetuning(config.finetune)
    names = tuple(dict.fromkeys((*task.metrics, *settings.extra_metrics)))
    train, validation = (
        np.array([row["label"] for row in rows])
        for rows in (read_examples(task, "train", config), reported_rows(task, config, settings))
    )
    return majority_scores(names, train, validation)
