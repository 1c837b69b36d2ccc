"""The tokenizer: a byte-level BPE trained on the corpus, or one loaded from a folder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from base.errors import UsageError
from base.families import Objective
from base.text.corruption import NUM_SENTINELS
from base.text.tokens import as_documents, read_tokenizer, read_whole, with_ends

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Item = TypeVar("Item")

SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
"""In the order of their ids, 0 to 3; ``<mask>`` is the vocabulary's last token, as in the source study."""

MASK_TOKEN = "<mask>"

SHARD_CHARACTERS = 2**22
"""Characters of text after which a shard is full: about a million tokens, a second or two of work."""

DOCUMENTS_PER_BATCH = 1000


def train_tokenizer(documents: Iterator[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE (Sennrich et al. 2016, over bytes as GPT-2).

    Args:
        documents: The training text.
        vocab_size: Tokens including the special ones; a small corpus may yield fewer.

    Returns:
        A tokenizer that wraps one text as ``<s> A </s>`` and a pair as ``<s> A </s></s> B </s>``.
    """
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,  # one is left for <mask>, which comes last
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.add_special_tokens([MASK_TOKEN])
    bos, eos = SPECIAL_TOKENS["bos_token"], SPECIAL_TOKENS["eos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} {eos} $B {eos}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (bos, eos)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token=bos, sep_token=eos, mask_token=MASK_TOKEN, **SPECIAL_TOKENS
    )


def load_tokenizer(folder: str | Path, objective: Objective = "causal") -> PreTrainedTokenizerFast:
    """Load a saved tokenizer that wraps a document in bos ... eos.

    What a causal model needs and a tokenizer lacks is added: a ``<pad>`` of its own, bos for a missing eos or
    the other way round (as in GPT-2, where they are one token), and the wrapping. A tokenizer that has all
    this stays as it is.

    Args:
        folder: What ``save_pretrained`` wrote.
        objective: Of the model. For masked models and encoder-decoders nothing is added: their classes fix
            what stands where.

    Raises:
        UsageError: If the folder is missing or holds no fast tokenizer or no vocabulary, or something is
            missing that cannot be added.
    """
    tokenizer: Any = with_ends(_read(folder))
    if objective == "causal":
        tokenizer = _complete(tokenizer, folder)
    else:
        _refuse_incomplete(tokenizer, folder)
    highest = max(tokenizer.get_vocab().values())
    if highest >= len(tokenizer):  # the model has one embedding for each of len(tokenizer) tokens
        raise UsageError(
            f"{folder}: the tokenizer has {len(tokenizer):,} tokens but ids up to {highest:,}; number them "
            "0, 1, 2, ... without gaps and save it again"
        )
    return tokenizer


def _read(folder: str | Path) -> Any:
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder; data.tokenizer must hold a saved tokenizer")
    tokenizer = read_tokenizer(Path(folder))
    if not tokenizer.is_fast:
        raise UsageError(f"{folder}: holds no fast tokenizer; a tokenizer.json is needed")
    return tokenizer


def _complete(tokenizer: Any, folder: str | Path) -> PreTrainedTokenizerFast:
    """Add what a causal model needs; a tokenizer that has it is returned as it is."""
    if tokenizer.bos_token is None and tokenizer.eos_token is None:
        raise UsageError(
            f"{folder}: the tokenizer has no eos_token, which ends a document; set one and save it again"
        )
    if tokenizer.bos_token is None:
        tokenizer.bos_token = tokenizer.eos_token
    if tokenizer.eos_token is None:
        tokenizer.eos_token = tokenizer.bos_token
    if not _has_own_padding(tokenizer):
        tokenizer.add_special_tokens({"pad_token": SPECIAL_TOKENS["pad_token"]})
    return tokenizer if _wraps(tokenizer) else as_documents(tokenizer)


def _refuse_incomplete(tokenizer: Any, folder: str | Path) -> None:
    for name in ("pad_token", "bos_token", "eos_token", "mask_token"):
        if getattr(tokenizer, f"{name}_id") is None:
            raise UsageError(f"{folder}: the tokenizer has no {name}; add it and save the tokenizer again")
    if not _has_own_padding(tokenizer):
        raise UsageError(f"{folder}: the tokenizer pads with its bos or eos; give it a pad_token of its own")
    if not _wraps(tokenizer):
        raise UsageError(
            f"{folder}: the tokenizer does not wrap a text in {tokenizer.bos_token} ... {tokenizer.eos_token}"
        )


def _has_own_padding(tokenizer: Any) -> bool:
    """Whether padding can be told from the ends of documents."""
    ends = (None, tokenizer.bos_token_id, tokenizer.eos_token_id)
    return tokenizer.pad_token_id not in ends


def _wraps(tokenizer: Any) -> bool:
    ids = tokenizer("a")["input_ids"]
    return [*ids[:1], *ids[-1:]] == [tokenizer.bos_token_id, tokenizer.eos_token_id]


def sentinel(number: int) -> str:
    """The token that stands for a span of a document (Raffel et al. 2020), as T5 spells it."""
    return f"<extra_id_{number}>"


def add_sentinels(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Append the sentinels that a tokenizer lacks to its vocabulary, so that all other ids stay.

    Returns:
        Their ids, in their order.
    """
    names = [sentinel(number) for number in range(NUM_SENTINELS)]
    tokenizer.add_tokens(
        [transformers.AddedToken(name, special=True, normalized=False) for name in names], True
    )
    vocabulary = tokenizer.get_vocab()
    return [vocabulary[name] for name in names]


def encode_batch(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    """Token ids of whole documents, each wrapped in ``<s> ... </s>`` and never truncated."""
    return [encoding.ids for encoding in read_whole(tokenizer.backend_tokenizer, texts, is_framed=True)]


def tokenise(
    documents: Iterable[str], tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokenise a text of any size, shard by shard; what a shard holds depends on the text alone.

    The tokenizer's own threads share the documents of a batch. They are about as fast as processes (25.8M
    tokens on two cores: 14.6 s, with ``datasets.map(num_proc=2)`` 13.0 s; November 2026), need no fork beside
    a GPU, and a killed command leaves none behind.

    Yields:
        Tokens of the documents of a shard, one after the other, and (documents,) tokens of each.
    """
    dtype = token_dtype(len(tokenizer))
    for texts in until_full(documents, len, SHARD_CHARACTERS):
        lengths: list[int] = []
        batches = []
        for start in range(0, len(texts), DOCUMENTS_PER_BATCH):
            ids = encode_batch(tokenizer, texts[start : start + DOCUMENTS_PER_BATCH])
            lengths.extend(map(len, ids))
            batches.append(np.fromiter(itertools.chain.from_iterable(ids), dtype))
        yield np.concatenate(batches), np.array(lengths)


def token_dtype(num_values: int) -> type[np.unsignedinteger[Any]]:
    """The smaller of two types that holds 0 to ``num_values - 1``."""
    return np.uint16 if num_values <= 2**16 else np.uint32


def until_full(items: Iterable[Item], size: Callable[[Item], int], full: int) -> Iterator[list[Item]]:
    """Yield items in lists, each begun anew once the sizes of its items reach ``full`` together."""
    group, total = list[Item](), 0
    for item in items:
        group.append(item)
        total += size(item)
        if total >= full:
            yield group
            group, total = [], 0
    if group:
        yield group
