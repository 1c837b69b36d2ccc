import re
from collections import Counter

import pytest

from base.errors import UsageError
from pretrain.data.embedded import classification_tasks, minimal_pairs, stories
from pretrain.data.embedded.paradigms import PARADIGMS

NUM_STORIES, NUM_PAIRS = 6_000, 100
# The columns of BLiMP as published (Warstadt et al. 2020; nyu-mll/blimp on the hub), with their types.
TEXTS = ("sentence_good", "sentence_bad", "field", "linguistics_term", "UID")
METHODS = ("simple_LM_method", "one_prefix_method", "two_prefix_method", "lexically_identical")
BLIMP_COLUMNS = (*((name, str) for name in TEXTS), *((name, bool) for name in METHODS), ("pairID", str))
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


def test_everything_is_a_function_of_the_seed_and_extends_what_is_smaller():
    assert stories(50, seed=3) == stories(80, seed=3)[:50]
    assert set(stories(50, seed=3)).isdisjoint(stories(50, seed=4))
    assert {uid: rows[:2] for uid, rows in minimal_pairs(10, seed=3).items()} == minimal_pairs(2, seed=3)
    assert all(minimal_pairs(2, seed=4)[uid] != minimal_pairs(2, seed=3)[uid] for uid in UIDS)
    assert classification_tasks(seed=0) == classification_tasks(seed=0) != classification_tasks(seed=1)


def test_stories_are_distinct_short_well_formed_and_of_few_words(texts):
    assert len(set(texts)) > 0.95 * NUM_STORIES
    assert {len(re.findall(r"[.?]", text)) for text in texts} <= set(range(4, 13))
    assert 300 < len({word for text in texts for word in words(text)}) < 500
    for text in texts[:1000]:
        assert re.fullmatch(r'(?:"?[A-Z][A-Za-z ,"]*[.?] ?)+', text), text
        assert "  " not in text
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", text, re.IGNORECASE), text


def test_every_phenomenon_is_frequent_enough_to_be_learned(texts):
    for word in ("any", "ever", "herself", "themselves", "these", "much", "broken", "What", "Where"):
        assert sum(bool(re.search(rf"\b{word}\b", text)) for text in texts) > 0.01 * NUM_STORIES


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
    assert not re.search(r"[^aeiou]yed\b|[aeiou]ied\b|\bHer \w+ed\b", text)
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


# Minimal pairs


def test_pairs_cover_the_phenomena_in_the_schema_of_blimp(pairs):
    assert list(pairs) == UIDS
    terms = {rows[0]["linguistics_term"] for rows in pairs.values()}
    assert len(terms) >= 6
    assert terms.isdisjoint(UIDS)
    for uid, rows in pairs.items():
        assert [(row["UID"], row["pairID"]) for row in rows] == [(uid, str(n)) for n in range(NUM_PAIRS)]
        assert {tuple((column, type(value)) for column, value in row.items()) for row in rows} == {
            BLIMP_COLUMNS
        }


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


def test_no_evaluation_sentence_occurs_in_the_stories_and_each_of_its_words_does(texts, sentences, pairs):
    assert len(sentences) > 2 * NUM_STORIES
    known = {word for text in texts for word in words(text)}
    for rows in pairs.values():
        evaluated = {row[name] for row in rows for name in ("sentence_good", "sentence_bad")}
        assert sentences.isdisjoint(evaluated)
        assert known.issuperset(word for sentence in evaluated for word in words(sentence))


def test_sizes_that_cannot_be_had_are_refused():
    with pytest.raises(UsageError, match="num_stories is 0; give at least 1"):
        stories(0, 1)
    with pytest.raises(UsageError, match="pairs_per_paradigm is 0; give at least 1"):
        minimal_pairs(0, 1)


@pytest.mark.slow
def test_blimp_can_be_as_large_as_the_original_and_not_of_any_size():
    assert all(len(rows) == 1000 for rows in minimal_pairs(1000, seed=0).values())
    with pytest.raises(UsageError, match=r"has only .* different pairs, not 1000000; ask for fewer"):
        minimal_pairs(10**6, 1)


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
def test_splits_share_nothing_and_no_sentence_gives_its_label_away(tasks, task):
    """Acceptability is not a matter of words, and one half of an entailment example says nothing."""
    columns = [column for column in COLUMNS[task] if column.startswith("sentence")]
    examples = [tuple(row[column] for column in columns) for rows in tasks[task].values() for row in rows]
    assert len(set(examples)) == len(examples)
    for rows in tasks[task].values():
        for column in columns:
            counts = [Counter(), Counter()]
            for row in rows:
                counts[row["label"]].update(words(row[column]) if task == "acceptability" else [row[column]])
            assert counts[0] == counts[1]
