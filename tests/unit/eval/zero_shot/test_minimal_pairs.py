"""Minimal pairs: what lm-eval makes of them, and faulty ones."""

from __future__ import annotations

import itertools
import zlib
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate

from eval.scoring.scorers import ContinuationScores, TextScorer
from eval.scoring.text_batches import ScoredText, Scores
from eval.zero_shot.lm_eval_tasks import LMEvalModel
from eval.zero_shot.pairs_and_choices import (
    FORMS,
    ChoiceTask,
    count_differing,
    credit,
    phenomenon_of,
    read_items,
)
from eval.zero_shot.text_task import evenly_spaced


class LengthScorer(TextScorer):
    """Gives each text minus its number of characters: scores that a test can tell by hand."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(device=torch.device("cpu"))

    def score_continuations(self, pairs):
        scores = [-float(len(context + continuation)) for context, continuation in pairs]
        num_tokens = [len(continuation.split()) for _, continuation in pairs]
        return ContinuationScores(np.array(scores), np.zeros(len(scores), dtype=bool), num_tokens)

    def encode(self, pairs):
        words = [continuation.split() for _, continuation in pairs]
        return [ScoredText([0, *(zlib.crc32(w.encode()) for w in own)], 1, len(own) + 1) for own in words]

    def score(self, texts: list[ScoredText]) -> Scores:
        raise NotImplementedError


def given(rows: list[dict]) -> list[dict]:
    return rows


def task_of(rows: list[dict], max_items: int | None = None) -> ChoiceTask:
    return ChoiceTask("babylm23", "binding", str(rows), partial(given, rows), max_items)


def test_items_hold_the_scores_of_each_pair_in_order():
    rows = [
        {"sentence_good": "a b", "sentence_bad": "a b c", "UID": "one", "pairID": "7"},
        {"sentence_good": "a b c d", "sentence_bad": "a b", "UID": "two", "pair_id": 0},
        {"sentence_good": "same", "sentence_bad": "same"},
    ]
    result = task_of(rows).measure(LengthScorer(), print)
    items = result.items
    # Of the spaced sentence, which is what tasks of lm-eval give.
    assert items["score_good"].tolist() == [-4, -8, -5]
    assert items["score_bad"].tolist() == [-6, -4, -5]
    assert items["margin"].tolist() == [2, -4, 0]
    assert items["correct"].tolist() == [1, 0, 0.5]
    assert items["tie"].tolist() == [False, False, True]
    assert items["num_tokens_good"].tolist() == [2, 4, 1]
    assert items["num_tokens_differing"].tolist() == [1, 2, 0]
    assert items["pair_id"].tolist() == ["7", "0", "2"]
    assert items["paradigm"].tolist() == ["one", "two", "binding"]
    assert set(items["suite"]) == {"babylm23"}
    assert set(items["task"]) == {"binding"}
    assert result.metrics == {"accuracy": pytest.approx(50), "ties": pytest.approx(100 / 3)}
    assert result.group == "binding"


def test_lm_eval_reports_the_same_accuracy_of_a_task_of_its_own():
    pairs = [("a", "ab"), ("abc", "a"), ("ab", "abc")]
    rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in pairs]
    config = {
        "task": "pairs",
        "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "",
        "doc_to_target": 0,
        "doc_to_choice": "{{[sentence_good, sentence_bad]}}",
        "metric_list": [{"metric": "acc"}],
    }
    task = {"pairs": ConfigurableTask(config=config)}
    results = evaluate(LMEvalModel(LengthScorer()), task, bootstrap_iters=0)
    accuracy = task_of(rows).measure(LengthScorer(), print).metrics["accuracy"]
    assert accuracy == pytest.approx(100 * results["results"]["pairs"]["acc,none"]) == pytest.approx(200 / 3)


def test_options_follow_their_context_as_they_are_and_sentences_a_space():
    pair = {"sentence_good": "Good one.", "sentence_bad": "Bad\none."}
    assert read_items(task_of([pair]))[0].options == (("", " Good one."), ("", " Bad\none."))
    box = {"input_prefix": "Box 1 contains ", "options": ["a.", "bc.", "def."], "numops": 0}
    rows, form = partial(given, [box]), FORMS["entity-tracking"]
    items = (
        ChoiceTask("entity-tracking", "regular", "b", rows, form=form).measure(LengthScorer(), print).items
    )
    assert items["scores"].tolist() == [[-17, -18, -19]]
    assert items["num_tokens"].tolist() == [[1, 1, 1]]


def test_a_tie_is_shared():
    assert [credit(np.array(scores)) for scores in ([2, 1], [1, 2], [1, 1])] == [1, 0, 0.5]
    assert credit(np.array([3, 3, 1, 3])) == pytest.approx(1 / 3)
    assert credit(np.array([1, 3, 3])) == 0


def test_differing_tokens_are_the_fewest_whose_replacement_makes_one_text_of_the_other():
    """Tried out: every window of the first, and whether a window of the second in its place gives it."""
    texts = ["".join(letters) for size in range(5) for letters in itertools.product("ab", repeat=size)]
    for first, second in itertools.product(texts, repeat=2):
        longer = len(second) - len(first)
        expected = min(
            max(stop - start, longer + stop - start)
            for start in range(len(first) + 1)
            for stop in range(max(start, start - longer), len(first) + 1)
            if second.startswith(first[:start]) and second.endswith(first[stop:])
        )
        assert count_differing(first, second) == expected


def test_fewer_pairs_are_spread_over_the_file():
    rows = [{"sentence_good": f"{n}", "sentence_bad": "x"} for n in range(10)]
    assert [item.options[0][1] for item in read_items(task_of(rows, 4))] == [" 0", " 2", " 5", " 7"]
    assert len(read_items(task_of(rows, 99))) == 10
    assert evenly_spaced(list(range(67)), 67) == evenly_spaced(list(range(67)), None) == list(range(67))


def test_a_task_of_several_phenomena_is_its_own_group():
    assert phenomenon_of(pd.DataFrame({"phenomenon": ["a", "a"], "task": ["t", "t"]})) == "a"
    assert phenomenon_of(pd.DataFrame({"phenomenon": ["a", "b"], "task": ["t", "t"]})) == "t"
