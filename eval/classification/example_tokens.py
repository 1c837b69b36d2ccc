"""Classification examples as tokens: arrays, made once for all runs and seeds.

Shapes: n examples, N tokens of all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from base.errors import UsageError
from base.records import parse_json
from base.text.tokens import read

# Kept for later runs: both files of the eleven tasks for two tokenizers.
NUM_CACHED = 48
# Examples that are tokenised at once; a tokenizer's own objects take far more memory than the tokens.
CHUNK = 512

Examples = TypeVar("Examples")
_cache: dict[tuple[str, ...], Any] = {}


def places_of(lengths: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return where the parts of some examples lie among those of all.

    Args:
        lengths: (n,) parts of each example; those of the first stand first.
        indices: (k,) examples, in any order.
    """
    # Of 2, 1 and 3 parts, those of the examples 2 and 0 are 3 4 5 and 0 1: they start at 3 and 0, which is
    # where they stand in the result, 0 and 3, plus 3 and minus 3.
    counts = lengths[indices]
    starts = (np.cumsum(lengths) - lengths)[indices]
    return np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)


def about(examples: Any, indices: np.ndarray) -> dict[str, np.ndarray]:
    """Return what else is known of the examples at those indices: labels, whether they were cut, names."""
    return {name: getattr(examples, name)[indices] for name in ("labels", "truncated", "idx")}


@dataclass(frozen=True)
class Encoded:
    """Examples as tokens.

    Attributes:
        tokens: (N,) token ids of one example after another, special tokens included.
        lengths: (n,) tokens of each example.
        labels: (n,), or (n, C) where examples may have several.
        truncated: (n,) whether an example lost tokens to the greatest length.
        idx: n names of the examples, as their file has them.
        token_type_ids: (N,) which text of a pair a token belongs to, for the models that are told; None where
            the tokenizer does not say, or says 0 of all tokens.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    truncated: np.ndarray
    idx: np.ndarray
    token_type_ids: np.ndarray | None = None

    @classmethod
    def from_lists(
        cls,
        input_ids: Sequence[Sequence[int] | np.ndarray],
        labels: Sequence[int] | np.ndarray,
        truncated: Sequence[bool] | None = None,
        idx: Sequence[str] | np.ndarray | None = None,
        token_type_ids: Sequence[Sequence[int] | np.ndarray] = (),
    ) -> Encoded:
        """Make it of a list of token ids an example, and of types; without names they are numbered."""
        lengths = np.array([len(ids) for ids in input_ids], dtype=np.int64)
        tokens = np.fromiter(chain.from_iterable(input_ids), np.int32, count=lengths.sum())
        cut = np.zeros(len(lengths), dtype=bool) if truncated is None else np.array(truncated, dtype=bool)
        names = np.array([*map(str, range(len(lengths)))] if idx is None else idx, dtype=object)
        types = np.fromiter(chain.from_iterable(token_type_ids), np.uint8)
        return cls(
            tokens, lengths, np.asarray(labels, dtype=np.int64), cut, names, types if types.any() else None
        )

    def take(self, indices: Sequence[int] | np.ndarray) -> Encoded:
        """Return the examples at those indices, in that order."""
        indices = np.asarray(indices, dtype=np.int64)
        places, types = places_of(self.lengths, indices), self.token_type_ids
        types = None if types is None else types[places]
        tokens, lengths = self.tokens[places], self.lengths[indices]
        return Encoded(tokens, lengths, token_type_ids=types, **about(self, indices))

    def __len__(self) -> int:
        return len(self.lengths)


def encode(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[tuple[str, str | None]],
    labels: Sequence[int],
    max_length: int,
    idx: Sequence[str] | None = None,
) -> Encoded:
    """Turn examples into tokens as the tokenizer does it: ``<s> A </s>`` or ``<s> A </s></s> B </s>``.

    An input of over ``max_length`` tokens loses tokens of whichever text is longer, from its end.

    Raises:
        UsageError: For an example that has no token at all.
    """
    input_ids: list[list[int]] = []
    truncated: list[bool] = []
    types: list[bytes] = []  # a byte a token
    for start in range(0, len(texts), CHUNK):
        firsts, seconds = zip(*texts[start : start + CHUNK], strict=True)
        inputs = (list(firsts), list(seconds)) if seconds[0] is not None else (list(firsts),)
        encoded = read(tokenizer, *inputs, truncation="longest_first", max_length=max_length)
        input_ids += encoded["input_ids"]
        types += map(bytes, encoded.get("token_type_ids", ()))
        if encoded.encodings is not None:
            truncated += [bool(encoding.overflowing) for encoding in encoded.encodings]
        else:
            whole = read(tokenizer, *inputs)["input_ids"]
            truncated += [len(ids) > max_length for ids in whole]
    for number, ids in enumerate(input_ids, start=1):
        if not len(ids):
            raise UsageError(
                f"row {number}: the tokenizer makes no token of {texts[number - 1]!r}; remove the row"
            )
    return Encoded.from_lists(input_ids, labels, truncated, idx, types)


def cached(key: tuple[str, ...], make: Callable[[], Examples]) -> Examples:
    """Return what was made under this key in this process, or make it; the oldest gives way."""
    if key not in _cache:
        examples = make()
        while len(_cache) >= NUM_CACHED:
            del _cache[next(iter(_cache))]
        _cache[key] = examples
    return _cache[key]


def tokenizer_key(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return digits that change with what a tokenizer makes of a text, wherever it was loaded from."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        content = parse_json(backend.to_str())
        del content["truncation"], content["padding"]  # what the last call asked for
    else:
        content = tokenizer.get_vocab()
    settings = [type(tokenizer).__name__, tokenizer.truncation_side, tokenizer.special_tokens_map, content]
    settings.append(tokenizer.model_input_names)
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
