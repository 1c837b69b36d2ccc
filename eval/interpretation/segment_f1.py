"""F1 of pairs of turn and label: what the labels of turns are, and how well they were found.

Shapes: n documents, m segments, t turns of one, C labels, B bootstraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from base.errors import UsageError
from eval.classification.inputs.example_text import JOINT
from eval.classification.tasks.inputs import read_field
from eval.classification.tasks.labels import encode_label
from eval.classification.tasks.task import ClassificationTask

NUM_BOOTSTRAPS = 1_000
CONFIDENCE = 0.95


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


def table(results: Sequence[SegmentF1]) -> str:
    """Return the results as a table of text, with 95% intervals over documents."""
    width = max(len(result.explained_by) for result in results)
    lines = [f"{'explained by':{width}} {'micro F1':>9} {'interval':>14} {'macro F1':>9} {'interval':>14} "
             f"{'documents':>10}"]  # fmt: skip
    for result in results:
        (low, high), (under, over) = result.micro_interval, result.macro_interval
        lines.append(
            f"{result.explained_by:{width}} {result.micro_f1:9.1f} {f'[{low:.1f}, {high:.1f}]':>14} "
            f"{result.macro_f1:9.1f} {f'[{under:.1f}, {over:.1f}]':>14} {result.documents:10.1f}"
        )
    return "\n".join(lines)
