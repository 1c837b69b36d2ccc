"""Texts cut into segments: windows that overlap, sentences, or the turns of a conversation.

Segments are encoded one by one, so that an input may have any length. A text is turned into tokens once and
its tokens are cut, so that a segment has the tokens that it has in its text, and every segment knows its
characters. Around each stand the special tokens that the tokenizer puts around a whole text.

A pair of texts is cut as one: windows slide over ``A </s></s> B`` as the tokenizer joins it, so that a pair
which fits a window is encoded as without segments; sentences and turns are those of the first text, then
those of the second. A token has the type (``token_type_ids``) that it has in the whole pair, special tokens
included.

Shapes: n examples, N tokens of one, S segments of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from base.errors import UsageError
from base.text.tokens import read
from eval.classification.example_tokens import Encoded, about, places_of
from pretrain.data.tokenizer import until_full
from scores.head_descriptions import SegmentKind

# Before these words' full stop a sentence goes on, as before that of an initial or of e.g. and U.S.
_ABBREVIATIONS = frozenset(
    ["al", "cf", "dr", "eq", "est", "fig", "gen", "gov", "jr", "mr", "mrs", "ms", "prof", "rev", "sen", "sr"]
)
_DOTTED = re.compile(r"(\w\.)+\w")
_OPENERS = "\"'\u201c\u2018\u00ab([{"
_CLOSERS = "[\"'\u201d\u2019\u00bb)\\]}]"
# A mark with space behind it, a mark of Chinese and Japanese, which needs none, or an empty line. Only the
# first mark of a run begins a match, or a long run would take quadratic time.
_END = re.compile(
    rf"(?<![.!?…])(?P<marks>[.!?…]++){_CLOSERS}*+\s++"
    "|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d\u2019]*\\s*"
    r"|\n\s*\n\s*"
)
_WORD = re.compile(r"\S+\Z")


def sentence_starts(text: str) -> list[int]:
    """Return where each sentence of a text begins, the first at 0; each reaches to the next one's start.

    A sentence ends behind . ! ? … and the quotes or brackets that close there, if space follows; behind the
    marks of Chinese and Japanese; and at an empty line. A full stop behind an abbreviation or an initial ends
    none, and what holds no word, such as the dots of ``wait . . .``, belongs to the sentence before it.
    """
    starts = [0]
    for match in _END.finditer(text):
        if match.end() < len(text) and not _goes_on(text, match):
            starts.append(match.end())
    return join_empty(text, starts, r"\w")


def join_empty(text: str, starts: list[int], content: str) -> list[int]:
    """Leave out starts so that every part holds a match of ``content``; one part remains if none does.

    Args:
        text: The text.
        starts: Where its parts begin, ascending and with 0 first.
        content: A regular expression.
    """
    parts, pattern = pairwise([*starts, len(text)]), re.compile(content)
    filled = [start for start, stop in parts if pattern.search(text, start, stop)]
    return [0, *filled[1:]]


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """Whether a full stop belongs to an abbreviation or an initial."""
    if match["marks"] != ".":
        return False
    # No word that matters here is longer, and a search from further back would take quadratic time.
    word = _WORD.search(text[max(0, match.start() - 20) : match.start()])
    if word is None:
        return False
    bare = word[0].lstrip(_OPENERS)
    is_initial = len(bare) == 1 and bare.isupper() and bare != "I"
    return is_initial or bare.lower() in _ABBREVIATIONS or _DOTTED.fullmatch(bare) is not None


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


# Characters that are tokenised at once; a tokenizer's own objects take far more memory than the tokens.
_CHARACTERS_AT_ONCE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """How texts are cut.

    Attributes:
        segments: What a segment is; a sentence or turn that is longer than a window is cut into windows.
        window: Tokens of the longest segment, special tokens included.
        stride: Tokens that a window shares with the one before it, as in a tokenizer's ``stride``.
    """

    segments: SegmentKind = "windows"
    window: int = 128
    stride: int = 32


@dataclass(frozen=True)
class Segmented:
    """Examples as the tokens of their segments.

    Attributes:
        pieces: (S) segments of the first example, then those of the second, and so on; each with the label
            and the name of its example.
        counts: (n,) segments of each example, at least one.
        labels: (n,), or (n, C) where an example may have several.
        truncated: (n,) whether an example lost tokens; none does.
        idx: n names of the examples, as their file has them.
        spans: (S, 2) first character of each segment in ``as_one_text`` of its example, and the one behind
            its last, without space at either end.
    """

    pieces: Encoded
    counts: np.ndarray
    labels: np.ndarray
    truncated: np.ndarray
    idx: np.ndarray
    spans: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """(n,) tokens of all segments of each example."""
        return np.add.reduceat(self.pieces.lengths, self.starts) if len(self) else self.counts

    @property
    def starts(self) -> np.ndarray:
        """(n,) number of each example's first segment."""
        return np.cumsum(self.counts) - self.counts

    def take(self, indices: Sequence[int] | np.ndarray) -> Segmented:
        """Return the examples at those indices, in that order."""
        indices = np.asarray(indices, dtype=np.int64)
        segments = places_of(self.counts, indices)
        pieces, spans = self.pieces.take(segments), self.spans[segments]
        return Segmented(pieces, self.counts[indices], spans=spans, **about(self, indices))

    def __len__(self) -> int:
        return len(self.counts)


def encode_segments(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[tuple[Text, str | None]],
    labels: Sequence[int] | np.ndarray,
    segmentation: Segmentation,
    max_length: int,
    idx: Sequence[str] | None = None,
) -> Segmented:
    """Cut examples into segments and turn these into tokens; no token of a text is lost.

    Args:
        tokenizer: One that knows to which characters its tokens belong.
        texts: n texts or pairs.
        labels: n labels, or (n, C).
        segmentation: How to cut.
        max_length: What the model reads at most; no window is longer.
        idx: n names; None numbers the examples.

    Raises:
        UsageError: For an example without text, a window that leaves no room, or a slow tokenizer.
    """
    if not tokenizer.is_fast:
        raise UsageError(
            f"tokenizer {type(tokenizer).__name__} does not say where its tokens begin, which segments need; "
            "save a fast tokenizer with the model"
        )
    pieces, types, counts, spans = list[np.ndarray](), list[np.ndarray](), list[int](), list[np.ndarray]()
    has_types = "token_type_ids" in tokenizer.model_input_names
    for encoding, text, starts in _tokenised(tokenizer, texts, segmentation.segments):
        segments = _cut(encoding, text, starts, segmentation, min(segmentation.window, max_length))
        if not segments:
            row = len(counts) + 1
            raise UsageError(f"row {row}: the tokenizer makes no token of {text!r}; remove the row")
        counts.append(len(segments))
        pieces += [encoding.ids[places] for places, _ in segments]
        types += [encoding.type_ids[places] for places, _ in segments if has_types]
        spans += [span for _, span in segments]
    names = np.array([*map(str, range(len(texts)))] if idx is None else idx, dtype=object)
    of_example = np.repeat(np.arange(len(counts)), counts)
    label_array = np.asarray(labels, dtype=np.int64)
    encoded = Encoded.from_lists(pieces, label_array[of_example], idx=names[of_example], token_type_ids=types)
    uncut = np.zeros(len(counts), dtype=bool)
    bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return Segmented(encoded, np.array(counts, dtype=np.int64), label_array, uncut, names, bounds)


def _tokenised(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[tuple[Text, str | None]], kind: SegmentKind
) -> Iterator[tuple[Tokens, str, np.ndarray]]:
    """Yield the tokens of each example, the example as one text, and where its parts begin there."""
    for number, example in enumerate(texts, start=1):
        if not as_one_text(example).strip():
            raise UsageError(f"row {number}: the text is empty; remove the row")
    for group in until_full(texts, lambda text: sum(map(len, parts_of(text))), _CHARACTERS_AT_ONCE):
        firsts = [text if isinstance(text, str) else JOINT.join(text) for text, _ in group]
        seconds = [second for _, second in group if second is not None]
        if seconds and len(seconds) < len(group):
            raise UsageError("some examples are pairs and some are single texts; give a task one kind")
        inputs = (firsts, seconds) if seconds else (firsts,)
        encodings = read(tokenizer, *inputs, truncation=False).encodings
        for encoding, example, text in zip(encodings, group, firsts, strict=True):
            starts = [0] if kind == "windows" else _starts(example, kind)
            yield Tokens.of(encoding, len(text) + len(JOINT)), as_one_text(example), np.array(starts)


def _starts(example: tuple[Text, str | None], kind: SegmentKind) -> list[int]:
    """Return where the sentences or turns of an example begin in ``as_one_text``."""
    starts, shift = list[int](), 0
    for part in parts_of(example):
        if kind == "sentences":
            inside = sentence_starts(part)
        elif isinstance(example[0], str):
            inside = [0, *(place + 1 for place, character in enumerate(part[:-1]) if character == "\n")]
        else:
            inside = [0]
        starts += [shift + start for start in inside]
        shift += len(part) + len(JOINT)
    return join_empty(as_one_text(example), starts, r"\S")


def _cut(
    tokens: Tokens, text: str, starts: np.ndarray, segmentation: Segmentation, window: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the places of the tokens and the span of each segment of an example; none if it has no token."""
    # <s> a b c d e f </s> in windows of 6 that share 2: room is 4 beside <s> and </s>, a step is 2, and the
    # segments are <s> a b c d </s> and <s> c d e f </s>.
    places = np.flatnonzero(tokens.is_text)
    if not len(places):
        return []
    first, last = places[0], places[-1] + 1
    prefix, suffix = np.arange(first), np.arange(last, len(tokens.ids))
    room = window - len(prefix) - len(suffix)
    if room <= segmentation.stride:
        raise UsageError(
            f"a window of {window} tokens leaves {room} beside the special ones, and stride is "
            f"{segmentation.stride}; choose a greater window or a smaller stride"
        )
    if segmentation.segments == "windows":
        units = [(first, last)]  # separators inside a pair included
    else:
        # By its last character: a token of an English word begins with the space before it.
        numbers = np.searchsorted(starts, tokens.offsets[places, 1] - 1, side="right")
        edges = np.flatnonzero(np.diff(numbers, prepend=-1))
        units = [(part[0], part[-1] + 1) for part in np.split(places, edges[1:])]
    # Windows begin so that the last one, and no other, reaches the end of its unit.
    step = room - segmentation.stride
    ranges = [
        (start, min(start + room, stop)) for begin, stop in units
        for start in range(begin, max(begin + 1, stop - room + step), step)
    ]  # fmt: skip
    return [
        (np.concatenate([prefix, np.arange(start, stop), suffix]), _span(tokens, text, start, stop))
        for start, stop in ranges
    ]


def _span(tokens: Tokens, text: str, start: int, stop: int) -> np.ndarray:
    inside = tokens.offsets[start:stop][tokens.is_text[start:stop]]
    if not len(inside):  # a window of separators alone
        return np.zeros(2, dtype=np.int64)
    begin, end = int(inside[:, 0].min()), int(inside[:, 1].max())
    content = text[begin:end]
    begin += len(content) - len(content.lstrip())
    return np.array([begin, max(begin, begin + len(content.strip()))])
