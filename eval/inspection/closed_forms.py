"""Which closed form an edge is closest to, of a small library, on the inputs that occur.

A form is a family of linear spaces of functions, one a parameter, such as span(sin az, cos az) for every a.
Its R^2 on an edge is the largest share of the edge's variance that one of those spaces holds. The name of an
edge is that of the form with the fewest parameters among those that reach ``GOOD``, and of equal ones the
best; an edge that none reaches has none.

With enough parameters everything fits: what share of random functions of the same basis gets a name is the
control, and stands beside it.

Shapes: E edges, Q points, of one input each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ffn_variants.inside.edges import Edges

GOOD = 0.99
NUM_POINTS = 64
INPUTS, TOGETHER = 64, 16
"""Inputs, and spaces of a form, at a time."""
NO_FORM = "none of these"

_RATES = torch.logspace(-0.5, 1.0, 36, dtype=torch.float64)
_PLACES = torch.linspace(-2.0, 2.0, 25, dtype=torch.float64)
_WIDTHS = torch.logspace(-0.4, 0.5, 21, dtype=torch.float64)
_STEP = 0.12
"""Between the places that are tried of a bump, in its widths."""


@dataclass(frozen=True)
class Form:
    """One closed form.

    Attributes:
        name: For a reader.
        formula: In plain text.
        parameters: How many numbers it takes, those of the linear space included.
        spaces: From (I, Q) coordinates in units of their spread, and that spread (I, 1), to a list of
            (I, Q, r) functions, one entry a parameter.
    """

    name: str
    formula: str
    parameters: int
    spaces: Callable[[Tensor, Tensor], Sequence[Tensor]]


def _sines(z: Tensor, unit: Tensor) -> list[Tensor]:
    # Whole frequencies of the coordinate itself, too: those of a Fourier basis are exact then.
    rates = [*_RATES, *(k * unit for k in range(1, 9))]
    return [torch.stack([(rate * z).sin(), (rate * z).cos()], 2) for rate in rates]


def _each(function: Callable[[Tensor], Tensor], rates: Tensor, places: Tensor) -> Callable[..., list[Tensor]]:
    return lambda z, _: [function(rate * (z - place)).unsqueeze(2) for rate in rates for place in places]


def _bumps(z: Tensor, _: Tensor) -> list[Tensor]:
    spaces = []
    for rate in _WIDTHS.tolist():
        for place in torch.linspace(-2, 2, 1 + math.ceil(4 * rate / _STEP), dtype=torch.float64):
            spaces.append(torch.exp(-((rate * (z - place)) ** 2)).unsqueeze(2))
    return spaces


def _powers(degree: int) -> Callable[..., list[Tensor]]:
    return lambda z, _: [torch.stack([z**k for k in range(1, degree + 1)], 2)]


FORMS = (
    Form("line", "a z + b", 2, _powers(1)),
    Form("parabola", "a z^2 + b z + c", 3, _powers(2)),
    Form("cubic", "a z^3 + b z^2 + c z + d", 4, _powers(3)),
    Form("exponential", "a exp(k z) + b", 3,
         lambda z, _: [torch.exp(s * r * z).unsqueeze(2) for r in _RATES[:24] for s in (-1, 1)]),
    Form("sine", "a sin(k z + p) + b", 4, _sines),
    Form("tanh", "a tanh(k (z - p)) + b", 4, _each(torch.tanh, _RATES[::3], _PLACES)),
    Form("bump", "a exp(-k (z - p)^2) + b", 4, _bumps),
    Form("hinge", "a z + b relu(z - p) + c", 4,
         lambda z, _: [torch.stack([z, torch.relu(z - place)], 2) for place in _PLACES]),
)  # fmt: skip


@dataclass(frozen=True)
class Fits:
    """How well every form fits every edge.

    Attributes:
        r2: (O, I, forms) R^2; NaN for an edge that does not move on its inputs.
    """

    r2: Tensor

    @property
    def names(self) -> Tensor:
        """(O, I) number of the form that names an edge; ``len(FORMS)`` for none, -1 without movement."""
        parameters = torch.tensor([form.parameters for form in FORMS], dtype=torch.float64)
        # Fewer parameters first; R^2, below 1, decides among equal ones.
        rank = torch.where(self.r2 >= GOOD, self.r2 - 2 * parameters, -torch.inf)
        named = torch.where((self.r2 >= GOOD).any(-1), rank.argmax(-1), len(FORMS))
        return torch.where(self.r2.isnan().any(-1), -1, named)

    @property
    def best(self) -> Tensor:
        """(O, I) the highest R^2 of any form."""
        return self.r2.nan_to_num(0).max(-1).values

    def shares(self, activity: Tensor) -> dict[str, float]:
        """Share of the edges' variance by name, (O, I) activities given."""
        weight = activity.double().square() * (self.names >= 0)
        total = float(weight.sum()) or 1.0
        names = [*(form.name for form in FORMS), NO_FORM]
        return {name: float(weight[self.names == k].sum()) / total for k, name in enumerate(names)}


@torch.no_grad()
def fit_forms(edges: Edges, coordinates: Tensor) -> Fits:
    """Fit every form to every edge of a layer.

    Args:
        edges: Of the layer.
        coordinates: (N, I) coordinates that occur; each input's own quantiles are the points of its edges.
    """
    points = own_points(coordinates)
    weight = edges.weight[:, : edges.num_curves].double()
    basis = edges.basis(points.to(edges.weight.dtype).contiguous()).double()  # (Q, K, I)
    parts = []
    for start in range(0, points.shape[1], INPUTS):
        chosen = slice(start, start + INPUTS)
        curves = torch.einsum("qki,oki->ioq", basis[:, :, chosen], weight[:, :, chosen])
        curves = curves - curves.mean(2, keepdim=True)
        size = curves.norm(dim=2, keepdim=True)
        flat = size <= 1e-9 * size.max().clamp(min=1e-300)
        unit = torch.where(flat, torch.nan, curves / size.clamp(min=1e-300))
        parts.append(_r2(unit, points[:, chosen].t()))
    return Fits(torch.cat(parts).transpose(0, 1))


def own_points(coordinates: Tensor, count: int = NUM_POINTS) -> Tensor:
    """(Q, I) quantiles of each input alone."""
    levels = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    ordered = coordinates.double().sort(0).values
    return ordered[(levels * (len(ordered) - 1)).round().long()]


def _r2(curves: Tensor, points: Tensor) -> Tensor:
    """(I, O, Q) curves of mean 0 and length 1 at (I, Q) points to (I, O, forms)."""
    middle, spread = points.mean(1, keepdim=True), points.std(1, keepdim=True).clamp(min=1e-12)
    z = (points - middle) / spread
    results, drawn = [], curves.float()
    for form in FORMS:
        best = torch.full(curves.shape[:2], -torch.inf)
        spaces = form.spaces(z, spread)
        for start in range(0, len(spaces), TOGETHER):
            several = torch.stack(list(spaces[start : start + TOGETHER]), 1)  # (I, S, Q, r)
            basis = _orthonormal(several - several.mean(2, keepdim=True)).float()
            shares = torch.einsum("ioq,isqr->iosr", drawn, basis).square().sum(3)
            best = torch.maximum(best, shares.max(2).values)
        results.append(torch.where(curves.isnan().any(2), torch.nan, best.double().clamp(0, 1)))
    return torch.stack(results, -1)


def _orthonormal(spaces: Tensor) -> Tensor:
    """An orthonormal basis of the columns of (..., Q, r); a column that the others span becomes zero."""
    columns = spaces / spaces.norm(dim=-2, keepdim=True).clamp(min=1e-300)
    kept: list[Tensor] = []
    for k in range(columns.shape[-1]):
        column = columns[..., k]
        for _ in range(2):  # twice is enough
            for other in kept:
                column = column - (column * other).sum(-1, keepdim=True) * other
        size = column.norm(dim=-1, keepdim=True)
        kept.append(torch.where(size > 1e-7, column / size.clamp(min=1e-300), 0.0))
    return torch.stack(kept, -1)
