"""Variants, attention of packed documents, long documents in chunks and scores on a CUDA device."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertConfig

from eval.classification.classifier import HeadClassifier
from eval.classification.encoders import TOKENS_PER_CHUNK, PaddedEncoder
from eval.classification.example_tokens import Encoded
from eval.classification.heads import build_head
from eval.classification.segments import Segmented
from eval.scoring.log_likelihood import causal_log_likelihoods, pseudo_log_likelihoods
from eval.scoring.text_batches import ScoredText
from ffn_variants import FFN_VARIANTS, build_ffn, build_model
from ffn_variants.kernels.compilation import compiled_kernels_in_use, use_compiled_kernels
from ffn_variants.models import packed_attention
from pretrain.model.objective import EncoderDecoderLoss, PackedLoss
from scores.head_descriptions import parse_head


@pytest.mark.parametrize("name", FFN_VARIANTS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_outputs_and_gradients_of_variants_are_those_of_the_cpu(name, compiled, dtype, limit, device):
    """Against float64, eager and compiled by Triton.

    Rounding alone makes some gradients wrong by more than the limits: a value at a threshold falls on its
    other side, terms of a scalar cancel. So three times the error of a CPU at the same precision is allowed.
    """
    torch.manual_seed(0)
    ffn = build_ffn(name, 64, 48)
    x, grad = torch.randn(1000, 64), torch.randn(1000, 64)
    exact = _run(copy.deepcopy(ffn).double(), x.double(), grad.double(), None)
    rounded = _run(copy.deepcopy(ffn), x, grad, dtype)
    use_compiled_kernels(compiled)
    found = _run(ffn.to(device), x.to(device), grad.to(device), dtype)
    assert compiled_kernels_in_use() == compiled
    for ours, by_cpu, reference in zip(found, rounded, exact, strict=True):
        allowed = max(limit * reference.norm(), 3 * (by_cpu.double() - reference).norm())
        assert (ours.cpu().double() - reference).norm() <= allowed


def _run(ffn, x, grad, dtype):
    x = x.detach().requires_grad_()
    with torch.autocast(x.device.type, dtype, enabled=dtype == torch.bfloat16):
        y = ffn(x)
    return [y, *torch.autograd.grad(y, [x, *ffn.parameters()], grad.to(y.dtype))]


LENGTH = 512
STACK = {"intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 500}
ROWS = [[500, 12], [1, 300, 211], [LENGTH], [256, 256]]
STARTS = [0, 500, 512, 513, 813, 1024, 1536, 1792, 2048, 2048, 2048]


def packed(family: str, with_starts: bool) -> tuple[PackedLoss, dict[str, torch.Tensor]]:
    """The loss of a model of one stack, and rows of several documents."""
    dropouts = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    own: dict[str, Any] = {"window_size": 100} if family == "gpt_neo" else dropouts
    model = build_model(family, "gelu", hidden_size=256, max_position_embeddings=LENGTH + 1, **STACK, **own)
    ids, targets = torch.randint(4, 500, (len(ROWS), LENGTH)), torch.randint(4, 500, (1000,))
    positions = torch.tensor([[place for length in row for place in range(length)] for row in ROWS])
    index = torch.randperm(ids.numel())[:1000]
    batch = {"input_ids": ids, "position_ids": positions, "target_index": index, "target_ids": targets}
    if with_starts:
        batch["document_starts"] = torch.tensor(STARTS, dtype=torch.int32)
    return PackedLoss(model, family), batch


def padded() -> tuple[EncoderDecoderLoss, dict[str, torch.Tensor]]:
    """The loss of a T5, and a batch in which some of the decoder is padding."""
    model = build_model("t5", "gelu", hidden_size=128, dropout_rate=0.0, **STACK)
    ids, written = torch.randint(4, 500, (3, 96)), torch.randint(4, 500, (3, 40))
    reads = torch.tensor([[1] * 50 + [2] * 46, [3] * 96, [4] * 20 + [5] * 70 + [0] * 6])
    writes = torch.tensor([[1] * 20 + [2] * 20, [3] * 30 + [0] * 10, [4] * 10 + [5] * 30])
    index = (writes > 0).flatten().nonzero().flatten()
    targets = torch.randint(4, 500, (len(index),))
    batch = {"input_ids": ids, "document_ids": reads, "target_index": index, "target_ids": targets}
    return EncoderDecoderLoss(model), batch | {"decoder_input_ids": written, "decoder_document_ids": writes}


def loss_and_gradients(family: str, device: str, dtype: torch.dtype | None = None, with_starts: bool = False):
    """Loss per target and gradients."""
    torch.manual_seed(0)
    loss, batch = padded() if family == "t5" else packed(family, with_starts)
    loss.to(device).train()
    with torch.autocast(device, dtype, enabled=dtype is not None):
        value = loss(**{name: tensor.to(device) for name, tensor in batch.items()}) / len(batch["target_ids"])
    value.backward()
    gradients = {name: parameter.grad for name, parameter in loss.model.named_parameters()}
    return value.item(), {name: gradient.cpu() for name, gradient in gradients.items()}  # type: ignore[missing-attribute]


@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5"])
@pytest.mark.parametrize(
    ("dtype", "flash", "limit"),
    [(torch.bfloat16, True, 6e-2), (torch.bfloat16, False, 6e-2), (None, False, 1e-4)],
)
def test_losses_and_gradients_of_packed_documents_are_those_of_the_cpu(
    family, dtype, flash, limit, only_cuda
):
    if flash and (family == "t5" or not packed_attention._has_flash(torch.device("cuda", 0))):
        pytest.skip("needs a GPU with flash attention, and scores without a learnt bias")
    wanted, exact = loss_and_gradients(family, "cpu")
    with torch.profiler.profile() as profile:
        found, gradients = loss_and_gradients(family, "cuda", dtype, with_starts=flash)
    names = {event.name for event in profile.events() or ()}
    assert ("aten::_flash_attention_forward" in names) == flash
    assert found == pytest.approx(wanted, rel=5e-3 if family == "t5" else 1e-3)
    for name, gradient in gradients.items():
        assert (gradient - exact[name]).norm() <= limit * exact[name].norm() + 1e-6, name


def test_dropout_of_weights_is_drawn_anew_and_repeated_with_its_seed(only_cuda):
    """The mean over many draws is the output without; the same seed gives the same draw."""
    if not packed_attention._has_flash(torch.device("cuda", 0)):
        pytest.skip("needs a GPU with flash attention")
    torch.manual_seed(0)
    query, key, value = (torch.randn(4, 2, LENGTH, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    starts = torch.tensor(STARTS, dtype=torch.int32, device="cuda")
    how = {"causal": False, "window": None, "scaling": None}

    def draw(seed: int, dropout: float) -> torch.Tensor:
        torch.manual_seed(seed)
        return packed_attention.flash_attention(query, key, value, starts, dropout=dropout, **how).float()

    assert torch.equal(draw(1, 0.1), draw(1, 0.1))
    assert not torch.equal(draw(1, 0.1), draw(2, 0.1))
    mean, without = torch.stack([draw(seed, 0.1) for seed in range(200)]).mean(0), draw(0, 0.0)
    assert (mean - without).norm() <= 0.1 * without.norm()


SEGMENT_LENGTH, NUM_SEGMENTS = 100, 120


def documents() -> Segmented:
    """Two documents of 60 segments, more than one chunk holds."""
    assert SEGMENT_LENGTH * NUM_SEGMENTS > TOKENS_PER_CHUNK
    ids = np.random.default_rng(0).integers(3, 50, (NUM_SEGMENTS, SEGMENT_LENGTH)).tolist()
    pieces = Encoded.from_lists(ids, [0] * NUM_SEGMENTS)
    labels, names = np.array([0, 1]), np.array(["0", "1"], dtype=object)
    counts, spans = np.array([60, 60]), np.zeros((NUM_SEGMENTS, 2), np.int64)
    return Segmented(pieces, counts, labels, np.zeros(2, bool), names, spans)


def test_gradients_of_long_documents_are_those_of_the_loss_with_the_same_dropout(device):
    """Along a direction, the gradient is the difference quotient of the loss at one seed of dropout."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    backbone = AutoModel.from_config(BertConfig(vocab_size=50, pad_token_id=0, **sizes))
    backbone.pooler = None
    head = build_head(parse_head("swipe pooling=gated-sum"), 8, 2)
    classifier = HeadClassifier(PaddedEncoder(backbone), head, "segments").double().to(device).train()
    parameters = [parameter for parameter in classifier.encoder.parameters() if parameter.requires_grad]
    directions = [torch.randn_like(parameter) for parameter in parameters]
    data = documents()

    def loss(step: float) -> torch.Tensor:
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=step)
        torch.manual_seed(1)
        value = classifier(data).logits.square().sum()
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.sub_(direction, alpha=step)
        return value

    quotient = (loss(1e-6).item() - loss(-1e-6).item()) / 2e-6
    loss(0.0).backward()
    pairs = zip(parameters, directions, strict=True)
    slope = sum((p.grad * d).sum().item() for p, d in pairs if p.grad is not None)
    assert slope == pytest.approx(quotient, rel=1e-5)


SCORED = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 500}


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
@pytest.mark.parametrize("ffn", ["gelu", "kan"])
def test_scores_are_those_of_the_cpu(family: str, ffn: str, device: str) -> None:
    torch.manual_seed(0)
    model = build_model(family, ffn, num_attention_heads=4, **SCORED).eval()
    generator = np.random.default_rng(0)
    texts = [
        ScoredText([1, *generator.integers(5, 500, size=length).tolist(), 2], 1, length + 1)
        for length in generator.integers(2, 20, size=200)
    ]

    def score() -> np.ndarray:
        if family == "gpt_neo":
            return causal_log_likelihoods(model, texts).log_likelihood
        return pseudo_log_likelihoods(model, texts, mask_token_id=4).log_likelihood

    on_cpu = score()
    model.to(device)  # type: ignore[bad-argument-type]
    np.testing.assert_allclose(score(), on_cpu, rtol=1e-5, atol=1e-3)
