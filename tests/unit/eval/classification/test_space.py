"""The head ``space`` against its formula text by text, with padding and short texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from eval.classification.heads import SpaceHead, build_head
from scores.head_descriptions import parse_head

HIDDEN, LABELS, DIMENSIONS = 16, 4, 3
LENGTHS = (5, 1, 9, 2)


def make_head(**options) -> SpaceHead:
    torch.manual_seed(0)
    head = SpaceHead(HIDDEN, LABELS, **{"num_dimensions": DIMENSIONS, **options})
    nn.init.normal_(head.classifier.bias)
    return head


def make_batch(lengths=LENGTHS, padding=0.0, scale=1.0):
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
    head = make_head(num_dimensions=dimensions, intra_weight=intra, inter_weight=inter)
    vectors, mask = make_batch(padding=padding)
    output = head(vectors, mask)
    logits, centroids, loss = formula(head, vectors, LENGTHS, intra, inter)
    assert error(output.logits, logits) < 1e-6
    assert error(head.concept_vectors(vectors, mask), centroids) < 1e-6
    if intra or inter:
        assert output.auxiliary_loss.item() == pytest.approx(loss, rel=1e-5)
    else:
        assert output.auxiliary_loss is None
    assert output.segment_scores is None


def test_gradients_are_those_of_finite_differences():
    head = make_head(intra_weight=0.1, inter_weight=0.3).double()
    vectors, mask = make_batch((3, 1, 2))
    names, parameters = zip(*head.named_parameters(), strict=True)

    def outputs(vectors, *values):
        output = torch.func.functional_call(head, dict(zip(names, values, strict=True)), (vectors, mask))
        return output.logits, output.auxiliary_loss

    inputs = [vectors.double(), *(p.detach() for p in parameters)]
    assert torch.autograd.gradcheck(outputs, [x.requires_grad_() for x in inputs])


def test_a_text_of_one_token_has_no_loss_and_finite_gradients():
    head = make_head()
    output = head(*make_batch((1,)))
    assert output.auxiliary_loss.item() == 0
    (output.logits.sum() + output.auxiliary_loss).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())
    assert head.classifier.weight.grad.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_tokens_and_saturated_spaces_keep_losses_and_gradients_finite(dtype):
    head = make_head(num_dimensions=64, inter_weight=0.2).to(dtype)
    one, mask = make_batch((7,), scale=1e4)
    vectors = one[:, :1].expand(-1, 7, -1).repeat(3, 1, 1).to(dtype)
    output = head(vectors, mask.repeat(3, 1))
    assert output.logits.dtype == dtype
    assert output.auxiliary_loss.item() > 1e6  # no variance at all
    (output.logits.float().square().sum() + output.auxiliary_loss).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_the_published_head_has_its_number_of_parameters():
    # BERT and two classes: 4,622 in the tables of the authors' repository.
    head = build_head(parse_head("space"), 768, 2)
    assert sum(parameter.numel() for parameter in head.parameters()) == 4622


def test_variances_of_bf16_places_lose_no_further_digits():
    head = make_head(intra_weight=1.0).bfloat16()
    shared, _ = make_batch((1,))
    vectors = (shared + 0.05 * torch.randn(2, 40, HIDDEN)).bfloat16()
    output = head(vectors, torch.ones(2, 40, dtype=torch.bool))
    places = head.projections(vectors).tanh().detach().double().numpy()
    expected = (1 / (places.var(1, ddof=1) + 1e-9)).sum(1).mean()
    assert output.auxiliary_loss.item() == pytest.approx(expected, rel=1e-5)
