"""What is measured of explanations: is the segment that a head points at enough, and is its label right?

**Sufficiency.** A small classifier is trained on one segment of each training document and nothing else, and
judged on one of each validation document: if the segment holds what decides, it does as well as on whole
documents, and better than on random segments. It is a bag of words like fastText (Joulin et al. 2017,
arXiv:1607.01759):
how often words and pairs of neighbours occur, then one linear layer and a softmax. FastText has a narrow
layer of word vectors between the two, so that its weights have low rank; here they have full rank and an L2
penalty, which leaves nothing to the order of the examples or a learning rate.

Beside the segment with the highest score stand those with most attention (the weights of
``segment-attention``), with most of LIME's keywords, and random ones, as in Wang et al. 2023
(arXiv:2304.01638, Table 3).

**Segments.** Where the labels of turns are known, F1 of pairs of segment and label, as in Table 5. A
classifier learns from the labels of documents alone; what it says of segments is judged by the labels of the
turns that they are in:

- ``swipe``: segment k has the labels i with z_i^k > 0 (20); with a gate, g z > 0 is the same.
- ``segment-attention``: a segment has the labels of its document, as the head predicts them, if its weight
  times the number of segments is over 1, which is what a mean would give it. So the paper's "threshold 1" is
  read.

The paper's upper line, a head that learns the labels of turns themselves, is ``ffn-ablations eval`` on a task
whose rows are the turns.

Shapes: n documents, S segments of all, m segments and t turns of one, C labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from base.errors import UsageError, shown
from eval.classification.classification_task import ClassificationTask, encode_label
from eval.classification.data import reported_rows
from eval.classification.prediction import Predictions, decide
from eval.classification.schema import read_field
from eval.classification.score_task import METRICS
from eval.classification.segments import JOINT, Segmented
from inside.classifier.classifiers import ATTENTION, Documents, Subject
from inside.classifier.lime import WordForest
from report.document import markdown
from report.document.document import Document
from scores.head_descriptions import HeadChoice

NUM_DRAWS = 5
"""Of random segments."""
NUM_FEATURES = 2**18
"""Of the most frequent words and pairs."""
# Weak, for fastText has no penalty; without any the weights of separable data have no limit.
_INVERSE_PENALTY = 10.0


def sufficiency(subject: Subject, num_documents: int) -> Document:
    """Measure whether the segments that the head, attention and LIME choose suffice.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    subject.check_segments("windows", "turns", "sentences")
    classifier, rival = subject.load(), subject.load(subject.attention_head())
    documents = classifier.documents
    train = subject.training_documents(classifier, num_documents)
    subject.tell("keywords of a forest by LIME")
    forest = WordForest(train.texts, train.data.labels, classifier.settings.seeds[0])
    explained = {
        "highest": [classifier.predict(part.data) for part in (train, documents)],
        "attention": [rival.predict(part.data) for part in (train, documents)],
        "LIME": [forest.explain(part) for part in (train, documents)],
    }
    results = compare_selections(train, documents, explained, classifier.settings.seeds[0])
    counts = documents.data.counts
    about = (
        f"What a bag of words does on one segment of each of {len(counts):,} documents, in percent. They "
        f"have {counts.min()} to {counts.max()} segments."
    )
    title = f"Does the segment suffice that {subject.head} points at in {subject.task.name}?"
    return measured(title, results, about)


def compare_selections(
    train: Documents, validation: Documents, explained: Mapping[str, Sequence[Predictions]], seed: int
) -> list[dict[Any, Any]]:
    """Judge bags of words on the segments with the highest scores, on random ones, and on whole documents.

    Args:
        train: What bags of words are trained on.
        validation: What they are judged on.
        explained: By name, what is said of the segments of both.
        seed: Of the draws of random segments, of which there are ``NUM_DRAWS``; the result is the mean.

    Returns:
        For each selection accuracy and macro F1, in percent.
    """
    generator, both, labels = np.random.default_rng(seed), (train, validation), validation.data.labels
    texts = [(name, list(map(highest, both, predictions))) for name, predictions in explained.items()]
    for _ in range(NUM_DRAWS):
        texts.append(
            ("random", [[generator.choice(segments) for segments in part.segments] for part in both])
        )
    texts.append(("all", [[" ".join(segments) for segments in part.segments] for part in both]))
    scores = []
    for name, (learnt, unseen) in texts:
        predicted = _predict(learnt, train.data.labels, unseen)
        metrics = {metric: METRICS[metric](labels, predicted) for metric in ("accuracy", "macro_f1")}
        scores.append({"selection": name, **metrics})
    return pd.DataFrame(scores).groupby("selection", sort=False, as_index=False).mean().to_dict("records")


def highest(documents: Documents, predictions: Predictions) -> list[str]:
    """Return the segment of each document that contributes most to its likeliest label."""
    scores = predictions.contributions()
    return [parts[of_parts.argmax()] for parts, of_parts in zip(documents.segments, scores, strict=True)]


def _predict(texts: list[str], labels: np.ndarray, unseen: list[str]) -> np.ndarray:
    """Train a bag of words and return its predictions, of the shape of the labels."""
    counts = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]", max_features=NUM_FEATURES)
    linear = LogisticRegression(C=_INVERSE_PENALTY, max_iter=200)
    classifier = OneVsRestClassifier(linear) if labels.ndim == 2 else linear
    model = make_pipeline(counts, Normalizer(), classifier)
    # After 200 steps predictions no longer change; a label that all have, or none, is predicted as such.
    with warnings.catch_warnings(action="ignore"):
        model.fit(texts, labels)
    return np.asarray(model.predict(unseen))


def segments(subject: Subject) -> Document:
    """Let a head and attention label the segments of the validation documents, and judge.

    Raises:
        UsageError: For a task without labels of turns, a head without segments of single turns, or data or a
            run that cannot be used.
    """
    task = subject.task
    turn_labels(task, [])
    subject.check_segments("sentences", "turns")
    rows = reported_rows(task, subject.config, task.finetuning(subject.config.finetune, subject.head))
    labels = turn_labels(task, rows)  # refused before anything is trained
    results = []
    for head in (subject.head, subject.attention_head()):
        classifier = subject.load(head)
        data = classifier.documents.data
        predictions = classifier.predict(data)
        gold = labels_of_segments([task.turns(row) or [] for row in rows], labels, data)
        of_segments = explained_labels(head, predictions)
        f1 = {name: METRICS[name](gold, of_segments) for name in ("micro_f1", "macro_f1")}
        of_documents = METRICS["micro_f1"](data.labels, decide(predictions.logits, is_multi_label=True))
        results.append({"head": str(head), **f1, "documents_micro_f1": of_documents})
    about = (
        f"F1 in percent, of the labels that segments of {len(rows):,} documents are given, and of the labels "
        "of whole documents."
    )
    return measured(f"Do segments of {task.name} get the labels of their turns?", results, about)


def turn_labels(task: ClassificationTask, rows: Sequence[dict]) -> list[np.ndarray]:
    """Return the (t, C) labels of each document's turns, 0 or 1.

    Raises:
        UsageError: If the task's file names no field for them, or what is there does not fit the turns.
    """
    name = task.definition.segment_labels
    if name is None:
        raise UsageError(f"task {task.name} names no labels of turns; its file needs segment_labels: FIELD")
    documents = []
    for number, row in enumerate(rows, start=1):
        values, turns = read_field(row, name), task.turns(row)
        try:
            labels = [encode_label(value, task.positions, task.num_labels, many=True) for value in values]
        except (KeyError, TypeError):
            labels = []
        if turns is None or len(labels) != len(turns):
            raise UsageError(
                f"{task.name}, row {number}: {name} is {shown(values)}; it needs a list of the task's labels "
                f"for each turn of {task.definition.text[0]}"
            )
        documents.append(np.array(labels, dtype=np.int64))
    return documents


def labels_of_segments(
    turns: Sequence[Sequence[str]], labels: Sequence[np.ndarray], data: Segmented
) -> np.ndarray:
    """Return (S, C): each segment has the labels of the turn that it begins in."""
    places = []
    for texts, spans in zip(turns, np.split(data.spans, data.starts[1:]), strict=True):
        ends = np.cumsum([len(text) + len(JOINT) for text in texts])
        places.append(np.searchsorted(ends, spans[:, 0], side="right"))
    return np.concatenate([of_turns[place] for of_turns, place in zip(labels, places, strict=True)])


def explained_labels(head: HeadChoice, predictions: Predictions) -> np.ndarray:
    """Return (S, C), 1 for the labels that a head gives to a segment."""
    scores = predictions.segment_scores or []
    if head.name == ATTENTION:
        pairs = zip(predictions.logits > 0, scores, strict=True)
        scores = [labels & (weights * len(weights) > 1) for labels, weights in pairs]
    return (np.concatenate(scores) > 0).astype(np.int64)


def measured(title: str, results: Sequence[Mapping[Any, Any]], about: str) -> Document:
    """Make a page of what was measured, in percent, a row each; ``about`` says what that is."""
    cells = [[f"{x:.1f}" if isinstance(x, float) else str(x) for x in row.values()] for row in results]
    table = markdown.table([name.replace("_", " ") for name in results[0]], cells)
    about += " This is one run: compare several before you conclude anything."
    return Document(title=title, blocks=(table, about), tables={"results": pd.DataFrame(results)})
