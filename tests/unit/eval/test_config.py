from __future__ import annotations

import pytest

from base.errors import UsageError
from base.sections import check
from eval.classification.schema import benchmarks_asked_for
from eval.config import EvalConfig
from eval.finetuning import GLUE_TASK_NAMES


def test_the_defaults_are_what_a_reader_of_the_field_expects():
    config = EvalConfig()
    assert (config.suites, config.max_pairs) == (("blimp", "glue"), None)
    assert config.protocol.preset == "native"
    assert config.finetune.task_names == GLUE_TASK_NAMES
    assert len(GLUE_TASK_NAMES) == 11


def test_a_study_section_is_read_as_yaml_gives_it(tmp_path):
    finetune = {"tasks": ["rte"], "learning_rate": "3e-4"}
    config = EvalConfig.model_validate({"glue_dir": str(tmp_path), "finetune": finetune})
    assert (config.glue_dir, config.finetune.tasks) == (tmp_path, ("rte",))
    assert config.finetune.learning_rate == 3e-4
    assert EvalConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"suites": ["blmp"]}, "value of suites.0: 'blmp'; did you mean 'blimp'"),
        ({"finetune": {"tasks": ["mnly"]}}, "did you mean 'mnli'"),
        ({"finetune": {"num_train_epochs": 0}}, "must be at least 1"),
        ({"finetune": {"held_out_fraction": 1.0}}, "less than 1"),
        ({"finetune": {"preset": "babylm24"}}, "did you mean 'babylm25'"),
        ({"finetune": {"seeds": []}}, "no value is given.*--finetune.seeds 12"),
        ({"finetune": {"head": []}}, "no value is given.*--head linear"),
        ({"max_pair": 3}, "max_pair: unknown key"),
        ({"max_pairs": 0}, "must be at least 1"),
    ],
)
def test_mistakes_name_the_field(section, message):
    with pytest.raises(UsageError, match=message):
        check(EvalConfig, section)


@pytest.mark.parametrize(
    ("asked", "benchmarks"),
    [
        ({"suites": ("blimp", "wug", "blimp"), "tasks": ("arc_easy",)}, ("blimp", "wug", "lm-eval-arc_easy")),
        ({"suites": ("glue",), "classify": ("rte", "ag-news", "imdb")}, ("glue", "classification")),
    ],
)
def test_benchmarks_are_the_suites_and_those_of_the_tasks(asked, benchmarks):
    assert benchmarks_asked_for(EvalConfig(**asked)) == benchmarks
