"""How well segments explain labels, where the labels of turns are known: F1 of pairs of turn and label.

As in Wang et al. 2023, Table 5. A classifier learns from the labels of documents alone; what it says of
turns is judged by theirs:

- ``swipe``: turn k has the labels i with z_i^k > 0 (20); with a gate, g z > 0 is the same.
- ``segment-attention``: a turn has the labels of its document, as the head predicts them, if its weight times
  the number of turns is over 1, which is what a mean would give it. So the paper's "threshold 1" is read.
- LIME: a turn has a label of its document, as the forest predicts them, if it holds most keywords for it.
- supervised: a linear head on each segment, trained on the turns' own labels, the line to reach.

A turn that is cut into several segments has the labels of them all.

Shapes: n documents, m segments, t turns of one, C labels, B bootstraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from base.errors import UsageError
from eval.classification.finetune import finetune
from eval.classification.heads.registry import HEADS, HeadChoice, parse_head
from eval.classification.inputs.data import split
from eval.classification.inputs.segments import JOINT, Segmented
from eval.classification.loading import load_for_task
from eval.classification.metrics import METRICS
from eval.classification.prediction import decide, predict
from eval.classification.tasks.examples import SPLITS, read_examples
from eval.classification.tasks.inputs import read_field
from eval.classification.tasks.labels import encode_label
from eval.classification.tasks.task import ClassificationTask
from eval.interpretation.arguments import ExplainArguments
from eval.interpretation.classifiers import (
    ATTENTION_HEAD,
    FinetunedClassifier,
    Subject,
    frame,
    like_cut,
    one_texts,
    table,
)
from eval.interpretation.lime import WordForest
from eval.models.identity import model_folder
from eval.report.document.document import Document

NUM_BOOTSTRAPS = 1_000
CONFIDENCE = 0.95
SUPERVISED, LIME = "supervised", "LIME"


@dataclass(frozen=True)
class SegmentF1:
    """How well one kind of explanation finds the labels of turns.

    Attributes:
        explained_by: A head, ``supervised`` or ``LIME``.
        micro_f1: Of all pairs of turn and label, in percent.
        micro_interval: Percentile bootstrap over documents.
        macro_f1: Mean of the labels' F1, in percent.
        macro_interval: As the other.
        documents: Micro F1 of the documents' labels, in percent.
    """

    explained_by: str
    micro_f1: float
    micro_interval: tuple[float, float]
    macro_f1: float
    macro_interval: tuple[float, float]
    documents: float


def measure(subject: Subject, asked: ExplainArguments) -> Document:
    """Fine-tune or load the heads, let them and their rivals explain the validation documents, and judge.

    Raises:
        UsageError: For a task without labels of turns, a head without segments, or data or a run that cannot
            be used.
    """
    return document(judge_heads(subject, asked.seed), asked, subject.task.name)


def document(judged: Sequence[SegmentF1], asked: ExplainArguments, task: str) -> Document:
    """Make the page of what was judged of a task's turns."""
    results = list(map(asdict, judged))
    meaning = (
        "F1 in percent of the labels that turns are given, with 95% intervals over documents, and of the "
        "labels of whole documents."
    )
    return Document(
        title=f"What is said of the turns of {task}",
        blocks=(table(results), meaning),
        figures={},
        tables={"results": frame(results)},
        record={"seed": asked.seed},
        command=asked.command,
    )


def judge_heads(subject: Subject, seed: int) -> list[SegmentF1]:
    """Judge what heads and their rivals say of turns.

    Args:
        subject: Whose heads.
        seed: Of LIME's forest and samples, and of the bootstrap.

    Raises:
        UsageError: As ``measure``.
    """
    task = subject.task
    turn_labels(task, [])
    choices = _choices(subject)
    for part in SPLITS:
        turn_labels(task, read_examples(task, part, subject.config))
    first = subject.load(choices[0])
    gold = turn_labels(task, first.rows)
    turns = [task.turns(row) or [] for row in first.rows]
    train, selection = _training(subject, first)
    explained = {SUPERVISED: _supervised(subject, first, train, selection, turns)}
    for choice in choices:
        subject.tell(f"explaining by {choice}")
        classifier = first if choice == choices[0] else subject.load(choice)
        explained[str(choice)] = _by_head(classifier, choice.name, turns)
    subject.tell("explaining by LIME")
    explained[LIME] = _by_lime(subject, train, turns, seed)
    labels = np.asarray(first.validation.labels)
    return [
        judge(name, gold, explanation.turns, METRICS["micro_f1"](labels, explanation.documents), seed)
        for name, explanation in explained.items()
    ]


@dataclass(frozen=True)
class _Explanation:
    """What one kind of explanation says: of each document's turns (t, C), and of all documents (n, C)."""

    turns: list[np.ndarray]
    documents: np.ndarray


def _choices(subject: Subject) -> list[HeadChoice]:
    """The heads asked for, and attention over the same segments where it is not among them."""
    choices = subject.heads
    for choice in choices:
        if dict(choice.options).get("segments", "windows") == "windows":
            name = choice.name if choice.name in HEADS and HEADS[choice.name].scores_segments else "swipe"
            raise UsageError(
                f"head {str(choice)!r} reads no segments of single turns; choose for example "
                f'--head "{name} segments=turns"'
            )
        subject.check_segments(choice)
    if all(choice.name != ATTENTION_HEAD for choice in choices):
        choices.append(like_cut(choices[0], ATTENTION_HEAD))
    return choices


def _by_head(classifier: FinetunedClassifier, name: str, turns: list[list[str]]) -> _Explanation:
    data: Any = classifier.validation
    logits, scores = classifier.predict(data)
    assert scores is not None
    labels = attended(logits, scores) if name == ATTENTION_HEAD else [own > 0 for own in scores]
    return _Explanation(_in_turns(data, labels, turns), decide(logits, is_multi_label=True))


def _in_turns(data: Segmented, labels: Sequence[np.ndarray], turns: list[list[str]]) -> list[np.ndarray]:
    spans = np.split(data.spans, data.starts[1:])
    return [
        by_turn(turns_of_segments(texts, places), own, len(texts))
        for texts, places, own in zip(turns, spans, labels, strict=True)
    ]


def _by_lime(subject: Subject, train: Segmented, turns: list[list[str]], seed: int) -> _Explanation:
    rows = read_examples(subject.task, "train", subject.config)
    names = {str(row.get("idx", number)): row for number, row in enumerate(rows)}
    texts = one_texts(subject.task, [names[name] for name in train.idx])
    forest = WordForest(texts, train.labels, seed)
    documents = (forest.probabilities([JOINT.join(own) for own in turns]) > 0.5).astype(np.int64)
    of_turns = [
        most_keywords(forest.segment_scores(own), labels).astype(np.int64)
        for own, labels in zip(turns, documents, strict=True)
    ]
    return _Explanation(of_turns, documents)


def _training(subject: Subject, first: FinetunedClassifier) -> tuple[Any, Any]:
    """The documents that the heads are trained on, and those that their epoch is chosen on.

    Their segments are labelled by the turns that they are in.
    """
    task, data = subject.task, first.data
    train: Any = data.train
    rows = read_examples(task, "train", subject.config)
    spans = np.split(train.spans, train.starts[1:])
    owners = [turns_of_segments(task.turns(row) or [], own) for row, own in zip(rows, spans, strict=True)]
    labels = np.concatenate([own[place] for own, place in zip(turn_labels(task, rows), owners, strict=True)])
    labelled = replace(train, pieces=replace(train.pieces, labels=labels))
    return split(replace(data, train=labelled), task, first.settings, first.settings.seeds[0])


def _supervised(
    subject: Subject,
    first: FinetunedClassifier,
    train: Segmented,
    selection: Segmented,
    turns: list[list[str]],
) -> _Explanation:
    """Train a linear head on the labels of turns."""
    frozen = parse_head(first.settings.head).is_frozen
    settings = first.settings.model_copy(update={"head": str(HeadChoice("linear", (), frozen))})
    seed = settings.seeds[0]
    folder, device = model_folder(subject.run), subject.config.device
    classifier = load_for_task(folder, subject.task, settings, seed, first.tokenizer, device)
    finetune(classifier, train.pieces, selection.pieces, METRICS["micro_f1"], settings, seed, subject.tell)
    data: Any = first.validation
    logits = predict(classifier, data.pieces, settings.per_device_train_batch_size, settings.dtype).logits
    labels = np.split(logits > 0, data.starts[1:])
    documents = np.array([own.any(0) for own in labels]).astype(np.int64)
    return _Explanation(_in_turns(data, labels, turns), documents)


def turn_labels(task: ClassificationTask, rows: Sequence[dict]) -> list[np.ndarray]:
    """Return the (t, C) labels of each document's turns, 0 or 1.

    Raises:
        UsageError: If the task's file names no field for them, or what is there does not fit the turns.
    """
    name = task.definition.segment_labels
    if name is None:
        raise UsageError(
            f"task {task.name} does not say what labels its turns have; name the field with them in its "
            "file: segment_labels: ..."
        )
    found = []
    for number, row in enumerate(rows, start=1):
        values, turns = read_field(row, name), task.turns(row)
        if turns is None or not isinstance(values, list) or len(values) != len(turns):
            raise UsageError(
                f"{task.name}, row {number}: {name} has no list for each turn of "
                f"{task.definition.text[0]}; both fields need a list of the same length"
            )
        try:
            own = [encode_label(value, task.positions, task.num_labels, many=True) for value in values]
        except KeyError as error:
            raise UsageError(
                f"{task.name}, row {number}: {name} has {error.args[0]!r}, no list of labels of the task"
            ) from None
        found.append(np.array(own, dtype=np.int64))
    return found


def turns_of_segments(turns: Sequence[str], spans: np.ndarray) -> np.ndarray:
    """Return (m,) in which turn each segment begins; ``spans`` are (m, 2) characters in ``as_one_text``."""
    lengths = np.array([len(turn) + len(JOINT) for turn in turns])
    return np.searchsorted(np.cumsum(lengths) - lengths, spans[:, 0], side="right") - 1


def by_turn(owners: np.ndarray, labels: np.ndarray, num_turns: int) -> np.ndarray:
    """Return (t, C), the labels of all segments of each turn, from their (m,) turns and (m, C) labels."""
    found = np.zeros((num_turns, labels.shape[1]), dtype=np.int64)
    np.maximum.at(found, owners, labels.astype(np.int64))
    return found


def attended(logits: np.ndarray, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Give the predicted labels of each document to its segments of more than average weight.

    Args:
        logits: (n, C).
        weights: n arrays (m, C), the same for every label.
    """
    return [(own * len(own) > 1) & (labels > 0) for labels, own in zip(logits, weights, strict=True)]


def most_keywords(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Give each label of a document to the first segment with most keywords for it, if any has one.

    Args:
        scores: (m, C) numbers of keywords.
        labels: (C,) of 0 and 1.
    """
    is_best = np.arange(len(scores))[:, None] == scores.argmax(0)
    return is_best & (scores > 0) & (labels > 0)


def judge(
    name: str, gold: Sequence[np.ndarray], found: Sequence[np.ndarray], documents: float, seed: int
) -> SegmentF1:
    """Compare what was found with the (t, C) labels of each document's turns."""
    counts = np.array(
        [
            [(own & said).sum(0), ((1 - own) & said).sum(0), (own & (1 - said)).sum(0)]
            for own, said in zip(gold, found, strict=True)
        ]
    )  # (n, 3, C): right, too many, missed
    shares = np.full(len(counts), 1 / len(counts))
    draws = np.random.default_rng(seed).multinomial(len(counts), shares, NUM_BOOTSTRAPS)
    drawn = np.einsum("bn,nkc->bkc", draws, counts)
    (micro, macro), resampled = _f1(counts.sum(0)[None])[:, 0], _f1(drawn)
    tails = [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)]
    low, high = np.percentile(resampled, tails, axis=1)
    return SegmentF1(
        explained_by=name,
        micro_f1=float(micro),
        micro_interval=(float(low[0]), float(high[0])),
        macro_f1=float(macro),
        macro_interval=(float(low[1]), float(high[1])),
        documents=documents,
    )


def _f1(counts: np.ndarray) -> np.ndarray:
    """Return (2, B) micro and macro F1 in percent of (B, 3, C) counts; a label that is nowhere has 0."""

    def share(parts: np.ndarray) -> np.ndarray:
        right, extra, missed = np.moveaxis(parts, 1, 0)
        return 100 * 2 * right / np.maximum(2 * right + extra + missed, 1)

    return np.stack([share(counts.sum(2)), share(counts).mean(1)])
