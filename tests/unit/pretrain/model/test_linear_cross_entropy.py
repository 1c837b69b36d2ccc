"""The chunked loss against torch's own on whole logits, and what it keeps."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from base.text.corruption import IGNORE
from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.model import linear_cross_entropy as module
from pretrain.model.linear_cross_entropy import linear_cross_entropy

ROWS, WIDTH, CLASSES = 23, 3, 17


def problem(dtype, bias):
    torch.manual_seed(0)
    tensors = [torch.randn(ROWS, WIDTH), torch.randn(CLASSES, WIDTH), torch.randn(CLASSES)]
    leaves = [tensor.to(dtype).requires_grad_() for tensor in tensors[: 3 if bias else 2]]
    return leaves, torch.randint(0, CLASSES, (ROWS,))


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
def test_rows_that_fill_no_chunk_add_nothing(monkeypatch, rows):
    monkeypatch.setitem(module.CHUNK_NUMBERS, "cpu", 64 * CLASSES)
    torch.manual_seed(rows)
    sizes = (rows, WIDTH), (CLASSES, WIDTH), (CLASSES,)
    leaves = [torch.randn(size, requires_grad=True) for size in sizes]
    targets = torch.randint(0, CLASSES, (rows,))
    ours = linear_cross_entropy(*leaves, targets)
    whole = F.cross_entropy(F.linear(*leaves), targets, reduction="sum")
    torch.testing.assert_close(ours, whole)
    for a, b in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(whole, leaves), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_logits_of_any_size_give_finite_losses():
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    loss = linear_cross_entropy(hidden, weight, None, torch.tensor([1, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(2e4)
    assert torch.isfinite(hidden.grad).all()


def test_under_autocast_it_is_as_near_as_whole_bf16_logits():
    (hidden, weight, bias), targets = problem(torch.float32, True)
    exact = F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum")
    exact_grads = torch.autograd.grad(exact, (hidden, weight, bias))
    with torch.autocast("cpu", torch.bfloat16):
        ours = linear_cross_entropy(hidden, weight, bias, targets)
    grads = torch.autograd.grad(ours, (hidden, weight, bias))
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(exact.item(), rel=1e-2)
    for a, b in zip(grads, exact_grads, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() < 2e-2 * b.norm()


def test_no_tensor_has_all_logits(monkeypatch):
    monkeypatch.setitem(module.CHUNK_NUMBERS, "cpu", CLASSES)
    monkeypatch.setattr(module, "ROWS", 1)
    (hidden, weight, bias), targets = problem(torch.float32, True)
    largest = 0

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.ndim == 2 and result.shape[1] == CLASSES:
                largest = max(largest, result.shape[0])
            return result

    with Recorder():
        linear_cross_entropy(hidden, weight, bias, targets).backward()
    assert largest == module.CHUNKS_PER_PRODUCT["cpu"] < ROWS


@pytest.mark.parametrize("evaluating", [torch.no_grad, torch.inference_mode])
def test_evaluation_makes_the_logits_and_no_gradient(monkeypatch, evaluating):
    monkeypatch.setattr(module, "ROWS", 1)
    (hidden, weight, bias), targets = problem(torch.float32, True)
    with evaluating(), FlopCounterMode(display=False) as counter:
        linear_cross_entropy(hidden, weight, bias, targets)
    assert counter.get_total_flops() == 2 * ROWS * WIDTH * CLASSES


COMPILED = [pytest.param(5, ignoring, True, marks=pytest.mark.ci) for ignoring in (True, False)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows_per_chunk", "ignoring", "compiled"),
    [*((rows, ignoring, False) for rows in (1, 5, 100) for ignoring in (True, False)), *COMPILED],
)
def test_loss_and_gradients_are_those_of_whole_logits_of_the_rows_that_are_not_ignored(
    monkeypatch, bias, rows_per_chunk, ignoring, compiled
):
    """Even where ignored rows are no numbers."""
    monkeypatch.setitem(module.CHUNK_NUMBERS, "cpu", rows_per_chunk * CLASSES)
    monkeypatch.setattr(module, "ROWS", 1)
    use_compiled_kernels(compiled)
    leaves, targets = problem(torch.float64, bias)
    hidden, *output = leaves
    kept = (torch.arange(ROWS) % 3 != 1) | (not ignoring)
    padded = torch.where(kept[:, None], hidden.detach(), torch.nan).requires_grad_()
    given = padded, output[0], output[1] if bias else None, torch.where(kept, targets, IGNORE)
    ours = linear_cross_entropy(*given)
    whole = F.cross_entropy(F.linear(hidden[kept], *output), targets[kept], reduction="sum")
    assert ours.item() == pytest.approx(whole.item(), rel=1e-12)
    gradients = torch.autograd.grad(ours / ROWS, (padded, *output))
    assert (gradients[0][~kept] == 0).all()
    for a, b in zip(gradients, torch.autograd.grad(whole / ROWS, leaves), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
    with torch.no_grad():
        assert linear_cross_entropy(*given).item() == pytest.approx(whole.item(), rel=1e-12)
