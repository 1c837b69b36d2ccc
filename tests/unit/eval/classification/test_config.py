"""Presets of fine-tuning: what each of them says, and that what is given explicitly wins."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from transformers import TrainingArguments

from base.command_line import parse_flags
from eval.config import EvalConfig
from eval.finetuning import GLUE_TASK_NAMES, PRESETS, FinetuneConfig, Finetuning


def values(preset: str, task: str, *names: str) -> tuple:
    settings = FinetuneConfig(preset=preset).resolve(task)
    return tuple(getattr(settings, name) for name in names)


def test_the_default_chooses_on_a_held_out_part_by_the_headline_metric():
    names = ("learning_rate", "per_device_train_batch_size", "num_train_epochs", "max_length", "seeds")
    assert values("default", "rte", *names) == (5e-5, 64, 10, 128, (12,))
    names = ("select_on", "eval_steps", "metric_for_best_model")
    assert values("default", "cola", *names) == ("held-out", None, "matthews_correlation")
    assert values("default", "mrpc", *names) == values("default", "qqp", *names) == ("held-out", None, "f1")
    assert values("default", "wsc", *names) == ("held-out", None, "accuracy")


@pytest.mark.parametrize("task", GLUE_TASK_NAMES)
def test_babylm23_is_its_finetune_model_script(task):
    settings = FinetuneConfig(preset="babylm23").resolve(task)
    assert settings == Finetuning(
        learning_rate=5e-5,
        per_device_train_batch_size=64,
        num_train_epochs=10,
        max_length=128,
        eval_steps=200,
        patience=10,
        threshold=0.001,
        metric_for_best_model="accuracy" if task.startswith("mnli") else "f1",
        loss_breaks_ties=False,
        select_on="validation",
        seeds=(12,),
    )


def test_babylm25_is_its_eval_finetuning_script():
    config = FinetuneConfig(preset="babylm25")
    assert sorted(config.task_names) == ["boolq", "mnli", "mrpc", "multirc", "qqp", "rte", "wsc"]
    names = ("per_device_train_batch_size", "num_train_epochs", "metric_for_best_model")
    found = {task: values("babylm25", task, *names) for task in config.task_names}
    assert found == {
        "boolq": (16, 10, "accuracy"),
        "multirc": (16, 10, "accuracy"),
        "rte": (32, 10, "accuracy"),
        "wsc": (32, 30, "accuracy"),
        "mrpc": (32, 10, "f1"),
        "qqp": (32, 10, "f1"),
        "mnli": (32, 10, "accuracy"),
    }
    names = (
        "learning_rate",
        "lr_scheduler_type",
        "warmup_ratio",
        "min_lr_rate",
        "weight_decay",
        "max_length",
    )
    assert values("babylm25", "rte", *names) == (3e-5, "cosine", 0.06, 0.1, 0.01, 512)
    names = ("patience", "eval_steps", "max_grad_norm", "dataloader_drop_last", "select_on", "seeds")
    assert values("babylm25", "rte", *names) == (None, None, None, True, "validation", (42,))


def test_the_source_study_is_babylm23_with_its_own_batches_and_averages():
    names = ("per_device_train_batch_size", "eval_steps", "learning_rate", "patience", "threshold")
    assert values("source-study", "rte", *names) == (80, 0.05, 5e-5, 10, 0.001)
    extra = {
        task: FinetuneConfig(preset="source-study").resolve(task).extra_metrics for task in GLUE_TASK_NAMES
    }
    assert {task: names for task, names in extra.items() if names} == {
        "mrpc": ("mean_accuracy_f1",),
        "qqp": ("mean_accuracy_f1",),
        "multirc": ("f1", "matthews_correlation", "mean_f1_matthews"),
    }


def test_swipe_is_its_paper_s_recipe():
    # Adam without decay, linear from 5e-5, 10 epochs and five initialisations (Wang et al. 2023).
    names = ("learning_rate", "weight_decay", "lr_scheduler_type", "warmup_ratio", "num_train_epochs")
    assert values("swipe", "boolq", *names) == (5e-5, 0.0, "linear", 0.0, 10)
    names = ("patience", "select_on", "seeds", "max_length")
    assert values("swipe", "boolq", *names) == (None, "held-out", (1, 2, 3, 4, 5), 512)


def test_fr_kan_is_what_its_paper_says_and_the_schedule_that_transformers_defaults_to():
    names = ("learning_rate", "num_train_epochs", "per_device_train_batch_size", "max_length", "patience")
    assert values("fr-kan", "rte", *names) == (2e-5, 5, 64, 512, None)
    config = FinetuneConfig(preset="fr-kan", head=("linear", "fourier-kan", "default"))
    rates = {head.name: config.resolve("rte", head).head_dropout for head in config.heads}
    assert rates == {"linear": 0.1, "fourier-kan": 0.1, "default": 0.0}
    stock = TrainingArguments(output_dir="unused")
    assert values("fr-kan", "rte", "lr_scheduler_type", "warmup_ratio") == (stock.lr_scheduler_type.value, 0)


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
    assert FinetuneConfig(head=("linear frozen",), head_dropout=0.2).resolve("rte").record() == {
        **before,
        "head_dropout": 0.2,
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_given_wins_over_the_preset_and_its_tasks(preset):
    given = {
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.4,
        "per_device_train_batch_size": 7,
        "num_train_epochs": 3,
        "max_length": 64,
        "patience": 2,
        "metric_for_best_model": "matthews_correlation",
        "select_on": "held-out",
        "seeds": (1, 2),
        "dtype": "bfloat16",
        "max_train_examples": 100,
        "max_validation_examples": 50,
    }
    for task in ("wsc", "boolq", "mnli", "mrpc"):
        found = FinetuneConfig(preset=preset, tasks=("rte",), **given).resolve(task).model_dump()
        assert {name: found[name] for name in given} == given
    assert FinetuneConfig(preset=preset, tasks=("rte", "rte")).task_names == ("rte",)


def test_flags_reach_a_preset():
    flags = "--finetune.preset babylm23 --finetune.patience 4 --finetune.seeds 1 2"
    config = parse_flags(EvalConfig, [*flags.split(), "--finetune.tasks", "rte", "wsc"]).finetune
    settings = config.resolve("rte")
    assert (settings.eval_steps, settings.patience, settings.seeds) == (200, 4, (1, 2))
    assert config.task_names == ("rte", "wsc")
    assert FinetuneConfig.model_validate(config.model_dump(mode="json")) == config


def test_what_archived_studies_left_empty_is_passed_over_and_what_they_set_is_not():
    empty = {"eval_steps": None, "warmup_ratio": None, "min_lr_rate": None, "threshold": None}
    assert FinetuneConfig.model_validate(empty) == FinetuneConfig()
    with pytest.raises(ValidationError, match="eval_steps"):
        FinetuneConfig.model_validate({**empty, "eval_steps": 200})
