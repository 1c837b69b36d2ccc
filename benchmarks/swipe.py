"""Does SWIPE find the sentence that decides a label, and do attention and LIME?

python -m benchmarks.swipe FOLDER --glue-dir GLUE

Makes three tasks in FOLDER, of sentences of SST-2's and CoLA's training files:

- ``deciding.yaml``: documents of sentences in random order, given as turns. With one chance in two one of
  them is a negative sentence of SST-2, and with one chance in two one is a positive one; the others are of
  CoLA and have no label. A document has the labels of its sentences. So it is known which sentence explains
  a label, and ``ffn-ablations explain --measure segments`` has F1 for it. Lengths of the others are drawn
  from those of the SST-2 sentences, so that length says nothing. Only sentences are taken whose label a bag
  of words, trained on other ones, is sure of.
- ``sentences.yaml``: the sentences of these documents one by one, for ``ffn-ablations eval --classify``: what
  a classifier reaches that learns from their own labels.
- ``passages.yaml``: documents of SST-2 sentences of one label, sure or not, which is the document's: real
  sentences of which some tell it and some do not, for ``ffn-ablations explain --measure sufficiency``.

Many SST-2 sentences are parts of others, so that training has none that shares four words in a row with a
sentence of the documents that are reported, each of which has its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from base.files import write_text
from eval.classification.examples import read_examples
from eval.classification.find_tasks import GLUE_TASKS
from eval.classification.segments import sentence_starts
from eval.config import EvalConfig

MIN_WORDS, MAX_WORDS = 5, 12
"""Of a sentence; shorter phrases of SST-2 often have no sentiment."""
SURE = 0.9
"""Probability of its label, from the bag of words, that makes a sentence clear."""
LABELS = ("negative", "positive")
DECIDING = """# Documents in which it is known which sentence has which label.
files: {train: deciding.train.jsonl, validation: deciding.validation.jsonl}
text: sentences
label: labels
labels: [negative, positive]
multi_label: true
segment_labels: sentence_labels
metrics: [micro_f1, macro_f1, accuracy]
"""
SENTENCES = """# The sentences of deciding.yaml one by one.
files: {train: sentences.train.jsonl, validation: sentences.validation.jsonl}
text: text
label: labels
labels: [negative, positive]
multi_label: true
metrics: [micro_f1, macro_f1]
"""
PASSAGES = """# Documents of sentences of SST-2 that all have the document's label.
files: {train: passages.train.jsonl, validation: passages.validation.jsonl}
text: text
labels: [negative, positive]
metrics: [accuracy, macro_f1]
"""


@dataclass(frozen=True)
class Sentences:
    """Sentences, their labels and their numbers of words."""

    texts: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray

    def take(self, kept: np.ndarray) -> Sentences:
        """Return those at some indices, or where a mask is true."""
        return Sentences(self.texts[kept], self.labels[kept], self.lengths[kept])


def read_sentences(task: str, config: EvalConfig) -> Sentences:
    """Read the texts of a training file that are one sentence each and neither short nor long."""
    rows = read_examples(GLUE_TASKS[task], "train", config)
    texts = np.array([row["sentence"].strip().rstrip(" .!?").lower() + "." for row in rows], dtype=object)
    lengths = np.array([len(text.split()) for text in texts])
    found = Sentences(texts, np.array([row["label"] for row in rows]), lengths)
    alone = np.array([len(sentence_starts(f"{text} next")) == 2 for text in texts])
    return found.take((lengths >= MIN_WORDS) & (lengths <= MAX_WORDS) & alone)


def clear_sentences(sentences: Sentences) -> Sentences:
    """Return those whose label a bag of words, trained on other sentences, is sure of."""
    model = make_pipeline(CountVectorizer(token_pattern=r"\S+", min_df=3), LogisticRegression(max_iter=200))
    chances = cross_val_predict(model, sentences.texts, sentences.labels, cv=3, method="predict_proba")
    return sentences.take(chances[np.arange(len(chances)), sentences.labels] > SURE)


def split_sentences(
    sentences: Sentences, num_reported: int, generator: np.random.Generator
) -> tuple[Sentences, Sentences]:
    """Return sentences to train on and others to report, of which none shares four words in a row."""
    order = generator.permutation(len(sentences.texts))
    reported = sentences.take(order[:num_reported])
    taken = set().union(*map(_four_words, reported.texts))
    rest = sentences.take(order[num_reported:])
    return rest.take(np.array([taken.isdisjoint(_four_words(text)) for text in rest.texts])), reported


def _four_words(text: str) -> set[tuple[str, ...]]:
    words = text.rstrip(".").split()
    return {tuple(words[start : start + 4]) for start in range(max(1, len(words) - 3))}


def make_deciding(
    clear: Sentences, fillers: Sentences, size: int, num_sentences: int, generator: np.random.Generator
) -> list[dict]:
    """Hide no, one or two deciding sentences among fillers whose lengths are drawn from those of all such."""
    by_length = {length: np.flatnonzero(fillers.lengths == length) for length in np.unique(fillers.lengths)}
    by_label = [clear.texts[clear.labels == label] for label in range(len(LABELS))]
    documents = []
    for number in range(size):
        labels = [label for label in range(len(LABELS)) if generator.random() < 0.5]
        lengths = generator.choice(clear.lengths, num_sentences - len(labels))
        sentences = [(fillers.texts[generator.choice(by_length[length])], []) for length in lengths]
        sentences += [(by_label[label][number % len(by_label[label])], [LABELS[label]]) for label in labels]
        shuffled = [sentences[place] for place in generator.permutation(num_sentences)]
        documents.append(
            {
                "sentences": [text for text, _ in shuffled],
                "sentence_labels": [own for _, own in shuffled],
                "labels": [LABELS[label] for label in labels],
            }
        )
    return documents


def make_passages(
    sentences: Sentences, size: int, num_sentences: int, generator: np.random.Generator
) -> list[dict]:
    """Join sentences of one label."""
    by_label = [sentences.texts[sentences.labels == label] for label in range(len(LABELS))]
    labels = generator.integers(0, len(LABELS), size)
    return [
        {"text": " ".join(generator.choice(by_label[label], num_sentences)), "label": LABELS[label]}
        for label in labels
    ]


def write_tasks(args: argparse.Namespace) -> None:
    """Write both tasks and their documents."""
    config, generator = EvalConfig(glue_dir=args.glue_dir), np.random.default_rng(args.seed)
    every, fillers = read_sentences("sst2", config), read_sentences("cola", config)
    for name, sentences in (("deciding", clear_sentences(every)), ("passages", every)):
        kept = split_sentences(sentences, 2 * args.reported, generator)
        print(f"{name}: {len(kept[0].texts)} sentences to train on", file=sys.stderr)
        for part, own, size in zip(
            ("train", "validation"), kept, (args.documents, args.reported), strict=True
        ):
            made = (
                make_deciding(own, fillers, size, args.sentences, generator)
                if name == "deciding"
                else make_passages(own, size, args.sentences, generator)
            )
            write_rows(args.folder / f"{name}.{part}.jsonl", made)
            if name == "deciding":
                write_rows(args.folder / f"sentences.{part}.jsonl", one_by_one(made))
    for name, definition in (("deciding", DECIDING), ("sentences", SENTENCES), ("passages", PASSAGES)):
        write_text(args.folder / f"{name}.yaml", definition)


def one_by_one(documents: Sequence[dict]) -> list[dict]:
    """Return the sentences of documents, each with its own labels."""
    return [
        {"text": text, "labels": labels}
        for document in documents
        for text, labels in zip(document["sentences"], document["sentence_labels"], strict=True)
    ]


def write_rows(path: Path, rows: Sequence[dict]) -> None:
    """Write rows as JSON Lines."""
    write_text(path, "".join(f"{json.dumps(row)}\n" for row in rows))


def main() -> None:
    """Read the flags and make the documents."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.swipe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the tasks are written")
    parser.add_argument("--glue-dir", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=2_000, help="for training")
    parser.add_argument("--reported", type=int, default=300, help="documents that are reported")
    parser.add_argument("--sentences", type=int, default=5, help="of a document")
    parser.add_argument("--seed", type=int, default=0, help="of the documents")
    args = parser.parse_args()
    write_tasks(args)


if __name__ == "__main__":
    main()
