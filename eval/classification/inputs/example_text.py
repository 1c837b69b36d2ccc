"""An example as one text, and where the tokens that a tokenizer makes of it lie there.

Shapes: N tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Text = str | Sequence[str]
"""A text, or the turns of a conversation."""

JOINT = " "
"""Between turns, as where a task has them in one text; and between the texts of a pair."""


def as_one_text(example: tuple[Text, str | None]) -> str:
    """Return an example as the one text that ``Segmented.spans`` counts the characters of."""
    return JOINT.join(parts_of(example))


def parts_of(example: tuple[Text, str | None]) -> list[str]:
    """Return the text of an example, or both of a pair, or its turns."""
    first, second = example
    parts = [first] if isinstance(first, str) else list(first)
    return parts if second is None else [*parts, second]


@dataclass(frozen=True)
class Tokens:
    """The tokens of an example.

    Attributes:
        ids: (N,) token ids.
        offsets: (N, 2) first character of each in ``as_one_text``, and the one behind its last.
        is_text: (N,) whether it stands for characters; special tokens do not.
        type_ids: (N,) the tokenizer's ``token_type_ids``, whether or not it gives them to models.
    """

    ids: np.ndarray
    offsets: np.ndarray
    is_text: np.ndarray
    type_ids: np.ndarray

    @classmethod
    def of(cls, encoding: Any, shift: int) -> Tokens:
        """Read a tokenizer's own object; ``shift`` is where the second text begins."""
        sequence = np.array([-1 if number is None else number for number in encoding.sequence_ids])
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) + shift * (sequence == 1)[:, None]
        types = np.array(encoding.type_ids, dtype=np.uint8)
        return cls(np.array(encoding.ids, dtype=np.int32), offsets, sequence >= 0, types)
