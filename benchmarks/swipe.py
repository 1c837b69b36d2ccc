"""Does SWIPE find the sentence that decides, and does the attention of a mean-pooled classifier?

python benchmarks/swipe.py MODEL... --glue-dir GLUE --seeds 1 2 3

Each document has one sentence of SST-2, whose label is its own, and others of CoLA, which have none, in
random order. The lengths of the others are drawn from those of SST-2 sentences, so that length says nothing.
Sentences of SST-2's validation file make the documents that are reported, each of them one.

Both classifiers start from the same pretrained model. ``swipe`` scores sentences and takes the maximum; the
baseline reads the whole document, averages the last hidden states of its tokens, and has a linear layer on
top. What is found: of the documents that are classified correctly, those in which the deciding sentence has
the highest score for the predicted label, or gets most of the last layer's attention, mean over heads and
queries, as a sum over its tokens and as a mean. Prints markdown.
"""

# ruff: noqa: E402 - the imports must wait for sys.path

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

# Python puts this file's folder first, and there files would be taken for packages of their names.
sys.path[0] = str(Path(__file__).parents[1])

import numpy as np
import torch
from scipy.stats import binomtest
from transformers import PreTrainedTokenizerBase

from eval.attention_shares import attention_shares, shares_of_spans
from eval.classification_tasks import GLUE_TASKS, read_examples
from eval.classifier import HeadClassifier
from eval.classifier_loading import load_backbone, load_classifier_tokenizer
from eval.config import EvalConfig
from eval.encoders import make_encoder
from eval.encoding import Encoded, encode
from eval.finetune import fine_tune, predict, segment_scores
from eval.finetune_config import FineTuning
from eval.heads.choice import parse_head
from eval.heads.registry import build_head, get_head
from eval.scoring import num_positions
from eval.segments import Segmentation, Segmented, encode_segments
from eval.sentences import sentence_starts

MIN_TOKENS, MAX_TOKENS = 8, 32
"""Of a sentence; shorter phrases of SST-2 often have no sentiment."""
SLACK = 4
"""Tokens that the first sentence may have more than elsewhere, for no space comes before it."""


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


def clean_sentences(
    rows: list[dict], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the texts that are one sentence each and neither short nor long, their labels and tokens."""
    texts = [row["sentence"].strip().rstrip(" .!?").lower() + "." for row in rows]
    inside = [f" {text}" for text in texts]  # as they stand in a document
    lengths = np.array([len(ids) for ids in tokenizer(inside, add_special_tokens=False)["input_ids"]])
    kept = [
        number
        for number, text in enumerate(texts)
        if MIN_TOKENS <= lengths[number] <= MAX_TOKENS and len(sentence_starts(f"{text} next")) == 2
    ]
    labels = np.array([row["label"] for row in rows])
    return [texts[number] for number in kept], labels[kept], lengths[kept]


def make_documents(
    deciding: tuple[list[str], np.ndarray, np.ndarray],
    fillers: tuple[list[str], np.ndarray, np.ndarray],
    lengths: np.ndarray,
    num_sentences: int,
    max_tokens: int,
    generator: np.random.Generator,
) -> Documents:
    """Hide each deciding sentence among fillers whose lengths are drawn from ``lengths``."""
    by_length = {length: np.flatnonzero(fillers[2] == length) for length in np.unique(fillers[2])}
    possible = lengths[np.isin(lengths, list(by_length))]
    texts, places = [], []
    for text, own in zip(deciding[0], deciding[2], strict=True):
        drawn = generator.choice(possible, num_sentences - 1)
        while own + drawn.sum() > max_tokens:
            drawn = generator.choice(possible, num_sentences - 1)
        sentences = [fillers[0][generator.choice(by_length[length])] for length in drawn]
        place = int(generator.integers(num_sentences))
        sentences.insert(place, text)
        texts.append(" ".join(sentences))
        places.append(place)
    return Documents(texts, deciding[1], np.array(places))


def train_classifier(
    model_dir: Path,
    tokenizer: PreTrainedTokenizerBase,
    head: str,
    pooling: str,
    train: Encoded | Segmented,
    selection: Encoded | Segmented,
    settings: FineTuning,
    seed: int,
) -> HeadClassifier:
    """Fine-tune a model under a head; ``pooling`` is from the tokens of a text or a segment to its vector."""
    encoder = make_encoder(load_backbone(model_dir, tokenizer))
    choice = parse_head(head)
    torch.manual_seed(seed)
    built = build_head(choice, encoder.hidden_size, 2)
    classifier = HeadClassifier(encoder, built, get_head(choice.name).reads, pooling)  # type: ignore[arg-type]
    fine_tune(classifier, train, selection, _accuracy, settings, seed)
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
    pools = {
        name: clean_sentences(read_examples(GLUE_TASKS[task], split, config), tokenizer)
        for name, task, split in (
            ("train", "sst2", "train"), ("validation", "sst2", "validation"), ("fillers", "cola", "train")
        )
    }  # fmt: skip
    room = num_positions(load_backbone(model_dir, tokenizer)) - tokenizer.num_special_tokens_to_add()
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(len(pools["train"][0]))[: args.documents]
    pools["train"] = (
        [pools["train"][0][i] for i in chosen],
        pools["train"][1][chosen],
        pools["train"][2][chosen],
    )
    documents = {
        part: make_documents(
            pools[part], pools["fillers"], pools["train"][2], args.sentences, room - SLACK, generator
        )
        for part in ("train", "validation")
    }
    settings = FineTuning(
        learning_rate=args.learning_rate,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        patience=None,
    )
    held_out = np.arange(len(chosen)) < len(chosen) // 10
    findings: dict[str, Finding] = {}
    found = documents["validation"]
    segmented, whole = {}, {}
    for part, made in documents.items():
        pairs = [(text, None) for text in made.texts]
        cut = Segmentation(segments="sentences")
        segmented[part] = encode_segments(tokenizer, pairs, made.labels, cut, room + 2)
        assert (segmented[part].counts == args.sentences).all()
        whole[part] = encode(tokenizer, pairs, made.labels.tolist(), room + 2)
        assert not whole[part].truncated.any()

    def fit(head: str, pooling: str, data: dict) -> HeadClassifier:
        parts = (data["train"].take(np.flatnonzero(mask)) for mask in (~held_out, held_out))
        return train_classifier(model_dir, tokenizer, head, pooling, *parts, settings, seed)

    begin = time.monotonic()
    swipe = fit(f"swipe segments=sentences pooling={args.pooling}", args.segment_pooling, segmented)
    scores = np.stack(segment_scores(swipe, segmented["validation"], 64, "float32"))
    predictions = predict(swipe, segmented["validation"], 64).argmax(1)
    top = scores[np.arange(len(predictions)), :, predictions].argmax(1)
    right = predictions == found.labels
    findings["swipe accuracy"] = Finding(int(right.sum()), len(right))
    findings["swipe finds it"] = Finding(int((top == found.places)[right].sum()), int(right.sum()))
    say(f"seed {seed} swipe {time.monotonic() - begin:.0f} s")

    begin = time.monotonic()
    baseline = fit("linear", "mean", whole)
    right = predict(baseline, whole["validation"], 64).argmax(1) == found.labels
    findings["baseline accuracy"] = Finding(int(right.sum()), len(right))
    per_token = attention_shares(baseline.body, whole["validation"])
    spans = np.split(segmented["validation"].spans, segmented["validation"].starts[1:])
    for kind in ("sum", "mean"):
        shares = shares_of_spans(tokenizer, found.texts, per_token, whole["validation"], spans, kind)
        hits = np.array([own.argmax() for own in shares]) == found.places
        findings[f"attention finds it ({kind})"] = Finding(int(hits[right].sum()), int(right.sum()))
    longest = np.array([np.diff(own)[:, 0].argmax() for own in spans]) == found.places
    findings["longest sentence"] = Finding(int(longest.sum()), len(longest))
    say(f"seed {seed} baseline {time.monotonic() - begin:.0f} s")
    return findings


def main() -> None:
    """Read the flags, train, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, help="folders with a model and its tokenizer")
    parser.add_argument("--glue-dir", type=Path, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--documents", type=int, default=6_000, help="for training")
    parser.add_argument("--sentences", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--pooling", default="max", help="of swipe")
    parser.add_argument("--segment-pooling", default="auto", help="auto, first, last or mean over tokens")
    args = parser.parse_args()
    print(f"`python {shlex.join(sys.argv)}`\n{datetime.date.today()}, {platform.processor() or 'CPU'}, "
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
