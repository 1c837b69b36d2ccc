"""Feature splines at the start."""

import pytest
import torch

from ffn_variants import build_ffn
from ffn_variants.variants.spline_kan import INITIAL_RMS, PRE_ACTIVATION_STD, SplineActivation


def test_no_feature_reaches_another_and_the_inner_width_has_no_effect():
    torch.manual_seed(1)
    ffn = build_ffn("spline-kan", 6, 7)
    jacobian = torch.autograd.functional.jacobian(ffn, torch.randn(6))
    assert not (jacobian - torch.diag(jacobian.diagonal())).any()
    shapes = [p.shape for p in ffn.parameters()]
    assert shapes == [p.shape for p in build_ffn("spline-kan", 6, 700).parameters()]


def test_initial_outputs_are_small_for_normalised_inputs():
    torch.manual_seed(2)
    ffn = build_ffn("spline-kan", 512, 1)
    x = torch.randn(2048, 512)
    assert abs(ffn.input_splines(x).square().mean().sqrt().item() / INITIAL_RMS - 1) < 0.1
    y = ffn(x)
    assert 0.03 < y.square().mean().sqrt() < 0.2
    assert y.abs().max() < 50


def test_the_published_initialisation_is_normal_and_its_outputs_are_huge():
    """The post: knots and coefs = randn(10, 1) of every feature."""
    torch.manual_seed(2)
    ffn = build_ffn("spline-kan", 512, 1, initialisation="published")
    for splines in (ffn.input_splines, ffn.output_splines):
        for drawn in (splines.knots, splines.coefficients):
            assert abs(drawn.mean()) < 0.05
            assert abs(drawn.std() - 1) < 0.05
    y = ffn(torch.randn(4096, 512)).detach()
    assert y.square().mean().sqrt() > 1e5
    assert y.abs().median() < 5


@pytest.mark.parametrize("num_knots", [4, 30])
def test_activation_starts_with_curves_through_zero_of_gelus_size(num_knots):
    torch.manual_seed(4)
    x = torch.randn(5_000) * PRE_ACTIVATION_STD
    splines = SplineActivation(400, num_knots)
    y = splines(x.unsqueeze(1).expand(-1, 400)).detach()
    wanted = torch.nn.functional.gelu(x).square().mean().sqrt()
    assert abs(y.square().mean().sqrt() / wanted - 1) < 0.1
    assert splines(torch.zeros(1, 400)).abs().max() < 1e-5
    assert y.std(0).square().mean().sqrt() > 0.8 * wanted  # and so says something of the token
