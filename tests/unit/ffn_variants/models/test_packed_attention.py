"""Attention of packed documents against each document alone in float64, and what flash attention is asked."""

import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from eval.classification.encoders import PackedEncoder
from eval.classification.example_tokens import Encoded
from ffn_variants import build_model
from ffn_variants.models import packed_attention as module
from ffn_variants.models.packed_attention import document_numbers, packed_attention
from pretrain.model.objective import PackedLoss
from tests.cases import SMALL, listed

HEADS, WIDTH, SIZE, LENGTH = 2, 4, 8, 16
ROWS = [[5, 9, 1, 1], [16], [3, 1, 12]]  # lengths of the documents; those of one token may be padding


def positions_of(rows: list[list[int]]) -> torch.Tensor:
    return torch.tensor([[place for length in row for place in range(length)] for row in rows])


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


def model_of(family: str, **more):
    dropouts = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    own = {"window_size": 5} if family == "gpt_neo" else dropouts
    torch.manual_seed(0)
    return build_model(family, "gelu", **(SMALL | own | more)).train()


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
    numbers = document_numbers(positions_of(ROWS))
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
    numbers = document_numbers(positions_of([[40, 130, 1, 1, 60], [232]]))
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
    model = model_of(family, **dropouts)
    loss, everywhere = PackedLoss(model, family), torch.arange(48)
    ids = torch.randint(4, 50, (3, 16))
    other = ids.clone()
    other[0, 5:14] = torch.randint(4, 50, (9,))  # the second document of the first row
    outputs = []
    for tokens in (ids, ids, other):
        torch.manual_seed(1)
        outputs.append(loss.features(tokens, positions_of(ROWS), everywhere).detach())
    torch.manual_seed(2)
    redrawn = loss.features(ids, positions_of(ROWS), everywhere).detach()
    changed = (outputs[0] != outputs[2]).any(1).nonzero()[:, 0].tolist()
    assert torch.equal(outputs[0], outputs[1])
    assert changed == list(range(5, 14))
    assert not torch.equal(outputs[0], redrawn)


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_other_masks_go_to_sdpa(family):
    model = model_of(family).eval()
    ids, padding = torch.randint(4, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    padding[1, 6:] = 0
    with torch.no_grad():
        plain = [model(input_ids=ids).logits, model(input_ids=ids, attention_mask=padding).logits]
        model.set_attn_implementation(module.NAME)
        ours = [model(input_ids=ids).logits, model(input_ids=ids, attention_mask=padding).logits]
    for a, b in zip(ours, plain, strict=True):
        assert torch.equal(a, b)


# With flash attention, whose kernels only a GPU has. A stand-in computes on a CPU what their documentation
# says of every argument, document by document.


def scores_mask(queries: int, keys: int, causal: bool, left: int, right: int) -> torch.Tensor:
    """Of FlashAttention-2: query i sees key j of [i + keys - queries - left, i + keys - queries + right]."""
    if causal:
        right = 0
    place = torch.arange(queries)[:, None] + keys - queries
    key = torch.arange(keys)
    visible = torch.ones(queries, keys, dtype=torch.bool)
    if left >= 0:
        visible &= key >= place - left
    if right >= 0:
        visible &= key <= place + right
    return visible


def documents(tensors, starts):
    """The (H, n, D) float64 parts of (N, H, D) tensors, and where they lie."""
    for start, end in itertools.pairwise(starts):
        if start < end:
            yield slice(start, end), [tensor[start:end].double().transpose(0, 1) for tensor in tensors]


class StandIn:
    """Kernels of the operation and of its backward pass for CPU tensors, which note their arguments."""

    def __init__(self) -> None:
        self.calls: list[dict] = []
        self.library = torch.library.Library("aten", "IMPL")
        self.library.impl("_flash_attention_forward", self.forward, "CPU")
        self.library.impl("_flash_attention_backward", self.backward, "CPU")

    def forward(
        self, query, key, value, starts, key_starts, longest, longest_key, dropout, causal, debug, **how
    ):
        assert starts.dtype == key_starts.dtype == torch.int32
        assert torch.equal(starts, key_starts)
        assert starts.is_contiguous()
        assert starts[0] == 0
        assert starts[-1] == len(query)
        assert (starts.diff() >= 0).all()
        assert starts.diff().max() <= longest == longest_key
        assert not debug
        assert query._base is not None  # a view: nothing was copied
        self.calls.append({"longest": longest, "dropout": dropout, "causal": causal, **how})
        out = torch.full_like(value, torch.nan)
        for place, (q, k, v) in documents((query, key, value), starts.tolist()):
            out[place] = (self.weights(q, k, causal, **how) @ v).transpose(0, 1).to(out.dtype)
        empty = torch.empty(0)
        return out, empty, empty, empty, empty

    @staticmethod
    def weights(query, key, causal, *, scale=None, window_size_left=None, window_size_right=None):
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        left, right = (-1 if side is None else side for side in (window_size_left, window_size_right))
        mask = scores_mask(query.shape[1], key.shape[1], causal, left, right)
        return (query @ key.mT * scale).masked_fill(~mask, -torch.inf).softmax(-1)

    def backward(self, grad, query, key, value, *rest, **how):
        """By the derivatives of a softmax; ``rest`` begins with the output and its normalisers."""
        _, _, starts, _, longest, _, dropout, causal = rest[:8]
        self.calls.append({"longest": longest, "dropout": dropout, "causal": causal, **how})
        scale = query.shape[-1] ** -0.5 if how["scale"] is None else how["scale"]
        grads = [torch.full_like(tensor, torch.nan) for tensor in (query, key, value)]
        for place, (q, k, v, g) in documents((query, key, value, grad), starts.tolist()):
            weights = self.weights(q, k, causal, **how)
            of_weights = g @ v.mT
            of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
            for whole, part in zip(grads, (of_scores @ k, of_scores.mT @ q, weights.mT @ g), strict=True):
                whole[place] = part.transpose(0, 1).to(whole.dtype)
        return tuple(grads)


@pytest.fixture
def stand_in(monkeypatch) -> Iterator[StandIn]:
    monkeypatch.setattr(module, "takes_flash", lambda *_: True)
    standing = StandIn()
    yield standing
    standing.library._destroy()


@st.composite
def rows(draw) -> list[list[int]]:
    """Lengths of the documents of 1 to 3 rows of 16 tokens."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = draw(st.sets(st.integers(1, LENGTH - 1), max_size=LENGTH - 1))
        found.append(np.diff([0, *sorted(cuts), LENGTH]).tolist())
    return found


def starts_of(rows: list[list[int]], spare: int) -> torch.Tensor:
    ends = np.cumsum([length for row in rows for length in row])
    return torch.tensor([0, *ends, *[ends[-1]] * spare], dtype=torch.int32)


@settings(max_examples=40, deadline=None)
@given(
    rows=rows(),
    spare=st.integers(0, 3),
    causal=st.booleans(),
    window=st.none() | st.integers(1, LENGTH + 4),
    scaling=st.sampled_from([None, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_outputs_are_those_of_the_cpu(rows, spare, causal, window, scaling, seed):
    generator = torch.Generator().manual_seed(seed)
    shape, layer = (len(rows), LENGTH, HEADS, SIZE), SimpleNamespace(is_causal=causal)
    projected = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    heads = [tensor.view(shape).transpose(1, 2) for tensor in projected]
    how = {"scaling": scaling, "sliding_window": window}
    standing = StandIn()
    try:
        mask = starts_of(rows, spare)[None, None, None]
        ours, _ = packed_attention(layer, *heads, mask, **how)
    finally:
        standing.library._destroy()
    wanted, _ = packed_attention(layer, *heads, document_numbers(positions_of(rows)), **how)
    assert ours.shape == wanted.shape == shape
    torch.testing.assert_close(ours, wanted, atol=1e-12, rtol=1e-12)


# As batches list them: the two last tokens of the first row are padding, and one document.
STARTS = [0, 5, 14, 16, 32, 35, 36, 48, 48, 48]
INDEX = [0, 1, 4, 7, 13, 16, 20, 31, 33, 40, 47]


def loss_and_gradients(family: str, starts: torch.Tensor | None):
    torch.manual_seed(1)
    model, ids = model_of(family), torch.randint(4, 50, (3, LENGTH))
    index, targets = torch.tensor(INDEX), torch.randint(4, 50, (len(INDEX),))
    loss = PackedLoss(model, family)(
        input_ids=ids,
        position_ids=positions_of(ROWS),
        target_index=index,
        target_ids=targets,
        document_starts=starts,
    )
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def pairs(model, position_ids, starts, causal, of_whole_rows):
    """What GPUs without flash attention have: a mask of pairs."""
    numbers = document_numbers(position_ids)[:, 0, 0]
    return module._pairs(numbers, model.dtype, causal, getattr(model.config, "window_size", None))


@pytest.mark.parametrize("way", ["flash", "pairs"])
@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_losses_and_gradients_of_a_model_are_those_of_the_cpu(family, way, stand_in, monkeypatch):
    wanted, exact_gradients = loss_and_gradients(family, None)
    assert not stand_in.calls
    if way == "pairs":
        monkeypatch.setattr(module, "document_mask", pairs)
    starts = torch.tensor(STARTS, dtype=torch.int32) if way == "flash" else None
    found, gradients = loss_and_gradients(family, starts)
    assert len(stand_in.calls) == (4 if way == "flash" else 0)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, exact_gradients[name], atol=1e-5, rtol=1e-5)


def test_each_layer_asks_for_its_own(stand_in):
    starts = torch.tensor(STARTS, dtype=torch.int32)
    loss_and_gradients("gpt_neo", starts)
    same = {"longest": LENGTH, "dropout": 0.0, "scale": 1.0, "window_size_right": 0}
    everywhere = same | {"causal": True, "window_size_left": -1}
    local = same | {"causal": False, "window_size_left": 4}
    assert stand_in.calls == [everywhere, local, local, everywhere]
    stand_in.calls.clear()
    loss_and_gradients("roberta", starts)
    both = same | {"causal": False, "scale": SIZE**-0.5, "window_size_left": -1, "window_size_right": -1}
    assert stand_in.calls == [both] * 4


def test_dropout_of_weights_is_asked_for_in_training_alone(stand_in):
    model = model_of("roberta", attention_probs_dropout_prob=0.25)
    loss, ids, index = PackedLoss(model, "roberta"), torch.randint(4, 50, (3, LENGTH)), torch.tensor(INDEX)
    starts = torch.tensor(STARTS, dtype=torch.int32)
    loss.features(ids, positions_of(ROWS), index, starts)
    loss.eval().features(ids, positions_of(ROWS), index, starts)
    assert [call["dropout"] for call in stand_in.calls] == [0.25, 0.25, 0.0, 0.0]


@pytest.mark.parametrize(
    ("family", "pooling", "in_one_row"),
    [("gpt_neo", "auto", 0), ("gpt_neo", "mean", 1), ("roberta", "auto", 1), ("roberta", "mean", 0)],
)
def test_texts_of_a_batch_are_encoded_as_on_a_cpu(family, pooling, in_one_row, monkeypatch, stand_in):
    """Padded as on a GPU, too, where padding is a document of its own."""
    model, lengths = model_of(family), [LENGTH, 1, 7]
    ids = [torch.randint(4, 50, (length,)).tolist() for length in lengths]
    batch, encoder = Encoded.from_lists(ids, [0] * len(ids)), PackedEncoder(model, bool(in_one_row))
    found = encoder.pooled(batch, pooling)
    assert len(stand_in.calls) == (2 if pooling == "mean" else 1)
    monkeypatch.setattr(module, "takes_flash", lambda *_: False)
    torch.testing.assert_close(found, encoder.pooled(batch, pooling), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("change", "wanted"), listed(__file__, "what flash attention takes"))
def test_what_flash_attention_takes(change, wanted, monkeypatch):
    case = {"device": "cuda", "dtype": "bfloat16", "size": 128, "has_flash": True, "computes": True}
    case |= change
    monkeypatch.setattr(module, "computes_flash", lambda _: case["computes"])
    monkeypatch.setattr(module, "_has_flash", lambda _: case["has_flash"])
    assert (
        module.takes_flash(torch.device(case["device"]), getattr(torch, case["dtype"]), case["size"])
        == wanted
    )


@pytest.mark.parametrize(
    ("major", "is_built", "is_on"), [(8, True, True), (7, True, True), (9, False, True), (9, True, False)]
)
def test_which_gpus_have_it(major, is_built, is_on, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (major, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: is_built)
    monkeypatch.setattr(torch.backends.cuda, "flash_sdp_enabled", lambda: is_on)
    assert module._has_flash(torch.device("cuda", 0)) == (major >= 8 and is_built and is_on)


def test_a_device_where_flash_attention_fails_does_without_and_says_so_once(capsys):
    """A CPU, which has no such kernel."""
    assert not any(module.computes_flash(torch.device("cpu")) for _ in range(2))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: flash attention failed ({module.FAILURES.pop()}")
    module.computes_flash.cache_clear()
