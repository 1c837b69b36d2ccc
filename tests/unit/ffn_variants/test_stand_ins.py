"""Variants where torch's own operations alone may go: exports, traces, torch.func; and PEFT's adapters."""

import io
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from ffn_variants import FFN_VARIANTS, build_ffn, build_model
from tests.cases import KINDS, SMALL, kinds_before_the_rest
from tests.references import outputs_and_gradients

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
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's own exporter
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
    found = torch.func.jvp(ffn, (x,), (direction,))[1]
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(ffn(forward_ad.make_dual(x, direction))).tangent
    x.requires_grad_()
    (backward,) = torch.autograd.grad(ffn(x), x, weights)  # the kernels again
    for each in (found, dual):
        torch.testing.assert_close((each * weights).sum(), (backward * direction).sum())


LINEAR = [name for name in FFN_VARIANTS if any(type(m) is nn.Linear for m in build_ffn(name, 8, 6).modules())]


def test_experts_called_as_layers_are_those_that_tokens_visit():
    torch.manual_seed(0)
    ffn, x = build_ffn("moe", 8, 6, experts=5, top_k=3).double(), torch.randn(11, 8).double()
    results = []
    for mix in (ffn._visited, ffn._all, ffn._called):
        ffn._mix = lambda _, mix=mix: mix
        results.append(outputs_and_gradients(ffn, x))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])


@pytest.mark.parametrize("name", LINEAR)
def test_peft_trains_and_merges_all_linear_layers(name):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    base = build_model("gpt_neo", name, **SMALL)
    config = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base, config)
    ids = torch.randint(40, (3, 8))
    model.train()(input_ids=ids, labels=ids).loss.backward()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert not [n for n, p in trained.items() if p.grad is None or not p.grad.any()]
    model.eval()
    before = model(input_ids=ids).logits
    torch.testing.assert_close(model.merge_and_unload()(input_ids=ids).logits, before, rtol=1e-3, atol=1e-4)
