"""Which combinations of words are kept out of the stories, so that minimal pairs use new sentences.

The rule is a function of the sentence alone: the bag of its content lemmas is hashed, and one bag in eight
is held out. Stories never contain a sentence with a held-out bag and evaluation sentences always have one, so
no evaluation sentence occurs in any story of any seed - nor does its counterpart in the other number,
tense or order, which has the same bag. Sentences with fewer than two content lemmas are never held out,
since that would remove a word from the corpus altogether.
"""

from __future__ import annotations

import re
import zlib

from pretrain.data.embedded.lexicon import LEMMAS

HELD_OUT_ONE_IN = 8

# CRC-32, not hash(): the latter differs between processes.
_CODES = {form: zlib.crc32(lemma.encode()) for form, lemma in LEMMAS.items()}
_CODES |= {form.capitalize(): code for form, code in _CODES.items()}
_find_words = re.compile(r"[A-Za-z]+").findall


def is_held_out(sentence: str) -> bool:
    """Say whether the content lemmas of ``sentence`` belong to the evaluation side of the split."""
    codes = [_CODES[word] for word in _find_words(sentence) if word in _CODES]
    if len(codes) < 2:
        return False
    # Knuth's multiplicative hash: the sum alone would make a bag's side depend on three bits of each word.
    return (sum(codes) * 2654435761 & 0xFFFFFFFF) >> 16 & 0xFFFF < 0x10000 // HELD_OUT_ONE_IN
