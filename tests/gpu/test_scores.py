"""Scores on a GPU are those on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eval.scoring.log_likelihood import causal_log_likelihoods, pseudo_log_likelihoods
from eval.scoring.text_batches import ScoredText
from ffn_variants import build_model

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 500}


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
@pytest.mark.parametrize("ffn", ["gelu", "kan"])
def test_scores_are_those_of_the_cpu(family: str, ffn: str, device: str) -> None:
    torch.manual_seed(0)
    model = build_model(family, ffn, num_attention_heads=4, **SIZES).eval()
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
    model.to(device)
    np.testing.assert_allclose(score(), on_cpu, rtol=1e-5, atol=1e-3)
