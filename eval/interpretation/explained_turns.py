"""How well segments explain labels, where the labels of turns are known: F1 of pairs of turn and label.

As in Wang et al. 2023, Table 5. A classifier learns from the labels of documents alone; what it says of
turns is judged by theirs:

- ``swipe``: turn k has the labels i with z_i^k > 0 (20); with a gate, g z > 0 is the same.
- ``segment-attention``: a turn has the labels of its document, as the head predicts them, if its weight times
  the number of turns is over 1, which is what a mean would give it. So the paper's "threshold 1" is read.
- LIME: a turn has a label of its document, as the forest predicts them, if it holds most keywords for it.
- supervised: a linear head on each segment, trained on the turns' own labels, the line to reach.

A turn that is cut into several segments has the labels of them all.

Shapes: n documents, m segments, t turns of one, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from base.errors import UsageError
from base.progress import Tell
from eval.classification.finetune import finetune
from eval.classification.heads.choice import HeadChoice, check_head, parse_head
from eval.classification.heads.registry import HEADS
from eval.classification.inputs.data import read_task_data, split, with_turns
from eval.classification.inputs.example_text import JOINT, as_one_text
from eval.classification.inputs.segments import Segmented
from eval.classification.loading import load_for_task
from eval.classification.metrics import METRICS
from eval.classification.prediction import decide, predict
from eval.classification.tasks.examples import SPLITS, read_examples
from eval.classification.tasks.task import ClassificationTask
from eval.interpretation.arguments import (
    ATTENTION_HEAD,
    SEGMENT_HEAD,
    ExplainableSegmentsArgs,
    with_head,
)
from eval.interpretation.kept_classifiers import FinetunedClassifier, find_task
from eval.interpretation.lime import WordForest
from eval.interpretation.segment_classifiers import like_cut, load_segment_classifier, predict_segments
from eval.interpretation.segment_f1 import (
    SegmentF1,
    attended,
    by_turn,
    judge,
    most_keywords,
    turn_labels,
    turns_of_segments,
)
from eval.models.identity import admit_run, model_folder
from eval.scoring.log_likelihood import num_positions

SUPERVISED, LIME = "supervised", "LIME"


@dataclass(frozen=True)
class _Explained:
    """What one kind of explanation says: of each document's segments or turns (m, C), and of it (n, C)."""

    turns: list[np.ndarray]
    documents: np.ndarray


def measure(args: ExplainableSegmentsArgs, tell: Tell = lambda message: None) -> list[SegmentF1]:
    """Fine-tune or load the heads, let them and their rivals explain the validation documents, and judge.

    Raises:
        UsageError: For a task without labels of turns, a head without segments, or data or a run that cannot
            be used.
    """
    task = find_task(args.task, args.config)
    turn_labels(task, [])
    choices = _choices(args, task)
    admit_run(args.run, args.trust_remote_code)  # before anything is read or trained
    for part in SPLITS:
        turn_labels(task, read_examples(task, part, args.config))
    first = load_segment_classifier(args.run, task, with_head(args.config, str(choices[0])))
    gold = turn_labels(task, first.rows)
    turns = [task.turns(row) or [] for row in first.rows]
    labels = np.asarray(first.validation.labels)
    training = _training(args, task, first)
    explained = {SUPERVISED: _supervised(args, task, first, training, tell)}
    for choice in choices:
        tell(f"explaining by {choice}")
        found = first
        if choice != choices[0]:
            found = load_segment_classifier(args.run, task, with_head(args.config, str(choice)))
        explained[str(choice)] = _by_head(found, choice.name, turns)
    tell("explaining by LIME")
    explained[LIME] = _by_lime(args, task, training[0], turns)
    return [
        judge(name, gold, own.turns, METRICS["micro_f1"](labels, own.documents), args.seed)
        for name, own in explained.items()
    ]


def _choices(args: ExplainableSegmentsArgs, task: ClassificationTask) -> list[HeadChoice]:
    """The heads asked for, and attention over the same segments where it is not among them."""
    choices = [check_head(choice, task.multi_label) for choice in args.config.finetune.heads]
    for choice in choices:
        if dict(choice.options).get("segments", "windows") == "windows":
            name = (
                choice.name if choice.name in HEADS and HEADS[choice.name].scores_segments else SEGMENT_HEAD
            )
            raise UsageError(
                f"head {str(choice)!r} reads no segments of single turns; choose for example "
                f'--head "{name} segments=turns"'
            )
    if all(choice.name != ATTENTION_HEAD for choice in choices):
        choices.append(like_cut(choices[0], ATTENTION_HEAD))
    return choices


def _by_head(found: FinetunedClassifier, name: str, turns: list[list[str]]) -> _Explained:
    data: Any = found.validation
    logits, scores = predict_segments(found, data)
    assert scores is not None
    said = attended(logits, scores) if name == ATTENTION_HEAD else [own > 0 for own in scores]
    return _Explained(_in_turns(data, said, turns), decide(logits, is_multi_label=True))


def _in_turns(data: Segmented, said: Sequence[np.ndarray], turns: list[list[str]]) -> list[np.ndarray]:
    spans = np.split(data.spans, data.starts[1:])
    return [
        by_turn(turns_of_segments(texts, places), own, len(texts))
        for texts, places, own in zip(turns, spans, said, strict=True)
    ]


def _by_lime(
    args: ExplainableSegmentsArgs,
    task: ClassificationTask,
    train: Segmented,
    turns: list[list[str]],
) -> _Explained:
    rows = read_examples(task, "train", args.config)
    names = {str(row.get("idx", number)): row for number, row in enumerate(rows)}
    texts = [as_one_text(with_turns(task, names[name])) for name in train.idx]
    forest = WordForest(texts, train.labels, args.seed)
    labels = (forest.probabilities([JOINT.join(own) for own in turns]) > 0.5).astype(np.int64)
    said = [
        most_keywords(forest.segment_scores(own), found).astype(np.int64)
        for own, found in zip(turns, labels, strict=True)
    ]
    return _Explained(said, labels)


def _training(
    args: ExplainableSegmentsArgs, task: ClassificationTask, first: FinetunedClassifier
) -> tuple[Segmented, Segmented]:
    """The documents that the heads are trained on, and those that their epoch is chosen on."""
    max_length = min(first.settings.max_length, num_positions(first.classifier.body))
    data: Any = read_task_data([task], first.tokenizer, max_length, args.config, first.settings)
    rows = read_examples(task, "train", args.config)
    spans = np.split(data.train.spans, data.train.starts[1:])
    owners = [turns_of_segments(task.turns(row) or [], own) for row, own in zip(rows, spans, strict=True)]
    labels = np.concatenate([own[place] for own, place in zip(turn_labels(task, rows), owners, strict=True)])
    train = replace(data.train, pieces=replace(data.train.pieces, labels=labels))
    found: Any = split(replace(data, train=train), task, first.settings, first.settings.seeds[0])
    return found


def _supervised(
    args: ExplainableSegmentsArgs,
    task: ClassificationTask,
    first: FinetunedClassifier,
    training: tuple[Segmented, Segmented],
    tell: Tell,
) -> _Explained:
    """Train a linear head on the labels of turns."""
    train, selection = training
    frozen = parse_head(first.settings.head).is_frozen
    settings = first.settings.model_copy(update={"head": str(HeadChoice("linear", (), frozen))})
    seed = settings.seeds[0]
    classifier = load_for_task(
        model_folder(args.run), task, settings, seed, first.tokenizer, args.config.device
    )
    finetune(classifier, train.pieces, selection.pieces, METRICS["micro_f1"], settings, seed, tell)
    data: Any = first.validation
    logits = predict(classifier, data.pieces, settings.per_device_train_batch_size, settings.dtype).logits
    said = np.split(logits > 0, data.starts[1:])
    turns = [task.turns(row) or [] for row in first.rows]
    return _Explained(_in_turns(data, said, turns), np.array([own.any(0) for own in said]).astype(np.int64))
