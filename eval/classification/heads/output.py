"""What every head returns.

Shapes: n examples, M vectors of the longest example, C labels.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class HeadOutput(NamedTuple):
    """What a head makes of a batch.

    Attributes:
        logits: (n, C).
        auxiliary_loss: A scalar that training adds to the loss of the logits; None for most heads.
        segment_scores: (n, M, C), what each segment adds to or says of each label; None without segments.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
    segment_scores: Tensor | None = None
