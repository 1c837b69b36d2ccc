"""`no-ffn`: no feed-forward network at all, the floor under all others; the layer is its attention."""

from __future__ import annotations

from torch import Tensor, nn

from ffn_variants.spec import FFNSpec


class NoFFN(nn.Module):
    """Zeros in place of the whole feed-forward network, which the layer's residual connection goes past."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0  # a gradient of zeros is one; and what is not finite upstream shows


SPEC = FFNSpec(
    name="no-ffn",
    kind="block",
    build=lambda d, f: NoFFN(),
    formula="0: attention alone, no parameters; ignores F",
    reference="control: the floor",
    multiply_adds=lambda d, f: 0,
)
