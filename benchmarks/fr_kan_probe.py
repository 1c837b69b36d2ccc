"""Where does the gain of a Fourier-KAN head come from: the head, or how fast it learns at one learning rate?

python -m benchmarks.fr_kan_probe --data ../shared/data --task blimp --train 1000 4166 8298 15000

The effect of Al Imran and Ishmam 2024 (arXiv:2408.08803) on frozen features that anybody can compute: TF-IDF
of words, reduced by a truncated SVD that is fitted to the training sentences, all times one factor that gives
them the spread of a transformer's last layer; or with ``--model`` what a run of this project makes of a
sentence. Each seed draws its own training and test sentences, and starts every head from its own weights.
Heads and training loop are the project's. Recipes:

- ``fr-kan``: the preset of that name, as the authors' notebooks run, at 2e-5.
- ``fr-kan-held-out``: what their paper says and this project's schedule and choice of epoch, at 2e-5.
- ``own rate``: the latter at whichever learning rate gives the head the best held-out accuracy.

``mlp activation=none`` is a linear function in two factors: what it gains on ``linear`` no shape of a
function explains, as it can express no more. Tasks:

- ``sst2``: phrases of SST-2's training file, two labels. Many are parts of one another, on both sides of the
  split.
- ``blimp``: acceptable sentences of BLiMP, whose label is their phenomenon, twelve labels. Many are of one
  template.

No sentence is on both sides, but parts of sentences are, and heads gain by that unequally: ``--apart`` tests
only on sentences that share no three words in a row with a training sentence. Prints a markdown table for
each number of training sentences: the accuracy of the first head, and the others' differences to it under the
same recipe, in points, with 95% Student intervals over the seeds' paired differences, one by one. Seeds draw
from one pool, so that intervals are a little narrow.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

from base.run.folder_names import RunFolder
from eval.classification.classifier import (
    Classifier,
    Features,
    HeadClassifier,
    load_backbone,
    load_classifier_tokenizer,
)
from eval.classification.data import hold_out
from eval.classification.encoders import make_encoder
from eval.classification.example_tokens import encode
from eval.classification.finetune import finetune
from eval.classification.heads import HeadOutput, build_head, count_parameters
from eval.classification.prediction import features, predict
from eval.classification.score_task import METRICS
from eval.data_files import read_rows
from eval.finetuning import PRESETS
from scores.head_descriptions import check_head, parse_head

HEADS = (
    "linear init=uniform",
    "mlp activation=none match=fourier-kan init=uniform",
    "mlp match=fourier-kan init=uniform",
    "fourier-kan bias=1",
    "fourier-kan bias=1 init_scale=0.1",
)
PUBLISHED_RATE = 2e-5
OWN_RATE = "own rate"
RATES = (PUBLISHED_RATE, 2e-3, 2e-2, 1e-1)
RECIPES = ("fr-kan", "fr-kan-held-out", OWN_RATE)
SPREAD = 0.5
"""Root mean square of a feature; of the last layers of BERT and its kin it is about that."""
MAX_LENGTH = 64

Results = dict[tuple[str, str, int], tuple[float, float]]
"""By head, recipe and seed: accuracy on the test sentences in percent, and the learning rate."""


class FeatureHead(Classifier):
    """A head on vectors that are there already.

    Args:
        head: Reads one vector an example.
        dropout: Of the vectors, while it is trained.
    """

    def __init__(self, head: nn.Module, dropout: float) -> None:
        super().__init__()
        self.head, self.dropout = head, nn.Dropout(dropout)

    def forward(self, batch: Features) -> HeadOutput:
        """Classify a batch."""
        return self.head(self.dropout(batch.vectors), None)

    def head_parameters(self) -> list[nn.Parameter]:
        return list(self.head.parameters())


def read_sentences(task: str, data: Path) -> dict[str, int]:
    """Read every sentence once, with its label; those that stand under two labels are left out."""
    if task == "sst2":
        rows = read_rows(data / "glue/sst2.train.jsonl.gz", ("sentence", "label"))
        pairs = [(row["sentence"].strip(), int(row["label"])) for row in rows]
    else:
        files = sorted((data / "blimp/filtered").glob("*.jsonl.gz"))
        pairs = [
            (row["sentence_good"].strip(), label)
            for label, file in enumerate(files)
            for row in read_rows(file, ("sentence_good",))
        ]
    labels: dict[str, set[int]] = {}
    for sentence, label in pairs:
        labels.setdefault(sentence, set()).add(label)
    return {sentence: min(own) for sentence, own in labels.items() if len(own) == 1}


def draw(
    sentences: dict[str, int], num_train: int, args: argparse.Namespace, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the places of training and test sentences."""
    order = np.random.default_rng([seed, 3]).permutation(len(sentences))[: num_train + args.test]
    train, test = order[:num_train], order[num_train:]
    if args.apart:
        texts = list(sentences)
        test = test[apart(*([texts[place] for place in part] for part in (train, test)))]
    return train, test


def word_vectors(
    texts: Sequence[str], size: int, seed: int, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reduce TF-IDF of words to so many dimensions, by the training sentences alone."""
    words, reduce = TfidfVectorizer(min_df=3), TruncatedSVD(size, random_state=seed)
    of_train = reduce.fit_transform(words.fit_transform([texts[place] for place in train]))
    of_test = reduce.transform(words.transform([texts[place] for place in test]))
    factor = SPREAD / np.sqrt(np.mean(of_train**2))
    return factor * of_train, factor * of_test


def model_vectors(texts: Sequence[str], run: Path, args: argparse.Namespace) -> np.ndarray:
    """Return (N, D): what a run's frozen model makes of each sentence."""
    model_dir = RunFolder(run).model_dir
    tokenizer = load_classifier_tokenizer(model_dir)
    encoder = make_encoder(load_backbone(model_dir, tokenizer, "cpu"), args.pooling)
    classifier = HeadClassifier(encoder, nn.Identity(), pooling=args.pooling, is_frozen=True)
    data = encode(tokenizer, [(text, None) for text in texts], [0] * len(texts), MAX_LENGTH)
    return features(classifier, data, str(run)).vectors.numpy()


def apart(train: Sequence[str], test: Sequence[str]) -> np.ndarray:
    """Tell (n,) which test sentences, of three words or more, share no three in a row with a training one."""
    taken = set().union(*map(_three_words, train))
    return np.array([bool(own := _three_words(text)) and taken.isdisjoint(own) for text in test])


def _three_words(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[start : start + 3]) for start in range(len(words) - 2)}


def as_features(vectors: Tensor, labels: np.ndarray) -> Features:
    """Make (n, D) vectors the features of n examples."""
    ones = np.ones(len(labels), np.int64)
    return Features(vectors, ones, labels, ones == 0, np.arange(len(labels)))


def train_head(
    text: str, preset: str, rate: float, seed: int, train: Any, test: Features
) -> tuple[float, float]:
    """Train a head; returns its accuracy on a held-out part, if there is one, and on the test sentences."""
    changes = {"learning_rate": rate, "dtype": "float32"}
    settings = PRESETS[preset].settings.model_copy(update=changes)
    num_labels, hidden_size = int(train.labels.max()) + 1, train.vectors.shape[1]
    torch.manual_seed(seed)
    head = build_head(check_head(parse_head(text)), hidden_size, num_labels)
    classifier = FeatureHead(head, settings.head_dropout)
    selection = test
    if settings.select_on == "held-out":
        train, selection = hold_out(train, settings.held_out_fraction, seed)
    accuracy = METRICS["accuracy"]
    went = finetune(classifier, train, selection, accuracy, settings, seed)
    logits = predict(classifier, test, 512, "float32").logits
    return max(went.scores), accuracy(test.labels, logits.argmax(1))


def train_recipes(
    head: str, rates: Sequence[float], seed: int, train: Features, test: Features
) -> dict[str, tuple[float, float]]:
    """Train a head by every recipe; returns by recipe its test accuracy and learning rate."""
    published = train_head(head, "fr-kan", PUBLISHED_RATE, seed, train, test)[1]
    found = {rate: train_head(head, "fr-kan-held-out", rate, seed, train, test) for rate in rates}
    best = max(found, key=lambda rate: found[rate][0])
    scores = (published, found[PUBLISHED_RATE][1], found[best][1])
    return dict(zip(RECIPES, zip(scores, (PUBLISHED_RATE, PUBLISHED_RATE, best), strict=True), strict=True))


def interval(differences: np.ndarray) -> str:
    """Write a mean of paired differences with its 95% Student interval; NaN where there is one."""
    mean, half = differences.mean(), np.nan
    if len(differences) > 1:
        half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]"


def table(results: Results, heads: Sequence[str], seeds: Sequence[int], counts: dict[str, int]) -> str:
    """Write the accuracies of the first head and the others' differences to it as markdown."""

    def of(head: str, recipe: str) -> np.ndarray:
        return np.array([results[head, recipe, seed][0] for seed in seeds])

    first, *others = heads
    lines = [f"| points over `{first}` | parameters | {' | '.join(RECIPES)} | its rates |"]
    lines.append("| --- |" + " --: |" * (len(RECIPES) + 1) + " --- |")
    rows = {f"`{first}`, accuracy": (first, [f"{of(first, recipe).mean():.1f}" for recipe in RECIPES])}
    rows |= {
        f"`{head}`": (head, [interval(of(head, recipe) - of(first, recipe)) for recipe in RECIPES])
        for head in others
    }
    for name, (head, cells) in rows.items():
        rates = " ".join(f"{results[head, OWN_RATE, seed][1]:.0e}" for seed in seeds)
        lines.append(f"| {name} | {counts[head]:,} | {' | '.join(cells)} | {rates} |")
    return "\n".join(lines)


def main() -> None:
    """Read the flags, train, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fr_kan_probe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="has glue/ and blimp/")
    parser.add_argument("--task", choices=("sst2", "blimp"), default="blimp")
    parser.add_argument("--model", type=Path, help="a run whose model reads the sentences")
    parser.add_argument("--pooling", choices=("auto", "first", "last", "mean"), default="auto")
    parser.add_argument(
        "--heads", nargs="+", default=HEADS, help="the first is what others are compared with"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--train", nargs="+", type=int, default=[8298], help="sentences")
    parser.add_argument("--test", type=int, default=2250, help="sentences")
    parser.add_argument(
        "--apart", action="store_true", help="test on those that share no three words in a row with training"
    )
    parser.add_argument("--features", type=int, default=256, help="dimensions of the SVD")
    parser.add_argument("--learning-rates", nargs="+", type=float, default=RATES, help="of own rate")
    args = parser.parse_args()
    rates, begin = (
        (PUBLISHED_RATE, *(rate for rate in args.learning_rates if rate != PUBLISHED_RATE)),
        time.monotonic(),
    )
    sentences = read_sentences(args.task, args.data)
    texts, labels = list(sentences), np.array(list(sentences.values()))
    of_model = None if args.model is None else model_vectors(texts, args.model, args)
    print(f"`python -m benchmarks.fr_kan_probe {shlex.join(sys.argv[1:])}`\n")
    for num_train in args.train:
        results: Results = {}
        shares, sizes, num_features = [], [], 0
        for seed in args.seeds:
            parts = draw(sentences, num_train, args, seed)
            if of_model is None:
                vectors = word_vectors(texts, args.features, seed, *parts)
            else:
                vectors = of_model[parts[0]], of_model[parts[1]]
            train, test = (
                as_features(torch.from_numpy(x).float(), labels[part])
                for x, part in zip(vectors, parts, strict=True)
            )
            num_features = train.vectors.shape[1]
            shares.append(np.bincount(test.labels).max() / len(test))
            sizes.append(len(test))
            for head in args.heads:
                for recipe, found in train_recipes(head, rates, seed, train, test).items():
                    results[head, recipe, seed] = found
            print(f"{num_train} seed {seed} {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        counts = {
            head: count_parameters(check_head(parse_head(head)), num_features, max(labels) + 1)
            for head in args.heads
        }
        print(f"{num_train:,} training sentences, {np.mean(sizes):,.0f} to test, {num_features} features, "
              f"{max(labels) + 1} labels, the commonest {100 * np.mean(shares):.1f}%\n")  # fmt: skip
        print(table(results, args.heads, args.seeds, counts) + "\n", flush=True)
    print(f"{datetime.date.today()}, {platform.processor() or 'CPU'}, {torch.get_num_threads()} threads, "
          f"torch {torch.__version__}, {time.monotonic() - begin:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
