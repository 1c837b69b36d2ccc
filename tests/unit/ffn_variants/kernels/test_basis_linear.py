"""The layer on fixed functions: its gradients, what it keeps for them, and its blocks of rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ffn_variants.kernels import basis_linear as module
from ffn_variants.kernels.basis_linear import basis_linear
from ffn_variants.variants.series_kan import FourierBasis


def powers(x, *constants):
    """A basis with a constant for each input: c_i x_i, sin(x_i), (c_i x_i)^2."""
    scaled = x * constants[0] if constants else x
    return torch.stack([scaled, x.sin(), scaled**2], 1)


def plain(x, weight, basis, *constants):
    """The same by autograd."""
    rows = x.reshape(-1, x.shape[-1])
    return (basis(rows, *constants).flatten(1) @ weight.t()).reshape(*x.shape[:-1], len(weight))


def tensors(rows=11, inputs=4, outputs=5, dtype=torch.float64, count=3):
    torch.manual_seed(0)
    x = torch.randn(rows, inputs, dtype=dtype, requires_grad=True)
    weight = torch.randn(outputs, count * inputs, dtype=dtype, requires_grad=True)
    return x, weight, torch.randn(inputs, dtype=dtype)


def gradients(function, x, weight, *arguments):
    y = function(x, weight, *arguments)
    constants = [t for t in arguments if isinstance(t, torch.Tensor)]
    wanted = [t for t in (x, weight, *constants) if t.requires_grad]
    return y, *torch.autograd.grad(y, wanted, torch.linspace(-1, 2, y.numel()).to(y).view_as(y))


def assert_same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


@given(
    sizes=st.tuples(st.integers(0, 20), st.integers(1, 5), st.integers(1, 5)),
    room=st.integers(1, 200),
    constant=st.sampled_from(["none", "fixed", "learned"]),
    only=st.sampled_from(["x", "weight", "both"]),
)
def test_any_cut_into_blocks_gives_the_gradients_of_autograd(sizes, room, constant, only):
    x, weight, c = tensors(*sizes)
    x.requires_grad_(only != "weight")
    weight.requires_grad_(only != "x")
    constants = () if constant == "none" else (c.requires_grad_(constant == "learned"),)
    expected = gradients(plain, x, weight, powers, *constants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_NUMBERS", {"cpu": 2 * room})
        patch.setattr(module, "SUM_NUMBERS", {"cpu": room})
        assert_same(gradients(basis_linear, x, weight, powers, *constants), expected)


def waved(x, fixed, learned):
    """A basis with a constant that is fixed, and after it one that is learned."""
    return torch.stack([x * fixed, (x * learned).sin()], 1)


@pytest.mark.parametrize(
    ("needs_x", "compiled"), [(True, False), (False, False), pytest.param(True, True, marks=pytest.mark.ci)]
)
def test_one_constant_is_learned_and_one_is_not(needs_x, compiled):
    x, weight, c = tensors(count=2)
    x.requires_grad_(needs_x)
    fixed, learned = c.clone(), c.clone().requires_grad_()
    call = torch.compile(basis_linear, fullgraph=True) if compiled else basis_linear
    found, expected = (gradients(f, x, weight, waved, fixed, learned) for f in (call, plain))
    assert_same(found, expected)
    assert len(found) == 3 + needs_x


def test_what_is_learned_of_a_basis_is_summed_in_float32():
    rounded = [t.detach().bfloat16().requires_grad_() for t in tensors(rows=4096)]
    wide = [t.detach().float().requires_grad_() for t in rounded]
    *_, found = gradients(basis_linear, *rounded[:2], powers, rounded[2])
    *_, expected = gradients(plain, *wide[:2], powers, wide[2])
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.01 * expected.abs().max().item(), rtol=0)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda x: x.t().contiguous().t(), id="transposed"),
        pytest.param(lambda x: x.repeat(1, 2)[:, ::2], id="every other"),
        pytest.param(lambda x: x[:1].expand(11, -1), id="expanded"),
        pytest.param(lambda x: x.unsqueeze(0).expand(3, -1, -1).transpose(0, 1), id="three dimensions"),
    ],
)
def test_inputs_and_weights_need_not_be_contiguous(view):
    x, weight, c = tensors()
    x, weight = view(x.detach()).requires_grad_(), weight.detach().t().contiguous().t().requires_grad_()
    assert not x.is_contiguous()
    assert_same(gradients(basis_linear, x, weight, powers, c), gradients(plain, x, weight, powers, c))


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_features():
    kept = {}
    for count in (2, 20):
        x, weight, _ = tensors(rows=1000, inputs=8, outputs=2, count=2 * count)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, sizes=sizes: (sizes.append(t.numel()), t)[1], lambda t: t
        ):
            y = basis_linear(x, weight, FourierBasis(count))
        kept[count] = sum(sizes) - weight.numel()
        assert y.requires_grad
    assert kept == {2: x.numel(), 20: x.numel()}


def test_a_second_derivative_is_an_error_and_not_a_wrong_number():
    x, weight, c = tensors()
    (gradient,) = torch.autograd.grad(
        basis_linear(x, weight, powers, c).square().sum(), [x], create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_change_of_x_before_the_backward_pass_is_an_error():
    x, weight, c = tensors()
    inputs = x * 1
    y = basis_linear(inputs, weight, powers, c)
    inputs += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_narrow_dtypes_sum_their_blocks_in_float32():
    dtype = torch.bfloat16
    # 4096 rows of ones: a sum kept in bf16 would stop at 256.
    x = torch.ones(4096, 2, dtype=dtype, requires_grad=True)
    weight = torch.ones(3, 6, dtype=dtype, requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_NUMBERS", {"cpu": 60})
        y = basis_linear(x, weight, powers)
        y.backward(torch.ones_like(y))
    assert y.dtype == weight.grad.dtype == x.grad.dtype == dtype
    expected = 4096 * torch.tensor([1.0, 1.0, torch.ones(()).sin(), torch.ones(()).sin(), 1.0, 1.0])
    torch.testing.assert_close(weight.grad.float(), expected.expand(3, -1), rtol=1e-2, atol=0)


def test_autocast_multiplies_in_its_dtype_and_gives_gradients_in_the_parameters():
    x, weight, _ = tensors(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = basis_linear(x, weight, powers)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert x.grad.dtype == weight.grad.dtype == torch.float32
    expected = torch.autograd.grad(plain(x, weight, powers).sum(), [x, weight])
    for found, wanted in zip((x.grad, weight.grad), expected, strict=True):
        assert (found - wanted).norm() < 1e-2 * wanted.norm()


@pytest.mark.parametrize("name", ["basis_linear", "basis_linear_backward"])
def test_cuda_graphs_of_inductor_leave_it_out(name):
    """What is replayed would go on with the knots of the recording, after they moved."""
    assert torch.Tag.cudagraph_unsafe in getattr(torch.ops.ffn_variants, name).default.tags
