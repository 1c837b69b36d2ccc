"""Variants where only torch's own operations may go: exports, traces, torch.func, the meta device."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from ffn_variants import FFN_VARIANTS, build_ffn
from tests.cases import KINDS, kinds_before_the_rest

D = 8


def made(name: str, dtype: torch.dtype = torch.float32) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return build_ffn(name, D, 6).to(dtype).eval(), torch.randn(3, 5, D, dtype=dtype)


@pytest.mark.parametrize("name", kinds_before_the_rest(FFN_VARIANTS))
def test_an_export_holds_torchs_operations_alone(name):
    ffn, x = made(name)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(ffn, (x,), dynamic_shapes=({0: rows},), strict=False)
    operations = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert not [each for each in operations if "ffn_variants" in str(each)]
    other = torch.randn(7, 5, D)
    torch.testing.assert_close(program.module()(other), ffn(other), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FFN_VARIANTS)
@pytest.mark.slow
def test_onnx_runs_it_with_the_same_numbers(name):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    ffn, x = made(name)
    program = torch.onnx.export(ffn, (x,), dynamo=True, verbose=False)
    assert program is not None
    model = program.model_proto.SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(y, ffn(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_can_be_saved(name):
    ffn, x = made(name)
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(ffn, (x,)), file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(x), ffn(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_gradients_of_each_example_are_those_of_one_after_the_other(name):
    """By the kernels, which no transform goes through."""
    ffn, x = made(name, torch.float64)
    ffn.train()
    parameters = {key: value.detach() for key, value in ffn.named_parameters()}

    def loss(values, x):
        return torch.func.functional_call(ffn, values, (x,)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss, (0, 1)), (None, 0))(parameters, x)
    for number, row in enumerate(x):
        row = row.clone().requires_grad_()
        wanted = torch.autograd.grad(ffn(row).square().sum(), [*ffn.parameters(), row])
        for a, b in zip([*found[0].values(), found[1]], wanted, strict=True):
            torch.testing.assert_close(a[number], b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_forward_mode_is_the_transpose_of_backward_mode(name):
    ffn, x = made(name, torch.float64)
    direction, weights = torch.randn_like(x), torch.randn_like(x)
    _, found = torch.func.jvp(ffn, (x,), (direction,))
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(ffn(forward_ad.make_dual(x, direction))).tangent
    x.requires_grad_()
    (backward,) = torch.autograd.grad(ffn(x), x, weights)  # the kernels again
    for each in (found, dual):
        torch.testing.assert_close((each * weights).sum(), (backward * direction).sum())
