"""Attention of packed documents against every document alone, computed in float64."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ffn_variants import build_model
from ffn_variants.models import packed_attention as module
from ffn_variants.models.packed_attention import document_numbers, packed_attention
from pretrain.model.objective import PackedLoss

HEADS, WIDTH = 2, 4
ROWS = [[5, 9, 1, 1], [16], [3, 1, 12]]  # lengths of the documents; those of one token may be padding


def positions_of(rows: list[list[int]]) -> list[list[int]]:
    return [[place for length in row for place in range(length)] for row in rows]


def positions() -> torch.Tensor:
    return torch.tensor(positions_of(ROWS))


def reference(query, key, value, causal, window, scaling):
    """Each document on its own, written down from the formula."""
    out = torch.zeros_like(value)
    for row, lengths in enumerate(ROWS):
        start = 0
        for length in lengths:
            part = (row, slice(None), slice(start, start + length))
            scores = query[part] @ key[part].mT * (1 / math.sqrt(WIDTH) if scaling is None else scaling)
            for i in range(length):
                for j in range(length):
                    if causal and (j > i or (window is not None and i - j >= window)):
                        scores = scores.clone()
                        scores[:, i, j] = -math.inf
            out[part] = scores.softmax(-1) @ value[part]
            start += length
    return out.transpose(1, 2)


@pytest.fixture(params=["documents", "rows"])
def way(request, monkeypatch):
    """Both ways of a CPU: documents padded to multiples of 4 tokens, or whole rows and a mask of pairs."""
    monkeypatch.setattr(module, "STEP", 4)
    monkeypatch.setattr(module, "WORTHWHILE", 2 if request.param == "documents" else 0)
    return request.param


@pytest.mark.parametrize(
    ("causal", "window", "scaling"),
    [(False, None, None), (True, None, 1.0), (True, 4, 1.0), (True, 100, None), (False, 4, None)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_are_those_of_each_document_alone(way, causal, window, scaling, dtype):
    torch.manual_seed(0)
    inputs = [torch.randn(len(ROWS), HEADS, 16, WIDTH, dtype=dtype) for _ in range(3)]
    weights = torch.randn(len(ROWS), 16, HEADS, WIDTH)
    ours = [tensor.clone().requires_grad_() for tensor in inputs]
    numbers = document_numbers(positions())
    layer = SimpleNamespace(is_causal=causal)
    out, _ = packed_attention(layer, *ours, numbers, scaling=scaling, sliding_window=window)
    (out * weights).sum().backward()
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    wanted = reference(*exact, causal, window, scaling)
    (wanted * weights).sum().backward()
    tolerance = {"atol": 2e-6, "rtol": 2e-6} if dtype == torch.float32 else {"atol": 3e-2, "rtol": 3e-2}
    torch.testing.assert_close(out.double(), wanted, **tolerance)
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a.grad.double(), b.grad, **tolerance)


def test_no_score_between_two_documents_is_computed():
    largest = 0

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            results = func(*args, **(kwargs or {}))
            for result in results if isinstance(results, tuple) else (results,):
                if isinstance(result, torch.Tensor) and result.ndim == 4 and result.shape[-1] > WIDTH:
                    largest = max(largest, result.numel())
            return results

    layer, wide = SimpleNamespace(is_causal=False), [torch.randn(1, 1, 384, WIDTH) for _ in range(3)]
    numbers = document_numbers(torch.arange(384)[None] % 128)
    with Recorder():
        packed_attention(layer, *wide, numbers, dropout=0.5)
    assert largest == 3 * 128 * 128


def test_documents_are_grouped_by_padded_length(monkeypatch):
    monkeypatch.setattr(module, "WORTHWHILE", 2)
    numbers = document_numbers(torch.tensor(positions_of([[40, 130, 1, 1, 60], [232]])))
    groups = module._group(numbers[:, 0, 0])
    assert [lengths.tolist() for lengths in groups.lengths] == [[1, 1], [40, 60], [130], [232]]
    assert groups.sizes == [2, 128, 192, 256]
    assert groups.token_of_slot[groups.slot_of_token].tolist() == list(range(464))


def test_rows_of_one_document_are_left_whole():
    assert module._group(document_numbers(torch.arange(512)[None])[:, 0, 0]) is None


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_in_training_a_document_is_blind_to_the_others(way, family):
    """With dropout, whose draws do not depend on the tokens."""
    dropouts = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}
    if family == "gpt_neo":
        dropouts = {"embed_dropout": 0.3, "resid_dropout": 0.3, "attention_dropout": 0.3, "window_size": 3}
    torch.manual_seed(0)
    model = build_model(
        family,
        "gelu",
        hidden_size=16,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=50,
        max_position_embeddings=17,
        **dropouts,
    ).train()
    loss, everywhere = PackedLoss(model, family), torch.arange(48)
    ids = torch.randint(4, 50, (3, 16))
    other = ids.clone()
    other[0, 5:14] = torch.randint(4, 50, (9,))  # the second document of the first row
    outputs = []
    for tokens in (ids, ids, other):
        torch.manual_seed(1)
        outputs.append(loss.features(tokens, positions(), everywhere).detach())
    torch.manual_seed(2)
    redrawn = loss.features(ids, positions(), everywhere).detach()
    changed = (outputs[0] != outputs[2]).any(1).nonzero()[:, 0].tolist()
    assert torch.equal(outputs[0], outputs[1])
    assert changed == list(range(5, 14))
    assert not torch.equal(outputs[0], redrawn)


def test_other_masks_go_to_sdpa():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    for family in ("gpt_neo", "roberta"):
        model = build_model(family, "gelu", vocab_size=50, max_position_embeddings=17, **sizes).eval()
        ids, padding = torch.randint(4, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)
        padding[1, 6:] = 0
        with torch.no_grad():
            plain = [model(input_ids=ids).logits, model(input_ids=ids, attention_mask=padding).logits]
            model.set_attn_implementation(module.NAME)
            ours = [model(input_ids=ids).logits, model(input_ids=ids, attention_mask=padding).logits]
        for a, b in zip(ours, plain, strict=True):
            assert torch.equal(a, b)
