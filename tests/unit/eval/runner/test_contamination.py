from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.results.contamination import Contamination
from eval.runner import contamination as module
from eval.runner.contamination import contamination, find_texts
from pretrain.config import DataConfig

STORY = 'Once, a dog ran home.\n"The cat didn\'t see it," said Tom. The end'


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("A dog ran home.", True),
        ("a DOG, ran home", True),
        ("home the cat didn't", True),  # sentence marks do not part a document
        ("see it said tom the end", True),
        ("a dog ran hom", False),  # whole words only
        ("dogs ran home the", False),
        ("the cat didn t see", False),
    ],
)
def test_words_one_after_the_other_are_found(text, is_found):
    assert find_texts([STORY], {"suite": [text]}) == {"suite": Contamination(1, int(is_found))}


def test_short_texts_are_left_out_and_repeated_ones_count_once():
    texts = {"a": ["dog ran home", "a dog ran home", "A dog ran home!"], "b": ["the cat ran away"], "c": []}
    counts = find_texts([STORY, ""], texts)
    assert counts == {"a": Contamination(1, 1), "b": Contamination(1, 0), "c": Contamination(0, 0)}
    assert [c.percent for c in counts.values()] == [100.0, 0.0, 0.0]


@given(
    documents=st.lists(st.lists(st.sampled_from("abc"), max_size=12), max_size=4),
    texts=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=7), max_size=6),
)
def test_it_finds_what_a_regular_expression_finds(documents, texts):
    long = {" ".join(text) for text in texts if len(text) >= 4}
    expected = sum(
        any(re.search(rf"(^| ){text}( |$)", " ".join(document)) for document in documents) for text in long
    )
    counts = find_texts((" ".join(d) for d in documents), {"suite": [" ".join(t) for t in texts]})
    assert counts["suite"] == Contamination(len(long), expected)


def test_a_corpus_is_searched_once(tmp_path, monkeypatch):
    file = tmp_path / "train.jsonl"
    file.write_text('{"text": "a dog ran home"}\n' * 200)
    data = DataConfig(source="files", train_files=(str(file),))
    texts = {"suite": ["A dog ran home."]}
    first = contamination(data, texts, tmp_path / "cache")
    assert first == {"suite": Contamination(1, 1)}
    calls = []
    monkeypatch.setattr(module, "find_texts", lambda *args: calls.append(args) or {})
    assert contamination(data, texts, tmp_path / "cache") == first
    assert not calls
    file.write_text('{"text": "a cat ran home"}\n' * 200)
    contamination(data, texts, tmp_path / "cache")
    contamination(data, {"suite": ["Another text to look for"]}, tmp_path / "cache")
    assert len(calls) == 2
