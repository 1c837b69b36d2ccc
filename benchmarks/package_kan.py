"""The KAN of the package efficient-kan as a variant of one's own: what `kan` is measured against.

It is the same function of the same weights as `kan`, and their state dicts load into one another, but it
takes several times the time and the memory. https://github.com/Blealtan/efficient-kan

pip install 'git+https://github.com/Blealtan/efficient-kan'
ffn-ablations train tiny --ffn benchmarks/package_kan.py:SPEC
"""

from __future__ import annotations

import torch
from efficient_kan import KAN  # type: ignore[missing-import]
from torch import nn

from base import kan_layers
from ffn_variants import FFNSpec
from ffn_variants.variants.kan import KANFFN


def build(hidden_size: int, intermediate_size: int, grid_size: int, spline_order: int) -> nn.Module:
    """Build the package's ``KAN([D, F, D])`` with the initial weights of `kan`.

    Args:
        hidden_size: D.
        intermediate_size: F.
        grid_size: Intervals of each spline's grid over [-1, 1].
        spline_order: Degree of the pieces.
    """
    device = torch.get_default_device()
    # Its constructor solves a least-squares problem, which the meta device of a loading model cannot.
    with torch.device("cpu" if device.type == "meta" else device), torch.random.fork_rng():
        layers = KAN([hidden_size, intermediate_size, hidden_size], grid_size, spline_order)
    if device.type != "meta":
        # The same draws, but its own solution differs in the last bits from one call to the next.
        layers.load_state_dict(KANFFN(hidden_size, intermediate_size, grid_size, spline_order).state_dict())
    return layers.to(device)


SPEC = FFNSpec(
    name="efficient-kan",
    kind="block",
    build=build,
    formula="as kan, in the code of the package efficient-kan",
    reference="Blealtan/efficient-kan",
    options=kan_layers.KAN.options,
    multiply_adds=lambda d, f, grid_size, spline_order: 2 * d * f * (grid_size + spline_order + 1),
)
