"""Where documents begin in packed rows.

A row holds documents one after the other, each at position 0 where it begins; what is left of the row is
padding, every token of it at position 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Documents(NamedTuple):
    """Documents of (R, T) packed rows in their order; the padding of a row counts as one.

    Attributes:
        starts: (D,) place of the first token in the flattened (R * T).
        lengths: (D,) tokens.
        is_padding: (D,) whether it is padding.
    """

    starts: np.ndarray
    lengths: np.ndarray
    is_padding: np.ndarray


def find_documents(input_ids: np.ndarray, position_ids: np.ndarray, pad_token_id: int) -> Documents:
    """Find the documents of packed rows.

    Args:
        input_ids: (R, T) token ids.
        position_ids: (R, T) positions, 0 where a document starts and on padding.
        pad_token_id: What fills rows.
    """
    places = np.flatnonzero(position_ids == 0)  # few: what follows is about these alone
    is_padding = input_ids.reshape(-1)[places] == pad_token_id
    goes_on = np.zeros(len(places), bool)  # with the padding of the place before
    goes_on[1:] = is_padding[1:] & is_padding[:-1] & (places[1:] % input_ids.shape[1] > 0)
    starts = places[~goes_on]
    return Documents(starts, np.diff(starts, append=input_ids.size), is_padding[~goes_on])
