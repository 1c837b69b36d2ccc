"""Where the tokens of a batch of texts lie: in one row, or padded to the longest.

Shapes: n texts of a batch, L tokens of the longest, (B, T) rows.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from eval.classification.inputs.tokens import Encoded


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a batch lie.

    Attributes:
        input_ids: (B, T).
        position_ids: (B, T) from 0 in every text.
        numbers: (B, 1, 1, T) number of the text of each token, as the backend ``packed`` wants it.
        lengths: (n,) tokens of each text.
        places: (n, L) of each text's tokens in the flattened (B * T); any place behind its end.
    """

    input_ids: Tensor
    position_ids: Tensor
    numbers: Tensor
    lengths: Tensor
    places: Tensor

    @property
    def mask(self) -> Tensor:
        """(n, L), true where there is a token."""
        return torch.arange(self.places.shape[1], device=self.places.device) < self.lengths[:, None]


def lay_out(batch: Encoded, pad_token_id: int, device: torch.device, in_one_row: bool) -> Layout:
    """Put a batch into one row, or every text into a row of its own."""
    lengths = batch.lengths
    steps = np.arange(lengths.max())
    inside = steps < lengths[:, None]
    texts = np.arange(len(lengths))[:, None]
    if in_one_row:
        places = np.where(inside, (np.cumsum(lengths) - lengths)[:, None] + steps, 0)
        ids, positions = batch.tokens[None], np.broadcast_to(steps, inside.shape)[inside][None]
        numbers = np.repeat(texts[:, 0], lengths)[None]
    else:
        places = np.arange(inside.size).reshape(inside.shape)
        ids = np.full(inside.shape, pad_token_id)
        ids[inside] = batch.tokens
        positions = np.where(inside, steps, 0)
        # Padding has a number for every token, and no two rows share one.
        numbers = texts * (len(steps) + 1) + np.where(inside, 0, steps + 1)
    tensors = (ids, positions, numbers[:, None, None], lengths, places)
    return Layout(*(torch.from_numpy(array.astype(np.int64)).to(device) for array in tensors))


def padded_inputs(model: PreTrainedModel, batch: Encoded) -> dict[str, Tensor]:
    """Return what transformers' own forward pass takes of a batch, padded on the right to its longest text.

    ``token_type_ids`` are for a model with an embedding for each of them, as BERT has; without them it takes
    both texts of a pair for the first.

    Args:
        model: Where the batch goes.
        batch: n texts.

    Returns:
        input_ids, attention_mask and, where there are types and the model has a use for them,
        token_type_ids, (n, L) each.
    """
    layout = lay_out(batch, model.config.pad_token_id or 0, model.device, in_one_row=False)
    inputs = {"input_ids": layout.input_ids, "attention_mask": layout.mask.long()}
    if batch.token_type_ids is not None and _takes_types(model):
        inside = np.arange(batch.lengths.max()) < batch.lengths[:, None]
        types = np.zeros(inside.shape, dtype=np.int64)
        types[inside] = batch.token_type_ids
        inputs["token_type_ids"] = torch.from_numpy(types).to(model.device)
    return inputs


def _takes_types(model: PreTrainedModel) -> bool:
    # GPT-2 takes them too, but looks them up among the words. RoBERTa's have a single embedding.
    has_embeddings = (getattr(model.config, "type_vocab_size", None) or 0) > 1
    return has_embeddings and "token_type_ids" in inspect.signature(model.forward).parameters
