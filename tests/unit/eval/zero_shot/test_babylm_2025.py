"""EWoK, COMPS and past-tense wugs against plain forward passes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy

from eval.config import EvalConfig
from eval.scoring.scorers import SCORERS, TextScorer
from eval.zero_shot.pairs_and_choices import read_items
from eval.zero_shot.text_task import find_suite_tasks
from ffn_variants import UsageError
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer
from scores.metrics import Declared, find_metric
from scores.suites import SUITES
from tests.babylm_data import write_data

OBJECTIVES = ("causal", "masked", "span_corruption")


@pytest.fixture(scope="module")
def tokenizer():
    made = train_tokenizer(iter(stories(300, 0)), 400)
    add_sentinels(made)
    return made


@pytest.fixture(scope="module")
def scorers(stock_model, tokenizer) -> dict[str, TextScorer]:
    return {
        name: SCORERS[name](stock_model(name, len(tokenizer)), tokenizer, "babylm25") for name in OBJECTIVES
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("babylm"))


@pytest.fixture
def restated(tokenizer, whole_passes):
    """log p(text | context) by transformers' forward pass over all of it."""

    def score(scorer: TextScorer, context: str, text: str) -> float:
        before, ids = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in (context, context + text))
        assert ids[: len(before)] == before
        places = range(1 + len(before), 1 + len(ids))
        if scorer.objective == "causal":
            return whole_passes(scorer.model, [1, *ids], places)
        if scorer.objective == "masked":
            return whole_passes(scorer.model, [1, *ids, 2], places, tokenizer.mask_token_id)
        gap = tokenizer.convert_tokens_to_ids("<extra_id_0>")
        labels = torch.tensor([[gap, *ids[len(before) :]]])
        with torch.no_grad():
            logits = scorer.model(input_ids=torch.tensor([[1, *before, gap, 2]]), labels=labels).logits
        return -cross_entropy(logits[0, 1:].double(), labels[0, 1:], reduction="sum").item()

    return score


def tasks_of(suite: str, data: Path | None):
    return find_suite_tasks(suite, EvalConfig(suites=(), babylm25_dir=data))


def of_ewok(row: dict) -> list[tuple[str, str]]:
    return [(row["Context1"], f" {row[target]}") for target in ("Target1", "Target2")]


def of_comps(row: dict) -> list[tuple[str, str]]:
    prefixes = row["prefix_acceptable"], row["prefix_unacceptable"]
    return [(prefix, f" {row['property_phrase']}") for prefix in prefixes]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("suite", "task", "file", "options"),
    [
        ("ewok", "agent-properties", "ewok_filtered/agent-properties", of_ewok),
        ("comps", "base", "comps/comps_base", of_comps),
        ("comps", "wugs_dist_in_between", "comps/comps_wugs_dist-in-between", of_comps),
    ],
)
def test_pairs_are_scored_behind_their_contexts(
    scorers, data, restated, objective, suite, task, file, options
):
    (found,) = (each for each in tasks_of(suite, data) if each.name == task)
    result = found.measure(scorers[objective], print)
    lines = (data / "full_eval" / f"{file}.jsonl").read_text().splitlines()
    expected = np.array(
        [[restated(scorers[objective], *option) for option in options(json.loads(line))] for line in lines]
    )
    scores = result.items[["score_good", "score_bad"]].to_numpy()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-4)
    right = (expected[:, 0] > expected[:, 1]) + 0.5 * (expected[:, 0] == expected[:, 1])
    assert result.metrics["accuracy"] == pytest.approx(100 * right.mean())
    assert result.items["margin"].tolist() == (scores[:, 0] - scores[:, 1]).tolist()


def test_past_tenses_are_correlated_as_nominalisations_are(scorers, data, restated):
    (task,) = tasks_of("wug-past", data)
    result = task.measure(scorers["causal"], print)
    path = data / "full_eval" / "wug_past_tense" / "wug_past_tense.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    scores = [
        [restated(scorers["causal"], "", text) for text in row["sentences"].split("\t")] for row in rows
    ]
    prefers = torch.softmax(torch.tensor(scores), 1)[:, 0]
    expected = spearmanr(prefers, [row["ratio"] for row in rows])[0]
    assert result.metrics == {"spearman_correlation": pytest.approx(100 * expected, abs=1e-6)}
    assert set(result.items["suite"]) == {"wug-past"}


@pytest.mark.parametrize(
    ("suite", "names"),
    [
        ("blimp-filtered", None),
        ("blimp-supplement", None),
        ("comps", ["base", "wugs", "wugs_dist_before", "wugs_dist_in_between"]),
    ],
)
def test_every_task_of_a_suite_is_found(data, suite, names):
    assert [task.name for task in tasks_of(suite, data)] == (names or list(SUITES[suite].tasks))


@pytest.mark.parametrize(
    ("suite", "metric", "unit", "chance", "margin"),
    [
        ("blimp-filtered", "accuracy", "percent", 50, 1),
        ("ewok", "log_odds", "nats", 0, 0.1),
        ("wug-past", "spearman_correlation", "correlation", 0, 1),
    ],
)
def test_what_a_report_is_told_of_each(suite, metric, unit, chance, margin):
    label = f"{suite} {metric}" if metric == "log_odds" else None
    outcome = find_metric(suite, [metric], [1.0, 2.0], Declared(), label)
    assert (outcome.name, outcome.better) == (label or suite, "higher")
    assert (outcome.unit, outcome.chance, outcome.margin) == (unit, chance, margin)
    # A number for all outcomes in percent is for those that have none of their own; one by name goes before.
    own = margin == 0.1
    assert find_metric(suite, [metric], [1.0, 2.0], Declared(margin=3.0), label).margin == (
        margin if own else 3
    )
    named = Declared(margins={label or suite: 0.5}, margin=3.0)
    assert find_metric(suite, [metric], [1.0, 2.0], named, label).margin == 0.5


@pytest.mark.parametrize(
    ("suite", "name", "row", "words"),
    [
        ("ewok", "ewok_filtered/agent-properties", {"Context1": 3}, "no column 'Target1'"),
        (
            "ewok",
            "ewok_filtered/agent-properties",
            {"Context1": 3, "Target1": "a", "Target2": "b"},
            "Context1",
        ),
        ("comps", "comps/comps_wugs", {"prefix_acceptable": "A"}, "no column 'property_phrase'"),
    ],
)
def test_faulty_rows_are_named(tmp_path, suite, name, row, words):
    data = write_data(tmp_path)
    (data / "full_eval" / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    stem = Path(name).stem.removeprefix("comps_")
    (task,) = (task for task in tasks_of(suite, data) if task.name == stem)
    with pytest.raises(UsageError, match=f"row 1.*{words}"):
        read_items(task)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("ewok", "ewok_filtered"),
        ("comps", "comps/comps_wugs_dist-before.jsonl"),
        ("wug-past", "wug_past_tense"),
        ("blimp-filtered", "blimp_filtered"),
        ("blimp-supplement", "supplement_filtered"),
    ],
)
def test_absent_data_are_named(tmp_path, suite, name):
    data = write_data(tmp_path)
    shutil.rmtree(data / "fast_eval")  # which is taken in its place
    path = data / "full_eval" / name
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"{path.name.removesuffix('.jsonl')}"):
        tasks_of(suite, data)
    with pytest.raises(UsageError, match="--babylm25-dir FOLDER"):
        tasks_of(suite, None)
