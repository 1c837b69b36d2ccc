"""The loss of a model that knows only how frequent tokens are, against plain counting of real targets."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from base.records import read_record, write_record
from pretrain.data import prepare as preparing
from pretrain.data.packing import PackedSplit
from pretrain.data.prepare import PreparedData, prepare_data, word_frequency_loss
from pretrain.data.step_batches import BatchSource
from pretrain.model.build import build_masker
from pretrain.resolution import load_config
from pretrain.training.training_run import train


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


@pytest.mark.slow
def test_a_run_records_it_and_keeps_it(tmp_path):
    model = ["--model.hidden-size", "32", "--model.intermediate-size", "32"]
    config = config_of(tmp_path, "--optim.max-steps", "2", "--train.save-steps", "1", *model)
    path = train(config)
    record = path / "provenance.json"
    written = json.loads(record.read_text())
    expected = word_frequency_loss(prepare_data(config), is_causal=True)
    assert written["word_frequency_loss"] == pytest.approx(expected, abs=1e-6)

    (path / "COMPLETED").unlink()
    write_record(record, read_record(record, dict) | {"word_frequency_loss": 1.25})
    assert train(config) == path
    resumed = json.loads(record.read_text())
    assert resumed["word_frequency_loss"] == 1.25
    assert len(resumed["sessions"]) == 2
