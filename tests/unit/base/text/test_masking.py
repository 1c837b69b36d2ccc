"""Masked-language-model corruption against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from base.text.corruption import IGNORE, Masker

SPECIAL = [0, 1, 2, 3, 999]


@pytest.fixture(scope="module")
def drawn():
    ids = np.random.default_rng(0).integers(0, 1000, (400, 512), dtype=np.int64)
    corrupted, targets = Masker(1000, SPECIAL, 999, 0.15)(ids.astype(np.uint16), np.random.default_rng(1))
    return ids, corrupted, targets


def test_shares_are_15_80_10_10(drawn):
    ids, corrupted, targets = drawn
    ordinary = ~np.isin(ids, SPECIAL)
    chosen = targets != IGNORE
    count = chosen.sum()
    # Four standard errors of a binomial share.
    assert abs(count / ordinary.sum() - 0.15) < 4 * np.sqrt(0.15 * 0.85 / ordinary.sum())
    masked, kept = (corrupted == 999) & chosen, (corrupted == ids) & chosen
    for share, expected in ((masked.sum() / count, 0.8), (kept.sum() / count, 0.1 + 0.1 / 995)):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)


def test_specials_are_never_chosen_and_never_drawn(drawn):
    ids, corrupted, targets = drawn
    assert not np.isin(ids[targets != IGNORE], SPECIAL).any()
    replaced = (targets != IGNORE) & (corrupted != 999) & (corrupted != ids)
    assert not np.isin(corrupted[replaced], SPECIAL).any()
    assert len(np.unique(corrupted[replaced])) > 900  # of 995, in about 3,000 draws


def test_masks_are_those_of_the_definition_applied_token_by_token():
    """Which tokens are drawn is part of a run's result: another way to draw them is another result."""
    ids = np.random.default_rng(2).integers(0, 1000, (6, 50)).astype(np.uint16)
    rng = np.random.default_rng([1, 2, 3])
    corrupted, targets = Masker(1000, SPECIAL, 999, 0.3)(ids, np.random.default_rng([1, 2, 3]))
    wanted, labels, replaced = ids.astype(int).tolist(), np.full(ids.shape, IGNORE).tolist(), []
    draws = rng.random((6, 50), dtype=np.float32)
    for row in range(6):
        for column in range(50):
            share = draws[row, column] / np.float32(0.3)
            if share >= 1 or ids[row, column] in SPECIAL:
                continue
            labels[row][column] = int(ids[row, column])
            if share < 0.8:
                wanted[row][column] = 999
            elif share < 0.9:
                replaced.append((row, column))
    others = rng.choice([token for token in range(1000) if token not in SPECIAL], len(replaced))
    for (row, column), other in zip(replaced, others.tolist(), strict=True):
        wanted[row][column] = other
    assert len(replaced) > 5
    assert corrupted.tolist() == wanted
    assert targets.tolist() == labels
    assert corrupted.dtype == targets.dtype == np.int64
