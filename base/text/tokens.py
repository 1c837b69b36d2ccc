"""From texts to tokens: one reading for training, evaluation, classification and prompts.

A text that spells a special token, as a page about HTML spells ``<s>``, is ordinary text: only this project
puts special tokens around texts. transformers reads a control token there unless it is asked not to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from base.errors import UsageError

FOR_OTHERS = """In a text that spells a special token, such as `</s>`, transformers reads that token,
and the training of this model read its characters: `tokenizer(text, split_special_tokens=True)`."""
"""For the card of a model. Its tokenizer is saved with transformers' own reading, as ``<mask>`` is typed into
a sentence and eos appended to a text."""


def read(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """Call a tokenizer of transformers, which frames, cuts and pairs texts as it does.

    Args:
        tokenizer: Fast or not.
        texts: What it takes: a text or several, and what they are paired with.
        options: Of its call.

    Returns:
        A ``BatchEncoding``.
    """
    return tokenizer(*texts, split_special_tokens=True, verbose=False, **options)


def read_whole(backend: Any, texts: Sequence[str], is_framed: bool, with_words: bool = False) -> list[Any]:
    """Tokenise many texts, each to its end, in less time than transformers' call takes.

    Args:
        backend: Of a fast tokenizer.
        texts: Whole documents or sentences.
        is_framed: Whether its special tokens stand around each.
        with_words: Whether to find which word each token is of.

    Returns:
        An ``Encoding`` of ``tokenizers`` for each, with its ``ids`` and ``word_ids``.
    """
    backend.no_truncation()
    backend.no_padding()
    before, backend.encode_special_tokens = backend.encode_special_tokens, True
    encode = backend.encode_batch if with_words else backend.encode_batch_fast
    try:
        return encode(list(texts), add_special_tokens=is_framed)
    finally:
        backend.encode_special_tokens = before


def refuse_unread(tokenizer: Any, folder: str | Path, texts: Sequence[str] = ()) -> None:
    """Refuse a tokenizer for which all texts are one, as that of a folder without its vocabulary.

    transformers loads such a folder without a word, and what is trained through it has a very low loss.

    Args:
        tokenizer: Of transformers; a fast one where texts are given.
        folder: Named in the error.
        texts: What it is to read; none looks at its vocabulary alone.

    Raises:
        UsageError: If it has fewer than two tokens for them, special ones aside.
    """
    if texts:
        read_ones = {
            number for each in read_whole(tokenizer.backend_tokenizer, texts, False) for number in each.ids
        }
    else:
        read_ones = set(tokenizer.get_vocab().values()) - set(tokenizer.get_added_vocab().values())
    names = tokenizer.convert_ids_to_tokens(sorted(read_ones - set(tokenizer.all_special_ids)))
    if len(names) < 2:
        raise UsageError(
            f"{folder}: the tokenizer reads every text as {names[0] if names else 'nothing it knows'}; give "
            "a folder with its whole vocabulary (tokenizer.json), which fits the texts"
        )
