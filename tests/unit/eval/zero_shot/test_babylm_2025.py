"""EWoK, COMPS, reading times, ages of acquisition and past-tense wugs against plain forward passes."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
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
from eval.results.outcome import Declared, find_outcome
from eval.scoring.scorers import SCORERS, TextScorer
from eval.zero_shot.aoa import AoaTask
from eval.zero_shot.suites import find_suite_tasks
from ffn_variants import FFN_VARIANTS, UsageError, build_model
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer
from pretrain.training.checkpoints import save_checkpoint, snapshot
from tests.babylm_data import EYE_TRACKING, write_data

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
def restated(scorer: TextScorer, tokenizer, context: str, text: str, num_masks: int = 0) -> float:
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
            rest = [mask] * (num_masks - 1) if num_masks else rest
            logits = model(torch.tensor([[1, *ids[:place], mask, *rest, 2]])).logits[0, place + 1]
        else:
            gap = tokenizer.convert_tokens_to_ids("<extra_id_0>")
            read = torch.tensor([[1, *before, gap, 2]])
            written = torch.tensor([[0, gap, *ids[len(before) : place]]])
            logits = model(input_ids=read, decoder_input_ids=written).logits[0, -1]
        total += logits.double().log_softmax(-1)[ids[place]].item()
    return total


def tasks_of(suite: str, data: Path | None, run_dir: Path | None = None, **fields: object):
    config = EvalConfig(**{"suites": (), "babylm25_dir": data, **fields})
    return find_suite_tasks(suite, config, run_dir)


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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_word_s_surprisal_is_that_of_its_tokens_one_after_the_other(scorers, tokenizer, objective):
    pairs = [("Anna saw the", " unhappiness"), ("Once", " upon"), ("", "Dogs"), ("Ben and", " wugs")]
    for num_masks in (0, 3):
        expected = [-restated(scorers[objective], tokenizer, *pair, num_masks) for pair in pairs]
        found = scorers[objective].surprisals(pairs, num_masks)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    of_word = len(tokenizer(" unhappiness", add_special_tokens=False)["input_ids"])
    assert of_word > 1  # else nothing is told apart
    mean = SCORERS[objective](scorers[objective].model, tokenizer, "babylm25", reduction="mean")
    np.testing.assert_allclose(mean.surprisals(pairs), scorers[objective].surprisals(pairs), atol=1e-5)


def test_masks_that_do_not_fit_are_told(scorers):
    with pytest.raises(UsageError, match="64 positions"):
        scorers["masked"].surprisals([(" a" * 60, " dog")], 3)


BASE = "Subtlex_log10 + length + context_length"


def by_statsmodels(table: pd.DataFrame, measure: str, predictors: str) -> float:
    """The published definition: two ordinary regressions, with all products of two predictors."""
    columns = [measure, "pred", *predictors.replace("+", " ").split()]
    whole = table[columns].dropna()
    baseline = smf.ols(f"{measure} ~ ({predictors})**2", data=whole).fit().rsquared
    full = smf.ols(f"{measure} ~ ({predictors})**2 + pred", data=whole).fit().rsquared
    return 100 * (full - baseline) / (1 - baseline)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.ci
def test_reading_times_are_explained_as_by_statsmodels(scorers, tokenizer, data, objective):
    eyes, paced = tasks_of("reading", data)
    path = data / "full_eval" / "reading" / "reading_data.csv"
    table = pd.read_csv(path, dtype={"item": str}, na_values=["NA"], keep_default_na=False)
    for name in (*EYE_TRACKING, "self_paced_reading_time", "Subtlex_log10"):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    table["pred"] = [
        -restated(scorers[objective], tokenizer, item, f" {word}", 3)
        for item, word in zip(table["item"], table["word"], strict=True)
    ]
    assert "None" in set(table["item"])  # a sentence begins so
    table["prev_pred"] = [
        -restated(scorers[objective], tokenizer, item, f" {word}", 3) if item else np.nan
        for item, word in zip(table["prev_item"], table["prev_word"], strict=True)
    ]
    found = eyes.measure(scorers[objective], print)
    np.testing.assert_allclose(found.items["surprisal"], table["pred"], rtol=0, atol=2e-4)
    np.testing.assert_allclose(found.items["prev_surprisal"], table["prev_pred"], rtol=0, atol=2e-4)
    # The regressions alone, of the same surprisals.
    table["pred"], table["prev_pred"] = found.items["surprisal"], found.items["prev_surprisal"]
    expected = np.mean([by_statsmodels(table, measure, BASE) for measure in EYE_TRACKING])
    assert found.metrics == {"variance_explained": pytest.approx(expected, rel=1e-9)}
    expected = by_statsmodels(table, "self_paced_reading_time", f"{BASE} + prev_length + prev_pred")
    measured = paced.measure(scorers[objective], print).metrics
    assert measured == {"variance_explained": pytest.approx(expected, rel=1e-8)}


@pytest.fixture
def run_dir(tmp_path, tokenizer) -> Path:
    """Checkpoints of another model at each of five steps; and one that a kill left half written."""
    folder = tmp_path / "run" / "checkpoints"
    for step in (10, 100, 1000, 10_000, 100_000):
        model = make_model("causal", len(tokenizer), seed=step)
        weights = {name: tensor.detach() for name, tensor in model.named_parameters()}  # a tied one once
        save_checkpoint(folder, {"weights": weights, "state": {"step": step}, "run": ""}, keep=9)
    (folder / "step_0000500.tmp-1").touch()
    return tmp_path / "run"


def test_words_are_scored_at_every_checkpoint_and_the_model_stays(scorers, tokenizer, data, run_dir):
    (task,) = tasks_of("aoa", data, run_dir)
    before = {name: tensor.clone() for name, tensor in scorers["causal"].model.state_dict().items()}
    result = task.measure(scorers["causal"], print)
    assert result.items["step"].unique().tolist() == [10, 100, 1000, 10_000, 100_000]
    assert len(result.items) == task.num_items() == 5 * 17
    contexts = json.loads((data / "full_eval" / "aoa" / "cdi_childes.json").read_text())
    for step, part in result.items.groupby("step"):
        scorer = SCORERS["causal"](make_model("causal", len(tokenizer), seed=step), tokenizer, "babylm25")
        expected = [
            -restated(scorer, tokenizer, context["context"].strip(), f" {word}")
            for word, found in contexts.items()
            for context in found
            if len(word) > 1
        ]
        np.testing.assert_allclose(part["surprisal"], expected, rtol=0, atol=2e-4)
    assert result.metrics["words_fitted"] <= 8
    for name, tensor in scorers["causal"].model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert pickle.loads(pickle.dumps(task)) == task


@pytest.mark.parametrize("variant", FFN_VARIANTS)
def test_every_variant_gets_the_weights_of_its_checkpoint(tokenizer, tmp_path, variant):
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, **IDS}
    sizes |= {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}
    torch.manual_seed(0)
    first = build_model("gpt_neo", variant, **sizes).eval()
    second = copy.deepcopy(first)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    optimizer = torch.optim.AdamW(second.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    path = save_checkpoint(tmp_path, snapshot(second, optimizer, scheduler, {"step": 1}), keep=1)
    pairs = [("Anna saw the", " dog"), ("", "Ben")]
    before, expected = (SCORERS["causal"](m, tokenizer).surprisals(pairs) for m in (first, second))
    scorer = SCORERS["causal"](first, tokenizer)
    np.testing.assert_allclose(scorer.at_checkpoint(path).surprisals(pairs), expected, rtol=1e-6)
    np.testing.assert_allclose(scorer.surprisals(pairs), before, rtol=1e-6)
    assert abs(before - expected).max() > 0.01


def test_the_trained_model_is_the_last_checkpoint(scorers, data, run_dir):
    (task,) = tasks_of("aoa", data, run_dir)
    (run_dir / "COMPLETED").write_text(json.dumps({"results": {"step": 150_000}}))
    items = task.measure(scorers["causal"], print).items
    assert items["step"].unique().tolist() == [10, 100, 1000, 10_000, 100_000, 150_000]
    assert len(items) == task.num_items()
    pairs = [("Anna saw the", " ball"), ("Ben saw the", " ball")]
    last = items[items["step"] == 150_000]["surprisal"].to_numpy()[:2]
    np.testing.assert_allclose(last, scorers["causal"].surprisals(pairs), atol=1e-5)
    (run_dir / "COMPLETED").write_text(json.dumps({"results": {"step": 100_000}}))
    assert len(task.checkpoints) == 5


def test_a_run_without_checkpoints_and_a_damaged_one_are_told_in_one_line(scorers, data, run_dir, tmp_path):
    (task,) = tasks_of("aoa", data, tmp_path)
    with pytest.raises(UsageError, match=r"kept 0; train with --train.save-total-limit 100 .*--train.save"):
        task.measure(scorers["causal"], print)
    (task,) = tasks_of("aoa", data, run_dir)
    with pytest.raises(UsageError, match=r"step_0000010: .*is of another model"):
        task.measure(scorers["masked"], print)
    (run_dir / "checkpoints" / "step_0000100").write_bytes(b"broken")
    with pytest.raises(UsageError, match=r"step_0000100 cannot be read \("):
        task.measure(scorers["causal"], print)


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
        ("reading", "variance_explained", "percent", 0, 0.25),
        ("aoa", "pearson_correlation", "correlation", 0, 1),
    ],
)
def test_what_a_report_is_told_of_each(suite, metric, unit, chance, margin):
    label = f"{suite} {metric}" if metric == "log_odds" else None
    outcome = find_outcome(suite, [metric], [1.0, 2.0], Declared(), label)
    assert (outcome.name, outcome.better) == (label or suite, "higher")
    assert (outcome.unit, outcome.chance, outcome.margin) == (unit, chance, margin)
    # A number for all outcomes in percent is for those that have none of their own; one by name goes before.
    own = margin in (0.1, 0.25)
    assert find_outcome(suite, [metric], [1.0, 2.0], Declared(margin=3.0), label).margin == (
        margin if own else 3
    )
    named = Declared(margins={label or suite: 0.5}, margin=3.0)
    assert find_outcome(suite, [metric], [1.0, 2.0], named, label).margin == 0.5


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
    "comps/comps_wugs.jsonl": ("comps", {"prefix_acceptable": "A"}, "no column 'prefix_unacceptable'"),
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
        task.num_items()


def changed(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


FAULTS = {
    "no column": ("reading", "reading/reading_data.csv", ("RTgopast", "gopast"), "no column 'RTgopast'"),
    "no number": (
        "reading",
        "reading/reading_data.csv",
        ("Once,upon,,,", "Once,upon,,,x"),
        "Subtlex_log10 is no",
    ),
    "no word": ("reading", "reading/reading_data.csv", ("Once,upon", "Once,"), "row 1: word is empty"),
    "no json": ("aoa", "aoa/cdi_childes.json", ("{", "["), "is not JSON"),
    "a word": ("aoa", "aoa/cdi_childes.json", ('"context"', '"text"'), "word 'ball': expected a list"),
    "no ages": ("aoa", "aoa/cdi_human.csv", ("word", "item"), "needs a column word"),
    "a share": ("aoa", "aoa/cdi_human.csv", ("ball,0.", "ball,7."), "row 1: not all ages"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_tables_are_named(tmp_path, fault):
    data = write_data(tmp_path)
    suite, name, change, words = FAULTS[fault]
    changed(data / "full_eval" / name, *change)
    with pytest.raises(UsageError, match=words):
        tasks_of(suite, data)[0].num_items()


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("ewok", "ewok_filtered"),
        ("comps", "comps"),
        ("comps", "comps/comps_wugs_dist-before.jsonl"),
        ("wug-past", "wug_past_tense"),
        ("reading", "reading/reading_data.csv"),
        ("aoa", "aoa/cdi_childes.json"),
        ("aoa", "aoa/cdi_human.csv"),
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


def test_empty_data_and_too_few_words_are_told(tmp_path, scorers):
    data = write_data(tmp_path)
    path = data / "full_eval" / "reading" / "reading_data.csv"
    with pytest.raises(UsageError, match=r"5 words have self_paced.* needs 18 or more; score more"):
        tasks_of("reading", data, max_pairs=6)[1].measure(scorers["causal"], print)
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(UsageError, match="holds no rows"):
        tasks_of("reading", data)[0].num_items()
    (data / "full_eval" / "aoa" / "cdi_childes.json").write_text("{}")
    with pytest.raises(UsageError, match="JSON object of words"):
        AoaTask("aoa", "aoa", "s", partial(tasks_of("aoa", data)[0].read)).num_items()
