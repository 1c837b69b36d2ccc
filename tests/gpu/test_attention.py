"""Attention of packed documents on a CUDA device: flash attention and masks of pairs, against the CPU."""

from __future__ import annotations

import pytest
import torch

from ffn_variants import build_model
from ffn_variants.models import packed_attention
from pretrain.model.objective import EncoderDecoderLoss, PackedLoss

pytestmark = pytest.mark.usefixtures("only_cuda")

LENGTH = 512
SIZES = {"intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 500}
ROWS = [[500, 12], [1, 300, 211], [LENGTH], [256, 256]]
STARTS = [0, 500, 512, 513, 813, 1024, 1536, 1792, 2048, 2048, 2048]


def packed(family: str, with_starts: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The loss of a model of one stack, and rows of several documents."""
    dropouts = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    own = {"window_size": 100} if family == "gpt_neo" else dropouts
    model = build_model(family, "gelu", hidden_size=256, max_position_embeddings=LENGTH + 1, **SIZES, **own)
    ids, targets = torch.randint(4, 500, (len(ROWS), LENGTH)), torch.randint(4, 500, (1000,))
    positions = torch.tensor([[place for length in row for place in range(length)] for row in ROWS])
    index = torch.randperm(ids.numel())[:1000]
    batch = {"input_ids": ids, "position_ids": positions, "target_index": index, "target_ids": targets}
    if with_starts:
        batch["document_starts"] = torch.tensor(STARTS, dtype=torch.int32)
    return PackedLoss(model, family), batch


def padded() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The loss of a T5, and a batch in which some of the decoder is padding."""
    model = build_model("t5", "gelu", hidden_size=128, dropout_rate=0.0, **SIZES)
    ids, written = torch.randint(4, 500, (3, 96)), torch.randint(4, 500, (3, 40))
    reads = torch.tensor([[1] * 50 + [2] * 46, [3] * 96, [4] * 20 + [5] * 70 + [0] * 6])
    writes = torch.tensor([[1] * 20 + [2] * 20, [3] * 30 + [0] * 10, [4] * 10 + [5] * 30])
    index = (writes > 0).flatten().nonzero().flatten()
    targets = torch.randint(4, 500, (len(index),))
    batch = {"input_ids": ids, "document_ids": reads, "target_index": index, "target_ids": targets}
    return EncoderDecoderLoss(model), batch | {"decoder_input_ids": written, "decoder_document_ids": writes}


def run(family: str, device: str, dtype: torch.dtype | None = None, with_starts: bool = False):
    """Loss per target and gradients."""
    torch.manual_seed(0)
    loss, batch = padded() if family == "t5" else packed(family, with_starts)
    loss.to(device).train()
    with torch.autocast(device, dtype, enabled=dtype is not None):
        value = loss(**{name: tensor.to(device) for name, tensor in batch.items()}) / len(batch["target_ids"])
    value.backward()
    return value.item(), {name: parameter.grad.cpu() for name, parameter in loss.model.named_parameters()}


@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5"])
@pytest.mark.parametrize(
    ("dtype", "flash", "limit"),
    [(torch.bfloat16, True, 6e-2), (torch.bfloat16, False, 6e-2), (None, False, 1e-4)],
)
def test_losses_and_gradients_are_those_of_the_cpu(family, dtype, flash, limit):
    if flash and (family == "t5" or not packed_attention._has_flash(torch.device("cuda", 0))):
        pytest.skip("needs a GPU with flash attention, and scores without a learnt bias")
    wanted, exact = run(family, "cpu")
    with torch.profiler.profile() as profile:
        found, gradients = run(family, "cuda", dtype, with_starts=flash)
    names = {event.name for event in profile.events()}
    assert ("aten::_flash_attention_forward" in names) == flash
    assert found == pytest.approx(wanted, rel=5e-3 if family == "t5" else 1e-3)
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
