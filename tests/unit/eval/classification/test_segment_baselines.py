"""The heads ``segment-attention`` and ``segment-lstm`` against their formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from torch import nn

from eval.classification.data import segmentation_of
from eval.classification.heads import build_head
from eval.classification.segments import Segmentation
from eval.finetuning import Finetuning
from scores.head_descriptions import HEADS, parse_head

D, C, COUNTS = 8, 3, (4, 1, 6)


def make_head(text: str) -> tuple[nn.Module, dict[str, np.ndarray]]:
    torch.manual_seed(0)
    head = build_head(parse_head(text), D, C).double().eval()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.7)
    return head, {name: value.numpy() for name, value in head.state_dict().items()}


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(len(COUNTS), max(COUNTS), D, generator=generator, dtype=torch.float64)
    return vectors, torch.arange(max(COUNTS)) < torch.tensor(COUNTS)[:, None]


def test_attention_is_a_weighted_mean_whose_weights_are_the_scores() -> None:
    head, state = make_head("segment-attention")
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
    head, state = make_head(f"segment-lstm pooling={pooling}")
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
