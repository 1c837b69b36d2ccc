"""The study that repeats the source study: its models, its questions, and a step in one forward pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretrain.data.step_batches import cut_step
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from pretrain.training.dry_run import describe_run
from slurm.study.study import Study, load_study

STUDY = Path(__file__).parents[4] / "configs" / "studies" / "thesis.yaml"
# Its Table 2 prints 9.0M, 11.0M for a KAN, and 2,048 more for an activation with learned parameters.
PARAMETERS = {
    ("gpt_neo", "gelu"): "9,585,664",
    ("gpt_neo", "prelu"): "9,587,712",
    ("gpt_neo", "thesis-kan"): "11,679,744",
    ("roberta", "thesis-kan"): "11,303,696",
    ("roberta", "kan"): "13,006,608",
}


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(STUDY)


@pytest.mark.parametrize("arm", PARAMETERS, ids="-".join)
def test_its_models_have_the_source_studys_sizes(study: Study, arm: tuple[str, str]) -> None:
    cell = next(x for x in study.cells if (x.config.family, x.config.model.ffn) == arm)
    assert f"parameters       {PARAMETERS[arm]} (" in describe_run(cell.config)


def test_it_asks_the_source_studys_questions(study: Study) -> None:
    report = study.config.report
    assert report.baseline == "gelu"
    assert report.contrasts == (
        "gelu - learnable-gelu",
        "relu+silu - thesis-swish+prelu",
        "relu - prelu",
        "silu - thesis-swish",
    )
    assert {"thesis-kan", "kan", "thesis-swish"} < set(study.config.variants)
    assert sorted(study.config.seeds) == [1, 2, 3, 4, 5, 42]


def test_a_step_is_one_forward_pass_of_the_run_that_its_base_config_trains(study: Study) -> None:
    config = study.cells[0].config
    assert cut_step(config.train, num_processes=1, on_gpu=True) == (112, 112)
    alone = load_config(STUDY.parent.parent / "gpt-neo.yaml", ["--seed", str(config.seed)])
    assert cut_step(alone.train, num_processes=1) == (112, 16)
    assert run_dir(config).name == run_dir(alone).name
