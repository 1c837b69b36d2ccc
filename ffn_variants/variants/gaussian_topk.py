"""`gaussian-topk`: what of a token's channels exceeds their mean by a number of deviations (Gemma 3n).

y = max(0, x - m - z s), with the mean m and the deviation s of a token's F values and the z that a normal
variable exceeds with probability 1 - sparsity: no sorting, and about that share of the channels is left.
Google 2025; the formula is that of ``Gemma3nTextMLP`` in transformers, which has it at a sparsity of 0.95 in
the first ten layers, there with a GELU after it and in a gated network. Here it stands alone. The method is
the statistical top-k of Spark Transformer (2025, arXiv:2506.06644; its abstract was read, its equation not).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor, nn

from base.errors import UsageError
from base.options import Option
from ffn_variants.kernels.elementwise import elementwise
from ffn_variants.spec import FFNSpec


@dataclass(frozen=True)
class AboveThreshold:
    """What of each value is above its row's threshold.

    Attributes:
        deviations: z, how many deviations the threshold is above the mean.
    """

    deviations: float

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, F) inputs."""
        centred = x - x.mean(-1, keepdim=True)
        # A row of equal values has no deviation, and sqrt no slope at zero.
        variance = centred.square().mean(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
        return torch.relu(centred - self.deviations * variance.sqrt())


class GaussianTopK(nn.Module):
    """The activation; it has no parameters.

    Args:
        sparsity: Share of channels that is to be zero.

    Raises:
        UsageError: Unless it is between 0 and 1.
    """

    def __init__(self, sparsity: float = 0.95):
        super().__init__()
        if not 0 < sparsity < 1:
            raise UsageError(f"'gaussian-topk' option sparsity must be between 0 and 1, got {sparsity:g}")
        self.function = AboveThreshold(NormalDist().inv_cdf(sparsity))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(self.function, x)


SPEC = FFNSpec(
    name="gaussian-topk",
    kind="activation",
    build=lambda _, sparsity: GaussianTopK(sparsity),
    formula="max(0, x - m - z s), m and s of a token's F values, z the quantile of the sparsity",
    reference="Gemma 3n, Google 2025 (transformers' Gemma3nTextMLP); Spark Transformer, arXiv:2506.06644",
    options={"sparsity": Option(default=0.95, help="share of channels that is to be zero, between 0 and 1")},
    multiply_adds=lambda d, f, **_: 2 * d * f,
    earlier_sources=("ea876dc63d25", "9b9595ccafb4", "362b80a81ffe"),
)
