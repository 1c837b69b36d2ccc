"""Knots of ``FeatureSplines`` that follow the data, are refitted, and go where not needed.

An optimizer's step is the same for every knot and coefficient, so curves must not come to depend on large
coefficients that cancel, or on knots far out, whose powers are large: one step would then destroy them. So
knots stay within their range, and a fit that takes larger coefficients must be worth them.

Shapes: N rows, D features, C knots of each.
"""

from __future__ import annotations

import torch
from torch import Tensor

TAIL = 0.025
"""Share of inputs left out at either end of the quantiles."""
POLYNOMIAL = 4
"""Knots above the inputs that count: four span all cubic polynomials, a fifth adds nothing."""
RIDGE = 1e-3
"""Of a curve's spread: an error that counts as much as coefficients of the length that they had before."""


def quantile_knots(x: Tensor, knots: Tensor) -> Tensor:
    """Place each feature's knots by its inputs.

    The lowest four of the knots above the inputs stay: there the curve ends, and on the inputs they are its
    polynomial. All others go to evenly spaced quantiles of the inputs between the outermost knots.

    Args:
        x: (N, D) inputs; those that are not finite are left out.
        knots: (D, C) present knots, kept by a feature without inputs between them, or with one value alone.

    Returns:
        (D, C) knots, increasing where they have moved, in float64 on the CPU.
    """
    # Ten knots from -2 to 2 and inputs from -1 to 1: the knots 1.1, 1.6 and 2 stay, being the lowest four
    # above the inputs, or all that there are; the other seven go to even quantiles of the inputs.
    new = knots.to("cpu", torch.float64, copy=True)
    for row, column in zip(new, x.double().cpu().t(), strict=True):
        column = column[(column >= row.min()) & (column <= row.max())]
        if len(column) < 2 or column.quantile(TAIL) == column.quantile(1 - TAIL):
            continue
        ordered = row.sort().values
        above = ordered[ordered > column.quantile(1 - TAIL)][:POLYNOMIAL]
        movable = len(row) - len(above)
        levels = torch.linspace(TAIL, 1 - TAIL, movable + (len(above) > 0), dtype=column.dtype)[:movable]
        row.copy_(torch.cat([column.quantile(levels), above]))
    return new


def refitted(x: Tensor, coefficients: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Fit the curves on the new knots to those on the old, at the inputs, by least squares.

    Args:
        x: (N, D) inputs; those that are not finite are left out.
        coefficients: (D, C) on the old knots.
        old: (D, C) knots.
        new: (D, C) knots.

    Returns:
        (D, C) coefficients on the new knots, in float64 on the CPU; the old ones where no knot has moved.
    """
    both, coefficients = torch.cat([new, old], 1).double().cpu(), coefficients.double().cpu()
    triangles = _triangles(x, both)
    count = new.shape[1]
    targets = (triangles[:, :, count:] @ coefficients.unsqueeze(-1)).squeeze(-1)
    ridge = _ridge(_deviations(x, old.double().cpu(), coefficients), coefficients)
    solved = _solve(triangles[:, :, :count], targets, ridge)
    return torch.where((new == old).all(1, keepdim=True).cpu(), coefficients, solved)


def eliminated(
    x: Tensor, knots: Tensor, coefficients: Tensor, mask: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Take out knots one by one, each time the one that the others make up for best.

    Args:
        x: (N, D) inputs; those that are not finite are left out.
        knots: (D, C).
        coefficients: (D, C), zero where the mask is false.
        mask: (D, C), false for knots that were taken out before.
        threshold: Of a curve's standard deviation over the inputs; by so much, as a root mean square, may it
            change in all.

    Returns:
        (D, C) mask of the knots that stay, and (D, C) refitted coefficients in float64, zero where not.
    """
    coefficients, mask = coefficients.double().cpu(), mask.to("cpu", copy=True)
    triangles = _triangles(x, knots.double().cpu())
    targets = (triangles @ coefficients.unsqueeze(-1)).squeeze(-1)
    deviations = _deviations(x, knots.double().cpu(), coefficients)
    limits, ridge = threshold * deviations, _ridge(deviations, coefficients)
    limits[~x.isfinite().any(0).cpu()] = -1  # nothing is known of a feature without inputs
    # Row k of this matrix leaves out knot k, so that one batch of fits tries every knot of every feature.
    without_one = ~torch.eye(mask.shape[1], dtype=torch.bool)
    rows = torch.arange(len(mask))
    for _ in range(mask.shape[1]):
        trials = mask.unsqueeze(1) & without_one
        columns = triangles.unsqueeze(1) * trials.unsqueeze(2)
        values = targets.unsqueeze(1).expand(trials.shape)
        solutions = _solve(columns, values, ridge.unsqueeze(1).expand(mask.shape)) * trials
        errors = ((columns @ solutions.unsqueeze(-1)).squeeze(-1) - values).norm(dim=-1)
        errors[~mask] = torch.inf
        best = errors.argmin(1)
        fits = errors[rows, best] <= limits
        if not fits.any():
            break
        mask[fits] = trials[rows, best][fits]
        coefficients = torch.where(fits.unsqueeze(1), solutions[rows, best], coefficients)
    return mask, coefficients * mask


def _powers(column: Tensor, knots: Tensor) -> Tensor:
    """(N, C) truncated powers of the finite inputs of one feature."""
    return torch.relu(knots - column[column.isfinite()].unsqueeze(1)) ** 3


def _triangles(x: Tensor, knots: Tensor) -> Tensor:
    """(D, C, C) triangles R of QR: for all that a least-squares problem asks, they are the (N, C) powers."""
    count = knots.shape[1]
    triangles = [
        torch.linalg.qr(_powers(column, row), mode="r").R
        for column, row in zip(x.double().cpu().t(), knots, strict=True)
    ]
    # With fewer inputs than knots there are fewer rows.
    return torch.stack([torch.cat([r, r.new_zeros(count - len(r), count)]) for r in triangles])


def _deviations(x: Tensor, knots: Tensor, coefficients: Tensor) -> Tensor:
    """(D,) root sums of squares of the curves over the inputs, less their means."""
    columns = zip(x.double().cpu().t(), knots, coefficients, strict=True)
    values = [_powers(column, row) @ c for column, row, c in columns]
    return torch.stack([(v - v.mean()).norm() if len(v) else v.new_zeros(()) for v in values])


def _ridge(deviations: Tensor, coefficients: Tensor) -> Tensor:
    """(D,) factors of the new coefficients in what is minimised beside the errors."""
    lengths = coefficients.norm(dim=1)
    return torch.where(lengths > 0, RIDGE * deviations / lengths, 0)


def _solve(columns: Tensor, targets: Tensor, ridge: Tensor) -> Tensor:
    """(..., C) ridge solutions, by columns (..., R, C), targets (..., R) and factors (...)."""
    # A ridge is least squares with C more rows, which ask each coefficient to be 0, weighed by the factor.
    penalties = ridge[..., None, None] * torch.eye(columns.shape[-1], dtype=columns.dtype)
    rows = torch.cat([columns, penalties.expand(*columns.shape[:-2], -1, -1)], -2)
    values = torch.cat([targets, targets.new_zeros(penalties.shape[:-1])], -1).unsqueeze(-1)
    # gelsd also solves what has no inputs, and so neither errors nor a ridge.
    return torch.linalg.lstsq(rows, values, driver="gelsd").solution.squeeze(-1)
