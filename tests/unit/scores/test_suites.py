"""Every suite of the registry: its spec is whole, its finder is there, a sample of its data can be scored.

A new suite is tested by existing; where its data come from a folder, ``DATA`` needs a sample of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from eval.config import EvalConfig
from scores.suites import HARNESS_METRICS, SUITES, SuiteSpec, asks_for_classes, read_suite, unit_of
from tests.babylm_data import write_data

PAIR = {"sentence_good": "The dogs bark.", "sentence_bad": "The dogs barks.", "UID": "agreement"}
OTHER = {"sentence_good": "She sees him.", "sentence_bad": "She see him.", "UID": "agreement"}
BOXES = {"input_prefix": "Box 1 contains", "options": [" a cup.", " a key.", " a pen."], "numops": 2}
WUGS = [{"sentences": f"{'x' * n}ity\t{'y' * (5 - n)}ness", "ratio": n / 5} for n in range(1, 5)]


def lines(path: Path, rows: Sequence[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pair_files(folder: Path) -> dict[str, Any]:
    for name in ("full", "filtered", "supplement"):
        lines(folder / name / f"{name}_task.jsonl", [PAIR, OTHER])
    lines(folder / "blimp_fast.jsonl", [PAIR, OTHER])
    return {"blimp_dir": folder, "babylm25_dir": folder}


def entity_files(folder: Path) -> dict[str, Any]:
    for name in SUITES["entity-tracking"].tasks:
        lines(folder / f"entity_tracking_{name}.jsonl", [BOXES, BOXES])
    return {"babylm25_dir": folder}


def wug_file(folder: Path) -> dict[str, Any]:
    lines(folder / "wug_adj_nominalization.jsonl", WUGS)
    return {"babylm25_dir": folder}


def babylm_files(folder: Path) -> dict[str, Any]:
    return {"babylm25_dir": write_data(folder / "data"), "max_pairs": None}


def held_out_text(folder: Path) -> dict[str, Any]:
    (folder / "text.txt").write_text("One day a dog ran.\n\nIt was happy.\n", encoding="utf-8")
    return {"text_file": folder / "text.txt"}


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "blimp": pair_files,
    "babylm23": pair_files,
    "blimp-fast": pair_files,
    **dict.fromkeys(("blimp-filtered", "blimp-supplement", "ewok", "comps", "wug-past"), babylm_files),
    "entity-tracking": entity_files,
    "wug": wug_file,
    "perplexity": held_out_text,
}


class LengthScorer:
    """A model that takes every letter of a text for equally likely: it needs no weights."""

    protocol = SimpleNamespace(score="log-likelihood")

    def score_continuations(self, pairs: Sequence[tuple[str, str]]) -> SimpleNamespace:
        lengths = [len(text) for _, text in pairs]
        return SimpleNamespace(log_likelihood=-np.array(lengths, dtype=float), num_tokens=lengths)

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[SimpleNamespace]:
        return [SimpleNamespace(input_ids=text, start=0, end=len(text)) for _, text in pairs]

    def score_documents(self, documents: Sequence[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(log_likelihood=-float(len(text)), num_tokens=len(text)) for text in documents]


@pytest.fixture(params=SUITES)
def spec(request: pytest.FixtureRequest):
    return SUITES[request.param]


def test_a_spec_is_whole(spec) -> None:
    assert SUITES[spec.name] is spec
    names = [metric.name for metric in spec.metrics]
    assert names
    assert len(set(names)) == len(names)
    assert set(spec.primary) <= set(names)
    # Only the files of classification tasks say themselves what stands for a task.
    assert bool(spec.primary) == (spec.kind != "classification")
    assert len(set(spec.tasks)) == len(spec.tasks)
    for mean in spec.means:
        assert mean.metric is None or mean.metric in names
        assert mean.tasks is None or set(mean.tasks) <= set(spec.tasks)


def test_a_metric_has_a_direction_a_unit_and_a_chance_within_its_range(spec) -> None:
    ranges = {"percent": (0, 100), "correlation": (-100, 100)}
    for metric in spec.metrics:
        assert metric.unit == unit_of(metric.name)
        assert metric.better in ("higher", "lower") or metric.name not in spec.primary
        assert metric.better != "lower" or metric.unit not in ranges
        if metric.chance is not None:
            low, high = ranges.get(metric.unit, (-math.inf, math.inf))
            assert low <= metric.chance < high
    assert spec.kind != "minimal pairs" or chance_of(spec) == 50


def chance_of(spec: SuiteSpec) -> float | None:
    """What guessing scores in the metric that stands for a task."""
    return next((metric.chance for metric in spec.metrics if metric.name in spec.primary[:1]), None)


@pytest.mark.parametrize("left_out", ["better", "unit"])
def test_a_metric_cannot_be_written_without(left_out):
    metric = {"name": "brier", "better": "lower", "unit": "ratio"}
    row = {"name": "x", "kind": "text", "finder": "a:b", "metrics": [metric]}
    assert read_suite(row).metrics[0].unit == "ratio"
    del metric[left_out]
    with pytest.raises(ValidationError, match=rf"metrics\.0\.{left_out}"):
        read_suite(row)


def test_every_suite_has_a_chance_level_but_of_texts_and_constant_answers() -> None:
    assert {name: chance_of(spec) for name, spec in SUITES.items()} == {
        "blimp": 50, "babylm23": 50, "blimp-fast": 50, "blimp-filtered": 50, "blimp-supplement": 50,
        "ewok": 50, "comps": 50, "embedded-pairs": 50, "entity-tracking": 20, "wug": 0, "wug-past": 0,
        "perplexity": None, "glue": None, "embedded-glue": None,
    }  # fmt: skip


def test_a_metric_has_one_unit_wherever_it_stands() -> None:
    every = [*HARNESS_METRICS, *(metric for spec in SUITES.values() for metric in spec.metrics)]
    assert {metric.name: metric.unit for metric in every} == {m.name: unit_of(m.name) for m in every}
    assert unit_of("raw_brier_score") is None
    assert unit_of("score") == "percent"


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("matthews", "correlation"),
        ("matthews_corrcoef", "correlation"),
        ("eval/matthews", "correlation"),
        ("perplexity (validation)", "ratio"),
        ("pseudo_bits_per_byte_strict", "bits per byte"),
        ("superperplexity", "percent"),
    ],
)
def test_the_unit_of_a_metric_in_a_users_table_is_told_by_its_name(metric: str, unit: str) -> None:
    assert unit_of(metric) == unit


def test_only_models_of_a_suite_of_classification_are_fine_tuned() -> None:
    assert [name for name in (*SUITES, "lm-eval-glue") if asks_for_classes(name)] == ["glue", "embedded-glue"]


def test_a_sample_is_scored_in_the_metrics_of_the_spec(spec, tmp_path) -> None:
    fields = DATA[spec.name](tmp_path) if spec.name in DATA else {}
    config = EvalConfig(**{"suites": (), "max_pairs": 4, "embedded_pairs_per_paradigm": 2, **fields})
    tasks = spec.find(config, tmp_path)
    assert tasks
    names = {metric.name for metric in spec.metrics}
    for task in tasks:
        if spec.kind == "classification":
            assert task.benchmark == spec.name
            assert {*task.metrics, task.headline(config.finetune)} <= names
            continue
        assert task.suite == spec.name
        result = task.measure(LengthScorer(), lambda message: None)
        assert result.metrics.keys() <= names
        assert np.isfinite(list(result.metrics.values())).all()
        assert result.primary == spec.headline(result.metrics)
        assert len(result.items) > 0
        assert set(result.items["task"]) == {task.name}


def test_the_tasks_of_a_suite_are_those_that_its_spec_names(spec) -> None:
    """Where they can be listed without data."""
    if spec.name not in DATA and spec.tasks:
        assert {task.name for task in spec.find(EvalConfig(suites=()))} == set(spec.tasks)


def test_lower_scores_of_a_text_are_better_and_its_headline_compares_between_tokenizers() -> None:
    spec = SUITES["perplexity"]
    assert spec.headline({"perplexity", "bits_per_byte"}) == "bits_per_byte"
    assert spec.headline({"pseudo_perplexity", "pseudo_bits_per_byte"}) == "pseudo_bits_per_byte"
    assert {metric.better for metric in spec.metrics} == {"lower"}
