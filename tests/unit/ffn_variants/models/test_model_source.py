"""A model knows the source of its variant that its weights were trained through."""

from __future__ import annotations

import dataclasses
import json
import logging

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from ffn_variants import FFN_VARIANTS, build_model
from ffn_variants.models import modeling
from ffn_variants.source_fingerprint import source_fingerprint
from ffn_variants.variants.activations import PerChannel, thesis_swish

SIZES = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 20,
}


@pytest.fixture
def other_formula(monkeypatch):
    """Have ``swish`` compute something else from now on."""
    modeling._warn_of_other_source.cache_clear()

    def change(**fields) -> None:
        spec = dataclasses.replace(
            FFN_VARIANTS["swish"], build=lambda width, init: PerChannel(thesis_swish, width, init), **fields
        )
        monkeypatch.setitem(FFN_VARIANTS, "swish", spec)

    return change


@pytest.fixture
def saved(tmp_path):
    """A folder with a new model."""
    torch.manual_seed(0)
    build_model("gpt_neo", "swish", **SIZES).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def told(caplog):
    """What this project said; transformers tells of heads."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("ffn_variants")]


def recorded(folder):
    return json.loads((folder / "config.json").read_text()).get("ffn_source")


def test_it_is_told_once_in_one_line_and_kept(saved, tmp_path, other_formula, caplog):
    before = source_fingerprint("swish")
    assert recorded(saved) == before
    AutoModel.from_pretrained(saved)
    assert not told(caplog)
    other_formula()
    with caplog.at_level(logging.WARNING):
        model = AutoModel.from_pretrained(saved)
        AutoModelForSequenceClassification.from_pretrained(saved, num_labels=2)
    (line,) = told(caplog)
    now = source_fingerprint("swish")
    assert f"trained through another 'swish' (source {before}, now {now})" in line
    assert f"add '{before}' to earlier_sources" in line
    assert "\n" not in line
    model.save_pretrained(tmp_path / "again")
    assert recorded(tmp_path / "again") == before


def test_older_models_say_nothing_and_go_on_saying_nothing(saved, tmp_path, other_formula, caplog):
    config = json.loads((saved / "config.json").read_text())
    del config["ffn_source"]
    (saved / "config.json").write_text(json.dumps(config))
    other_formula()
    AutoModel.from_pretrained(saved).save_pretrained(tmp_path / "again")
    assert not told(caplog)
    assert recorded(tmp_path / "again") is None
