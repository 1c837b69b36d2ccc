"""Whether bags of words on the segments that explain a label do better than on others."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from base.errors import UsageError
from base.progress import Tell
from eval.classification.heads.choice import HeadChoice, check_head
from eval.classification.inputs.data import read_task_data, segmentation_of, with_turns
from eval.classification.inputs.example_text import as_one_text
from eval.classification.inputs.segments import Segmented
from eval.classification.metrics import METRICS
from eval.classification.prediction import Predictions, decide
from eval.classification.tasks.examples import read_examples
from eval.classification.tasks.task import ClassificationTask
from eval.interpretation.arguments import ATTENTION_HEAD, SufficiencyArgs, with_head
from eval.interpretation.kept_classifiers import FinetunedClassifier, find_task
from eval.interpretation.lime import WordForest
from eval.interpretation.segment_classifiers import (
    like_cut,
    load_segment_classifier,
    note_few_segments,
    predict_segments,
)
from eval.interpretation.selections import CONFIDENCE, Documents, Sufficiency, compare_selections
from eval.models.identity import admit_run
from eval.scoring.log_likelihood import num_positions
from eval.zero_shot.task import evenly_spaced

ENOUGH = 0.97
"""Of the best accuracy: the shortest segments that reach it are the sweet spot of Wang et al. 2023."""


@dataclass(frozen=True)
class Measured:
    """What one head and its segments do.

    Attributes:
        head: Which one.
        window: Tokens of its longest segment.
        accuracy: Of the head itself on the validation documents, in percent.
        accuracy_interval: Wilson's, over documents.
        train_seconds: What its fine-tuning took; None where an earlier version kept it.
        predict_seconds: What the validation documents took.
        held_out: Its scores on the held-out part after each epoch, in percent: how fast it converges.
        results: Of bags of words on selected segments, those of this head first.
    """

    head: str
    window: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    train_seconds: float | None
    predict_seconds: float
    held_out: tuple[float, ...]
    results: list[Sufficiency]


@dataclass(frozen=True)
class _Part:
    """The training or the validation documents: the examples' inputs, and their segments."""

    inputs: list
    data: Segmented

    @property
    def texts(self) -> list[str]:
        """Each document as one text."""
        return [as_one_text(example) for example in self.inputs]

    @property
    def documents(self) -> Documents:
        spans = np.split(self.data.spans, self.data.starts[1:])
        segments = [
            [text[start:stop] for start, stop in own] for text, own in zip(self.texts, spans, strict=True)
        ]
        return Documents(segments, self.data.labels)


def measure(args: SufficiencyArgs, tell: Tell = lambda message: None) -> list[Measured]:
    """Measure the head that is asked for, at every length that is asked for.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    for name in ("segments_kept", "draws", "train_documents"):
        if (value := getattr(args, name)) < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be 1 or more")
    task = find_task(args.task, args.config)
    choice = check_head(args.config.finetune.heads[0], task.multi_label)
    lengths = sorted(set(args.lengths))
    heads = [_of_length(choice, length, task) for length in lengths] or [choice]
    forests: list[WordForest] = []
    admit_run(args.run, args.trust_remote_code)
    return [_measure(args, task, head, forests, tell) for head in heads]


def sweet_spot(found: list[Measured]) -> Measured:
    """Return the one with the shortest segments whose accuracy is 97% of the best."""
    best = max(one.accuracy for one in found)
    return min((one for one in found if one.accuracy >= ENOUGH * best), key=lambda one: one.window)


def length_table(found: list[Measured]) -> str:
    """Return a table of text: a line a length, with the accuracy of bags of words on each selection."""
    names = [result.selection for result in found[0].results]
    heads = f"{'length':>6} {'accuracy':>9} {'interval':>14} {'train s':>8} {'predict s':>10} | words of:"
    lines = [" ".join([heads, *(f"{name:>9}" for name in names)])]
    for one in found:
        low, high = one.accuracy_interval
        seconds = "-" if one.train_seconds is None else f"{one.train_seconds:.1f}"
        lines.append(
            f"{one.window:6} {one.accuracy:9.1f} {f'[{low:.1f}, {high:.1f}]':>14} {seconds:>8} "
            f"{one.predict_seconds:10.2f} |          "
            + " ".join(f"{own.accuracy:9.1f}" for own in one.results)
        )
    return "\n".join(lines)


def _of_length(choice: HeadChoice, length: int, task: ClassificationTask) -> HeadChoice:
    options = dict(choice.options) | {"window": length}
    return check_head(HeadChoice(choice.name, tuple(options.items()), choice.is_frozen), task.multi_label)


def _measure(
    args: SufficiencyArgs, task: ClassificationTask, head: HeadChoice, forests: list[WordForest], tell: Tell
) -> Measured:
    """Measure one head; ``forests`` holds the forest, once it is made, for all lengths."""
    found = load_segment_classifier(args.run, task, with_head(args.config, str(head)))
    note_few_segments(found, args.segments_kept)
    train, validation = parts = _parts(task, found, args)
    tell(f"scoring segments of {head}")
    begin = time.monotonic()
    predicted = predict_segments(found, validation.data)
    seconds = time.monotonic() - begin
    scores = {
        "highest": (predict_segments(found, train.data).contributions(), predicted.contributions()),
        "attention": _by_attention(args, task, head, parts, tell),
        "LIME": _by_lime(args, parts, forests, tell),
    }
    results = compare_selections(
        train.documents, validation.documents, scores, args.segments_kept, args.draws, args.seed, tell
    )
    accuracy, interval = _accuracy(validation.data.labels, predicted)
    cut = segmentation_of(found.settings)
    assert cut is not None
    return Measured(str(head), cut.window, accuracy, interval, found.seconds, seconds, found.scores, results)


def _accuracy(labels: np.ndarray, predicted: Predictions) -> tuple[float, tuple[float, float]]:
    accuracy = METRICS["accuracy"](labels, decide(predicted.logits, labels.ndim == 2))
    right = round(accuracy / 100 * len(labels))
    found = binomtest(right, len(labels)).proportion_ci(CONFIDENCE, method="wilson")
    return accuracy, (100 * float(found.low), 100 * float(found.high))


def _parts(
    task: ClassificationTask, found: FinetunedClassifier, args: SufficiencyArgs
) -> tuple[_Part, _Part]:
    max_length = min(found.settings.max_length, num_positions(found.classifier.body))
    data: Any = read_task_data([task], found.tokenizer, max_length, args.config, found.settings).train
    chosen = evenly_spaced(list(range(len(data))), args.train_documents)
    rows = read_examples(task, "train", args.config)
    train = _Part([with_turns(task, rows[number]) for number in chosen], data.take(chosen))
    validation: Any = found.validation
    return train, _Part([with_turns(task, row) for row in found.rows], validation)


def _by_attention(
    args: SufficiencyArgs, task: ClassificationTask, head: HeadChoice, parts: tuple[_Part, _Part], tell: Tell
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return for each part, for each document, the weights of its segments under ``segment-attention``."""
    tell("fine-tuning the head whose attention is read, unless it is there")
    rival = like_cut(head, ATTENTION_HEAD)
    found = load_segment_classifier(args.run, task, with_head(args.config, str(rival)))
    train, validation = (predict_segments(found, part.data).contributions() for part in parts)
    return train, validation


def _by_lime(
    args: SufficiencyArgs, parts: tuple[_Part, _Part], forests: list[WordForest], tell: Tell
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return for each part and document how many keywords of the likeliest label its segments have."""
    tell("a forest's keywords by LIME")
    if not forests:
        forests.append(WordForest(parts[0].texts, parts[0].data.labels, args.seed))
    (forest,) = forests
    found = []
    for part in parts:
        likeliest = forest.probabilities(part.texts).argmax(1)
        pairs = zip(part.documents.segments, likeliest, strict=True)
        found.append([forest.segment_scores(own)[:, label] for own, label in pairs])
    return found[0], found[1]
