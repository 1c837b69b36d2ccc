"""The package efficient-kan beside `kan`: one function, one set of weights; and what is said without it."""

from __future__ import annotations

import pytest
import torch

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, get_variant
from ffn_variants.variants.kan import EFFICIENT_INSTALLED

needs_package = pytest.mark.skipif(
    not EFFICIENT_INSTALLED, reason="the package efficient-kan is not installed"
)


@needs_package
@pytest.mark.parametrize(("grid_size", "spline_order"), [(5, 3), (3, 3), (4, 2)])
@pytest.mark.parametrize("direction", ["from the package", "to the package"])
def test_state_dicts_load_into_one_another_and_compute_the_same(grid_size, spline_order, direction):
    torch.manual_seed(0)
    options = {"grid_size": grid_size, "spline_order": spline_order}
    theirs, ours = (build_ffn(name, 12, 7, **options) for name in ("efficient-kan", "kan"))
    if direction == "from the package":
        ours.load_state_dict(theirs.state_dict())
    else:
        theirs.load_state_dict(ours.state_dict())
    x = (1.5 * torch.randn(4, 9, 12)).requires_grad_()
    outputs, gradients = [], []
    for ffn in (theirs, ours):
        y = ffn(x)
        gradients.append(torch.autograd.grad(y.square().sum(), [x, *ffn.parameters()]))
        outputs.append(y)
    torch.testing.assert_close(*outputs, atol=1e-6, rtol=1e-5)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=5e-6, rtol=5e-5)


@needs_package
def test_kan_draws_its_weights_as_the_package_does():
    from efficient_kan import KAN

    torch.manual_seed(1)
    theirs = KAN([6, 5, 6]).state_dict()
    torch.manual_seed(1)
    ours = build_ffn("kan", 6, 5).state_dict()
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(value, ours[key], atol=1e-6, rtol=1e-5)


@pytest.mark.skipif(EFFICIENT_INSTALLED, reason="the package efficient-kan is installed")
def test_without_the_package_the_error_says_where_to_get_it():
    assert "efficient-kan" not in FFN_VARIANTS
    with pytest.raises(UsageError, match=r"not on PyPI: pip install .*; 'kan' is the same function") as error:
        get_variant("efficient-kan")
    assert "\n" not in str(error.value)
