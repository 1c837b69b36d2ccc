"""Fine-tune a run's model on a classification task and report its metrics on the validation file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.progress import Tell
from eval.classification.classifier import Batch, Classifier, HeadClassifier
from eval.classification.config import ClassificationConfig, Finetuning
from eval.classification.features import FeatureClassifier, Features, features, fits_memory
from eval.classification.finetune import DivergedError, Finetuned, Ticker, finetune
from eval.classification.inputs.data import describe_truncation, read_task_data, split
from eval.classification.loading import load_classifier_tokenizer, load_for_task
from eval.classification.metric_names import unfit_metric
from eval.classification.metrics import METRICS
from eval.classification.prediction import Examples, Predictions, autocast, decide, predict
from eval.classification.tasks.task import ClassificationTask
from eval.classification.tuning import candidates, what_differs
from eval.files import fingerprint
from eval.models.identity import model_files
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
            data = read_task_data(tasks, tokenizer, max_length, config, settings)
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
