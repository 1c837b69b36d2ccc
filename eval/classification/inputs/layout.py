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

from eval.classification.inputs.tokens import Encoded, Resident
from eval.models.transfers import all_to_device, to_device


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a batch lie.

    Attributes:
        input_ids: (B, T).
        position_ids: (B, T) from 0 in every text, and 0 on padding.
        starts: (C + 1,) int32 of ``flash_attention``, by which each row's padding is a document.
        lengths: (n,) tokens of each text.
        mask: (n, L), true where there is a token.
        places: (n, L) of each text's tokens in the flattened (B * T), any place behind its end; None where
            every text has a row of its own.
        types: (B, T) which text of a pair a token belongs to; None where nobody said.
    """

    input_ids: Tensor
    position_ids: Tensor
    starts: Tensor
    lengths: Tensor
    mask: Tensor
    places: Tensor | None = None
    types: Tensor | None = None

    def of_texts(self, hidden: Tensor) -> Tensor:
        """From (B * T, D) to (n, L, D), anything behind a text's end."""
        return hidden.view(*self.mask.shape, -1) if self.places is None else hidden[self.places]

    def at(self, hidden: Tensor, steps: Tensor) -> Tensor:
        """From (B * T, D) to (n, D): one token of each text, the (n,) ``steps``-th."""
        if self.places is None:
            count, length = self.mask.shape
            return hidden.index_select(
                0, steps + torch.arange(0, count * length, length, device=steps.device)
            )
        return hidden.index_select(0, self.places.gather(1, steps[:, None])[:, 0])


def lay_out(
    batch: Encoded | Resident, pad_token_id: int, device: torch.device, in_one_row: bool = False
) -> Layout:
    """Put a batch into one row, or every text into a row of its own, as examples on a device have it."""
    if isinstance(batch, Resident):
        return _lay_out_there(batch, pad_token_id, device)
    lengths = batch.lengths
    steps = np.arange(lengths.max())
    inside = steps < lengths[:, None]
    if in_one_row:
        places = np.where(inside, (np.cumsum(lengths) - lengths)[:, None] + steps, 0)
        ids, positions = batch.tokens[None], np.broadcast_to(steps, inside.shape)[inside][None]
        starts = np.append(np.cumsum(lengths) - lengths, lengths.sum())
        tensors = all_to_device((ids, positions, starts, lengths, places), device)
    else:
        ids = np.full(inside.shape, pad_token_id)
        ids[inside] = batch.tokens
        positions, starts = np.where(inside, steps, 0), _starts_of_rows(lengths)
        tensors = all_to_device((ids, positions, starts, lengths), device)
    ids, positions, starts, lengths, *places = tensors
    mask = torch.arange(len(steps), device=device) < lengths[:, None]
    types = None
    if batch.token_type_ids is not None and not in_one_row:
        padded = np.zeros(inside.shape, dtype=np.int64)
        padded[inside] = batch.token_type_ids
        types = to_device(padded, device)
    return Layout(ids, positions, starts.int(), lengths, mask, places[0] if places else None, types)


def _lay_out_there(batch: Resident, pad_token_id: int, device: torch.device) -> Layout:
    """Give each text a row of its own; only where texts begin and end goes to the device."""
    arrays = (batch.starts, batch.lengths, _starts_of_rows(batch.lengths))
    begins, lengths, starts = all_to_device(arrays, device)
    steps = torch.arange(int(batch.lengths.max()), device=device)
    mask = steps < lengths[:, None]
    places = torch.where(mask, begins[:, None] + steps, 0)
    ids, positions = torch.where(mask, batch.tokens[places], pad_token_id), torch.where(mask, steps, 0)
    types = None if batch.token_type_ids is None else torch.where(mask, batch.token_type_ids[places], 0)
    return Layout(ids, positions, starts.int(), lengths, mask, types=types)


def _starts_of_rows(lengths: np.ndarray) -> np.ndarray:
    """(2n + 1,) starts of each row's text and of its padding, and the end."""
    rows = np.arange(len(lengths)) * lengths.max()
    return np.append(np.stack([rows, rows + lengths], axis=1).ravel(), len(lengths) * lengths.max())


def padded_inputs(model: PreTrainedModel, batch: Encoded | Resident) -> dict[str, Tensor]:
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
    layout = lay_out(batch, model.config.pad_token_id or 0, model.device)
    inputs = {"input_ids": layout.input_ids, "attention_mask": layout.mask.long()}
    if layout.types is not None and _takes_types(model):
        inputs["token_type_ids"] = layout.types
    return inputs


def _takes_types(model: PreTrainedModel) -> bool:
    # GPT-2 takes them too, but looks them up among the words. RoBERTa's have a single embedding.
    has_embeddings = (getattr(model.config, "type_vocab_size", None) or 0) > 1
    return has_embeddings and "token_type_ids" in inspect.signature(model.forward).parameters
