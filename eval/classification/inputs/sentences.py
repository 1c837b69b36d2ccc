"""Where the sentences of a text begin, by their marks alone: no model, any language that uses such marks."""

from __future__ import annotations

import re
from itertools import pairwise

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
    kept, is_filled, pattern = [0], False, re.compile(content)
    for start, stop in pairwise([*starts, len(text)]):
        if pattern.search(text, start, stop) is None:
            continue
        if is_filled:
            kept.append(start)
        is_filled = True
    return kept


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
