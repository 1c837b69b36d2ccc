"""Fine-tune a run's model on a classification task and report its metrics on the validation file.

Metrics are scikit-learn's, in percent. Labels and predictions are (N,) integers for N examples, or (N, C) of
0 and 1 where any number of C labels may be right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, matthews_corrcoef

from base.errors import UsageError
from base.progress import Tell
from eval.classification.classifier import (
    Batch,
    Classifier,
    HeadClassifier,
    load_classifier_tokenizer,
    load_for_task,
)
from eval.classification.config import (
    ClassificationConfig,
    Finetuning,
    candidates,
    unfit_metric,
    what_differs,
)
from eval.classification.data import describe_truncation, read_task_data, reported_rows, split
from eval.classification.examples import read_examples
from eval.classification.finetune import DivergedError, Finetuned, Ticker, finetune
from eval.classification.prediction import (
    Examples,
    FeatureClassifier,
    Features,
    Predictions,
    autocast,
    decide,
    features,
    fits_memory,
    predict,
)
from eval.classification.task import ClassificationTask
from eval.files import fingerprint
from eval.identity import model_files
from eval.scoring.log_likelihood import num_positions
from scores.heads.registry import HeadChoice


@dataclass(frozen=True)
class Trained:
    """A fine-tuned classifier.

    Attributes:
        classifier: The whole, with its best weights.
        predictor: The same from ``validation`` on, which are features where the backbone is frozen.
        validation: What each task is reported on, by name.
        finetuned: How that went.
        seconds: What it took, evaluations on the way included and loading not.
        chosen: What was chosen on held-out data, where there were candidates; else empty.
    """

    classifier: Classifier
    predictor: Classifier
    validation: dict[str, Examples]
    finetuned: Finetuned
    seconds: float
    chosen: str = ""

    def is_better(self, other: Trained) -> bool:
        """Whether the held-out part says so.

        Raises:
            UsageError: If nothing was evaluated.
        """
        own, others = self.finetuned.best, other.finetuned.best
        if own is None or others is None:
            raise UsageError(
                "training ended before its first evaluation, so nothing says which candidate is best; lower "
                "--finetune.eval-steps"
            )
        return own > others


def evaluate_tasks(
    model_dir: Path,
    tasks: list[ClassificationTask],
    config: ClassificationConfig,
    head: HeadChoice | None = None,
    tell: Tell = lambda message: None,
) -> dict[str, tuple[dict[str, float], pd.DataFrame]]:
    """Fine-tune with every seed and evaluate on every task that shares the training set.

    Args:
        model_dir: What ``save_pretrained`` wrote, tokenizer included.
        tasks: One task, or MNLI and its mismatched part; the first one's settings hold for all.
        config: Where examples come from and how models are fine-tuned.
        head: One of the config's; None takes the first.
        tell: Told of progress every few seconds.

    Returns:
        For each task its metrics in percent, means over the seeds, and its items, one an example and seed:
        suite, task, seed, idx, label, prediction, logits, truncated, and under a head that reads segments
        what each of them says of the prediction. Where an example may have several labels, labels and
        predictions take the place of label and prediction, a 0 or 1 for each label. Where a learning rate or
        first weights were chosen, chosen names them.

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
            found = trained.validation[task.name]
            predicted = predict(trained.predictor, found, size, dtype)
            labels = decide(predicted.logits, found.labels.ndim == 2)
            names = dict.fromkeys((*task.metrics, *settings.extra_metrics))
            scores[task.name].append({name: METRICS[name](found.labels, labels) for name in names})
            own = _items(task, seed, found, predicted, labels)
            items[task.name].append(own.assign(chosen=trained.chosen) if trained.chosen else own)
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
    config: ClassificationConfig,
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
        tell: Told of progress every few seconds.

    Raises:
        UsageError: For data or a model that cannot be fine-tuned.
    """
    first, options = tasks[0], candidates(settings)
    _check_metrics(first, settings)
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
            say(describe_truncation(data, max_length))
            training, selection = split(data, first, settings, seed)
            whole = {"train": training, "selection": selection, **data.validation}
            parts = _on_features(classifier, whole, model_dir, settings, say)
        try:
            found = _fit(classifier, parts, option, seed, say)
        except DivergedError as error:
            diverged = error
            continue
        if best is None or found.is_better(best):
            best = replace(found, chosen=what_differs(option, settings))
    if best is None:
        assert diverged is not None
        raise diverged
    return best


def _fit(
    classifier: Classifier, parts: Mapping[str, Examples], settings: Finetuning, seed: int, tell: Tell
) -> Trained:
    """Train a classifier on its parts, which are features where its backbone was frozen."""
    is_frozen = isinstance(classifier, HeadClassifier) and isinstance(parts["train"], Features)
    predictor = FeatureClassifier(classifier) if is_frozen else classifier
    metric = METRICS[settings.metric_for_best_model]
    begin = time.monotonic()
    done = finetune(predictor, parts["train"], parts["selection"], metric, settings, seed, tell)
    seconds = time.monotonic() - begin
    validation = {name: part for name, part in parts.items() if name not in ("train", "selection")}
    return Trained(classifier, predictor, validation, done, seconds)


def _on_features(
    classifier: Classifier,
    parts: Mapping[str, Batch],
    model_dir: Path,
    settings: Finetuning,
    tell: Tell,
) -> Mapping[str, Examples]:
    """Compute what a frozen backbone makes of every part, so that only the head is left to train.

    Anything else, and more vectors than may be kept, is returned as it is.
    """
    if not (isinstance(classifier, HeadClassifier) and classifier.is_frozen):
        return parts
    if not fits_memory(classifier, parts.values()):
        return parts
    ticker = Ticker(tell)
    ticker.say("computing the frozen backbone's vectors")
    precision = partial(autocast, classifier.device, settings.dtype)
    weights = f"{fingerprint(model_files(model_dir))} {settings.dtype}"
    return {
        name: features(classifier, part, weights, precision, ticker.repeat) for name, part in parts.items()
    }


def _check_metrics(task: ClassificationTask, settings: Finetuning) -> None:
    for name in (settings.metric_for_best_model, *settings.extra_metrics):
        if reason := unfit_metric(name, task.num_labels, task.multi_label):
            raise UsageError(f"{task.name}: {reason}, or leave --finetune.metric-for-best-model out")


def _with_prefix(tell: Tell, prefix: str) -> Tell:
    return lambda message: tell(prefix + message)


def _items(
    task: ClassificationTask, seed: int, data: Examples, predicted: Predictions, labels: np.ndarray
) -> pd.DataFrame:
    columns = {
        "suite": task.benchmark,
        "task": task.name,
        "seed": seed,
        "idx": data.idx,
        **_answers(data.labels, labels),
        "logits": list(predicted.logits.astype(float)),
        "truncated": data.truncated,
    }
    if predicted.segment_scores is not None:
        columns["segment_scores"] = [own.astype(float).tolist() for own in predicted.contributions()]
    return pd.DataFrame(columns)


def _answers(labels: np.ndarray, predictions: np.ndarray) -> dict[str, Any]:
    # The items of a benchmark share a file, whose columns hold integers or lists, not both.
    if labels.ndim == 2:
        return {"labels": labels.tolist(), "predictions": predictions.tolist()}
    return {"label": pd.array(labels, dtype="Int64"), "prediction": pd.array(predictions, dtype="Int64")}


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the share of right predictions, in percent; right is an example with all its labels right."""
    return 100 * float(accuracy_score(labels.tolist(), predictions.tolist()))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of label 1, in percent; 0 where neither labels nor predictions have it."""
    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), pos_label=1, zero_division=0))


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the unweighted mean of the labels' F1, in percent, over those among labels or predictions.

    With (N, C) it is over all C; a label without any true or predicted example has an F1 of 0.
    """
    return _mean_f1(labels, predictions, "macro")


def micro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of all decisions pooled, in percent; with (N,) that is the accuracy."""
    return _mean_f1(labels, predictions, "micro")


def _mean_f1(labels: np.ndarray, predictions: np.ndarray, average: Literal["macro", "micro"]) -> float:
    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), average=average, zero_division=0))


def cohen_kappa(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Cohen's kappa times 100; 0 where all labels and predictions are the same one."""
    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn divides 0 by 0
    return 100 * float(cohen_kappa_score(labels.tolist(), predictions.tolist()))


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Matthews correlation times 100; 0 where all labels or all predictions are the same."""
    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn's answer too, but with a warning
    return 100 * float(matthews_corrcoef(labels.tolist(), predictions.tolist()))


def mean_accuracy_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return (accuracy + F1) / 2, as the source study averages MRPC and QQP."""
    return (accuracy(labels, predictions) + f1(labels, predictions)) / 2


def mean_f1_matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return (F1 + Matthews correlation) / 2, as the source study averages MultiRC."""
    return (f1(labels, predictions) + matthews_correlation(labels, predictions)) / 2


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "cohen_kappa": cohen_kappa,
    "matthews_correlation": matthews_correlation,
    "mean_accuracy_f1": mean_accuracy_f1,
    "mean_f1_matthews": mean_f1_matthews,
}


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


def majority_baselines(task: ClassificationTask, config: ClassificationConfig) -> dict[str, float]:
    """Score constant answers on what is reported on, with no model: by metric, in percent."""
    settings = task.finetuning(config.finetune)
    names = tuple(dict.fromkeys((*task.metrics, *settings.extra_metrics)))
    train, validation = (
        np.array([row["label"] for row in rows])
        for rows in (read_examples(task, "train", config), reported_rows(task, config, settings))
    )
    return majority_scores(names, train, validation)
