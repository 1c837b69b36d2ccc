"""The package efficient-kan beside `kan`: one function, one set of weights."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from ffn_variants import build_ffn, load_variant

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("efficient_kan") is None, reason="the package efficient-kan is not installed"
    ),
    pytest.mark.usefixtures("own_variants"),
]


@pytest.mark.parametrize(("grid_size", "spline_order"), [(5, 3), (4, 2)])
def test_its_state_dict_loads_and_computes_the_same(repository, grid_size, spline_order):
    load_variant(f"{repository}/benchmarks/package_kan.py:SPEC")
    torch.manual_seed(0)
    options = {"grid_size": grid_size, "spline_order": spline_order}
    theirs, ours = (build_ffn(name, 12, 7, **options) for name in ("efficient-kan", "kan"))
    ours.load_state_dict(theirs.state_dict())
    x = (1.5 * torch.randn(4, 9, 12)).requires_grad_()
    outputs, gradients = [], []
    for ffn in (theirs, ours):
        y = ffn(x)
        gradients.append(torch.autograd.grad(y.square().sum(), [x, *ffn.parameters()]))
        outputs.append(y)
    torch.testing.assert_close(*outputs, atol=1e-6, rtol=1e-5)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=5e-6, rtol=5e-5)


def test_kan_draws_its_weights_as_the_package_does():
    from efficient_kan import KAN

    torch.manual_seed(1)
    theirs = KAN([6, 5, 6]).state_dict()
    torch.manual_seed(1)
    ours = build_ffn("kan", 6, 5).state_dict()
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(value, ours[key], atol=1e-6, rtol=1e-5)
