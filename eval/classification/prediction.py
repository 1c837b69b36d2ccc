"""What a classifier says of examples, and what a frozen backbone makes of them, computed once for all heads.

Shapes: n or N examples, V vectors of all of them, D hidden_size, C labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from eval.classification.classifier import Batch, Classifier, Examples, Features, HeadClassifier
from eval.classification.heads import HeadOutput
from eval.classification.segments import Segmented
from eval.memory import Budget, to_device

Made = TypeVar("Made")
BATCH_SIZE = 64
MAX_BYTES = 2**31
"""Of all vectors that are kept. A task with more has them computed for every batch anew."""


_cache: dict[tuple[str, ...], Features] = {}


def fits_memory(classifier: HeadClassifier, parts: Iterable[Batch]) -> bool:
    """Whether the vectors of all examples may be kept."""
    count = sum(int(_num_vectors(classifier, part).sum()) for part in parts)
    return count * classifier.encoder.body.config.hidden_size * 4 <= MAX_BYTES


def features(classifier: HeadClassifier, data: Batch, weights: str, dtype: str = "float32") -> Features:
    """Compute what a frozen backbone makes of examples, or return what it made before in this process.

    Args:
        classifier: Its backbone is frozen.
        data: The examples.
        weights: Stands for the backbone's weights.
        dtype: Of the products, as in ``autocast``.
    """
    assert classifier.is_frozen
    key = (weights, dtype, str(classifier.device), classifier.reads, classifier.pooling, _digest(data))
    if key not in _cache:
        computed = _compute(classifier, data, dtype)
        while _cache and sum(each.vectors.nbytes for each in (computed, *_cache.values())) > MAX_BYTES:
            del _cache[next(iter(_cache))]
        _cache[key] = computed
    # Labels and names are no part of the key.
    return replace(_cache[key], labels=data.labels, truncated=data.truncated, idx=data.idx)


@torch.no_grad()
def _compute(classifier: HeadClassifier, data: Batch, dtype: str) -> Features:
    classifier.eval()
    order = np.argsort(data.lengths, kind="stable")  # so that there is little to pad

    def embed(part: Batch) -> torch.Tensor:
        with autocast(classifier.device, dtype):
            vectors, mask = classifier.embed(part)
        if mask is None:
            return vectors.float()
        inside = np.flatnonzero(np.arange(mask.shape[1]) < _num_vectors(classifier, part)[:, None])
        return vectors.flatten(0, 1).index_select(0, to_device(inside, vectors.device)).float()

    vectors = torch.cat(_in_batches(embed, data, order, BATCH_SIZE))
    counts = _num_vectors(classifier, data)[order]
    return Features(vectors, counts, counts, counts, counts).take(np.argsort(order, kind="stable"))


def _num_vectors(classifier: HeadClassifier, data: Batch) -> np.ndarray:
    """(n,) vectors of each example."""
    if isinstance(data, Segmented):
        return data.counts
    return data.lengths if classifier.reads == "tokens" else np.ones(len(data), dtype=np.int64)


def _digest(data: Batch) -> str:
    texts, counts = (data.pieces, data.counts) if isinstance(data, Segmented) else (data, data.lengths)
    digest = hashlib.sha256()
    for array in (texts.tokens, texts.lengths, counts, texts.token_type_ids):
        digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()


def _in_batches(compute: Callable[[Any], Made], data: Examples, order: np.ndarray, size: int) -> list[Made]:
    """Compute batch by batch, examples in an order; in batches half as large where memory runs out."""
    budget = Budget(size)
    return budget.in_halves(
        lambda: [
            compute(data.take(order[first : first + budget.tokens]))
            for first in range(0, len(order), budget.tokens)
        ]
    )


class Predictions(NamedTuple):
    """What a classifier says of N examples, in their order.

    Attributes:
        logits: (N, C) float32.
        segment_scores: N arrays of (segments, C), what each segment says of each label; None for a head that
            reads no segments.
    """

    logits: np.ndarray
    segment_scores: list[np.ndarray] | None

    def contributions(self) -> list[np.ndarray]:
        """Return for each example (segments,), what each contributes to its likeliest label."""
        assert self.segment_scores is not None
        likeliest = self.logits.argmax(1)
        return [scores[:, label] for scores, label in zip(self.segment_scores, likeliest, strict=True)]


@torch.inference_mode()
def predict(classifier: Classifier, data: Examples, batch_size: int, dtype: str = "auto") -> Predictions:
    """Let a classifier read examples, batches of similar lengths at a time.

    Where memory runs out, batches are halved. What a GPU predicts comes back at the end.
    """
    classifier.eval()
    order = np.argsort(data.lengths, kind="stable")  # so that there is little to pad
    places = np.argsort(order, kind="stable")

    def read(part: Examples) -> HeadOutput:
        with autocast(classifier.device, dtype):
            return classifier(part)

    outputs = _in_batches(read, data, order, batch_size)
    logits = torch.cat([output.logits.float() for output in outputs]).cpu().numpy()[places]
    padded = [output.segment_scores for output in outputs if output.segment_scores is not None]
    if not padded:
        return Predictions(logits, None)
    counts = data.counts if isinstance(data, Segmented) else data.lengths
    scores = [scores for part in padded for scores in part.float().cpu().numpy()]
    return Predictions(logits, [scores[place][: counts[order][place]] for place in places])


def decide(logits: np.ndarray, is_multi_label: bool) -> np.ndarray:
    """Predict from (N, C) logits: (N,) labels, or (N, C) of 0 and 1 where examples may have several."""
    return (logits > 0).astype(np.int64) if is_multi_label else logits.argmax(1)


def autocast(device: torch.device, dtype: str) -> AbstractContextManager:
    """Compute products in bf16 where asked for; by default a GPU does, a CPU does not."""
    enabled = dtype == "bfloat16"
    if dtype == "auto":
        enabled = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.autocast(device.type, torch.bfloat16) if enabled else nullcontext()
