"""The examples' formulas, in plain numpy, and against transformers where it has the same function."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.activations import XIELUActivation

from ffn_variants import load_variant

pytestmark = pytest.mark.usefixtures("own_variants")
EXAMPLES = Path(__file__).parents[2] / "examples"
X = np.concatenate([np.linspace(-30, 30, 241), [-1e-3, 1e-3, 0.0]])


def test_xielu_is_the_papers_formula_and_transformers() -> None:
    spec = load_variant(f"{EXAMPLES / 'xielu.py'}:XIELU")
    module = spec.build(4, **spec.resolve(None)).double()
    with torch.no_grad():
        got = module(torch.from_numpy(X)).numpy()
        stock = XIELUActivation(dtype=torch.float64)(torch.from_numpy(X)).numpy()
    # alpha_p = alpha_n = 0.8 and beta = 0.5, where both begin.
    expected = np.where(X > 0, 0.8 * X * X + 0.5 * X, 0.8 * (np.expm1(np.minimum(X, 0)) - X) + 0.5 * X)
    np.testing.assert_allclose(got, expected, atol=1e-6, rtol=1e-6)  # the parameters are drawn in float32
    np.testing.assert_allclose(got, stock, atol=2e-6, rtol=1e-6)  # eps = -1e-6 there


def test_channel_elu_has_an_alpha_for_each_channel() -> None:
    spec = load_variant(f"{EXAMPLES / 'channel_elu.py'}:CHANNEL_ELU")
    module = spec.build(3, **spec.resolve({"init": 1.5})).double()
    alpha = np.array([0.25, 1.0, 2.0])
    x = X[:, None].repeat(3, 1)
    with torch.no_grad():
        first = module(torch.from_numpy(x)).numpy()
        module.alpha.copy_(torch.from_numpy(alpha))
        second = module(torch.from_numpy(x)).numpy()
    for got, a in ((first, 1.5), (second, alpha)):
        np.testing.assert_allclose(got, np.where(x > 0, x, a * (np.exp(np.minimum(x, 0)) - 1)), atol=1e-12)


def test_gated_square_is_its_formula_and_counts_its_products() -> None:
    spec = load_variant(f"{EXAMPLES / 'gated_square.py'}:GatedSquare")
    module = spec.build(3, 5).double()
    x = X[:, None] * np.array([1.0, -2.0, 0.5])
    gate, up, down = (each.detach().numpy() for each in module.parameters())
    with torch.no_grad():
        got = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, (np.maximum(x @ gate.T, 0) ** 2 * (x @ up.T)) @ down.T, atol=1e-9)
    assert spec.multiply_adds(3, 5) == spec.num_params(3, 5) == 3 * 3 * 5
