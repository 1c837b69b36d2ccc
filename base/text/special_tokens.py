"""What a tokenizer puts around a text.

A document that a causal model is trained on, and a text that it classifies, is ``<s> A </s>``. A prompt that
it goes on with is ``<s> A``. Other tools give it prompts, so the tokenizer that is saved with it makes a
prompt of a single text. A pair keeps its end, ``<s> A </s></s> B </s>``, where ``with_ends`` finds it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from tokenizers import processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

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
    kept = ("model_max_length", "padding_side", "truncation_side")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        extra_special_tokens=tokenizer.extra_special_tokens,
        **{name: getattr(tokenizer, name) for name in kept},
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
