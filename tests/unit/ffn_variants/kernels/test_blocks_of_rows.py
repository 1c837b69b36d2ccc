"""What computes in blocks of rows, with gradients of its own: bases, elementwise, by edge and by expert.

Also the definitions as text by which operations find their functions.
"""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ffn_variants.kernels import basis_linear as linear_module
from ffn_variants.kernels import elementwise as elementwise_module
from ffn_variants.kernels.basis_linear import basis_linear
from ffn_variants.kernels.elementwise import edge_sums, elementwise
from ffn_variants.kernels.expert_linear import expert_linear
from ffn_variants.kernels.operations import name_of, with_name
from ffn_variants.splines.b_splines import EvenSplines, UnevenSplines
from ffn_variants.variants.series_kan import FourierBasis
from ffn_variants.variants.spline_kan import spline_gradients
from tests.references import assert_same, gradients


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
        patch.setattr(linear_module, "BLOCK_NUMBERS", {"cpu": 2 * room})
        patch.setattr(linear_module, "SUM_NUMBERS", {"cpu": room})
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


def kept_of(function):
    """The tensors that a function keeps for its backward pass."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):
        assert function().requires_grad
    return kept


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_features():
    for count in (2, 20):
        x, weight, _ = tensors(rows=1000, inputs=8, outputs=2, count=2 * count)
        kept = kept_of(lambda x=x, w=weight, count=count: basis_linear(x, w, FourierBasis(count)))
        assert sorted(map(len, kept)) == sorted([len(x), len(weight)])


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
        patch.setattr(linear_module, "BLOCK_NUMBERS", {"cpu": 60})
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


def wave(x, scale, phases):
    """scale: (C,); phases: (3, C)."""
    return scale * x + (phases + x.unsqueeze(1)).sin().sum(1)


def waved_tensors(rows=11, channels=4, dtype=torch.float64):
    torch.manual_seed(0)
    shapes = ((rows, channels), (channels,), (3, channels))
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def in_blocks(*inputs):
    return elementwise(wave, *inputs)


@given(rows=st.integers(0, 30), channels=st.integers(1, 5), room=st.integers(1, 100))
def test_any_cut_of_elementwise_functions_gives_the_gradients_of_autograd(rows, channels, room):
    inputs = waved_tensors(rows, channels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise_module, "BLOCK_NUMBERS", {"cpu": room})
        assert_same(gradients(in_blocks, *inputs), gradients(wave, *inputs))


def gate(x, scale):
    """Twice the channels of its result; scale: (C / 2,)."""
    left, right = x.chunk(2, 1)
    return (scale * left).sin() * right


@pytest.mark.parametrize(
    ("rows", "compiled"), [(0, False), (7, False), pytest.param(7, True, marks=pytest.mark.ci)]
)
def test_a_result_may_have_other_channels(rows, compiled):
    x, scale, _ = waved_tensors(rows, 6)
    inputs = x, scale[:3].detach().requires_grad_()
    call = torch.compile(elementwise, fullgraph=True) if compiled else elementwise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise_module, "BLOCK_NUMBERS", {"cpu": 12})
        found = gradients(lambda *each: call(gate, *each), *inputs)
    assert found[0].shape == (rows, 3)
    assert_same(found, gradients(gate, *inputs))


@pytest.mark.parametrize("fixed", [(0,), (1, 2)])
def test_elementwise_inputs_that_take_no_gradient_change_nothing_for_the_others(fixed):
    inputs = waved_tensors()
    for i in fixed:
        inputs[i].requires_grad_(False)
    assert_same(gradients(in_blocks, *inputs), gradients(wave, *inputs))


def test_any_batch_shape_keeps_its_shape():
    _, *parameters = waved_tensors()
    for shape in ((4,), (2, 3, 4), (2, 0, 4)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = in_blocks(x, *parameters)
        assert y.shape == x.shape
        torch.testing.assert_close(y.reshape(-1, 4), wave(x.reshape(-1, 4), *parameters))
        y.sum().backward()
        assert x.grad.shape == x.shape


def test_x_and_the_parameters_alone_are_kept_for_the_backward_pass():
    inputs = waved_tensors(rows=100)
    assert [t.shape for t in kept_of(lambda: in_blocks(*inputs))] == [t.shape for t in inputs]


def test_elementwise_functions_of_narrow_dtypes_are_computed_and_summed_in_float32():
    x = torch.ones(4096, 2, dtype=torch.bfloat16, requires_grad=True)
    scale = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    phases = torch.zeros(3, 2, dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise_module, "BLOCK_NUMBERS", {"cpu": 64})
        y = elementwise(wave, x, scale, phases)
        y.backward(torch.ones_like(y))
    assert y.dtype == x.grad.dtype == scale.grad.dtype == torch.bfloat16
    # A sum kept in bf16 would stop at 256.
    assert (scale.grad == 4096).all()
    expected = 1 + 3 * torch.ones(()).sin()
    torch.testing.assert_close(y.float(), expected.expand(4096, 2), rtol=4e-3, atol=0)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [(lambda *each: basis_linear(*each[:2], powers, each[2]), tensors()), (in_blocks, waved_tensors())],
    ids=["basis_linear", "elementwise"],
)
def test_a_second_derivative_is_an_error_and_not_a_wrong_number(function, inputs):
    (gradient,) = torch.autograd.grad(function(*inputs).square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def waves(x, weight, phase):
    return (weight * (x.unsqueeze(1) + phase).sin()).sum(-1)


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
        monkeypatch.setattr(elementwise_module, "EDGE_BLOCK_NUMBERS", {"cpu": numbers})
        for a, b in zip(sums_and_gradients(x, weight, phase), whole, strict=True):
            torch.testing.assert_close(a, b)


def test_bf16_edge_sums_over_blocks_are_in_float32(monkeypatch, error):
    torch.manual_seed(1)
    tensors = [torch.randn(s).bfloat16() for s in ((500, 3), (4, 3), (4, 3))]
    exact = sums_and_gradients(*(t.double() for t in tensors))
    monkeypatch.setattr(elementwise_module, "EDGE_BLOCK_NUMBERS", {"cpu": 12})
    for a, b in zip(sums_and_gradients(*tensors), exact, strict=True):
        assert a.dtype == torch.bfloat16
        assert error(a, b) < 1e-2


EXPERTS = {"all used": [0, 3, 1, 1, 2, 0, 3], "two idle": [2, 2, 0, 2, 0, 0, 0], "one": [1] * 7, "none": []}


@pytest.mark.parametrize(
    ("name", "dtype", "limit"),
    [(name, "float64", 1e-13) for name in EXPERTS]
    + [("all used", "float32", 1e-6), ("two idle", "bfloat16", 1e-2)],
)
def test_each_row_has_the_weights_of_its_expert(name, dtype, limit, error):
    torch.manual_seed(0)
    expert = torch.tensor(EXPERTS[name], dtype=torch.int64)
    x, weight = (torch.randn(s).to(getattr(torch, dtype)) for s in ((len(expert), 3), (4, 2, 3)))
    expected = [weight[e].double() @ row.double() for e, row in zip(expert, x, strict=True)]
    y = expert_linear(x, weight, expert)
    assert y.dtype == x.dtype
    assert y.shape == (len(expert), 2)
    assert not expected or error(y, torch.stack(expected)) < limit


@pytest.mark.parametrize("name", EXPERTS)
def test_gradients_of_experts_agree_with_finite_differences(name):
    torch.manual_seed(1)
    expert = torch.tensor(EXPERTS[name], dtype=torch.int64)
    x, weight = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((len(expert), 3), (4, 2, 3))
    )
    assert torch.autograd.gradcheck(lambda x, weight: expert_linear(x, weight, expert), (x, weight))


def test_autocast_decides_the_dtype_of_the_products_of_experts():
    x, weight, expert = torch.randn(5, 3), torch.randn(2, 4, 3), torch.tensor([0, 1, 0, 1, 1])
    with torch.autocast("cpu", torch.bfloat16):
        y = expert_linear(x, weight, expert)
    assert torch.equal(y, expert_linear(x.bfloat16(), weight.bfloat16(), expert))


class Outer:
    @dataclass(frozen=True)
    class Inner:
        text: str
        share: float | None = None


@dataclass(frozen=True)
class Holder:
    inner: Outer.Inner
    number: int = 1


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (spline_gradients, "ffn_variants.variants.spline_kan:spline_gradients:"),
        (FourierBasis(5), "ffn_variants.variants.series_kan:FourierBasis:{'grid_size': 5}"),
        (Outer.Inner("a: 'b'", 0.1), f"{__name__}:Outer.Inner:{{'text': \"a: 'b'\", 'share': 0.1}}"),
        (UnevenSplines(3), "ffn_variants.splines.b_splines:UnevenSplines:{'spline_order': 3}"),
    ],
)
def test_a_name_says_where_and_of_what_and_finds_an_equal_one(value, name):
    assert name_of(value) == name
    assert with_name(name) == value


def test_numbers_come_back_to_the_last_bit():
    value = EvenSplines(5, 3, -0.1 - 1e-16, 1 / 3)
    assert with_name(name_of(value) or "") == value


def test_what_no_text_finds_again_has_no_name():
    @dataclass(frozen=True)
    class Local:
        number: int = 1

    def local():
        pass

    for value in (local, lambda x: x, Local(), Holder(Outer.Inner("")), object()):
        assert name_of(value) is None
