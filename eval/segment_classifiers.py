"""A run's classifier that reads segments, for the commands that look into one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eval.config import EvalConfig
from eval.heads.choice import parse_head
from eval.runs import study_config
from ffn_variants.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from eval.classification_tasks import ClassificationTask
    from eval.classifier import Classifier
    from eval.explanations import Explained
    from eval.saved_classifiers import FineTunedClassifier
    from eval.segments import Segmented

SEGMENT_HEAD = "swipe"
SAY_EVERY_S = 20.0


def segment_config(run: Path) -> EvalConfig:
    """Return the evaluation of a run's study, with the first of its heads that reads segments, or ``swipe``.

    Raises:
        UsageError: If the study's file is unusable.
    """
    study = run.resolve().parents[2:3]
    config = study_config(study)
    heads = [head for head in config.finetune.head if parse_head(head).name == SEGMENT_HEAD]
    finetune = config.finetune.model_copy(update={"head": tuple(heads[:1]) or (SEGMENT_HEAD,)})
    return config.model_copy(update={"finetune": finetune})


def label_names(task: ClassificationTask) -> list[str]:
    """Return what the labels of a task are called, in the order of the logits."""
    return [str(label) for label in task.labels]


def load_segment_classifier(run: Path, task: ClassificationTask, config: EvalConfig) -> FineTunedClassifier:
    """Load a run's classifier, or fine-tune it, and say on standard error how that goes.

    Raises:
        UsageError: For a head that reads no segments, or data or a run that cannot be used.
    """
    from eval.heads.registry import check_head, get_head
    from eval.saved_classifiers import fine_tuned

    choice = check_head(config.finetune.heads[0], task.multi_label)
    if choice.name != SEGMENT_HEAD or get_head(choice.name).reads != "segments":
        raise UsageError(
            f'head {str(choice)!r} does not read segments; choose for example --head "{SEGMENT_HEAD} '
            'segments=sentences"'
        )
    return fine_tuned(run, task, config, say_rarely())


def say_rarely() -> Callable[[str], None]:
    """Make a function that prints a message on standard error, at most one every ``SAY_EVERY_S`` seconds."""
    next_s = 0.0

    def say(message: str) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            print(message, file=sys.stderr)
            next_s = time.monotonic() + SAY_EVERY_S

    return say


def scores_and_logits(
    classifier: Classifier, data: Segmented, found: FineTunedClassifier
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return for each example the (segments, labels) scores, and the (examples, labels) logits of all."""
    from eval.finetune import predict, segment_scores

    size, dtype = found.settings.per_device_train_batch_size, found.settings.dtype
    return segment_scores(classifier, data, size, dtype), predict(classifier, data, size, dtype)


def explain_examples(found: FineTunedClassifier) -> list[Explained]:
    """Return every validation example with its prediction and what its segments contribute."""
    import numpy as np
    from scipy.special import expit, softmax

    from eval.classification_data import with_turns
    from eval.example_text import as_one_text
    from eval.explanations import Explained
    from eval.finetune import decide
    from eval.segments import Segmented

    data, is_multi_label = found.validation, found.task.multi_label
    assert isinstance(data, Segmented)
    scores, logits = scores_and_logits(found.classifier, data, found)
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
