"""ELU whose alpha every channel learns for itself: a variant in a file of its own, with one option.

python pretrain/train.py configs/tiny.yaml --ffn examples/channel_elu.py:CHANNEL_ELU
"""

import torch
from torch import Tensor, nn

from ffn_variants import FFNSpec, Option


class ChannelELU(nn.Module):
    """x for x > 0, alpha (e^x - 1) elsewhere, with an alpha for each of the last dimension's channels."""

    def __init__(self, num_channels: int, init: float):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((num_channels,), init))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, self.alpha.to(x.dtype) * torch.expm1(x.clamp(max=0)))


CHANNEL_ELU = FFNSpec(
    name="channel-elu",
    kind="activation",
    build=lambda intermediate_size, init: ChannelELU(intermediate_size, init),
    formula="x for x > 0, a (e^x - 1) elsewhere; a learned for each channel",
    reference="after Clevert et al. 2016, arXiv:1511.07289",
    options={"init": Option(default=1.0, help="initial a of every channel")},
    multiply_adds=lambda d, f, **_: 2 * d * f,
)
