"""What may be evaluated and how: settings, presets of fine-tuning, and what a study's file says."""

from __future__ import annotations

from pathlib import Path

import pytest

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
# What the original scripts and papers say; what they leave out is as transformers has it.
BABYLM23 = {
    "learning_rate": 5e-5,
    "per_device_train_batch_size": 64,
    "num_train_epochs": 10,
    "max_length": 128,
}
BABYLM23 |= {"eval_steps": 200, "patience": 10, "threshold": 0.001, "loss_breaks_ties": False}
BABYLM23 |= {"metric_for_best_model": "f1", "select_on": "validation", "seeds": (12,)}
STUDY = {**BABYLM23, "per_device_train_batch_size": 80, "eval_steps": 0.05}
BABYLM25 = {"learning_rate": 3e-5, "lr_scheduler_type": "cosine", "warmup_ratio": 0.06, "min_lr_rate": 0.1}
BABYLM25 |= {"weight_decay": 0.01, "max_length": 512, "patience": None, "max_grad_norm": None, "seeds": (42,)}
BABYLM25 |= {"dataloader_drop_last": True, "select_on": "validation", "per_device_train_batch_size": 32}
SWIPE = {"learning_rate": 5e-5, "weight_decay": 0.0, "num_train_epochs": 10, "patience": None}
SWIPE |= {"seeds": (1, 2, 3, 4, 5), "max_length": 512, "select_on": "held-out"}
FR_KAN = {"learning_rate": 2e-5, "num_train_epochs": 5, "per_device_train_batch_size": 64, "max_length": 512}
FR_KAN |= {"patience": None, "lr_scheduler_type": "linear", "warmup_ratio": 0}
PAIRS = {"extra_metrics": ("mean_accuracy_f1",)}


@pytest.mark.parametrize(
    ("preset", "task", "expected"),
    [
        (
            "default",
            "rte",
            {"learning_rate": 5e-5, "num_train_epochs": 10, "max_length": 128, "seeds": (12,)},
        ),
        ("default", "cola", {"eval_steps": None, "metric_for_best_model": "matthews_correlation"}),
        ("default", "mrpc", {"select_on": "held-out", "metric_for_best_model": "f1"}),
        ("default", "wsc", {"select_on": "held-out", "metric_for_best_model": "accuracy"}),
        *(("babylm23", task, BABYLM23) for task in GLUE_TASK_NAMES if not task.startswith("mnli")),
        ("babylm23", "mnli-mm", {**BABYLM23, "metric_for_best_model": "accuracy"}),
        *(("babylm25", task, {**BABYLM25, "metric_for_best_model": "f1"}) for task in ("mrpc", "qqp")),
        *(("babylm25", task, {**BABYLM25, "metric_for_best_model": "accuracy"}) for task in ("rte", "mnli")),
        ("babylm25", "wsc", {**BABYLM25, "num_train_epochs": 30}),
        *(("babylm25", task, {"per_device_train_batch_size": 16}) for task in ("boolq", "multirc")),
        ("source-study", "rte", {**STUDY, "extra_metrics": ()}),
        ("source-study", "mrpc", {**STUDY, **PAIRS}),
        ("source-study", "qqp", {**STUDY, **PAIRS}),
        ("source-study", "multirc", {"extra_metrics": ("f1", "matthews_correlation", "mean_f1_matthews")}),
        ("swipe", "boolq", SWIPE),
        ("fr-kan", "rte", FR_KAN),
    ],
)
def test_a_preset_is_the_recipe_that_it_is_called_after(preset, task, expected):
    found = FinetuneConfig(preset=preset).resolve(task).model_dump()
    assert {name: found[name] for name in expected} == expected


def test_fr_kan_drops_out_before_heads_of_this_project_only():
    config = FinetuneConfig(preset="fr-kan", head=("linear", "fourier-kan", "default"))
    rates = {head.name: config.resolve("rte", head).head_dropout for head in config.heads}
    assert rates == {"linear": 0.1, "fourier-kan": 0.1, "default": 0.0}
    tasks = FinetuneConfig(preset="babylm25").task_names
    assert sorted(tasks) == ["boolq", "mnli", "mrpc", "multirc", "qqp", "rte", "wsc"]


def test_younger_settings_leave_older_protocols_as_they_were():
    config = FinetuneConfig(head=("linear frozen",))
    before = {
        "head": "linear frozen", "pooling": "auto", "learning_rate": 5e-05, "head_learning_rate": None,
        "lr_scheduler_type": "linear", "warmup_ratio": 0.0, "min_lr_rate": 0.0, "weight_decay": 0.0,
        "max_grad_norm": 1.0, "per_device_train_batch_size": 64, "dataloader_drop_last": False,
        "num_train_epochs": 10, "max_length": 128, "eval_steps": None, "patience": 3, "threshold": 0.0,
        "metric_for_best_model": "accuracy", "loss_breaks_ties": True, "select_on": "held-out",
        "held_out_fraction": 0.1, "extra_metrics": [], "seeds": [12], "dtype": "auto",
        "max_train_examples": None, "max_validation_examples": None,
    }  # fmt: skip
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
