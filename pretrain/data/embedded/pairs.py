"""Minimal pairs of held-out sentences in the BLiMP schema."""

from __future__ import annotations

import random
from collections.abc import Iterator

from base.errors import UsageError
from pretrain.data.embedded.grammar import Grammar, capitalize
from pretrain.data.embedded.holdout import is_held_out
from pretrain.data.embedded.paradigms import PARADIGMS, Group, Paradigm

# A group is kept about once in 8 to 64 draws; this many in a row without a new one means that none are left.
_MAX_DRAWS_WITHOUT_NEW = 20_000


def draw_groups(paradigm: Paradigm, rng: random.Random) -> Iterator[Group]:
    """Draw balanced groups of new pairs of held-out sentences, until none is found any more."""
    grammar, seen, failures = Grammar(rng), set[str](), 0
    while failures < _MAX_DRAWS_WITHOUT_NEW:
        failures += 1
        group = tuple((capitalize(good), capitalize(bad)) for good, bad in paradigm.draw(grammar))
        sentences = {sentence for pair in group for sentence in pair}
        if not seen & sentences and all(is_held_out(good) for good, _ in group):
            seen |= sentences
            failures = 0
            yield group


def minimal_pairs(pairs_per_paradigm: int, seed: int) -> dict[str, list[dict]]:
    """Draw minimal pairs for every paradigm of the embedded corpus.

    No sentence of them occurs in any ``stories(...)`` of any seed, and no pair occurs twice in a paradigm.
    With an even ``pairs_per_paradigm`` every word form is as often in the good as in the bad sentences of
    a paradigm.

    Args:
        pairs_per_paradigm: Pairs of each paradigm, at least 1.
        seed: Decides which pairs; independent of the seed of the stories.

    Returns:
        A mapping from UID to pairs with the columns of BLiMP (Warstadt et al. 2020).

    Raises:
        UsageError: If ``pairs_per_paradigm`` is below 1 or beyond what the lexicon allows.
    """
    if pairs_per_paradigm < 1:
        raise UsageError(f"pairs_per_paradigm is {pairs_per_paradigm}; give at least 1")
    return {paradigm.uid: _pairs_of(paradigm, pairs_per_paradigm, seed) for paradigm in PARADIGMS}


def _pairs_of(paradigm: Paradigm, num_pairs: int, seed: int) -> list[dict]:
    pairs: list[tuple[str, str]] = []
    for group in draw_groups(paradigm, random.Random(f"pairs {paradigm.uid} {seed}")):
        pairs.extend(group)
        if len(pairs) >= num_pairs:
            break
    else:
        raise UsageError(
            f"paradigm {paradigm.uid!r} has only {len(pairs)} different pairs, not {num_pairs}; "
            "ask for fewer pairs_per_paradigm"
        )
    return [_blimp_row(paradigm, index, *pair) for index, pair in enumerate(pairs[:num_pairs])]


def _blimp_row(paradigm: Paradigm, index: int, good: str, bad: str) -> dict:
    return {
        "sentence_good": good,
        "sentence_bad": bad,
        "field": paradigm.field,
        "linguistics_term": paradigm.linguistics_term,
        "UID": paradigm.uid,
        "simple_LM_method": True,
        "one_prefix_method": paradigm.one_prefix_method,
        "two_prefix_method": paradigm.two_prefix_method,
        "lexically_identical": paradigm.lexically_identical,
        "pairID": str(index),
    }
