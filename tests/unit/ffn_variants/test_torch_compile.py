"""Layers in somebody's own torch.compile: one graph, no warning, the numbers of the eager layer."""

import copy
import logging
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map_only

from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.kernels import basis_linear, elementwise
from ffn_variants.kernels.basis_linear import basis_linear as linear
from ffn_variants.kernels.compilation import compile_seconds, use_compiled_kernels
from ffn_variants.kernels.operations import name_of
from ffn_variants.splines import b_splines
from ffn_variants.variants.spline_kan import FeatureSplines
from tests.cases import kinds_before_the_rest
from tests.references import outputs_and_gradients

CHEBYSHEV = "ffn_variants.variants.series_kan:ChebyshevBasis:{'degree': 2}"
SINES = "ffn_variants.variants.series_kan:waves:"
SPLINES = (
    "ffn_variants.variants.spline_kan:truncated_power_splines:",
    "ffn_variants.variants.spline_kan:spline_gradients:",
    False,  # a function of channels, not of edges
)


@pytest.fixture(autouse=True)
def _plain_kernels():
    """What is compiled is not these tests' matter, where they do not ask for it."""
    use_compiled_kernels(False)
    torch._dynamo.reset()


def compiled_by_a_user(module: nn.Module, backend: str = "eager") -> nn.Module:
    return torch.compile(copy.deepcopy(module), backend=backend, fullgraph=True)  # type: ignore[return-value]


def assert_equal(found, wanted, name=""):
    """To the bit; in a graph ``moe`` computes all experts, summed in another order, and GELU is a sigmoid."""
    rounds = name in ("moe", "gelu", "geglu")
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if rounds else {"rtol": 0, "atol": 0}
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("name", kinds_before_the_rest(FFN_VARIANTS))
def test_every_variant_is_one_graph_with_the_eager_numbers_and_no_warning(name, caplog):
    torch.manual_seed(0)
    ffn, x = build_ffn(name, 12, 20), torch.randn(3, 7, 12)
    expected = outputs_and_gradients(ffn, x)
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        # torch's own, of every autograd.Function that it traces.
        warnings.filterwarnings("ignore", ".*autograd.function.Function.*", DeprecationWarning)
        assert_equal(outputs_and_gradients(compiled_by_a_user(ffn), x), expected, name)
    assert not caplog.records


@pytest.mark.parametrize("name", kinds_before_the_rest(FFN_VARIANTS))
def test_more_numbers_of_rows_than_dynamo_compiles_for_are_one_graph(name):
    """A size is a symbol from the second on; were it a number, each would be compiled for, up to eight."""
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    ffn = build_ffn(name, 12, 20)
    module = torch.compile(ffn, backend=count, fullgraph=True)
    for rows in range(2, 14):
        x = torch.randn(rows, 12)
        assert_equal([module(x)], [ffn(x)], name)
    assert len(graphs) <= 3  # of one number of rows, of any, and where a block begins or ends


def test_a_grid_is_looked_at_once_and_again_after_it_has_changed(monkeypatch):
    looks = []

    def splines_on(*arguments):
        looks.append(arguments)
        return real(*arguments)

    real = b_splines.splines_on
    torch.manual_seed(0)
    ffn, x = build_ffn("kan", 4, 6), torch.randn(50, 4)
    user = compiled_by_a_user(ffn, "aot_eager")
    monkeypatch.setattr(b_splines, "splines_on", splines_on)
    for _ in range(3):
        outputs_and_gradients(user, x)
    assert len(looks) == 2  # the two layers
    with torch.compiler.set_stance("fail_on_recompile"):
        for module in (ffn, user):
            module.layers[0].update_grid(x)
            module.layers[1].update_grid(module.layers[0](x))
        found = outputs_and_gradients(user, x)
    looks.clear()
    outputs_and_gradients(user, x)
    assert not looks
    expected = outputs_and_gradients(ffn, x)
    assert_equal(found, expected)
    assert not torch.equal(expected[0], outputs_and_gradients(build_ffn("kan", 4, 6), x)[0])


def waves(x, weight, phase):
    return (weight * (x.unsqueeze(1) + phase).sin()).sum(-1)


WAVES = name_of(waves)


def powers(x):
    return torch.stack([x, x**2], 1)


class Layer(nn.Module):
    def __init__(self, basis):
        super().__init__()
        self.basis, self.weight = basis, nn.Parameter(torch.randn(5, 6))

    def forward(self, x):
        return linear(x, self.weight, self.basis)


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return elementwise.elementwise(lambda x, scale: (x * scale).sin(), x, self.scale)


@pytest.mark.parametrize("make", [lambda: Layer(powers), lambda: Layer(lambda x: powers(x)), Wave])
def test_any_basis_and_any_elementwise_function_go_with_it(make):
    layer, x = make(), torch.randn(7, 3)
    found, expected = (outputs_and_gradients(each, x) for each in (compiled_by_a_user(layer), layer))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_operations_agree_with_finite_differences_for_any_number_of_rows(rows):
    torch.manual_seed(0)
    x, weight, first, second = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((rows, 3), (2, 9), (4, 3), (4, 3))
    )
    assert torch.autograd.gradcheck(lambda *t: basis_linear._operation(*t, CHEBYSHEV, []), (x, weight))
    assert torch.autograd.gradcheck(
        lambda x, *parameters: elementwise._operation(x, list(parameters), *SPLINES), (x, first, second)
    )
    assert torch.autograd.gradcheck(
        lambda x, *parameters: elementwise._operation(x, list(parameters), WAVES, "", True),
        (x, first, second),
    )


def shapes(results):
    tensors = results if isinstance(results, list | tuple) else [results]
    return [(t.shape, t.stride(), t.dtype) for t in tensors]


@pytest.mark.parametrize(("transposed", "dtype"), [(False, torch.float32), (True, torch.bfloat16)])
def test_a_graph_is_told_the_shapes_strides_and_dtypes_that_operations_give(transposed, dtype):
    def tensor(rows, columns):
        flat = torch.randn(rows * columns, dtype=dtype)
        return flat.view(columns, rows).t() if transposed else flat.view(rows, columns)

    x, weight, knots = tensor(7, 3), tensor(2, 9), tensor(4, 3)
    sines = [torch.randn(3, dtype=dtype), tensor(3, 3)]
    for operation, *arguments in (
        (basis_linear._operation, x, weight, CHEBYSHEV, []),
        (basis_linear._backward_operation, tensor(7, 2), x, weight, CHEBYSHEV, [], [True, True]),
        (basis_linear._backward_operation, tensor(7, 2), x, weight, CHEBYSHEV, [], [False, True]),
        (basis_linear._backward_operation, tensor(7, 2), x, weight, CHEBYSHEV, [], [True, False]),
        (basis_linear._backward_operation, tensor(7, 2), x, weight, SINES, sines, [True, True, True, False]),
        (elementwise._operation, x, [knots, knots], *SPLINES),
        (elementwise._backward_operation, tensor(7, 3), x, [knots, knots], *SPLINES),
    ):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = operation(*tree_map_only(torch.Tensor, mode.from_tensor, arguments))
        assert shapes(fake) == shapes(operation(*arguments))


def test_a_second_derivative_is_an_error_and_not_a_wrong_number():
    for layer in (Layer(powers), FeatureSplines(3)):
        x = torch.randn(7, 3, requires_grad=True)
        y = compiled_by_a_user(layer)(x).square().sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match="no autograd formula"):
            gradient.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kan", "spline-kan"])
def test_kernels_are_compiled_in_it_without_being_asked_for(name, inductor_cache, error, caplog):
    torch.manual_seed(0)
    ffn, x = build_ffn(name, 12, 20), torch.randn(50, 12)
    expected = outputs_and_gradients(ffn, x)
    use_compiled_kernels(None)
    before = compile_seconds()
    outputs_and_gradients(ffn, x)
    assert compile_seconds() == before
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error", UserWarning)
        found = outputs_and_gradients(compiled_by_a_user(ffn, "inductor"), x)
    assert compile_seconds() > before
    assert not caplog.records
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < 5e-6
