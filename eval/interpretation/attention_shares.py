"""How much attention the last layer of a model gives to each token of a text, and to parts of the text.

Shapes: n texts, N tokens of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from eval.classification.inputs.example_text import token_places
from eval.classification.inputs.layout import padded_inputs
from eval.classification.inputs.tokens import Encoded


@torch.inference_mode()
def attention_shares(model: PreTrainedModel, encoded: Encoded, batch_size: int = 32) -> np.ndarray:
    """Average the last layer's attention weights over its heads and over the tokens that look.

    Args:
        model: A model without head, or one whose outputs have ``attentions``; evaluated without dropout.
        encoded: n texts.
        batch_size: Texts per forward pass.

    Returns:
        (N,) share of each token of ``encoded``; those of a text add up to 1.
    """
    was_training, backend = model.training, model.config._attn_implementation
    model.eval()
    _use_backend(model, "eager")  # the only one that returns its weights
    try:
        order = np.argsort(encoded.lengths, kind="stable")  # so that there is little to pad
        parts: list[np.ndarray] = [np.empty(0)] * len(encoded)
        for first in range(0, len(order), batch_size):
            chunk = order[first : first + batch_size]
            for number, shares in zip(chunk, _shares(model, encoded.take(chunk)), strict=True):
                parts[number] = shares
    finally:
        _use_backend(model, backend)
        model.train(was_training)
    return np.concatenate(parts)


def _use_backend(model: PreTrainedModel, name: Any) -> None:
    if model._can_set_attn_implementation():
        model.set_attn_implementation(name)
    else:  # a stock GPT-Neo with this project's attention, which reads the config
        model.config._attn_implementation = name


def _shares(model: PreTrainedModel, batch: Encoded) -> list[np.ndarray]:
    inputs: Any = padded_inputs(model, batch)
    mask = inputs["attention_mask"]
    output = model(**inputs, output_attentions=True)
    weights = output.attentions[-1].float().mean(1)  # (n, queries, keys)
    weights = (weights * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
    return [row[:length].cpu().double().numpy() for row, length in zip(weights, batch.lengths, strict=True)]


def shares_of_spans(
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[tuple[str, str | None]],
    max_length: int,
    shares: np.ndarray,
    spans: Sequence[np.ndarray],
    kind: Literal["sum", "mean"] = "sum",
) -> list[np.ndarray]:
    """Add up, or average, the shares of the tokens that lie in each part of a text.

    Args:
        tokenizer: Says which characters a token stands for.
        examples: n texts or pairs, as they were encoded.
        max_length: To how many tokens they were cut.
        shares: (N,) as ``attention_shares`` returns them.
        spans: For each example the (m, 2) first characters of its parts in ``as_one_text``, and those behind
            their last.
        kind: Whether a part has what its tokens have together, or on average.

    Returns:
        For each example (m,) shares; zero for a part of which no token was read.
    """
    found, start = [], 0
    for example, own in zip(examples, spans, strict=True):
        places = token_places(tokenizer, example, max_length)
        inside = (own[:, :1] <= places) & (places < own[:, 1:])
        sums = inside @ shares[start : start + len(places)]
        found.append(sums if kind == "sum" else sums / np.maximum(inside.sum(1), 1))
        start += len(places)
    assert start == len(shares)
    return found
