"""Runs that are trained differently are no seeds of one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.inspection.settings import told_apart
from eval.results.inspection import RunInspection
from pretrain.resolution import load_config
from pretrain.run.run_dir import write_config


@pytest.fixture
def run(tmp_path):
    def make(ffn: str, seed: int = 1, **changed: dict) -> tuple[Path, RunInspection]:
        config = load_config(None, overrides={
            "seed": seed,
            "model": {"ffn": ffn, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
                      **changed.pop("model", {})},
            "data": {"block_size": 64}, **changed,
        })  # fmt: skip
        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        write_config(path, config)
        measured = RunInspection(
            key="", run_id=path.name, family="gpt_neo", variant=ffn, seed=seed, ffn_parameters=0, num_edges=0,
            num_tokens=0, loss=0.0, seconds=0.0, peak_mb=0.0, edges=[], activations=[], moments=[],
            pruning=[], resets={}, gradient_norms={}, summaries={}, pruned_model="", notes=[],
        )  # fmt: skip
        return path, measured

    return make


def names(runs) -> list[tuple[str, str]]:
    return [(found.family, found.variant) for found in told_apart(runs)]


def test_seeds_of_one_thing_keep_their_names(run):
    wider = {"intermediate_size": 8}
    runs = [run("gelu"), run("gelu", 2), run("kan", 1, model=wider), run("kan", 2, model=wider)]
    assert names(runs) == [("gpt_neo", "gelu")] * 2 + [("gpt_neo", "kan")] * 2


def test_rates_are_settings_that_variants_are_compared_within(run):
    fast, slow = {"learning_rate": 0.01}, {"learning_rate": 0.001}
    runs = [run("gelu", optim=fast), run("gelu", optim=slow), run("kan", optim=fast)]
    fast_name, slow_name = "GPT-Neo, optim.learning_rate=0.01", "GPT-Neo, optim.learning_rate=0.001"
    assert names(runs) == [(fast_name, "gelu"), (slow_name, "gelu"), (fast_name, "kan")]


def test_options_are_variants_and_the_baseline_keeps_its_name(run):
    fine, coarse = {"ffn_options": {"grid_size": 8}}, {"ffn_options": {"grid_size": 3}}
    runs = [run("gelu"), run("kan", model=fine), run("kan", model=coarse)]
    assert names(runs) == [
        ("gpt_neo", "gelu"),
        ("gpt_neo", "kan grid_size=8"),
        ("gpt_neo", "kan grid_size=3"),
    ]


def test_sizes_with_widths_of_their_own_are_settings_alone(run):
    small = {"hidden_size": 16, "intermediate_size": 24}
    large = {"hidden_size": 32, "intermediate_size": 48}
    found = names([run(ffn, model=size) for ffn in ("gelu", "swish") for size in (small, large)])
    assert [variant for _, variant in found] == ["gelu", "gelu", "swish", "swish"]
    assert found[0][0] == found[2][0] == "GPT-Neo, hidden_size=16"
    assert found[1][0] == found[3][0] == "GPT-Neo, hidden_size=32"
