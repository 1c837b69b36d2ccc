"""Where does the gain of a Fourier-KAN head come from: the head, the learning rate or its first weights?

python -m benchmarks.fr_kan_probe --data ../shared/data --task sst2

The effect of Al Imran and Ishmam 2024 (arXiv:2408.08803), on frozen features that anybody can compute: TF-IDF
of words, reduced by a truncated SVD that is fitted to the training sentences, all times one factor that gives
them the spread of a transformer's last layer. Each seed draws its own training and test sentences, makes its
own features, and starts every head from its own weights. Heads, training loop and recipe are the project's
(preset fr-kan: 5 epochs of Adam in batches of 64, linear schedule, dropout 0.1), at several learning rates.

- ``sst2``: phrases of SST-2's training file, two labels. Many are parts of one another, on both sides of the
  split.
- ``blimp``: acceptable sentences of BLiMP, whose label is their phenomenon, twelve labels. Many are of one
  template.

No sentence is on both sides, but parts of sentences are, and heads gain by that unequally: ``--apart`` tests
only on sentences that share no three words in a row with a training sentence. Prints markdown: accuracy on
the test sentences, and differences to `linear` at the same recipe and at the recipe that each head has the
best held-out accuracy with, with 95% Student intervals over the seeds' paired differences. Seeds draw from
one pool, so that intervals are a little narrow.
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

from eval.classification.classifier import Classifier, Features
from eval.classification.data import hold_out
from eval.classification.finetune import finetune
from eval.classification.heads import HeadOutput, build_head, count_parameters
from eval.classification.prediction import predict
from eval.classification.score_task import METRICS
from eval.data_files import read_rows
from eval.finetuning import PRESETS
from scores.head_descriptions import check_head, parse_head

HEADS = ("linear", "mlp match=fourier-kan", "fourier-kan", "fourier-kan init_scale=0.1", "kan")
EITHER = "fourier-kan, either init_scale"
"""A row that takes, of the two, the one with the higher held-out accuracy."""
RATES = (2e-5, 2e-4, 2e-3, 2e-2)
SPREAD = 0.5
"""Root mean square of a feature; of the last layers of BERT and its kin it is about that."""

Found = dict[tuple[str, float, int], tuple[float, float]]
"""By head, learning rate and seed: accuracy on the held-out part and on the test sentences, in percent."""


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


def draw(sentences: dict[str, int], args: argparse.Namespace, seed: int) -> tuple[Features, Features]:
    """Draw training and test sentences and make their features."""
    order = np.random.default_rng([seed, 3]).permutation(len(sentences))[: args.train + args.test]
    texts, labels = list(sentences), np.array(list(sentences.values()))
    parts = np.split(order, [args.train])
    if args.apart:
        parts[1] = parts[1][apart(*([texts[place] for place in part] for part in parts))]
    words = TfidfVectorizer(min_df=3)
    reduce = TruncatedSVD(args.features, random_state=seed)
    train = reduce.fit_transform(words.fit_transform([texts[place] for place in parts[0]]))
    test = reduce.transform(words.transform([texts[place] for place in parts[1]]))
    factor = SPREAD / np.sqrt(np.mean(train**2))
    train_part, test_part = (
        as_features(torch.from_numpy(factor * vectors).float(), labels[part])
        for vectors, part in zip((train, test), parts, strict=True)
    )
    return train_part, test_part


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


def train_head(text: str, rate: float, seed: int, train: Any, test: Features) -> tuple[float, float]:
    """Train a head; returns its accuracy on the held-out part and on the test sentences."""
    settings = PRESETS["fr-kan"].settings.model_copy(update={"learning_rate": rate, "dtype": "float32"})
    num_labels, hidden_size = int(train.labels.max()) + 1, train.vectors.shape[1]
    torch.manual_seed(seed)
    head = build_head(check_head(parse_head(text)), hidden_size, num_labels)
    classifier = FeatureHead(head, settings.head_dropout)
    rest, held_out = hold_out(train, settings.held_out_fraction, seed)
    accuracy = METRICS["accuracy"]
    went = finetune(classifier, rest, held_out, accuracy, settings, seed)
    logits = predict(classifier, test, 512, "float32").logits
    return max(went.scores), accuracy(test.labels, logits.argmax(1))


def best(found: Found, heads: tuple[str, ...], rates: tuple[float, ...], seed: int) -> float:
    """Return the test accuracy of the head and rate with the highest held-out accuracy."""
    return max((found[head, rate, seed] for head in heads for rate in rates), key=lambda pair: pair[0])[1]


def scores(found: Found, seeds: list[int], rates: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Return for each row of the tables (rates + 1, seeds) test accuracies, the tuned one last."""
    rows = {head: (head,) for head in HEADS} | {EITHER: HEADS[2:4]}
    choices = [*((rate,) for rate in rates), rates]
    return {
        name: np.array([[best(found, heads, choice, seed) for seed in seeds] for choice in choices])
        for name, heads in rows.items()
    }


def interval(differences: np.ndarray) -> str:
    """Write a mean of paired differences with its 95% Student interval; NaN where there is one."""
    mean, half = differences.mean(), np.nan
    if len(differences) > 1:
        half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]"


def tables(found: Found, seeds: list[int], rates: tuple[float, ...], counts: dict[str, int]) -> str:
    """Write both tables as markdown."""
    rows = scores(found, seeds, rates)
    columns = [*(f"{rate:g}" for rate in rates), "chosen on held-out data"]
    top = "| " + " | ".join(columns) + " |\n| --- |" + " ---: |" * (len(columns) + 1)
    lines = ["| accuracy, percent | parameters " + top]
    for name, own in rows.items():
        cells = [f"{accuracies.mean():.1f}" for accuracies in own]
        lines.append(
            f"| `{name}` | {counts.get(name, counts['fourier-kan']):,} | " + " | ".join(cells) + " |"
        )
    lines += ["", "| minus `linear`, points " + top.replace(" ---: |", "", 1)]
    for name, own in list(rows.items())[1:]:
        cells = [interval(accuracies) for accuracies in own - rows["linear"]]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chosen(found: Found, seeds: list[int], rates: tuple[float, ...]) -> str:
    """Say which learning rate each head got, seed by seed."""
    texts = []
    for head in HEADS:
        picked = [max(rates, key=lambda rate: found[head, rate, seed][0]) for seed in seeds]
        texts.append(f"`{head}` {', '.join(f'{rate:g}' for rate in picked)}")
    return "Chosen learning rates, seed by seed: " + "; ".join(texts) + "."


def main() -> None:
    """Read the flags, train, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fr_kan_probe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="has glue/ and blimp/")
    parser.add_argument("--task", choices=("sst2", "blimp"), default="sst2")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--train", type=int, default=20_000, help="sentences, a tenth of them held out")
    parser.add_argument("--test", type=int, default=5_000, help="sentences")
    parser.add_argument(
        "--apart", action="store_true", help="test on those that share no three words in a row with training"
    )
    parser.add_argument("--features", type=int, default=256, help="dimensions of the SVD")
    parser.add_argument("--learning-rates", nargs="+", type=float, default=RATES)
    args = parser.parse_args()
    rates, begin = tuple(args.learning_rates), time.monotonic()
    sentences = read_sentences(args.task, args.data)
    found: Found = {}
    shares, sizes = [], []
    for seed in args.seeds:
        train, test = draw(sentences, args, seed)
        shares.append(np.bincount(test.labels).max() / len(test))
        sizes.append(len(test))
        for head in HEADS:
            for rate in rates:
                found[head, rate, seed] = train_head(head, rate, seed, train, test)
            print(f"seed {seed} {head} {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    num_labels = len(set(sentences.values()))
    counts = {
        head: count_parameters(check_head(parse_head(head)), args.features, num_labels) for head in HEADS
    }
    print(f"`python -m benchmarks.fr_kan_probe {shlex.join(sys.argv[1:])}`\n")
    print(f"{datetime.date.today()}, {platform.processor() or 'CPU'}, {torch.get_num_threads()} threads, "
          f"torch {torch.__version__}, {time.monotonic() - begin:.0f} s; {num_labels} labels, the commonest "
          f"{100 * np.mean(shares):.1f}% of the test sentences, {np.mean(sizes):,.0f} a seed\n")  # fmt: skip
    print(tables(found, args.seeds, rates, counts))
    print(f"\n{chosen(found, args.seeds, rates)}")


if __name__ == "__main__":
    main()
