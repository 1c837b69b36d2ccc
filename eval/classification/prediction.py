"""What a classifier says of examples: logits, the labels that follow, and what each segment adds.

Shapes: C labels, N examples.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch

from eval.classification.classifier import Batch, Classifier
from eval.classification.features import Features
from eval.classification.inputs.segments import Segmented

Examples = Batch | Features


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
        return [own[:, label] for own, label in zip(self.segment_scores, likeliest, strict=True)]


@torch.inference_mode()
def predict(
    classifier: Classifier,
    data: Examples,
    batch_size: int,
    dtype: str = "auto",
    tick: Callable[[], None] = lambda: None,
) -> Predictions:
    """Let a classifier read examples, batches of similar lengths at a time; ``tick`` is called after each."""
    classifier.eval()
    logits, scores = list[np.ndarray](), list[np.ndarray]()
    order = np.argsort(data.lengths, kind="stable")  # so that there is little to pad
    for first in range(0, len(order), batch_size):
        part = data.take(order[first : first + batch_size])
        with autocast(classifier.device, dtype):
            output = classifier(part)
        logits.append(output.logits.float().cpu().numpy())
        if output.segment_scores is not None:
            counts = part.counts if isinstance(part, Segmented) else part.lengths
            padded = output.segment_scores.float().cpu().numpy()
            scores += [own[:count] for own, count in zip(padded, counts, strict=True)]
        tick()
    places = np.argsort(order, kind="stable")
    return Predictions(
        np.concatenate(logits)[places], [scores[place] for place in places] if scores else None
    )


def decide(logits: np.ndarray, is_multi_label: bool) -> np.ndarray:
    """Predict from (N, C) logits: (N,) labels, or (N, C) of 0 and 1 where examples may have several."""
    return (logits > 0).astype(np.int64) if is_multi_label else logits.argmax(1)


def autocast(device: torch.device, dtype: str) -> AbstractContextManager:
    """Compute products in bf16 where asked for; by default a GPU does, a CPU does not."""
    enabled = dtype == "bfloat16"
    if dtype == "auto":
        enabled = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)
