"""What may be evaluated and how: settings, presets of fine-tuning, and what a study's file says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from base.command_line import parse_flags
from base.errors import UsageError
from base.sections import check
from eval.classification.schema import benchmarks_asked_for
from eval.command import study_config
from eval.config import EvalConfig
from eval.finetuning import GLUE_TASK_NAMES, PRESETS, FinetuneConfig


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


# Presets of fine-tuning: what each of them says, and that what is given explicitly wins.


RECIPES = yaml.safe_load(Path(__file__).with_name("recipes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("preset", "tasks", "expected"),
    [(preset, *each) for preset in RECIPES["presets"] for each in RECIPES["presets"][preset]],
)
def test_a_preset_is_the_recipe_that_it_is_called_after(preset, tasks, expected):
    for task in tasks.split():
        found = FinetuneConfig(preset=preset).resolve(task).model_dump(mode="json")
        assert {name: found[name] for name in expected} == expected


def test_fr_kan_drops_out_before_heads_of_this_project_only():
    config = FinetuneConfig(preset="fr-kan", head=("linear", "fourier-kan", "default"))
    rates = {head.name: config.resolve("rte", head).head_dropout for head in config.heads}
    assert rates == {"linear": 0.1, "fourier-kan": 0.1, "default": 0.0}
    tasks = FinetuneConfig(preset="babylm25").task_names
    assert sorted(tasks) == ["boolq", "mnli", "mrpc", "multirc", "qqp", "rte", "wsc"]


def test_younger_settings_leave_older_protocols_as_they_were():
    config = FinetuneConfig(head=("linear frozen",))
    before = RECIPES["linear frozen"]
    assert config.resolve("rte").record() == before
    dropped = FinetuneConfig(head=("linear frozen",), head_dropout=0.2)
    assert dropped.resolve("rte").record() == {**before, "head_dropout": 0.2}


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_given_wins_over_the_preset_and_its_tasks(preset):
    given = {"learning_rate": 1e-3, "lr_scheduler_type": "constant", "per_device_train_batch_size": 7}
    given |= {"num_train_epochs": 3, "patience": 2, "metric_for_best_model": "micro_f1", "seeds": (1, 2)}
    config = FinetuneConfig(preset=preset, tasks=("rte", "rte"), **given)
    for task in ("wsc", "boolq", "mnli", "mrpc"):
        found = config.resolve(task).model_dump()
        assert {name: found[name] for name in given} == given
    assert config.task_names == ("rte",)


def test_flags_reach_a_preset():
    flags = "--finetune.preset babylm23 --finetune.patience 4 --finetune.seeds 1 2"
    config = parse_flags(EvalConfig, [*flags.split(), "--finetune.tasks", "rte", "wsc"]).finetune
    settings = config.resolve("rte")
    assert (settings.eval_steps, settings.patience, settings.seeds) == (200, 4, (1, 2))
    assert config.task_names == ("rte", "wsc")
    assert FinetuneConfig.model_validate(config.model_dump(mode="json")) == config


# What a study's file may have evaluated.
def test_task_files_of_a_study_need_the_flag_of_whoever_runs_them(tmp_path):
    (tmp_path / "study.yaml").write_text("evaluation: {tasks: [mine], include_path: [tasks]}")
    with pytest.raises(UsageError, match=r"may run code; if you trust them, add --include-path tasks"):
        study_config([tmp_path])
    assert study_config([tmp_path], [Path("tasks")]).include_path == (Path("tasks"),)


def test_what_older_studies_asked_beside_scores_is_passed_over(tmp_path):
    (tmp_path / "study.yaml").write_text("evaluation: {suites: [blimp], check_contamination: true}")
    assert study_config([tmp_path]) == EvalConfig(suites=("blimp",))
