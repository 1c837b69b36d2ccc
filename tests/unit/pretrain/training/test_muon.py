"""Muon against its steps written out in numpy, and which parameters it gets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ffn_variants import FAMILIES, FFN_VARIANTS, build_model
from pretrain.config import OptimConfig
from pretrain.training.muon import hidden_matrices, newton_schulz
from pretrain.training.optim import build_optimizer
from tests.cases import diagonal_is_fast

A, B, C = 3.4445, -4.7750, 2.0315
RATE, DECAY, MOMENTUM, STEPS = 0.02, 0.1, 0.95, 5


def orthogonalised(matrix: np.ndarray) -> np.ndarray:
    """Five steps of X (a + b X^T X + c (X^T X)^2) from X over its norm (Jordan et al. 2024), in float64."""
    x = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        gram = x.T @ x
        x = x @ (A * np.eye(len(gram)) + B * gram + C * gram @ gram)
    return x


def by_numpy(weight: np.ndarray, grads: list[np.ndarray]) -> np.ndarray:
    """Nesterov momentum, the update, decoupled decay, and a root mean square of 0.2 (Liu et al. 2025)."""
    momentum = np.zeros_like(weight)
    for grad in grads:
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * grad
        update = orthogonalised(MOMENTUM * momentum + (1 - MOMENTUM) * grad)
        weight = weight * (1 - RATE * DECAY) - RATE * 0.2 * np.sqrt(max(weight.shape)) * update
    return weight


@pytest.mark.parametrize("shape", [(6, 15), (15, 6), (8, 8)])
def test_newton_schulz_is_that_of_numpy_in_float64(shape):
    matrix = np.random.default_rng(0).normal(size=shape)
    lying = torch.from_numpy(matrix if shape[0] <= shape[1] else matrix.T)
    found = newton_schulz(lying[None], (A, B, C), 5, 1e-7)[0].numpy()
    found = found if shape[0] <= shape[1] else found.T
    np.testing.assert_allclose(found, orthogonalised(matrix), rtol=0, atol=1e-12)
    assert np.abs(np.linalg.svd(found)[1] - 1).max() < 0.4  # what the coefficients leave


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30)])
def test_updates_are_those_of_numpy(shape, on_device):
    """As near as bfloat16 allows: within 2% of how far the weights went."""
    rng = np.random.default_rng(1)
    weight, grads = rng.normal(size=shape), [rng.normal(size=shape) for _ in range(STEPS)]
    linear = nn.Linear(shape[1], shape[0], bias=False)
    linear.weight.data = torch.tensor(weight, dtype=torch.float32)
    optim = OptimConfig(optimizer="muon", learning_rate=RATE, weight_decay=DECAY)
    optimizer = build_optimizer(nn.Sequential(linear), optim, on_device)
    for grad in grads:
        linear.weight.grad = torch.tensor(grad, dtype=torch.float32)
        optimizer.step()
    expected = by_numpy(weight, grads)
    off = np.linalg.norm(linear.weight.detach().numpy() - expected)
    assert off < 0.02 * np.linalg.norm(expected - weight)


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(list(FAMILIES), list(FFN_VARIANTS)))
def test_it_gets_the_linear_layers_inside_a_model_and_no_table(family, ffn):
    layers = "num_layers" if family == "t5" else "num_hidden_layers"
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "vocab_size": 50,
        "num_attention_heads": 2,
        layers: 1,
    }
    model = build_model(family, ffn, **sizes)
    matrices = {id(parameter) for parameter in hidden_matrices(model)}
    optimizer = build_optimizer(model, OptimConfig(optimizer="muon"))
    first, *others = optimizer.param_groups
    assert {id(parameter) for parameter in first["params"]} == matrices
    rest = {id(parameter) for group in others for parameter in group["params"]}
    assert matrices | rest == {id(parameter) for parameter in model.parameters()}
    assert not matrices & rest
    linear = {
        name for name, m in model.named_modules() if isinstance(m, nn.Linear) and id(m.weight) in matrices
    }
    everywhere = {name for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    assert everywhere - linear <= {"lm_head", "lm_head.decoder"}
    assert len(linear) >= 4


@pytest.mark.parametrize("ties", [True, False])
def test_an_output_head_is_left_out_tied_or_not(ties):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "vocab_size": 50, "num_attention_heads": 2}
    model = build_model("llama", "swiglu", tie_word_embeddings=ties, **sizes)
    tables = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    assert not tables & {id(parameter) for parameter in hidden_matrices(model)}
