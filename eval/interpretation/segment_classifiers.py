"""A run's classifier that reads segments, for the commands that look into one."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from base.errors import UsageError
from eval.classification.heads.choice import HeadChoice, check_head
from eval.classification.heads.registry import get_head
from eval.classification.inputs.data import segmentation_of, with_turns
from eval.classification.inputs.example_text import as_one_text
from eval.classification.inputs.segments import Segmentation, Segmented
from eval.classification.prediction import Predictions, decide, predict
from eval.classification.tasks.task import ClassificationTask
from eval.config import EvalConfig
from eval.interpretation.arguments import SEGMENT_HEAD, say_rarely
from eval.interpretation.explanations import Explained
from eval.interpretation.kept_classifiers import FinetunedClassifier, finetuned


def load_segment_classifier(run: Path, task: ClassificationTask, config: EvalConfig) -> FinetunedClassifier:
    """Load a run's classifier, or fine-tune it, and say on standard error how that goes.

    Raises:
        UsageError: For a head that reads no segments, or data or a run that cannot be used.
    """
    check_segment_head(task, config)
    return finetuned(run, task, config, say_rarely())


def check_segment_head(task: ClassificationTask, config: EvalConfig) -> None:
    """Refuse a head that reads no segments, or says nothing of single ones.

    Raises:
        UsageError: Says which head to choose.
    """
    choice = check_head(config.finetune.heads[0], task.multi_label)
    if segmentation_of(task.finetuning(config.finetune, choice)) is None:
        raise UsageError(
            f'head {str(choice)!r} does not read segments; choose for example --head "{SEGMENT_HEAD} '
            'segments=sentences"'
        )
    if not get_head(choice.name).scores_segments:
        raise UsageError(
            f'head {str(choice)!r} says nothing of single segments; choose another, such as "{SEGMENT_HEAD}"'
        )


def like_cut(choice: HeadChoice, name: str) -> HeadChoice:
    """Choose another head that reads the segments which a head reads, on a backbone as frozen as its."""
    cuts = {field.name for field in fields(Segmentation)}
    options = tuple((key, value) for key, value in choice.options if key in cuts)
    return check_head(HeadChoice(name, options, choice.is_frozen))


def note_few_segments(found: FinetunedClassifier, kept: int) -> None:
    """Say on standard error where no validation example has more than ``kept`` segments to choose among."""
    data: Any = found.validation
    if data.counts.max() <= kept:
        print(
            f"note: no validation example of {found.task.name} has more than {kept} segment(s), so there "
            f"is nothing to choose; shorter ones are for example those of --head "
            f'"{SEGMENT_HEAD} window=8 stride=4"',
            file=sys.stderr,
        )


def predict_segments(found: FinetunedClassifier, data: Segmented) -> Predictions:
    """Return what a run's classifier says of examples and of their segments."""
    settings = found.settings
    return predict(found.classifier, data, settings.per_device_train_batch_size, settings.dtype)


def explain_examples(found: FinetunedClassifier) -> list[Explained]:
    """Return every validation example with its prediction and what its segments contribute."""
    data, is_multi_label = found.validation, found.task.multi_label
    assert isinstance(data, Segmented)
    logits, scores = predict_segments(found, data)
    assert scores is not None
    predictions = decide(logits, is_multi_label)
    probabilities = expit(logits) if is_multi_label else softmax(logits, axis=1)

    def listed(own: np.ndarray) -> tuple[int, ...]:
        return tuple(np.flatnonzero(own).tolist()) if is_multi_label else (int(own),)

    return [
        Explained(
            idx=str(data.idx[number]),
            text=as_one_text(with_turns(found.task, row)),
            spans=data.spans[data.starts[number] : data.starts[number] + data.counts[number]],
            scores=scores[number],
            probabilities=probabilities[number],
            predicted=int(logits[number].argmax()),
            predictions=listed(predictions[number]),
            labels=listed(data.labels[number]),
        )
        for number, row in enumerate(found.rows)
    ]
