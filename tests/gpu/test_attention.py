"""Attention of packed documents on a CUDA device: flash attention and masks of pairs, against the CPU."""

from __future__ import annotations

import pytest
import torch

from ffn_variants import build_model
from ffn_variants.models import packed_attention
from pretrain.model.objective import EncoderDecoderLoss, PackedLoss

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LENGTH = 512
ROWS = [[500, 12], [1, 300, 211], [LENGTH], [256, 256]]
STARTS = [0, 500, 512, 513, 813, 1024, 1536, 1792, 2048, 2048, 2048]


def run(family: str, device: str, dtype: torch.dtype | None, starts: torch.Tensor | None):
    """Loss per target and gradients."""
    torch.manual_seed(0)
    dropouts = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = build_model(
        family,
        "gelu",
        hidden_size=256,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=500,
        max_position_embeddings=LENGTH + 1,
        **({"window_size": 100} if family == "gpt_neo" else dropouts),
    ).train()
    ids, targets = torch.randint(4, 500, (len(ROWS), LENGTH)), torch.randint(4, 500, (1000,))
    positions = torch.tensor([[place for length in row for place in range(length)] for row in ROWS])
    index = torch.randperm(ids.numel())[:1000]
    batch = {"input_ids": ids, "position_ids": positions, "target_index": index, "target_ids": targets}
    if starts is not None:
        batch["document_starts"] = starts
    loss = PackedLoss(model.to(device), family)
    with torch.autocast(device, dtype, enabled=dtype is not None):
        value = loss(**{name: tensor.to(device) for name, tensor in batch.items()}) / len(targets)
    value.backward()
    return value.item(), {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
@pytest.mark.parametrize(
    ("dtype", "flash", "limit"),
    [(torch.bfloat16, True, 6e-2), (torch.bfloat16, False, 6e-2), (None, False, 1e-4)],
)
def test_losses_and_gradients_are_those_of_the_cpu(family, dtype, flash, limit):
    if flash and not packed_attention._has_flash(torch.device("cuda", 0)):
        pytest.skip("needs a GPU with flash attention")
    wanted, exact = run(family, "cpu", None, None)
    starts = torch.tensor(STARTS, dtype=torch.int32) if flash else None
    with torch.profiler.profile() as profile:
        found, gradients = run(family, "cuda", dtype, starts)
    names = {event.name for event in profile.events()}
    assert ("aten::_flash_attention_forward" in names) == flash
    assert found == pytest.approx(wanted, rel=1e-3)
    for name, gradient in gradients.items():
        assert (gradient - exact[name]).norm() <= limit * exact[name].norm() + 1e-6, name


def run_t5(device: str, dtype: torch.dtype | None):
    """Loss per target and gradients of a batch in which some of the decoder is padding."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = build_model("t5", "gelu", vocab_size=500, dropout_rate=0.0, **sizes).train()
    ids, written = torch.randint(4, 500, (3, 96)), torch.randint(4, 500, (3, 40))
    reads = torch.tensor([[1] * 50 + [2] * 46, [3] * 96, [4] * 20 + [5] * 70 + [0] * 6])
    writes = torch.tensor([[1] * 20 + [2] * 20, [3] * 30 + [0] * 10, [4] * 10 + [5] * 30])
    index = (writes > 0).flatten().nonzero().flatten()
    targets = torch.randint(4, 500, (len(index),))
    loss = EncoderDecoderLoss(model.to(device))
    with torch.autocast(device, dtype, enabled=dtype is not None):
        batch = {"input_ids": ids, "document_ids": reads, "target_index": index, "target_ids": targets}
        batch |= {"decoder_input_ids": written, "decoder_document_ids": writes}
        value = loss(**{name: tensor.to(device) for name, tensor in batch.items()}) / len(index)
    value.backward()
    return value.item(), {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 5e-2), (torch.float16, 5e-2), (None, 1e-4)])
def test_losses_and_gradients_of_t5_are_those_of_the_cpu(dtype, limit):
    wanted, exact = run_t5("cpu", None)
    found, gradients = run_t5("cuda", dtype)
    assert found == pytest.approx(wanted, rel=5e-3)
    for name, gradient in gradients.items():
        assert (gradient - exact[name]).norm() <= limit * exact[name].norm() + 1e-6, name


def test_dropout_of_weights_is_drawn_anew_and_repeated_with_its_seed():
    """The mean over many draws is the output without; the same seed gives the same draw."""
    if not packed_attention._has_flash(torch.device("cuda", 0)):
        pytest.skip("needs a GPU with flash attention")
    torch.manual_seed(0)
    heads = [torch.randn(4, 2, LENGTH, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    starts = torch.tensor(STARTS, dtype=torch.int32, device="cuda")
    how = {"causal": False, "window": None, "scaling": None}

    def draw(seed: int, dropout: float) -> torch.Tensor:
        torch.manual_seed(seed)
        return packed_attention.flash_attention(*heads, starts, dropout=dropout, **how).float()

    assert torch.equal(draw(1, 0.1), draw(1, 0.1))
    assert not torch.equal(draw(1, 0.1), draw(2, 0.1))
    mean, without = torch.stack([draw(seed, 0.1) for seed in range(200)]).mean(0), draw(0, 0.0)
    assert (mean - without).norm() <= 0.1 * without.norm()
