"""SWIPE: a text's labels from those of its segments (Wang et al. 2023, arXiv:2304.01638, EMNLP Findings).

The vector s_k of segment k gets a score for every label i, z_i^k = w_i s_k + b_i (10), and in the gated forms
a gate for every label, g_i^k = sigmoid(w_i^g s_k + b_i^g) (11): one number a segment and label, of the shape
of z. A text's logit y_i is the maximum of z (12) or of g z (13), or the sum of z (14) or of g z (15), over
its segments. Where a text may have several labels it has those with y_i > 0 (16), and segment k explains
those with z_i^k > 0 (20); a gate is positive, so that g z > 0 says the same. Before that, ``num_layers``
transformer layers may let segments see one another (the paper's "2t" are two). The paper gives them no
positions; ``positions=sine`` adds some.

Shapes: n examples, M segments of the longest, D hidden_size, C labels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from base.errors import UsageError
from eval.classification.heads.layers import linear
from eval.classification.heads.output import HeadOutput


class SwipeHead(nn.Module):
    """Score segments and pool their scores.

    Args:
        hidden_size: D.
        num_labels: C.
        pooling: ``max``, ``gated-max``, ``sum`` or ``gated-sum``.
        num_layers: Transformer encoder layers over the segments, before they are scored.
        num_heads: Attention heads of each.
        positions: ``none``, or ``sine`` for sines and cosines that tell these layers the order of segments.

    Raises:
        UsageError: If ``num_heads`` does not divide ``hidden_size``.
    """

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        pooling: str = "max",
        num_layers: int = 0,
        num_heads: int = 4,
        positions: str = "none",
    ):
        super().__init__()
        if num_layers and hidden_size % num_heads:
            raise UsageError(
                f"'swipe' option num_heads is {num_heads}, which does not divide the backbone's hidden_size "
                f"{hidden_size}; choose a divisor"
            )
        self.has_positions = bool(num_layers) and positions == "sine"
        self.is_max = pooling.endswith("max")
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                hidden_size, num_heads, 4 * hidden_size, activation="gelu", batch_first=True
            )
            for _ in range(num_layers)
        )
        self.score = linear(hidden_size, num_labels)
        self.gate = linear(hidden_size, num_labels) if pooling.startswith("gated") else None

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Return logits, and as segment scores what each segment contributes, zero where there is none.

        Args:
            vectors: (n, M, D).
            mask: (n, M), true where there is a segment; every example has one at least.
        """
        if self.has_positions:
            vectors = vectors + sines(vectors.shape[1], vectors.shape[2], vectors)
        for layer in self.layers:
            vectors = layer(vectors, src_key_padding_mask=~mask)
        scores = self.score(vectors)
        if self.gate is not None:
            scores = scores * self.gate(vectors).sigmoid()
        absent = ~mask[..., None]
        scores = scores.masked_fill(absent, 0.0)
        logits = scores.masked_fill(absent, -math.inf).amax(1) if self.is_max else scores.sum(1)
        return HeadOutput(logits, segment_scores=scores)


def sines(num_positions: int, hidden_size: int, like: Tensor) -> Tensor:
    """Return (M, D) sines and cosines (Vaswani et al. 2017, section 3.5), for any number of positions.

    Args:
        num_positions: M.
        hidden_size: D.
        like: Says the type and the device.
    """
    steps = torch.arange(num_positions, device=like.device, dtype=torch.float32)
    powers = torch.arange(0, hidden_size, 2, device=like.device, dtype=torch.float32) / hidden_size
    angles = steps[:, None] * torch.pow(10_000.0, -powers)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :hidden_size].to(like.dtype)


def build_swipe(
    hidden_size: int,
    num_labels: int,
    pooling: str,
    num_layers: int,
    num_heads: int,
    positions: str,
    segments: str,
    window: int,
    stride: int,
) -> SwipeHead:
    """Build the head; how texts are cut for it is for ``eval.classification.inputs.data`` to see to."""
    return SwipeHead(hidden_size, num_labels, pooling, num_layers, num_heads, positions)
