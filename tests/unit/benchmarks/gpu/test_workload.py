"""The random rows of the steps that are predicted and measured."""

from __future__ import annotations

import numpy as np

from benchmarks.gpu.workload import CASES, attended, packed_rows
from pretrain.data.prepare import PackedSplit


def test_rows_are_full_to_what_is_said_and_hold_documents():
    split = packed_rows(50, 512, 10_000)
    assert split.input_ids.shape == split.position_ids.shape == (50, 512)
    assert np.count_nonzero(split.input_ids) == split.num_tokens == 50 * 502
    assert split.input_ids.max() < 10_000
    steps = np.diff(split.position_ids[:, :502].astype(int), axis=1)
    starts = (split.position_ids[:, :502] == 0).sum()
    assert ((steps == 1) | (split.position_ids[:, 1:502] == 0)).all()
    assert starts == split.num_documents
    assert 150 < 50 * 502 / starts < 250


def test_the_scores_of_attention_are_counted_in_whole_tiles():
    positions = np.array([[*range(5), *range(9), 0, 0]], np.uint16)
    split = PackedSplit(np.ones_like(positions), positions, 2, 14)
    assert attended(split, causal=False, tile=4) == (8 * 8 + 12 * 12) / 16**2
    assert attended(split, causal=False, tile=1) == (5 * 5 + 9 * 9) / 16**2
    assert attended(split, causal=True, tile=4) == (3 + 6) * 4 * 4 / 16**2
    assert attended(split, causal=True, tile=1) == (15 + 45) / 16**2


def test_cases_are_the_shipped_configurations_in_one_forward_pass():
    for case in CASES:
        config = case.config()
        assert config.train.batch_size == 112
        assert config.model.intermediate_size == (1024 if case.variant == "gelu" else 256)
        assert (config.model.ffn_options or {}).get("grid_size") == case.grid_size
