"""Every suite of the registry: whole, with a finder, and scored on a sample; and what a metric's name says.

A new suite is tested by existing; where its data come from a folder, ``DATA`` needs a sample of them.
"""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from base.errors import UsageError
from eval.config import EvalConfig
from scores.metrics import Declared, find_direction, find_metric, looks_like_a_loss
from scores.suites import HARNESS_METRICS, SUITES, SuiteSpec, asks_for_classes, read_suite, unit_of
from tests.babylm_data import write_data
from tests.cases import listed

PAIR = {"sentence_good": "The dogs bark.", "sentence_bad": "The dogs barks.", "UID": "agreement"}
OTHER = {"sentence_good": "She sees him.", "sentence_bad": "She see him.", "UID": "agreement"}


def lines(path: Path, rows: Sequence[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pair_files(folder: Path) -> dict[str, Any]:
    for name in ("full", "filtered", "supplement"):
        lines(folder / name / f"{name}_task.jsonl", [PAIR, OTHER])
    lines(folder / "blimp_fast.jsonl", [PAIR, OTHER])
    return {"blimp_dir": folder, "babylm25_dir": folder}


def babylm_files(folder: Path) -> dict[str, Any]:
    return {"babylm25_dir": write_data(folder / "data"), "max_pairs": None}


def own_pairs(folder: Path) -> dict[str, Any]:
    lines(folder / "mine.jsonl", [PAIR, OTHER])
    return {"pair_files": (folder / "mine.jsonl",)}


def held_out_text(folder: Path) -> dict[str, Any]:
    (folder / "text.txt").write_text("One day a dog ran.\n\nIt was happy.\n", encoding="utf-8")
    return {"text_file": folder / "text.txt"}


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "blimp": pair_files,
    "babylm23": pair_files,
    "blimp-fast": pair_files,
    **dict.fromkeys(("blimp-filtered", "blimp-supplement", "ewok", "comps"), babylm_files),
    "own-pairs": own_pairs,
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
        "ewok": 50, "comps": 50, "embedded-pairs": 50, "own-pairs": 50,
        "perplexity": None, "glue": None, "embedded-glue": None,
    }  # fmt: skip


def test_a_metric_has_one_unit_wherever_it_stands() -> None:
    every = [*HARNESS_METRICS, *(metric for spec in SUITES.values() for metric in spec.metrics)]
    assert {metric.name: metric.unit for metric in every} == {m.name: unit_of(m.name) for m in every}
    assert unit_of("raw_brier_score") is None
    assert unit_of("score") == "percent"


@pytest.mark.parametrize(("metric", "unit"), listed(__file__, "units by name"))
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


@pytest.mark.parametrize("name", listed(__file__, "names that say no direction"))
def test_names_that_say_no_direction_ask_for_it(name: str):
    with pytest.raises(UsageError, match=f"--lower-is-better {name} or --higher-is-better {name}"):
        find_metric(name, ["score"], [30.0], Declared())


@pytest.mark.parametrize("metric", ["toxicity", "latency_ms", "ties"])
def test_a_metric_that_nobody_knows_is_not_taken_for_one_that_is_better_when_higher(metric: str):
    benchmark = "blimp" if metric == "ties" else "mine"
    with pytest.raises(UsageError, match=f"nothing says which scores of {metric} are better"):
        find_metric(benchmark, [metric], [30.0], Declared())
    for is_lower in (True, False):
        told = Declared(lower_is_better={metric: is_lower})
        assert find_direction(benchmark, metric, told) == ("lower" if is_lower else "higher")


def test_losses_are_better_when_lower():
    for name in listed(__file__, "names of losses"):
        assert find_metric(name, ["score"], [3.0], Declared()).better == "lower", name
        assert find_metric("mine", [name], [3.0], Declared()).better == "lower", name
        assert find_metric(name, ["score"], [3.0], Declared(lower_is_better={name: False})).better == "higher"


def test_names_that_are_no_losses():
    for name in ("blimp", "glossary", "lossy", "bleu", "negation", "maze", "terse"):
        assert not looks_like_a_loss(name), name


@pytest.mark.parametrize(("name", "better"), listed(__file__, "directions by arrow"))
def test_an_arrow_in_a_name_says_its_direction(name: str, better: str):
    assert find_metric(name, ["score"], [30.0], Declared()).better == better


@pytest.mark.parametrize(("name", "unit", "margin"), listed(__file__, "known names"))
def test_known_names_say_what_they_are(name: str, unit: str | None, margin: float | None):
    """A loss whose unit nobody said has no margin."""
    metric = find_metric(name, ["score"], [3.0, 3.1], Declared())
    assert (metric.better, metric.unit, metric.margin) == ("lower", unit, margin)


@pytest.mark.parametrize(
    ("scores", "unit", "margin"),
    [([50.0, 51.0, 501.0], "percent", 1.0), ([-3.0, -3.1], None, None), ([1500.0, 1501.0], None, None)],
)
def test_what_cannot_be_percentages_has_no_margin_of_a_point(scores: list[float], unit, margin):
    metric = find_metric("score", ["score"], scores, Declared())
    assert (metric.unit, metric.margin) == (unit, margin)
