"""Does SWIPE find the sentence that decides, and does the attention of a mean-pooled classifier?

python -m benchmarks.swipe MODEL... --glue-dir GLUE --seeds 1 2 3

Each document has one sentence of SST-2's training file, whose label is its own, and others of CoLA, which
have none, in random order. Lengths of the others are drawn from those of the SST-2 sentences, so that length
says nothing. Only sentences are taken whose label a bag of words, trained on other ones, is sure of. Many are
parts of others, so that training has none that shares four words in a row with a sentence of the documents
that are reported, each of which has another one.

Both classifiers start from the same pretrained model. ``swipe`` scores sentences and takes the maximum; the
baseline reads the whole document, averages the last hidden states of its tokens, and has a linear layer on
top. What is found: of the documents that are classified correctly, those in which the deciding sentence has
the highest score for the predicted label, or gets most of the last layer's attention, mean over heads and
queries, as a sum over its tokens and as a mean. Prints markdown.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binomtest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from transformers import PreTrainedTokenizerBase

from eval.classification.classifier import HeadClassifier
from eval.classification.config import Finetuning
from eval.classification.encoders import make_encoder
from eval.classification.finetune import finetune
from eval.classification.heads.build import build_head
from eval.classification.heads.choice import parse_head
from eval.classification.heads.registry import get_head
from eval.classification.inputs.segments import Segmentation, Segmented, encode_segments
from eval.classification.inputs.sentences import sentence_starts
from eval.classification.inputs.tokens import Encoded, encode
from eval.classification.loading import load_backbone, load_classifier_tokenizer
from eval.classification.prediction import predict
from eval.classification.tasks.chosen import GLUE_TASKS
from eval.classification.tasks.examples import read_examples
from eval.config import EvalConfig
from eval.interpretation.attention_shares import attention_shares, shares_of_spans
from eval.scoring.log_likelihood import num_positions

MIN_TOKENS, MAX_TOKENS = 8, 20
"""Of a sentence; shorter phrases of SST-2 often have no sentiment."""
SURE = 0.9
"""Probability of its label, from the bag of words, that makes a sentence clear."""


@dataclass(frozen=True)
class Documents:
    """Made documents.

    Attributes:
        texts: n documents.
        labels: (n,) of their deciding sentences.
        places: (n,) which sentence that is.
    """

    texts: list[str]
    labels: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class Sentences:
    """Sentences, their labels and their numbers of tokens."""

    texts: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray

    def take(self, kept: np.ndarray) -> Sentences:
        """Return those at some indices, or where a mask is true."""
        return Sentences(self.texts[kept], self.labels[kept], self.lengths[kept])


def read_sentences(task: str, tokenizer: PreTrainedTokenizerBase, config: EvalConfig) -> Sentences:
    """Read the texts of a training file that are one sentence each and neither short nor long."""
    rows = read_examples(GLUE_TASKS[task], "train", config)
    texts = np.array([row["sentence"].strip().rstrip(" .!?").lower() + "." for row in rows], dtype=object)
    inside = [f" {text}" for text in texts]  # as they stand in a document
    lengths = np.array([len(ids) for ids in tokenizer(inside, add_special_tokens=False)["input_ids"]])
    found = Sentences(texts, np.array([row["label"] for row in rows]), lengths)
    alone = np.array([len(sentence_starts(f"{text} next")) == 2 for text in texts])
    return found.take((lengths >= MIN_TOKENS) & (lengths <= MAX_TOKENS) & alone)


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


def make_documents(
    deciding: Sentences, fillers: Sentences, num_sentences: int, generator: np.random.Generator
) -> Documents:
    """Hide each deciding sentence among fillers whose lengths are drawn from those of the deciding ones."""
    by_length = {length: np.flatnonzero(fillers.lengths == length) for length in np.unique(fillers.lengths)}
    texts, places = [], []
    for text in deciding.texts:
        lengths = generator.choice(deciding.lengths, num_sentences - 1)
        sentences = [fillers.texts[generator.choice(by_length[length])] for length in lengths]
        place = int(generator.integers(num_sentences))
        sentences.insert(place, text)
        texts.append(" ".join(sentences))
        places.append(place)
    return Documents(texts, deciding.labels, np.array(places))


def train_classifier(
    model_dir: Path,
    tokenizer: PreTrainedTokenizerBase,
    head: str,
    pooling: str,
    train: Encoded | Segmented,
    selection: Encoded | Segmented,
    settings: Finetuning,
    seed: int,
) -> HeadClassifier:
    """Fine-tune a model under a head; ``pooling`` is from the tokens of a text or a segment to its vector."""
    encoder = make_encoder(load_backbone(model_dir, tokenizer))
    choice = parse_head(head)
    torch.manual_seed(seed)
    built = build_head(choice, encoder.hidden_size, 2)
    classifier = HeadClassifier(encoder, built, get_head(choice.name).reads, pooling)  # type: ignore[arg-type]
    done = finetune(classifier, train, selection, _accuracy, settings, seed)
    print("held out:", *(f"{score:.1f}" for score in done.scores), file=sys.stderr)
    return classifier.eval()


def _accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    return 100 * float(np.mean(labels == predictions))


@dataclass(frozen=True)
class Finding:
    """How often something was found: of so many documents, so many; several seeds are added up."""

    found: int = 0
    total: int = 0

    def __add__(self, other: Finding) -> Finding:
        return Finding(self.found + other.found, self.total + other.total)

    def __str__(self) -> str:
        low, high = binomtest(self.found, self.total).proportion_ci(method="wilson")
        return f"{100 * self.found / self.total:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def run_seed(
    model_dir: Path, args: argparse.Namespace, seed: int, say: Callable[[str], None]
) -> dict[str, Finding]:
    """Train both classifiers with one seed, on documents of that seed."""
    tokenizer = load_classifier_tokenizer(model_dir)
    config = EvalConfig(glue_dir=args.glue_dir)
    generator = np.random.default_rng(seed)
    clear = clear_sentences(read_sentences("sst2", tokenizer, config))
    train, reported = split_sentences(clear, args.reported, generator)
    say(f"{len(clear.texts)} clear sentences, {len(train.texts)} of them apart from those reported")
    fillers = read_sentences("cola", tokenizer, config)
    documents = {
        "train": make_documents(
            train.take(np.arange(len(train.texts))[: args.documents]), fillers, args.sentences, generator
        ),
        "validation": make_documents(reported, fillers, args.sentences, generator),
    }
    positions = num_positions(load_backbone(model_dir, tokenizer))
    settings = Finetuning(
        learning_rate=args.learning_rate,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        patience=None,
    )
    held_out = np.arange(len(documents["train"].texts)) % 10 == 0
    findings: dict[str, Finding] = {}
    found = documents["validation"]
    segmented, whole = {}, {}
    for part, made in documents.items():
        pairs = [(text, None) for text in made.texts]
        cut = Segmentation(segments="sentences")
        segmented[part] = encode_segments(tokenizer, pairs, made.labels, cut, positions)
        assert (segmented[part].counts == args.sentences).all()
        whole[part] = encode(tokenizer, pairs, made.labels.tolist(), positions)
        assert not whole[part].truncated.any()

    def fit(head: str, pooling: str, data: dict) -> HeadClassifier:
        rest, selection = (data["train"].take(np.flatnonzero(mask)) for mask in (~held_out, held_out))
        return train_classifier(model_dir, tokenizer, head, pooling, rest, selection, settings, seed)

    begin = time.monotonic()
    swipe = fit(f"swipe segments=sentences pooling={args.pooling}", args.segment_pooling, segmented)
    logits, segment_scores = predict(swipe, segmented["validation"], 64, "float32")
    assert segment_scores is not None
    scores, predictions = np.stack(segment_scores), logits.argmax(1)
    top = scores[np.arange(len(predictions)), :, predictions].argmax(1)
    right = predictions == found.labels
    findings["swipe accuracy"] = Finding(int(right.sum()), len(right))
    findings["swipe finds it"] = Finding(int((top == found.places)[right].sum()), int(right.sum()))
    say(f"seed {seed} swipe {time.monotonic() - begin:.0f} s")

    begin = time.monotonic()
    baseline = fit("linear", "mean", whole)
    right = predict(baseline, whole["validation"], 64).logits.argmax(1) == found.labels
    findings["baseline accuracy"] = Finding(int(right.sum()), len(right))
    inputs = [(text, None) for text in found.texts]
    per_token = attention_shares(baseline.body, whole["validation"])
    spans = np.split(segmented["validation"].spans, segmented["validation"].starts[1:])
    for kind in ("sum", "mean"):
        shares = shares_of_spans(tokenizer, inputs, positions, per_token, spans, kind)
        hits = np.array([own.argmax() for own in shares]) == found.places
        findings[f"attention finds it ({kind})"] = Finding(int(hits[right].sum()), int(right.sum()))
    longest = np.array([np.diff(own)[:, 0].argmax() for own in spans]) == found.places
    findings["longest in characters"] = Finding(int(longest.sum()), len(longest))
    say(f"seed {seed} baseline {time.monotonic() - begin:.0f} s")
    return findings


def main() -> None:
    """Read the flags, train, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.swipe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="+", type=Path, help="folders with a model and its tokenizer")
    parser.add_argument("--glue-dir", type=Path, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--documents", type=int, default=6_000, help="for training")
    parser.add_argument("--reported", type=int, default=500, help="documents that are reported")
    parser.add_argument("--sentences", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--pooling", default="max", help="of swipe")
    parser.add_argument("--segment-pooling", default="mean", help="auto, first, last or mean over tokens")
    args = parser.parse_args()
    print(f"`python -m benchmarks.swipe {shlex.join(sys.argv[1:])}`")
    print(f"{datetime.date.today()}, {platform.processor() or 'CPU'}, "
          f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")  # fmt: skip
    columns: dict[str, dict[str, Finding]] = {}
    for model in args.models:
        total: dict[str, Finding] = {}
        for seed in args.seeds:
            for name, finding in run_seed(
                model, args, seed, lambda text: print(text, file=sys.stderr)
            ).items():
                total[name] = total.get(name, Finding()) + finding
        columns[str(model)] = total
    names = list(next(iter(columns.values())))
    print("| percent, 95% Wilson |", *(f" {model} |" for model in columns), sep="")
    print("| --- |" + " --- |" * len(columns))
    for name in names:
        print(f"| {name} | " + " | ".join(str(found[name]) for found in columns.values()) + " |")
    print(f"\nBy chance a sentence of {args.sentences} is found in {100 / args.sentences:.1f}%.")


if __name__ == "__main__":
    main()
