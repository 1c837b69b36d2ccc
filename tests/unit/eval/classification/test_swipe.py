"""The head ``swipe`` against its formula in numpy, and encoding in chunks against encoding at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from torch import nn
from torch.nn.functional import gelu

from base.errors import UsageError
from eval.classification.encoders import embed_in_chunks
from eval.classification.example_tokens import Encoded
from eval.classification.heads import SwipeHead, build_head
from scores.head_descriptions import parse_head

D, C = 12, 3


def make_head(**options: Any) -> SwipeHead:
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
    head = make_head(pooling=pooling, num_layers=num_layers, num_heads=3)
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
    with pytest.raises(
        UsageError, match="num_heads is 5, which does not divide the backbone's hidden_size 12"
    ):
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
