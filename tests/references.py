"""Formulas in numpy's float64 that several tests of FFN variants compare with."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import BSpline, PPoly


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU by its approximation with tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def scipy_bases(x: np.ndarray, knots: np.ndarray, order: int, derivative: int = 0) -> np.ndarray:
    """Evaluate (N, I) inputs to (N, I, G + K) B-splines on (I, knots), each zero outside its own knots."""
    out = np.zeros((*x.shape, knots.shape[1] - order - 1))
    for i, c in np.ndindex(x.shape[1], out.shape[-1]):
        own = knots[i, c : c + order + 2]
        spline = BSpline.basis_element(own, extrapolate=True)
        # By way of polynomials, as BSpline.derivative refuses knots that coincide.
        curve = PPoly.from_spline(spline).derivative(derivative) if derivative else spline
        out[:, i, c] = np.where((x[:, i] >= own[0]) & (x[:, i] < own[-1]), curve(x[:, i]), 0)
    return out
