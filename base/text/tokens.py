"""From texts to tokens: one reading for training, evaluation, classification and prompts.

A text that spells a special token, as a page about HTML spells ``<s>``, is ordinary text: only this project
puts special tokens around texts. transformers reads a control token there unless it is asked not to.

A document that a causal model is trained on, and a text that it classifies, is ``<s> A </s>``. A prompt that
it goes on with is ``<s> A``. Other tools give it prompts, so the tokenizer that is saved with it makes a
prompt of a single text. A pair keeps its end, ``<s> A </s></s> B </s>``, where ``with_ends`` finds it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers
from tokenizers import processors

from base.errors import UsageError, first_line
from base.model_folders import AS_DATA, refuse_code

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

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


def read_tokenizer(folder: Path) -> Any:
    """Load the tokenizer that was saved in a folder, of transformers.

    Raises:
        UsageError: If there is none, it has no vocabulary, or the folder brings code.
    """
    refuse_code(folder)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **AS_DATA)
    except Exception as error:  # tokenizers raises many kinds for a damaged folder, and Exception itself
        raise UsageError(f"{folder} holds no tokenizer, save it there: {first_line(error)}") from error
    if tokenizer is None:
        raise UsageError(f"{folder} holds no tokenizer, save it there")
    refuse_unread(tokenizer, folder)
    return tokenizer


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


_TEXTS = ("$A", "$B")


def as_prompts(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return a tokenizer that puts no eos behind a single text, and pads on the left, as ``generate`` needs.

    One that puts none there is returned as it is.
    """
    single, pair = _pieces(tokenizer, "a"), _pieces(tokenizer, "a", "b")
    if not _has_end(single, tokenizer):
        return tokenizer
    prompts = framed(tokenizer, single[:-1], pair if _has_end(pair, tokenizer) else _document_pair(tokenizer))
    prompts.padding_side = "left"
    return prompts


def with_ends(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return a tokenizer that ends a single text in eos, if it ends a pair so; others as they are."""
    single, pair = _pieces(tokenizer, "a"), _pieces(tokenizer, "a", "b")
    if _has_end(single, tokenizer) or not _has_end(pair, tokenizer):
        return tokenizer
    return framed(tokenizer, [*single, f"{tokenizer.eos_token}:0"], pair)


def as_documents(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """Return a fast tokenizer that wraps texts as ``<s> A </s>`` and ``<s> A </s></s> B </s>``."""
    single = [f"{tokenizer.bos_token}:0", "$A:0", f"{tokenizer.eos_token}:0"]
    return framed(tokenizer, single, _document_pair(tokenizer))


def framed(
    tokenizer: PreTrainedTokenizerBase, single: Sequence[str], pair: Sequence[str]
) -> PreTrainedTokenizerFast:
    """Return a fast tokenizer with other special tokens around texts.

    It is of transformers' plain class: classes such as ``RobertaTokenizer`` put their own ones when loaded.

    Args:
        tokenizer: A fast tokenizer; left as it is.
        single: Pieces of a template of ``tokenizers``: special tokens and ``$A``, each with its type
            (``</s>:0``).
        pair: The same, with ``$A`` and ``$B``.
    """
    names = {piece.rpartition(":")[0] for piece in (*single, *pair)} - {*_TEXTS}
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    backend.post_processor = processors.TemplateProcessing(
        single=[*single],
        pair=[*pair],
        special_tokens=[(name, backend.token_to_id(name)) for name in sorted(names)],
    )
    settings = ("model_max_length", "padding_side", "truncation_side")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        extra_special_tokens=tokenizer.extra_special_tokens,
        **{name: getattr(tokenizer, name) for name in settings},
        **tokenizer.special_tokens_map,
    )


def _document_pair(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    bos, eos = f"{tokenizer.bos_token}:0", f"{tokenizer.eos_token}:0"
    return [bos, "$A:0", eos, eos, "$B:0", eos]


def _pieces(tokenizer: PreTrainedTokenizerBase, *texts: str) -> list[str]:
    """What a tokenizer makes of a text or a pair, as pieces of a template; none for a slow tokenizer."""
    pieces: list[str] = []
    for encoding in tokenizer(*texts).encodings or ():
        for token, number, kind in zip(
            encoding.tokens, encoding.sequence_ids, encoding.type_ids, strict=True
        ):
            piece = f"{token if number is None else _TEXTS[number]}:{kind}"
            if number is None or piece not in pieces:
                pieces.append(piece)
    return pieces


def _has_end(pieces: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether eos stands behind the last text."""
    texts = [piece for piece in pieces if piece.startswith(_TEXTS)]
    return bool(texts) and pieces[-1].rpartition(":")[0] == tokenizer.eos_token
