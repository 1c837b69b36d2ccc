"""What SWIPE is compared with: segments pooled by attention, or read by an LSTM (Wang et al. 2023, Table 2).

The paper names both, "BERT+attention" and "BERT+LSTM", and gives no formula of either. Here the attention is
one learned query, scaled as in a transformer, that starts at zero and so as a mean; it tells segments apart
and not labels. The LSTM has one layer, one direction and as many units as a segment's vector has features.

Shapes: n examples, M segments of the longest, D hidden_size, C labels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from eval.classification.heads.layers import linear
from eval.classification.heads.output import HeadOutput


class SegmentAttentionHead(nn.Module):
    """A linear layer on a weighted mean of the segments.

    Args:
        hidden_size: D.
        num_labels: C.
    """

    def __init__(self, hidden_size: int, num_labels: int):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(hidden_size))
        self.score = linear(hidden_size, num_labels)

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Return logits, and as segment scores the weights, the same for every label.

        Args:
            vectors: (n, M, D).
            mask: (n, M), true where there is a segment; every example has one at least.
        """
        looks = vectors @ self.query / math.sqrt(len(self.query))
        weights = looks.masked_fill(~mask, -math.inf).softmax(1)[..., None]
        present = vectors.masked_fill(~mask[..., None], 0.0)
        logits = self.score((weights * present).sum(1))
        return HeadOutput(logits, segment_scores=weights.expand(-1, -1, logits.shape[1]))


class SegmentLSTMHead(nn.Module):
    """A linear layer on a state of an LSTM over the segments.

    Args:
        hidden_size: D.
        num_labels: C.
        pooling: ``last``, or ``mean`` over all segments.
    """

    def __init__(self, hidden_size: int, num_labels: int, pooling: str = "last"):
        super().__init__()
        self.is_last = pooling == "last"
        self.lstm = nn.LSTM(hidden_size, hidden_size, batch_first=True)
        self.score = linear(hidden_size, num_labels)

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Return logits; a state of an LSTM says nothing of single segments.

        Args:
            vectors: (n, M, D).
            mask: (n, M), true where there is a segment; every example has one at least, and none behind its
                last.
        """
        states, _ = self.lstm(vectors)
        counts = mask.sum(1)
        if self.is_last:
            state = states[torch.arange(len(states), device=states.device), counts - 1]
        else:
            state = states.masked_fill(~mask[..., None], 0.0).sum(1) / counts[:, None]
        return HeadOutput(self.score(state))


def build_segment_attention(
    hidden_size: int, num_labels: int, segments: str, window: int, stride: int
) -> SegmentAttentionHead:
    """Build the head; how texts are cut for it is for ``eval.classification.inputs.data`` to see to."""
    return SegmentAttentionHead(hidden_size, num_labels)


def build_segment_lstm(
    hidden_size: int, num_labels: int, pooling: str, segments: str, window: int, stride: int
) -> SegmentLSTMHead:
    """Build the head; how texts are cut for it is for ``eval.classification.inputs.data`` to see to."""
    return SegmentLSTMHead(hidden_size, num_labels, pooling)
