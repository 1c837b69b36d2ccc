"""Long documents in chunks on a CUDA device, where dropout draws from another generator than on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertConfig

from eval.classification.classifier import HeadClassifier
from eval.classification.encoders import TOKENS_PER_CHUNK, PaddedEncoder
from eval.classification.example_tokens import Encoded
from eval.classification.heads import build_head
from eval.classification.segments import Segmented
from scores.head_descriptions import parse_head

LENGTH, NUM_SEGMENTS = 100, 120


def documents() -> Segmented:
    """Two documents of 60 segments, more than one chunk holds."""
    assert LENGTH * NUM_SEGMENTS > TOKENS_PER_CHUNK
    ids = np.random.default_rng(0).integers(3, 50, (NUM_SEGMENTS, LENGTH)).tolist()
    pieces = Encoded.from_lists(ids, [0] * NUM_SEGMENTS)
    labels, names = np.array([0, 1]), np.array(["0", "1"], dtype=object)
    counts, spans = np.array([60, 60]), np.zeros((NUM_SEGMENTS, 2), np.int64)
    return Segmented(pieces, counts, labels, np.zeros(2, bool), names, spans)


def test_gradients_are_those_of_the_loss_with_the_same_dropout(device):
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
