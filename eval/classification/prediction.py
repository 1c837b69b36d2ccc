"""What a classifier says of examples: logits, the labels that follow, and what each segment adds.

Shapes: C labels, N examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch

from eval.classification.classifier import Batch, Classifier
from eval.classification.features import Features
from eval.classification.heads.layers import HeadOutput
from eval.classification.inputs.segments import Segmented
from eval.models.memory import Budget

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
    """Let a classifier read examples, batches of similar lengths at a time; ``tick`` is called after each.

    Where memory runs out, batches are halved. What a GPU found comes back at the end.
    """
    classifier.eval()
    order = np.argsort(data.lengths, kind="stable")  # so that there is little to pad
    there = data.on(classifier.device)

    def read(rows: slice) -> HeadOutput:
        with autocast(classifier.device, dtype):
            output = classifier(there.take(order[rows]))
        tick()
        return output

    outputs = list(Budget(batch_size).fit(len(order), read, batch_size))
    places = np.argsort(order, kind="stable")
    logits = torch.cat([output.logits.float() for output in outputs]).cpu().numpy()
    padded = [output.segment_scores for output in outputs if output.segment_scores is not None]
    if not padded:
        return Predictions(logits[places], None)
    counts = data.counts if isinstance(data, Segmented) else data.lengths
    scores = [own for part in _to_host(padded) for own in part]
    found = [own[:count] for own, count in zip(scores, counts[order], strict=True)]
    return Predictions(logits[places], [found[place] for place in places])


def _to_host(tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """Fetch tensors of several shapes in one copy, as float32."""
    flat = torch.cat([tensor.float().flatten() for tensor in tensors]).cpu().numpy()
    ends = np.cumsum([tensor.numel() for tensor in tensors])
    return [own.reshape(t.shape) for own, t in zip(np.split(flat, ends[:-1]), tensors, strict=True)]


def decide(logits: np.ndarray, is_multi_label: bool) -> np.ndarray:
    """Predict from (N, C) logits: (N,) labels, or (N, C) of 0 and 1 where examples may have several."""
    return (logits > 0).astype(np.int64) if is_multi_label else logits.argmax(1)


def autocast(device: torch.device, dtype: str) -> AbstractContextManager:
    """Compute products in bf16 where asked for; by default a GPU does, a CPU does not."""
    enabled = dtype == "bfloat16"
    if dtype == "auto":
        enabled = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)
