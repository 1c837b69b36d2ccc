"""EWoK, COMPS and past-tense wugs against plain forward passes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from transformers import (
    GPTNeoConfig,
    GPTNeoForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

from eval.config import EvalConfig
from eval.scoring.scorers import SCORERS, TextScorer
from eval.zero_shot.pairs_and_choices import read_items
from eval.zero_shot.text_task import find_suite_tasks
from ffn_variants import UsageError
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer
from scores.metrics import Declared, find_metric
from tests.babylm_data import write_data

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
OBJECTIVES = ("causal", "masked", "span_corruption")


@pytest.fixture(scope="module")
def tokenizer():
    made = train_tokenizer(iter(stories(300, 0)), 400)
    add_sentinels(made)
    return made


def make_model(objective: str, vocab_size: int, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    if objective == "causal":
        causal = GPTNeoConfig(
            vocab_size=vocab_size, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32,
            max_position_embeddings=64, window_size=16, attention_types=[[["global", "local"], 1]],
            initializer_range=0.3, **IDS,
        )  # fmt: skip
        return GPTNeoForCausalLM(causal).eval()
    if objective == "masked":
        masked = RobertaConfig(
            vocab_size=vocab_size, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=65, type_vocab_size=1, initializer_range=0.3, **IDS,
        )  # fmt: skip
        return RobertaForMaskedLM(masked).eval()
    t5 = T5Config(
        vocab_size=vocab_size, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, initializer_factor=3.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=2,
    )  # fmt: skip
    t5.max_position_embeddings = 64
    return T5ForConditionalGeneration(t5).eval()


@pytest.fixture(scope="module")
def scorers(tokenizer) -> dict[str, TextScorer]:
    return {
        name: SCORERS[name](make_model(name, len(tokenizer)), tokenizer, "babylm25") for name in OBJECTIVES
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("babylm"))


@torch.no_grad()
def restated(scorer: TextScorer, tokenizer, context: str, text: str) -> float:
    """log p(text | context) by whole forward passes, one token after the other."""
    before = tokenizer(context, add_special_tokens=False)["input_ids"] if context else []
    ids = tokenizer(context + text, add_special_tokens=False)["input_ids"]
    assert ids[: len(before)] == before
    model, total = scorer.model, 0.0
    for place in range(len(before), len(ids)):
        if scorer.objective == "causal":
            logits = model(torch.tensor([[1, *ids[:place]]])).logits[0, -1]
        elif scorer.objective == "masked":
            mask, rest = tokenizer.mask_token_id, ids[place + 1 :]
            logits = model(torch.tensor([[1, *ids[:place], mask, *rest, 2]])).logits[0, place + 1]
        else:
            gap = tokenizer.convert_tokens_to_ids("<extra_id_0>")
            read = torch.tensor([[1, *before, gap, 2]])
            written = torch.tensor([[0, gap, *ids[len(before) : place]]])
            logits = model(input_ids=read, decoder_input_ids=written).logits[0, -1]
        total += logits.double().log_softmax(-1)[ids[place]].item()
    return total


def tasks_of(suite: str, data: Path | None):
    return find_suite_tasks(suite, EvalConfig(suites=(), babylm25_dir=data))


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_ewok_prefers_the_target_that_fits_its_context(scorers, tokenizer, data, objective):
    for task in tasks_of("ewok", data)[:2]:
        result = task.measure(scorers[objective], print)
        rows = rows_of(data / "full_eval" / "ewok_filtered" / f"{task.name}.jsonl")
        expected = np.array(
            [
                [
                    restated(scorers[objective], tokenizer, row["Context1"], f" {row[target]}")
                    for target in ("Target1", "Target2")
                ]
                for row in rows
            ]
        )
        found = result.items[["score_good", "score_bad"]].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4)
        right = (expected[:, 0] > expected[:, 1]) + 0.5 * (expected[:, 0] == expected[:, 1])
        assert result.metrics["accuracy"] == pytest.approx(100 * right.mean())
        assert result.items["margin"].tolist() == (found[:, 0] - found[:, 1]).tolist()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_comps_scores_the_property_given_each_thing(scorers, tokenizer, data, objective):
    tasks = tasks_of("comps", data)
    assert [task.name for task in tasks] == ["base", "wugs", "wugs_dist_before", "wugs_dist_in_between"]
    files = ("comps_base", "comps_wugs", "comps_wugs_dist-before", "comps_wugs_dist-in-between")
    for task, file in zip(tasks, files, strict=True):
        rows = rows_of(data / "full_eval" / "comps" / f"{file}.jsonl")
        expected = [
            [
                restated(scorers[objective], tokenizer, row[prefix], f" {row['property_phrase']}")
                for prefix in ("prefix_acceptable", "prefix_unacceptable")
            ]
            for row in rows
        ]
        items = task.measure(scorers[objective], print).items
        np.testing.assert_allclose(items[["score_good", "score_bad"]], expected, rtol=0, atol=2e-4)
        assert (items["num_tokens_good"] == items["num_tokens_bad"]).all()


def test_past_tenses_are_correlated_as_nominalisations_are(scorers, tokenizer, data):
    (task,) = tasks_of("wug-past", data)
    result = task.measure(scorers["causal"], print)
    rows = rows_of(data / "full_eval" / "wug_past_tense" / "wug_past_tense.jsonl")
    scores = [
        [restated(scorers["causal"], tokenizer, "", text) for text in row["sentences"].split("\t")]
        for row in rows
    ]
    prefers = torch.softmax(torch.tensor(scores), 1)[:, 0]
    expected = spearmanr(prefers, [row["ratio"] for row in rows])[0]
    assert result.metrics == {"spearman_correlation": pytest.approx(100 * expected, abs=1e-6)}
    assert set(result.items["suite"]) == {"wug-past"}


def test_full_blimp_and_its_supplement_are_found(scorers, data):
    assert len(tasks_of("blimp-filtered", data)) == 67
    supplement = tasks_of("blimp-supplement", data)
    assert len(supplement) == 5
    assert supplement[0].measure(scorers["causal"], print).metrics.keys() <= {"accuracy", "ties"}


@pytest.mark.parametrize(
    ("suite", "metric", "unit", "chance", "margin"),
    [
        ("blimp-filtered", "accuracy", "percent", 50, 1),
        ("blimp-supplement", "accuracy", "percent", 50, 1),
        ("ewok", "accuracy", "percent", 50, 1),
        ("ewok", "log_odds", "nats", 0, 0.1),
        ("comps", "accuracy", "percent", 50, 1),
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


BAD_ROWS = {
    "ewok_filtered/agent-properties.jsonl": (
        "ewok",
        {"Context1": 3, "Target1": "a", "Target2": "b"},
        "Context1",
    ),
    "comps/comps_base.jsonl": (
        "comps",
        {"prefix_acceptable": "A", "prefix_unacceptable": " ", "property_phrase": "x"},
        "prefix_unacceptable is not a text",
    ),
    "comps/comps_wugs.jsonl": ("comps", {"prefix_acceptable": "A"}, "no column 'property_phrase'"),
    "wug_past_tense/wug_past_tense.jsonl": ("wug-past", {"sentences": "a\tb\tc", "ratio": 1}, "two texts"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_faulty_rows_are_named(tmp_path, name):
    data = write_data(tmp_path)
    suite, row, words = BAD_ROWS[name]
    (data / "full_eval" / name).write_text(json.dumps(row) + "\n")
    stem = Path(name).stem.removeprefix("comps_")
    (task,) = (task for task in tasks_of(suite, data) if task.name == stem)
    with pytest.raises(UsageError, match=f"row 1.*{words}"):
        read_items(task)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("ewok", "ewok_filtered"),
        ("comps", "comps"),
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
