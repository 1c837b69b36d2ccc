"""Fine-tuning and scoring on a GPU: waits grow with evaluations and batches, not with steps and texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from eval.classification.classifier import make_classifier
from eval.classification.example_tokens import Encoded
from eval.classification.finetune import finetune
from eval.finetuning import Finetuning
from eval.scoring.log_likelihood import causal_log_likelihoods
from eval.scoring.text_batches import ScoredText
from ffn_variants import build_model

SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 300}


def examples(count: int) -> Encoded:
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, 300, length).tolist() for length in rng.integers(4, 30, count)]
    return Encoded.from_lists(ids, rng.integers(0, 2, count).tolist())


@pytest.mark.parametrize("variant", ["gelu", "kan"])
def test_no_step_of_fine_tuning_waits(variant, device, waits):
    """Twice the epochs, with no evaluation but the last, wait as often."""
    torch.manual_seed(0)
    model = build_model("roberta", variant, num_attention_heads=2, **SIZES)
    classifier = make_classifier(AutoModelForSequenceClassification.from_config(model.config)).to(device)

    def tune(epochs: int) -> None:
        settings = Finetuning(num_train_epochs=epochs, eval_steps=10**9)
        finetune(classifier, examples(256), examples(16), lambda labels, found: 0.0, settings, seed=0)

    tune(1)
    once, twice = waits(lambda: tune(2)), waits(lambda: tune(4))
    assert twice <= once + 1


def test_scoring_waits_once_a_batch_at_most(device, waits):
    torch.manual_seed(0)
    model = build_model("gpt_neo", "gelu", num_attention_heads=2, **SIZES).eval().to(device)
    rng = np.random.default_rng(0)
    texts = [
        ScoredText([1, *rng.integers(5, 300, length).tolist(), 2], 1, length + 1) for length in [12] * 600
    ]
    causal_log_likelihoods(model, texts, 65536)
    few = waits(lambda: causal_log_likelihoods(model, texts[:300], 65536))
    many = waits(lambda: causal_log_likelihoods(model, texts, 65536))
    assert many <= few + 4
