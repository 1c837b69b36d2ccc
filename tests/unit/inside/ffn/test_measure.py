"""Which runs count as seeds of one another, and which not."""

from __future__ import annotations

from pathlib import Path

import pytest

from inside.ffn.command import group_runs
from inside.ffn.measure import RunInspection
from pretrain.resolution import load_config
from pretrain.run.run_folder import write_config


@pytest.fixture
def run(tmp_path):
    def make(ffn: str, seed: int = 1, family: str = "gpt_neo", **changed: dict) -> tuple[Path, RunInspection]:
        config = load_config(None, overrides={
            "seed": seed, "family": family,
            "model": {"ffn": ffn, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
                      **changed.pop("model", {})},
            "data": {"block_size": 64}, **changed,
        })  # fmt: skip
        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        write_config(path, config)
        return path, measured(path.name, ffn, seed, family)

    return make


def measured(run_id: str, variant: str, seed: int, family: str = "gpt_neo") -> RunInspection:
    return RunInspection(
        run_id=run_id, family=family, variant=variant, seed=seed, ffn_parameters=0, num_tokens=0, loss=3.0,
        activations=[], edges=[],
        pruning={"random": [3.0, 3.1, 3.2, 3.5, 3.6, 3.8, 4.0]},
    )  # fmt: skip


def names(runs) -> dict[str, int]:
    return {name: len(group) for name, group in group_runs(runs)[0].items()}


def test_seeds_keep_the_name_of_their_variant(run):
    wider = {"intermediate_size": 8}
    runs = [run("gelu"), run("gelu", 2), run("kan", 1, model=wider), run("kan", 2, model=wider)]
    assert names(runs) == {"gelu": 2, "kan": 2}


def test_runs_that_differ_in_more_than_the_seed_are_no_seeds_of_one_another(run):
    rates = [run("gelu", optim={"learning_rate": rate}) for rate in (0.01, 0.001)]
    grids = [run("kan", model={"ffn_options": {"grid_size": size}}) for size in (8, 3)]
    assert names([*rates, *grids]) == {
        "gelu optim.learning_rate=0.01": 1,
        "gelu optim.learning_rate=0.001": 1,
        "kan grid_size=8": 1,
        "kan grid_size=3": 1,
    }


def test_architectures_are_named_where_there_are_several(run):
    assert names([run("gelu"), run("gelu", family="roberta")]) == {"gelu, GPT-Neo": 1, "gelu, RoBERTa": 1}


def test_a_seed_that_was_trained_twice_counts_once(run):
    groups, notes = group_runs([run("gelu"), run("gelu"), run("gelu", 2)])
    assert [one.seed for one in groups["gelu"]] == [1, 2]
    assert notes == ["run1: left out, as the same training is there already"]


def test_half_of_the_edges_costs_what_the_curve_says():
    assert measured("", "gelu", 1).summaries == {"loss": 3.0, "half of the edges, random": 0.5}
