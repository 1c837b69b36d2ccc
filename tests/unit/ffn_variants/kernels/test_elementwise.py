"""Elementwise functions and sums over edges, in blocks: their gradients, and what is kept for them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ffn_variants.kernels import elementwise as module
from ffn_variants.kernels.elementwise import edge_sums, elementwise
from ffn_variants.kernels.operations import name_of


def wave(x, scale, phases):
    """scale: (C,); phases: (3, C)."""
    return scale * x + (phases + x.unsqueeze(1)).sin().sum(1)


def tensors(rows=11, channels=4, dtype=torch.float64):
    torch.manual_seed(0)
    shapes = ((rows, channels), (channels,), (3, channels))
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def gradients(function, *inputs):
    y = function(*inputs)
    wanted = [t for t in inputs if t.requires_grad]
    return y, *torch.autograd.grad(y, wanted, torch.linspace(-1, 2, y.numel()).to(y).view_as(y))


def assert_same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


def in_blocks(*inputs):
    return elementwise(wave, *inputs)


@given(rows=st.integers(0, 30), channels=st.integers(1, 5), room=st.integers(1, 100))
def test_any_cut_into_blocks_gives_the_gradients_of_autograd(rows, channels, room):
    inputs = tensors(rows, channels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_NUMBERS", {"cpu": room})
        assert_same(gradients(in_blocks, *inputs), gradients(wave, *inputs))


def gate(x, scale):
    """Twice the channels of its result; scale: (C / 2,)."""
    left, right = x.chunk(2, 1)
    return (scale * left).sin() * right


@pytest.mark.parametrize(
    ("rows", "compiled"), [(0, False), (7, False), pytest.param(7, True, marks=pytest.mark.ci)]
)
def test_a_result_may_have_other_channels(rows, compiled):
    x, scale, _ = tensors(rows, 6)
    inputs = x, scale[:3].detach().requires_grad_()
    call = torch.compile(elementwise, fullgraph=True) if compiled else elementwise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_NUMBERS", {"cpu": 12})
        found = gradients(lambda *each: call(gate, *each), *inputs)
    assert found[0].shape == (rows, 3)
    assert_same(found, gradients(gate, *inputs))


@pytest.mark.parametrize("fixed", [(0,), (1, 2)])
def test_inputs_that_take_no_gradient_change_nothing_for_the_others(fixed):
    inputs = tensors()
    for i in fixed:
        inputs[i].requires_grad_(False)
    assert_same(gradients(in_blocks, *inputs), gradients(wave, *inputs))


def test_any_batch_shape_keeps_its_shape():
    _, *parameters = tensors()
    for shape in ((4,), (2, 3, 4), (2, 0, 4)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = in_blocks(x, *parameters)
        assert y.shape == x.shape
        torch.testing.assert_close(y.reshape(-1, 4), wave(x.reshape(-1, 4), *parameters))
        y.sum().backward()
        assert x.grad.shape == x.shape


def test_x_and_the_parameters_alone_are_kept_for_the_backward_pass():
    inputs = tensors(rows=100)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):
        in_blocks(*inputs)
    assert [t.shape for t in kept] == [t.shape for t in inputs]


def test_a_second_derivative_is_an_error_and_not_a_wrong_number():
    inputs = tensors()
    (gradient,) = torch.autograd.grad(in_blocks(*inputs).square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_narrow_dtypes_are_computed_and_summed_in_float32():
    x = torch.ones(4096, 2, dtype=torch.bfloat16, requires_grad=True)
    scale = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    phases = torch.zeros(3, 2, dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_NUMBERS", {"cpu": 64})
        y = elementwise(wave, x, scale, phases)
        y.backward(torch.ones_like(y))
    assert y.dtype == x.grad.dtype == scale.grad.dtype == torch.bfloat16
    # A sum kept in bf16 would stop at 256.
    assert (scale.grad == 4096).all()
    expected = 1 + 3 * torch.ones(()).sin()
    torch.testing.assert_close(y.float(), expected.expand(4096, 2), rtol=4e-3, atol=0)


def waves(x, weight, phase):
    return (weight * (x.unsqueeze(1) + phase).sin()).sum(-1)


NAME = name_of(waves)


def sums_and_gradients(x, *parameters):
    x, *parameters = (t.clone().requires_grad_() for t in (x, *parameters))
    y = edge_sums(waves, x, *parameters)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *parameters])]


@pytest.mark.parametrize("shape", [(3,), (0, 3), (7, 3), (2, 5, 3)])
def test_edge_sums_take_any_number_of_rows_in_any_number_of_blocks(shape, monkeypatch):
    torch.manual_seed(0)
    x, weight, phase = (torch.randn(s, dtype=torch.float64) for s in (shape, (4, 3), (4, 3)))
    whole = sums_and_gradients(x, weight, phase)
    assert whole[0].shape == (*shape[:-1], 4)
    torch.testing.assert_close(whole[0], (weight * (x.unsqueeze(-2) + phase).sin()).sum(-1))
    for numbers in (1, 24):  # a row in each block; two
        monkeypatch.setattr(module, "EDGE_BLOCK_NUMBERS", {"cpu": numbers})
        for a, b in zip(sums_and_gradients(x, weight, phase), whole, strict=True):
            torch.testing.assert_close(a, b)


def test_bf16_edge_sums_over_blocks_are_in_float32(monkeypatch, error):
    torch.manual_seed(1)
    tensors = [torch.randn(s).bfloat16() for s in ((500, 3), (4, 3), (4, 3))]
    exact = sums_and_gradients(*(t.double() for t in tensors))
    monkeypatch.setattr(module, "EDGE_BLOCK_NUMBERS", {"cpu": 12})
    for a, b in zip(sums_and_gradients(*tensors), exact, strict=True):
        assert a.dtype == torch.bfloat16
        assert error(a, b) < 1e-2


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_the_operation_of_edge_sums_agrees_with_finite_differences(rows):
    torch.manual_seed(2)
    shapes = ((rows, 3), (2, 3), (2, 3))
    x, weight, phase = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    assert torch.autograd.gradcheck(
        lambda x, *p: module._operation(x, list(p), NAME, "", True), (x, weight, phase)
    )
