"""What every layer of learnable splines offers to a training loop: knots that move, a penalty, pruning.

Shapes: N rows, C coefficients of a curve.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from base.errors import UsageError
from base.options import Option

SPLINES_OPTION = Option(
    default="dense", choices=("dense", "sparse"), help="sparse: coefficients can be pruned"
)
"""``splines`` of every variant that has such layers."""


class SplineLayer(nn.Module):
    """A layer whose curves are sums of C basis functions.

    Attributes:
        mask: Shaped like the coefficients, false where they are pruned; None in a dense layer. A persistent
            buffer, so that a saved layer is pruned as it was.
    """

    mask: Tensor | None

    def make_mask(self, coefficients: Tensor, splines: str) -> None:
        """Register the mask of a ``"sparse"`` layer; a ``"dense"`` one stays without, as in older files."""
        mask = torch.ones_like(coefficients, dtype=torch.bool) if splines == "sparse" else None
        self.register_buffer("mask", mask)

    def curve_coefficients(self) -> Tensor:
        """(..., C) coefficients as the layer uses them, with zeros where they are pruned."""
        raise NotImplementedError

    def update_grid(self, x: Tensor) -> None:
        """Move the knots to where the inputs are, and refit the curves, so that the function stays.

        Args:
            x: (..., features) typical inputs; values that are not finite are left out.

        Raises:
            UsageError: If coefficients are pruned already, which belong to the knots.
        """
        raise NotImplementedError

    def prune(self, x: Tensor, threshold: float) -> None:
        """Set negligible coefficients to zero for good.

        Args:
            x: (..., features) typical inputs.
            threshold: Each output may change by so much of its standard deviation over the inputs, as a root
                mean square.

        Raises:
            UsageError: If the layer is dense.
        """
        raise NotImplementedError

    def check_unpruned(self) -> None:
        """Refuse to move the knots of pruned curves."""
        if self.mask is not None and not self.mask.all():
            raise UsageError("knots cannot be moved after coefficients were pruned; move them before")

    def needed_mask(self) -> Tensor:
        """The mask, where the layer has one."""
        if self.mask is None:
            raise UsageError("a dense spline layer cannot be pruned; build it with splines='sparse'")
        return self.mask


def spline_layers(model: nn.Module) -> list[SplineLayer]:
    """All spline layers of a model, in the order of its modules."""
    return [module for module in model.modules() if isinstance(module, SplineLayer)]


def sparsity_penalty(layer: SplineLayer) -> Tensor:
    """L1 norm of a layer's curves and entropy of its shares among them (Liu et al. 2024, section 2.5).

    As efficient-kan does, the norm of a curve is the mean size of its coefficients, which needs no inputs. In
    `spline-kan` they are the jumps of the third derivative over 6, so that the norm is its total variation
    (Mammen and van de Geer 1997). efficient-kan's curves are those before their scaler, ours those after it.

    Returns:
        The sum of both, a scalar in float32 at least, with equal weights as in the paper.
    """
    coefficients = layer.curve_coefficients()
    norms = coefficients.to(torch.promote_types(coefficients.dtype, torch.float32)).abs().mean(-1).flatten()
    tiny = torch.finfo(norms.dtype).tiny
    total = norms.sum()
    shares = (norms / total.clamp(min=tiny)).clamp(min=1e-12)  # the slope of -p log p at zero is infinite
    return total + torch.special.entr(shares).sum()


STEPS = 16


def largest_levels(change: Callable[[Tensor], Tensor], num_outputs: int, threshold: float) -> Tensor:
    """Search, for each output by itself, for the largest level that changes it by no more than a threshold.

    Args:
        change: From (outputs,) levels, below which terms are left out, to (outputs,) changes.
        num_outputs: Outputs.
        threshold: Largest change allowed. No level is larger: one term alone may be all of the change.

    Returns:
        (outputs,) levels whose changes were all seen to be allowed; at 0, nothing but zeros is left out.
    """
    high = torch.full((num_outputs,), threshold, dtype=torch.float64)
    low = high * 1e-6
    safe = torch.zeros_like(high)
    for _ in range(STEPS):
        middle = (low * high).sqrt()
        allowed = change(middle).to(safe) <= threshold
        safe = torch.where(allowed, middle, safe)
        low, high = torch.where(allowed, middle, low), torch.where(allowed, high, middle)
    return safe
