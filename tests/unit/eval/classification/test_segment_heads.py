"""The heads of tokens and segments against their formulas in numpy, and encoding in chunks."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from torch import nn
from torch.nn.functional import gelu

from base.errors import UsageError
from eval.classification.data import segmentation_of
from eval.classification.encoders import embed_in_chunks
from eval.classification.example_tokens import Encoded
from eval.classification.heads import SpaceHead, SwipeHead, build_head
from eval.classification.segments import Segmentation
from eval.finetuning import Finetuning
from scores.head_descriptions import HEADS, parse_head

# The head ``space`` against its formula text by text, with padding and short texts.
HIDDEN, LABELS, DIMENSIONS = 16, 4, 3
LENGTHS = (5, 1, 9, 2)


def make_space(**options) -> SpaceHead:
    torch.manual_seed(0)
    head = SpaceHead(HIDDEN, LABELS, **{"num_dimensions": DIMENSIONS, "intra_weight": 0.001, **options})
    nn.init.normal_(head.classifier.bias)
    return head


def make_texts(lengths=LENGTHS, padding=0.0, scale=1.0):
    """Random texts of these lengths, with a number in the place of padding."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    vectors = scale * torch.randn(*mask.shape, HIDDEN, generator=generator)
    return vectors.masked_fill(~mask.unsqueeze(-1), padding), mask


def formula(head, vectors, lengths, intra_weight, inter_weight):
    """Logits, centroids and the weighted losses in float64, one text and one class at a time."""
    projections = head.projections.weight.detach().double().numpy().reshape(LABELS, -1, HIDDEN)
    weight, bias = (p.detach().double().numpy() for p in head.classifier.parameters())
    logits, centroids, inverse_variances = [], [], []
    for text, length in zip(vectors.double().numpy(), lengths, strict=True):
        spaces = [np.tanh(text[:length] @ projection.T) for projection in projections]
        centroids.append([space.mean(0) for space in spaces])
        logits.append(weight @ np.concatenate(centroids[-1]) + bias)
        if length > 1:
            inverse_variances.append(sum((1 / (space.var(0, ddof=1) + 1e-9)).sum() for space in spaces))
    means = np.mean(centroids, axis=0)
    pairs = [(i, k) for i in range(LABELS) for k in range(i)]
    inter = sum(1 / (1 - np.tanh(means[i] @ means[k]) + 1e-9) for i, k in pairs)
    loss = intra_weight * np.mean(inverse_variances) + inter_weight * inter
    return np.array(logits), np.array(centroids), loss


@pytest.mark.parametrize("padding", [0.0, -1e4])
@pytest.mark.parametrize(
    ("dimensions", "intra", "inter"), [(1, 0.001, 0.0), (3, 0.0, 0.2), (8, 0.5, 2.0), (3, 0.0, 0.0)]
)
def test_logits_and_losses_are_those_of_the_formula(dimensions, intra, inter, padding, error):
    head = make_space(num_dimensions=dimensions, intra_weight=intra, inter_weight=inter)
    vectors, mask = make_texts(padding=padding)
    output = head(vectors, mask)
    logits, centroids, loss = formula(head, vectors, LENGTHS, intra, inter)
    assert error(output.logits, logits) < 1e-6
    assert error(head.concept_vectors(vectors, mask), centroids) < 1e-6
    if intra or inter:
        assert output.auxiliary_loss.item() == pytest.approx(loss, rel=1e-5)
    else:
        assert output.auxiliary_loss is None
    assert output.segment_scores is None


def test_a_text_of_one_token_has_no_loss_and_finite_gradients():
    head = make_space()
    output = head(*make_texts((1,)))
    assert output.auxiliary_loss.item() == 0
    (output.logits.sum() + output.auxiliary_loss).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())
    assert head.classifier.weight.grad.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_tokens_and_saturated_spaces_keep_losses_and_gradients_finite(dtype):
    head = make_space(num_dimensions=64, inter_weight=0.2).to(dtype)
    one, mask = make_texts((7,), scale=1e4)
    vectors = one[:, :1].expand(-1, 7, -1).repeat(3, 1, 1).to(dtype)
    output = head(vectors, mask.repeat(3, 1))
    assert output.logits.dtype == dtype
    assert output.auxiliary_loss.item() > 1e6  # no variance at all
    (output.logits.float().square().sum() + output.auxiliary_loss).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_variances_of_bf16_places_lose_no_further_digits():
    head = make_space(intra_weight=1.0).bfloat16()
    shared, _ = make_texts((1,))
    vectors = (shared + 0.05 * torch.randn(2, 40, HIDDEN)).bfloat16()
    output = head(vectors, torch.ones(2, 40, dtype=torch.bool))
    places = head.projections(vectors).tanh().detach().double().numpy()
    expected = (1 / (places.var(1, ddof=1) + 1e-9)).sum(1).mean()
    assert output.auxiliary_loss.item() == pytest.approx(expected, rel=1e-5)


# The head ``swipe`` against its formula in numpy, and encoding in chunks against encoding at once.
D, C = 12, 3


def make_swipe(**options: Any) -> SwipeHead:
    """In float64, with weights and biases large enough to matter."""
    torch.manual_seed(0)
    head = SwipeHead(D, C, **options).double().eval()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.5)
    return head


COUNTS = (4, 1, 6)


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Of texts of so many segments, with numbers in the place of padding that must not be read."""
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(len(COUNTS), max(COUNTS), D, generator=generator, dtype=torch.float64)
    mask = torch.arange(max(COUNTS)) < torch.tensor(COUNTS)[:, None]
    return vectors.masked_fill(~mask[..., None], 1e3), mask


def numpy_contributions(head: SwipeHead, pooling: str, vectors: np.ndarray) -> np.ndarray:
    weights = {name: value.detach().numpy() for name, value in head.named_parameters()}
    scores = vectors @ weights["score.weight"].T + weights["score.bias"]
    if pooling.startswith("gated"):
        scores = scores * expit(vectors @ weights["gate.weight"].T + weights["gate.bias"])
    return scores


@pytest.mark.parametrize("with_gradient", [True, False])
@pytest.mark.parametrize("num_layers", [0, 2])
@pytest.mark.parametrize("pooling", ["max", "gated-max", "sum", "gated-sum"])
def test_the_formula(pooling: str, num_layers: int, with_gradient: bool) -> None:
    head = make_swipe(pooling=pooling, num_layers=num_layers, num_heads=3)
    vectors, mask = make_batch()
    with torch.set_grad_enabled(with_gradient):
        out = head(vectors, mask)
    assert out.auxiliary_loss is None
    for row, count in enumerate(COUNTS):
        own = vectors[[row], :count]
        with torch.enable_grad():  # else torch takes another route
            for layer in head.layers:  # of Vaswani et al. 2017 with GELU, as torch has them, without padding
                assert layer.activation is gelu
                own = layer(own)
        scores = numpy_contributions(head, pooling, own[0].detach().numpy())
        pooled = scores.max(0) if pooling.endswith("max") else scores.sum(0)
        np.testing.assert_allclose(out.logits[row].detach(), pooled, rtol=0, atol=1e-12)
        np.testing.assert_allclose(out.segment_scores[row, :count].detach(), scores, rtol=0, atol=1e-5)
        assert (out.segment_scores[row, count:] == 0).all()


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(UsageError, match=r"num_heads is 5, which does not divide .* hidden_size 12"):
        build_head(parse_head("swipe num_layers=1 num_heads=5"), D, C)
    build_head(parse_head("swipe num_heads=5"), D, C)  # without layers there is nothing to divide


class Bag(nn.Module):
    """Encodes a sequence as a transformed mean of its tokens' vectors, with dropout."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, D).double()
        self.linear = nn.Linear(D, D).double()
        self.dropout = nn.Dropout(dropout)
        self.sizes: list[int] = []

    def forward(self, batch: Encoded) -> torch.Tensor:
        self.sizes.append(int(batch.lengths.max()) * len(batch))
        owner = torch.from_numpy(np.repeat(np.arange(len(batch)), batch.lengths))
        sums = torch.zeros(len(batch), D, dtype=torch.float64)
        sums = sums.index_add(0, owner, self.table(torch.from_numpy(batch.tokens).long()))
        return self.dropout(torch.tanh(self.linear(sums / torch.from_numpy(batch.lengths)[:, None])))


def make_pieces() -> Encoded:
    generator = np.random.default_rng(3)
    lists = [generator.integers(0, 50, size).tolist() for size in generator.integers(1, 30, 40)]
    return Encoded.from_lists(lists, [0] * 40)


def test_chunks_change_neither_vectors_nor_gradients() -> None:
    pieces, found = make_pieces(), []
    target = torch.randn(40, D, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    for tokens in (10**9, 100, 1):
        bag = Bag()
        vectors = embed_in_chunks(bag, pieces, tokens)
        (vectors * target).sum().backward()
        found.append((vectors.detach(), [p.grad for p in bag.parameters()]))
    for chunked in found[1:]:
        torch.testing.assert_close(chunked, found[0], rtol=0, atol=1e-13)


def test_chunks_are_bounded_and_computed_again_for_gradients_only() -> None:
    pieces, bag = make_pieces(), Bag()
    with torch.no_grad():
        without = embed_in_chunks(bag, pieces, 100)
    num_chunks = len(bag.sizes)
    assert num_chunks > 1
    assert max(bag.sizes) <= 100
    vectors = embed_in_chunks(bag, pieces, 100)
    assert torch.equal(vectors, without)
    vectors.sum().backward()
    assert len(bag.sizes) == 3 * num_chunks  # without gradients, forward, and again on the way back
    bag.sizes.clear()
    embed_in_chunks(bag, pieces, 10**6).sum().backward()
    assert len(bag.sizes) == 1
    bag.sizes.clear()
    embed_in_chunks(bag, Encoded.from_lists([[1] * 50, [2] * 3, [3] * 3], [0, 0, 0]), 8)
    assert sorted(bag.sizes) == [6, 50]  # a sequence longer than a chunk is one


def test_dropout_is_the_same_when_computed_again() -> None:
    pieces, bag = make_pieces(), Bag(dropout=0.5)
    torch.manual_seed(5)
    vectors = embed_in_chunks(bag, pieces, 100)
    vectors.sum().backward()
    kept = vectors.detach() != 0
    assert 0.3 < kept.double().mean() < 0.7
    # The bias's gradient, were the same units dropped: 2 (1 - tanh^2) where a unit was kept.
    activation = torch.where(kept, vectors.detach() / 2, 0.0)
    expected = torch.where(kept, 2 * (1 - activation**2), 0.0).sum(0)
    torch.testing.assert_close(bag.linear.bias.grad, expected, rtol=0, atol=1e-12)


# The heads ``segment-attention`` and ``segment-lstm`` against their formulas in numpy.
def make_baseline(text: str) -> tuple[nn.Module, dict[str, np.ndarray]]:
    torch.manual_seed(0)
    head = build_head(parse_head(text), D, C).double().eval()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.7)
    return head, {name: value.numpy() for name, value in head.state_dict().items()}


def test_attention_is_a_weighted_mean_whose_weights_are_the_scores() -> None:
    head, state = make_baseline("segment-attention")
    vectors, mask = make_batch()
    out = head(vectors, mask)
    for row, count in enumerate(COUNTS):
        own = vectors[row, :count].numpy()
        weights = softmax(own @ state["query"] / np.sqrt(D))
        expected = state["score.weight"] @ (weights @ own) + state["score.bias"]
        np.testing.assert_allclose(out.logits[row].detach(), expected, rtol=0, atol=1e-12)
        for label in range(C):
            np.testing.assert_allclose(out.segment_scores[row, :count, label].detach(), weights, atol=1e-12)
        assert (out.segment_scores[row, count:] == 0).all()


def test_attention_starts_as_a_mean() -> None:
    torch.manual_seed(0)
    head = build_head(parse_head("segment-attention"), D, C).double()
    vectors, mask = make_batch()
    weights = head(vectors, mask).segment_scores[..., 0].detach()
    np.testing.assert_allclose(weights, mask.double() / mask.sum(1)[:, None], rtol=0, atol=1e-15)


def numpy_lstm(state: dict[str, np.ndarray], own: np.ndarray) -> np.ndarray:
    """States of Hochreiter and Schmidhuber's cell with a forget gate, for one text's (M, D)."""
    hidden = cell = np.zeros(D)
    states = []
    for vector in own:
        gates = state["lstm.weight_ih_l0"] @ vector + state["lstm.bias_ih_l0"]
        gates = gates + state["lstm.weight_hh_l0"] @ hidden + state["lstm.bias_hh_l0"]
        enter, forget, new, leave = np.split(gates, 4)
        cell = expit(forget) * cell + expit(enter) * np.tanh(new)
        hidden = expit(leave) * np.tanh(cell)
        states.append(hidden)
    return np.array(states)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_an_lstm_reads_the_segments_in_order(pooling: str) -> None:
    head, state = make_baseline(f"segment-lstm pooling={pooling}")
    vectors, mask = make_batch()
    out = head(vectors, mask)
    assert out.segment_scores is None
    for row, count in enumerate(COUNTS):
        states = numpy_lstm(state, vectors[row, :count].numpy())
        read = states[-1] if pooling == "last" else states.mean(0)
        expected = state["score.weight"] @ read + state["score.bias"]
        np.testing.assert_allclose(out.logits[row].detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, spec in HEADS.items() if spec.reads == "segments"])
def test_every_head_of_segments_says_how_to_cut(name: str) -> None:
    usual = Segmentation(segments="windows", window=128, stride=32)
    assert segmentation_of(Finetuning(head=f"{name} frozen")) == usual
    settings = Finetuning(head=f"{name} segments=turns stride=0 window=64")
    assert segmentation_of(settings) == Segmentation(segments="turns", window=64, stride=0)
