"""Minimal pairs, choices and perplexity against their formulas and plain models."""

import itertools
import math
import zlib
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from eval.config import EvalConfig
from eval.scoring.scorers import SCORERS, ContinuationScores, TextScorer
from eval.scoring.text_batches import ScoredText, Scores
from eval.zero_shot.pairs_and_choices import ChoiceTask, count_differing, phenomenon_of, read_items
from eval.zero_shot.perplexity import PerplexityTask, find_tasks, read_texts
from eval.zero_shot.text_task import evenly_spaced
from ffn_variants import UsageError


# Minimal pairs: what lm-eval makes of them, and faulty ones.
class LengthScorer(TextScorer):
    """Gives each text minus its number of characters: scores that a test can tell by hand."""

    def __init__(self) -> None:
        vars(self)["model"] = SimpleNamespace(device=torch.device("cpu"))

    def score_continuations(self, pairs):
        scores = [-float(len(context + continuation)) for context, continuation in pairs]
        num_tokens = [len(continuation.split()) for _, continuation in pairs]
        return ContinuationScores(np.array(scores), np.zeros(len(scores), dtype=bool), num_tokens)

    def encode(self, pairs):
        words = [continuation.split() for _, continuation in pairs]
        return [ScoredText([0, *(zlib.crc32(w.encode()) for w in own)], 1, len(own) + 1) for own in words]

    def score(self, texts: Sequence[ScoredText]) -> Scores:
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


def test_options_begin_with_a_space():
    pair = {"sentence_good": "Good one.", "sentence_bad": "Bad\none."}
    assert read_items(task_of([pair]))[0].options == (("", " Good one."), ("", " Bad\none."))
    row = {"Context1": "A box.", "Target1": "It is here.", "Target2": "It is gone."}
    (item,) = read_items(ChoiceTask("ewok", "agent-properties", "one", partial(given, [row])))
    assert item.options == (("A box.", " It is here."), ("A box.", " It is gone."))
    assert item.labels == {"pair_id": "0"}


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


# Perplexity against plain models.
@pytest.fixture(scope="module")
def models(stock_model) -> dict[str, torch.nn.Module]:
    return {objective: stock_model(objective, num_positions=512) for objective in ("causal", "masked")}


@pytest.fixture
def completion_score(models, tokenizer, whole_passes):
    """The pipeline's: those of the tokenizer's tokens count that overlap the completion's characters."""

    def score(objective: str, context: str, completion: str) -> float:
        encoded = tokenizer(context + completion, return_offsets_mapping=True)
        scored = [i for i, (_, end) in enumerate(encoded["offset_mapping"]) if end > len(context)]
        mask = tokenizer.mask_token_id if objective == "masked" else None
        return whole_passes(models[objective], encoded["input_ids"], scored, mask)

    return score


DOCUMENTS = ["Anna saw a dog.", "Once upon a time there was a very long story. " * 60, "naïve café"]


def test_perplexity_is_that_of_each_token_once(models, tokenizer, whole_passes):
    task = PerplexityTask("perplexity", "held-out", "three", partial(given, [{"text": t} for t in DOCUMENTS]))
    result = task.measure(SCORERS["causal"](models["causal"], tokenizer), print)
    nats, num_tokens = 0.0, 0
    for text in DOCUMENTS:
        ids = [1, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        # Windows as lm-eval cuts them: the first begins with <s>; each later one has as many tokens before
        # what it scores as fit, at least one.
        for first in range(1, len(ids), 512):
            end = min(first + 512, len(ids))
            begin = max(end - 513, 0)
            nats -= whole_passes(models["causal"], ids[begin:end], range(first - begin, end - begin))
        num_tokens += len(ids) - 1
    num_bytes = sum(len(text.encode()) for text in DOCUMENTS)
    assert result.metrics["perplexity"] == pytest.approx(math.exp(nats / num_tokens), rel=1e-5)
    assert result.metrics["bits_per_byte"] == pytest.approx(nats / math.log(2) / num_bytes, rel=1e-5)
    assert result.items["num_tokens"].sum() == num_tokens > 513
    assert result.items["num_bytes"].tolist()[2] == 12


def test_a_masked_model_has_a_pseudo_perplexity(models, tokenizer, completion_score):
    task = PerplexityTask("perplexity", "held-out", "masked", partial(given, [{"text": DOCUMENTS[0]}]))
    result = task.measure(SCORERS["masked"](models["masked"], tokenizer), print)
    num_tokens = len(tokenizer(DOCUMENTS[0])["input_ids"]) - 2
    score = completion_score("masked", "", DOCUMENTS[0])
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
    scorer.score = lambda texts: Scores(np.array([-1.0, np.nan]), np.zeros(2, dtype=bool))
    with pytest.raises(UsageError, match="score of 'broken' is not finite"):
        scorer.score_continuations([("", "fine"), ("", "broken")])
    scorer.score = lambda texts: Scores(np.full(len(texts), -np.inf), np.zeros(len(texts), dtype=bool))
    with pytest.raises(UsageError, match="not finite"):
        scorer.score_documents(["a document"])
