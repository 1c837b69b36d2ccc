"""What several tests of FFN variants compare with: formulas in numpy's float64, and gradients by autograd."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.interpolate import BSpline, PPoly
from torch import Tensor, nn
from transformers import PreTrainedModel

from ffn_variants.models.layers import ffn_modules


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU by its approximation with tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rational(x, numerator, denominator):
    """P / (1 + |A|), by numpy's polynomials of one group after the other."""
    y = np.empty_like(x)
    groups = np.split(np.arange(x.shape[-1]), len(denominator))
    for channels, a, b in zip(groups, numerator, denominator, strict=True):
        part = x[..., channels]
        y[..., channels] = np.polyval(a[::-1], part) / (1 + np.abs(np.polyval([*b[::-1], 0], part)))
    return y


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


def packed_documents(input_ids: np.ndarray, position_ids: np.ndarray, pad: int) -> list[list[int]]:
    """Documents of packed rows, found by walking over them."""
    found: list[list[int]] = []
    for token, position in zip(input_ids.ravel().tolist(), position_ids.ravel().tolist(), strict=True):
        if token == pad:
            continue
        if position == 0:
            found.append([])
        assert position == len(found[-1])
        found[-1].append(token)
    return found


def outputs_and_gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The output of a module, and the gradients of its squares: of the input and of every parameter."""
    x = x.clone().requires_grad_()
    y = module(x)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *module.parameters()])]


def gradients(function: Callable[..., Tensor], *inputs: Any) -> list[Tensor]:
    """The output of a function, and the gradients of all inputs that take one."""
    y = function(*inputs)
    wanted = [each for each in inputs if isinstance(each, Tensor) and each.requires_grad]
    return [y, *torch.autograd.grad(y, wanted, torch.linspace(-1, 2, y.numel()).to(y).view_as(y))]


def assert_same(found: Any, wanted: Any) -> None:
    """Tensors are equal up to the rounding of float64."""
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


def assert_same_scores(found: Any, expected: Any) -> None:
    """Log-likelihoods of texts within 1e-4 nats."""
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.is_greedy, expected.is_greedy)


def count_parameters(model: PreTrainedModel) -> dict[str, int]:
    """Count a model's parameters, tied ones once.

    Returns:
        ``total`` and its three parts: ``ffn`` (all layers), ``embedding`` (token, position and segment
        tables) and ``other``.
    """
    total = sum(p.numel() for p in model.parameters())
    ffn = sum(
        p.numel() for module in model.modules() for part in ffn_modules(module) for p in part.parameters()
    )
    tables = {m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
    embedding = sum(table.numel() for table in tables)
    return {"total": total, "ffn": ffn, "embedding": embedding, "other": total - ffn - embedding}
