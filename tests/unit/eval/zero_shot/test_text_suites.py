"""Entity tracking, wug and perplexity against the formulas of the BabyLM 2025 pipeline and plain models."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy
from transformers import GPTNeoConfig, GPTNeoForCausalLM, RobertaConfig, RobertaForMaskedLM

from eval.config import EvalConfig
from eval.scoring.scorers import SCORERS, ContinuationScores
from eval.zero_shot.pairs_and_choices import FORMS, ChoiceTask, entity_metrics, preference, read_items
from eval.zero_shot.perplexity import PerplexityTask, find_tasks, read_texts
from eval.zero_shot.text_task import find_suite_tasks
from ffn_variants import UsageError

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(scope="module")
def models() -> dict[str, torch.nn.Module]:
    torch.manual_seed(0)
    causal = GPTNeoConfig(
        vocab_size=10_000, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32,
        max_position_embeddings=512, window_size=256, attention_types=[[["global", "local"], 1]],
        initializer_range=0.3, **IDS,
    )  # fmt: skip
    masked = RobertaConfig(
        vocab_size=10_000, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=513, type_vocab_size=1, initializer_range=0.3, **IDS,
    )  # fmt: skip
    return {"causal": GPTNeoForCausalLM(causal).eval(), "masked": RobertaForMaskedLM(masked).eval()}


def given(rows: list[dict]) -> list[dict]:
    return rows


def choice_task(suite: str, rows: list[dict]) -> ChoiceTask:
    return ChoiceTask(suite, "task", str(rows), partial(given, rows), form=FORMS[suite])


@torch.no_grad()
def completion_score(objective: str, model, tokenizer, sentence: str, completion: str) -> float:
    """The pipeline's: those of the tokenizer's tokens count that overlap the completion's characters."""
    encoded = tokenizer(sentence, return_offsets_mapping=True)
    ids = torch.tensor(encoded["input_ids"])
    first = len(sentence) - len(completion)
    scored = torch.tensor([i for i, (_, end) in enumerate(encoded["offset_mapping"]) if end > first])
    if objective == "causal":
        logits = model(ids[None, :-1]).logits[0, scored - 1]
    else:
        copies = ids.repeat(len(scored), 1)
        copies[range(len(scored)), scored] = tokenizer.mask_token_id
        logits = model(copies, attention_mask=torch.ones_like(copies)).logits[range(len(scored)), scored]
    return -cross_entropy(logits, ids[scored], reduction="sum").item()


@pytest.mark.parametrize(("objective", "num_items"), [("causal", 12), ("masked", 4)])
def test_entity_tracking_is_scored_as_by_the_pipeline(models, tokenizer, shared_data, objective, num_items):
    config = EvalConfig(babylm25_dir=shared_data / "babylm2025", max_pairs=num_items)
    scorer = SCORERS[objective](models[objective], tokenizer, "babylm25")
    correct, total = Counter(), Counter()
    for task in find_suite_tasks("entity-tracking", config)[:2]:
        result = task.measure(scorer, print)
        rows = task.load_rows()
        rows = [rows[index * len(rows) // num_items] for index in range(num_items)]
        for row, scores in zip(rows, result.items["scores"], strict=True):
            expected = [
                completion_score(
                    objective, models[objective], tokenizer, row["input_prefix"] + option, option
                )
                for option in row["options"]
            ]
            np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-4)
            uid = f"{task.name}_{row['numops']}_ops"
            total[uid] += 1
            correct[uid] += int(np.argmax(expected) == 0)
        split = [100 * correct[uid] / total[uid] for uid in total if uid.startswith(task.name)]
        assert result.metrics["accuracy_by_operations"] == pytest.approx(sum(split) / len(split))
        of_task = [uid for uid in total if uid.startswith(task.name)]
        pooled = 100 * sum(correct[uid] for uid in of_task) / sum(total[uid] for uid in of_task)
        assert result.metrics["accuracy"] == pytest.approx(pooled)
        assert (result.items["margin"] > 0).sum() == sum(correct[uid] for uid in of_task)
        assert result.items["num_operations"].tolist() == [row["numops"] for row in rows]


def test_numbers_of_operations_count_the_same():
    items = pd.DataFrame({"num_operations": [0, 0, 0, 1], "correct": [1, 1, 1, 0], "tie": [False] * 4})
    assert entity_metrics(items) == {"accuracy": 75, "accuracy_by_operations": 50}


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_wug_correlates_as_in_the_pipeline(models, tokenizer, shared_data, objective):
    config = EvalConfig(babylm25_dir=shared_data / "babylm2025", max_pairs=40)
    (task,) = find_suite_tasks("wug", config)
    result = task.measure(SCORERS[objective](models[objective], tokenizer, "babylm25"), print)
    rows = task.load_rows()
    rows = [rows[index * len(rows) // 40] for index in range(40)]
    pairs = [
        [
            completion_score(objective, models[objective], tokenizer, text, text)
            for text in row["sentences"].split("\t")
        ]
        for row in rows
    ]
    probabilities = torch.softmax(torch.tensor(pairs), dim=1)[:, 0]
    expected = spearmanr(probabilities, [row["ratio"] for row in rows])[0]
    assert result.metrics == {"spearman_correlation": pytest.approx(100 * expected, abs=1e-6)}
    np.testing.assert_allclose(result.items["preference"], probabilities, atol=1e-4)
    assert len(result.items) == 40


def test_preferences_are_a_softmax_in_fp32():
    first, second = np.array([0.0, -3.0, -100.0, -1.0]), np.array([0.0, -4.0, -120.0, -121.0])
    expected = torch.softmax(torch.tensor(np.stack([first, second], 1), dtype=torch.float32), 1)[:, 0]
    np.testing.assert_allclose(preference(first, second), expected, rtol=1e-6)
    assert preference(first, second)[3] == preference(first, second)[2] == 1  # which share a rank


class Told:
    """A scorer that gives every text the score it is told, to see what a task makes of it."""

    objective = "causal"

    def __init__(self, scores: list[float]) -> None:
        self._scores = scores

    def score_continuations(self, pairs):
        assert len(pairs) == len(self._scores)
        return ContinuationScores(np.array(self._scores), np.zeros(len(pairs), bool), [1 for _ in pairs])


def test_options_that_tie_share_the_point_and_are_counted():
    row = {"input_prefix": "Box 0 contains ", "options": ["a.", "b.", "c."], "numops": 0}
    result = choice_task("entity-tracking", [row, row]).measure(Told([-1, -1, -2, -3, -1, -2]), print)
    assert result.items["correct"].tolist() == [0.5, 0]
    assert result.items["tie"].tolist() == [True, False]
    assert result.items["prediction"].tolist() == [0, 1]
    assert result.metrics == {"accuracy": 25, "ties": 50, "accuracy_by_operations": 25}


def test_no_preference_at_all_correlates_with_nothing():
    rows = [{"sentences": "a\tb", "ratio": 0.1}, {"sentences": "c\td", "ratio": 0.9}]
    with pytest.raises(UsageError, match="all 2 preferences are equal"):
        choice_task("wug", rows).measure(Told([-1, -1, -2, -2]), print)


@pytest.mark.parametrize(
    ("suite", "row", "message"),
    [
        (
            "entity-tracking",
            {"input_prefix": "a", "options": ["b"], "numops": 0},
            "options must be two or more",
        ),
        (
            "entity-tracking",
            {"input_prefix": "", "options": ["b", "c"], "numops": 0},
            "input_prefix is not a text",
        ),
        (
            "entity-tracking",
            {"input_prefix": "a", "options": ["b", "c"], "numops": "x"},
            "numops is not a whole",
        ),
        ("wug", {"sentences": "a b", "ratio": 0.5}, "two texts with a tab"),
        ("wug", {"sentences": "a\tb", "ratio": "half"}, "ratio is not a number from 0 to 1"),
        ("wug", {"sentences": "a\tb", "ratio": 1.5}, "ratio is not a number from 0 to 1"),
    ],
)
def test_faulty_items_are_named(suite, row, message):
    with pytest.raises(UsageError, match=f"{suite}/task, row 1: .*{message}"):
        read_items(choice_task(suite, [row]))


DOCUMENTS = ["Anna saw a dog.", "Once upon a time there was a very long story. " * 60, "naïve café"]


def test_perplexity_is_that_of_each_token_once(models, tokenizer):
    task = PerplexityTask("perplexity", "held-out", "three", partial(given, [{"text": t} for t in DOCUMENTS]))
    result = task.measure(SCORERS["causal"](models["causal"], tokenizer), print)
    nats, num_tokens = 0.0, 0
    for text in DOCUMENTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        # Windows as lm-eval cuts them: the first begins with <s>; each later one has as many tokens before
        # what it scores as fit, at least one.
        done = 0
        while done < len(ids):
            end = min(done + 512, len(ids))
            begin = max(end - 513, 0)
            window = torch.tensor([[1, *ids[:end]] if not done else ids[begin:end]])
            with torch.no_grad():
                logits = models["causal"](window[:, :-1]).logits[0, -(end - done) :]
            nats += cross_entropy(logits, window[0, -(end - done) :], reduction="sum").item()
            done = end
        num_tokens += len(ids)
    num_bytes = sum(len(text.encode()) for text in DOCUMENTS)
    assert result.metrics["perplexity"] == pytest.approx(math.exp(nats / num_tokens), rel=1e-5)
    assert result.metrics["bits_per_byte"] == pytest.approx(nats / math.log(2) / num_bytes, rel=1e-5)
    assert result.items["num_tokens"].sum() == num_tokens > 513
    assert result.items["num_bytes"].tolist()[2] == 12


def test_a_masked_model_has_a_pseudo_perplexity(models, tokenizer):
    task = PerplexityTask("perplexity", "held-out", "masked", partial(given, [{"text": DOCUMENTS[0]}]))
    result = task.measure(SCORERS["masked"](models["masked"], tokenizer), print)
    score = completion_score("masked", models["masked"], tokenizer, DOCUMENTS[0], DOCUMENTS[0])
    num_tokens = len(tokenizer(DOCUMENTS[0])["input_ids"]) - 2
    assert set(result.metrics) == {"pseudo_perplexity", "pseudo_bits_per_byte"}
    assert result.metrics["pseudo_perplexity"] == pytest.approx(math.exp(-score / num_tokens), rel=1e-5)


def test_windows_of_a_masked_model_hold_the_frame_and_score_every_token_once(models, tokenizer):
    scorer = SCORERS["masked"](models["masked"], tokenizer)
    text = DOCUMENTS[1]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    windows = scorer.texts.windows(text)
    assert len(windows) == 2
    assert [t for w in windows for t in w.input_ids[w.start : w.end]] == ids
    for window in windows:
        assert len(window.input_ids) <= 512
        assert (window.input_ids[0], window.input_ids[-1]) == (1, 2)


def test_an_end_token_that_is_scored_ends_a_document_once(models, tokenizer):
    plain = SCORERS["causal"](models["causal"], tokenizer).score_documents(DOCUMENTS)
    ended = SCORERS["causal"](models["causal"], tokenizer, end_token="scored").score_documents(DOCUMENTS)
    assert [e.num_tokens - p.num_tokens for p, e in zip(plain, ended, strict=True)] == [1, 1, 1]
    assert all(e.log_likelihood < p.log_likelihood for p, e in zip(plain, ended, strict=True))


def test_text_files_are_read_and_their_absence_named(tmp_path):
    path = tmp_path / "stories.jsonl"
    path.write_text('{"text": "One."}\n{"text": "Two."}\n')
    (task,) = find_tasks("perplexity", EvalConfig(text_file=path), tmp_path)
    assert (task.name, len(read_texts(task))) == ("stories", 2)
    with pytest.raises(UsageError, match="--text-file"):
        find_tasks("perplexity", EvalConfig(text_file=tmp_path / "absent.txt"), tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(UsageError, match="no document with text"):
        read_texts(find_tasks("perplexity", EvalConfig(text_file=tmp_path / "empty.txt"), tmp_path)[0])


def test_scores_that_are_no_numbers_are_refused(models, tokenizer):
    scorer = SCORERS["causal"](models["causal"], tokenizer)
    scorer.score = lambda texts: SimpleNamespace(
        log_likelihood=np.array([-1.0, np.nan][: len(texts)]), is_greedy=np.zeros(len(texts), dtype=bool)
    )
    asked = [("", "fine"), ("", "broken")]
    with pytest.raises(UsageError, match="score of 'broken' is not finite"):
        scorer.score_continuations(asked)
    scorer.score = lambda texts: SimpleNamespace(log_likelihood=np.full(len(texts), -np.inf))
    with pytest.raises(UsageError, match="not finite"):
        scorer.score_documents(["a document"])
