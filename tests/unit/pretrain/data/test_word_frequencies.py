"""The loss of a model that knows only how frequent tokens are, against plain counting of real targets."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pretrain.data import prepare as preparing
from pretrain.data.packing import PackedSplit
from pretrain.data.prepare import PreparedData, prepare_data, word_frequency_loss
from pretrain.data.step_batches import BatchSource
from pretrain.model.build import build_masker
from pretrain.resolution import load_config


def config_of(runs_dir: Path, *flags: str):
    small = ["--data.num-stories", "300", "--data.vocab-size", "300", "--data.block-size", "64"]
    return load_config(None, [*small, "--runs-dir", str(runs_dir), *flags])


def targets(config, data: PreparedData, split: PackedSplit) -> list[int]:
    """The targets of a split as the training cuts them."""
    source = BatchSource(config, build_masker(config, data.tokenizer), int(data.tokenizer.pad_token_id))
    return [token for batch in source.held_out(split) for token in batch["target_ids"].tolist()]


def counted_loss(seen: list[int], asked: list[int], vocab_size: int) -> float:
    """The loss of add-one frequencies, one token at a time."""
    counts = Counter(seen)
    return -math.fsum(math.log((counts[t] + 1) / (len(seen) + vocab_size)) for t in asked) / len(asked)


def test_a_causal_models_targets_are_counted_exactly(tmp_path, monkeypatch):
    config = config_of(tmp_path)
    data = prepare_data(config)
    expected = counted_loss(
        targets(config, data, data.train), targets(config, data, data.validation), len(data.tokenizer)
    )
    assert word_frequency_loss(data, is_causal=True) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(preparing, "TOKENS_TO_COUNT", 500)
    assert word_frequency_loss(data, is_causal=True) == pytest.approx(expected, rel=1e-12)
    assert 3 < expected < math.log(len(data.tokenizer))


def test_a_masked_models_targets_are_a_random_part(tmp_path):
    config = config_of(tmp_path, "--family", "roberta", "--train.mlm-probability", "0.6")
    data = prepare_data(config)
    seen, asked = (targets(config, data, split) for split in (data.train, data.validation))
    expected = counted_loss(seen, asked, len(data.tokenizer))
    counts = Counter(seen)
    surprise = [-math.log((counts[t] + 1) / (len(seen) + len(data.tokenizer))) for t in asked]
    standard_error = np.std(surprise) / math.sqrt(len(asked))
    found = word_frequency_loss(data, is_causal=False)
    assert found == pytest.approx(expected, abs=3 * standard_error)
    special = Counter(seen + asked).keys() & set(data.tokenizer.all_special_ids)
    assert not special
