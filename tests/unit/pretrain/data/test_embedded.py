from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from base.errors import UsageError
from pretrain.data.embedded import classification_tasks, minimal_pairs, stories
from pretrain.data.embedded.lexicon import LEMMAS
from pretrain.data.embedded.paradigms import PARADIGMS

NUM_STORIES, NUM_PAIRS = 20_000, 100
# The columns of BLiMP as published (Warstadt et al. 2020; nyu-mll/blimp on the hub), with their types.
BLIMP_COLUMNS = {
    "sentence_good": str,
    "sentence_bad": str,
    "field": str,
    "linguistics_term": str,
    "UID": str,
    "simple_LM_method": bool,
    "one_prefix_method": bool,
    "two_prefix_method": bool,
    "lexically_identical": bool,
    "pairID": str,
}
UIDS = [paradigm.uid for paradigm in PARADIGMS]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return stories(NUM_STORIES, seed=0)


@pytest.fixture(scope="module")
def sentences(texts) -> set[str]:
    """Every sentence of the corpus, with and without the quotation marks around speech."""
    parts = {part for text in texts for part in re.findall(r"[^.?]+[.?]", text)}
    return {part.strip() for part in parts} | {re.sub(r'"(.*?),".*', r"\1.", part.strip()) for part in parts}


@pytest.fixture(scope="module")
def pairs() -> dict[str, list[dict]]:
    return minimal_pairs(NUM_PAIRS, seed=0)


@pytest.fixture(scope="module")
def tasks() -> dict[str, dict[str, list[dict]]]:
    return classification_tasks(seed=0)


def words(sentence: str) -> list[str]:
    return re.findall(r"[a-z]+", sentence.lower())


# Stories


def test_stories_are_a_pure_function_of_the_seed_and_extend_a_shorter_corpus():
    assert stories(50, seed=3) == stories(80, seed=3)[:50]
    assert set(stories(50, seed=3)).isdisjoint(stories(50, seed=4))


def test_everything_is_the_same_in_a_process_with_another_hash_seed(repository):
    code = (
        "import json; from pretrain.data.embedded import *; "
        "print(json.dumps([stories(5, 1), minimal_pairs(2, 1), classification_tasks(1)]))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        cwd=repository,
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(other.stdout) == [stories(5, 1), minimal_pairs(2, 1), classification_tasks(1)]


def test_stories_are_distinct_short_and_of_few_words(texts):
    assert len(set(texts)) > 0.95 * NUM_STORIES
    lengths = Counter(len(re.findall(r"[.?]", text)) for text in texts)
    assert set(lengths) <= set(range(4, 13))
    assert 300 < len({word for text in texts for word in words(text)}) < 500


def test_stories_are_well_formed(texts):
    for text in texts[:2000]:
        assert re.fullmatch(r'(?:"?[A-Z][A-Za-z ,"]*[.?] ?)+', text), text
        assert "  " not in text
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", text, re.IGNORECASE), text


def test_what_the_paradigms_test_is_said_correctly_in_the_stories(texts):
    """Independent patterns over the text, none of which a wrong form may match."""
    text = " ".join(texts)
    assert not re.search(
        r"\b(these|those|many|all|two) (\w+ )?(dog|man|ball|leaf|tree)\b", text, re.IGNORECASE
    )
    assert not re.search(r"\b(this|that|every|each|no) (\w+ )?(dogs|men|balls|leaves)\b", text, re.IGNORECASE)
    assert not re.search(r"\b(Mia|Anna|Rosa|girls?|queen) \w+ (himself|itself)\b", text)
    assert not re.search(r"\b(Tom|Ben|Leo|boys?|king) \w+ (herself|itself)\b", text)
    assert not re.search(r"\b(had|has|have) (took|broke|stole|saw|hid)\b", text)
    assert not re.search(r"\bdid not (took|broke|saw|found|slept)\b", text)
    assert not re.search(
        r"\balways \w+ any\b|\bnever \w+ some\b|\b[Ee]very \w+ ever\b|\b[Nn]o \w+ often\b", text
    )
    assert not re.search(r"\bmuch (cups|balls|apples)\b|\bmany (water|milk|sand)\b", text)
    attracted = re.findall(
        r"[Tt]he (dogs?) (?:near|behind|beside|by) the \w+ (sleeps?|smiles?|was|were)\b", text
    )
    assert len(attracted) > 10
    assert all((noun == "dogs") == (verb in {"sleep", "smile", "were"}) for noun, verb in attracted)


@pytest.mark.parametrize(
    "kind", ["any", "ever", "herself", "themselves", "these", "much", "broken", "What", "Where"]
)
def test_every_phenomenon_is_frequent_enough_to_be_learned(texts, kind):
    assert sum(bool(re.search(rf"\b{kind}\b", text)) for text in texts) > 0.01 * NUM_STORIES


# Minimal pairs


def test_pairs_cover_the_phenomena(pairs):
    assert list(pairs) == UIDS
    assert len(pairs) >= 8
    assert len({rows[0]["linguistics_term"] for rows in pairs.values()}) >= 6


@pytest.mark.parametrize("uid", UIDS)
def test_pairs_have_the_schema_of_blimp(pairs, uid):
    assert len(pairs[uid]) == NUM_PAIRS
    for index, row in enumerate(pairs[uid]):
        assert {column: type(value) for column, value in row.items()} == BLIMP_COLUMNS
        assert row["UID"] == uid
        assert row["pairID"] == str(index)


@pytest.mark.parametrize("uid", UIDS)
def test_pairs_are_unique_and_minimal(pairs, uid):
    rows = pairs[uid]
    assert len({(row["sentence_good"], row["sentence_bad"]) for row in rows}) == NUM_PAIRS
    for row in rows:
        good, bad = words(row["sentence_good"]), words(row["sentence_bad"])
        assert good != bad
        assert len(good) == len(bad)
        if row["lexically_identical"]:
            assert sorted(good) == sorted(bad)
        else:
            assert sum(one != other for one, other in zip(good, bad, strict=True)) == 1


@pytest.mark.parametrize("uid", UIDS)
def test_words_and_lengths_do_not_give_the_good_sentence_away(pairs, uid):
    """Any score that adds up values of words or characters is right in exactly half of the pairs, or ties."""
    good = Counter(word for row in pairs[uid] for word in words(row["sentence_good"]))
    bad = Counter(word for row in pairs[uid] for word in words(row["sentence_bad"]))
    assert good == bad
    longer = Counter()
    for row in pairs[uid]:
        difference = len(row["sentence_good"]) - len(row["sentence_bad"])
        longer[(difference > 0) - (difference < 0)] += 1
    assert longer[1] == longer[-1]


def test_the_attractor_never_agrees_with_the_verb(pairs):
    for row in pairs["verb_agreement_attractor"]:
        noun, attractor = re.match(r"The (\w+) \w+ the (\w+)", row["sentence_good"]).groups()
        assert (noun == LEMMAS[noun]) != (attractor == LEMMAS[attractor])


@pytest.mark.parametrize("seed", [0, 1])
def test_no_evaluation_sentence_occurs_in_the_stories(sentences, seed):
    assert len(sentences) > 40_000
    for rows in minimal_pairs(NUM_PAIRS, seed).values():
        assert sentences.isdisjoint(row["sentence_good"] for row in rows)
        assert sentences.isdisjoint(row["sentence_bad"] for row in rows)


def test_the_words_of_the_pairs_do_occur_in_the_stories(texts, pairs):
    known = {word for text in texts for word in words(text)}
    for rows in pairs.values():
        assert known.issuperset(
            word for row in rows for word in words(row["sentence_good"] + row["sentence_bad"])
        )


def test_pairs_depend_on_the_seed_only(pairs):
    assert minimal_pairs(NUM_PAIRS, seed=0) == pairs
    assert {uid: rows[:10] for uid, rows in pairs.items()} == minimal_pairs(10, seed=0)
    other = minimal_pairs(NUM_PAIRS, seed=1)
    assert all(other[uid] != pairs[uid] for uid in UIDS)


@pytest.mark.slow
def test_blimp_can_be_as_large_as_the_original():
    assert all(len(rows) == 1000 for rows in minimal_pairs(1000, seed=0).values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stories(0, 1), "num_stories is 0; give at least 1"),
        (lambda: minimal_pairs(0, 1), "pairs_per_paradigm is 0; give at least 1"),
        pytest.param(
            lambda: minimal_pairs(10**6, 1),
            "has only .* different pairs, not 1000000; ask for fewer",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_sizes_that_cannot_be_had_are_refused(call, message):
    with pytest.raises(UsageError, match=message):
        call()


# Classification tasks

COLUMNS = {
    "acceptability": {"sentence": str, "label": int, "idx": int},
    "entailment": {"sentence1": str, "sentence2": str, "label": int, "idx": int},
}


@pytest.mark.parametrize("task", COLUMNS)
def test_tasks_have_the_schema_of_glue_and_balanced_labels(tasks, task):
    assert set(tasks) == set(COLUMNS)
    for name, size in (("train", 600), ("validation", 200)):
        rows = tasks[task][name]
        assert [row["idx"] for row in rows] == list(range(size))
        assert all({column: type(value) for column, value in row.items()} == COLUMNS[task] for row in rows)
        assert Counter(row["label"] for row in rows) == {0: size // 2, 1: size // 2}


@pytest.mark.parametrize("task", COLUMNS)
def test_splits_share_nothing(tasks, task):
    text_columns = [column for column in COLUMNS[task] if column.startswith("sentence")]
    keys = [tuple(row[column] for column in text_columns) for split in tasks[task].values() for row in split]
    assert len(set(keys)) == len(keys)


def test_acceptability_is_not_a_matter_of_words(tasks):
    for rows in tasks["acceptability"].values():
        counts = {
            label: Counter(word for row in rows if row["label"] == label for word in words(row["sentence"]))
            for label in (0, 1)
        }
        assert counts[0] == counts[1]


@pytest.mark.parametrize("column", ["sentence1", "sentence2"])
def test_one_half_of_an_entailment_example_says_nothing(tasks, column):
    for rows in tasks["entailment"].values():
        labels = {label: Counter(row[column] for row in rows if row["label"] == label) for label in (0, 1)}
        assert labels[0] == labels[1]


def test_overlap_says_nothing_about_entailment(tasks):
    for rows in tasks["entailment"].values():
        overlap = {
            label: Counter(
                len(set(words(row["sentence1"])) & set(words(row["sentence2"])))
                for row in rows
                if row["label"] == label
            )
            for label in (0, 1)
        }
        means = {
            label: sum(n * k for n, k in counts.items()) / counts.total() for label, counts in overlap.items()
        }
        assert means[0] == pytest.approx(means[1], abs=0.05)


def test_tasks_depend_on_the_seed_only(tasks):
    assert classification_tasks(seed=0) == tasks
    other = classification_tasks(seed=1)
    assert all(other[task]["train"] != tasks[task]["train"] for task in tasks)
