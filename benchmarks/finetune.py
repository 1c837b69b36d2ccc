"""Fine-tuning on GLUE: a step of this project against one padded to 128 tokens, and the scores of both.

python -m benchmarks.finetune configs/gpt-neo.yaml configs/roberta.yaml --glue-dir GLUE --tokenizer TOKENIZER
python -m benchmarks.finetune --scores MODEL... --glue-dir GLUE --tasks mrpc rte --seeds 1 2 3 4 5

``stock`` is the usual way: transformers' own model, every input padded to 128 tokens, fp32, batches of 64,
torch's AdamW, gradients clipped to 1. ``ours`` is a step of eval/classification/finetune.py with the same
examples.

Speed: models of the configurations' sizes with random weights; each round is a step of stock, then one of
ours, on the same random batch. What counts is the process's CPU time; on a GPU it is the clock's, once the
device is done. An epoch is the mean step times the steps of the whole training set.

Scores: each model is fine-tuned with every seed in both ways, a fixed number of epochs, and its last weights
are scored on the validation file. The ways share nothing but the data: the orders of the examples differ too.
Prints markdown.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    get_linear_schedule_with_warmup,
)

from eval.classification.classifier import load_classifier, load_classifier_tokenizer, make_classifier
from eval.classification.example_tokens import Encoded, encode
from eval.classification.examples import read_examples
from eval.classification.find_tasks import GLUE_TASKS
from eval.classification.prediction import predict
from eval.classification.score_task import METRICS, train
from eval.config import EvalConfig
from eval.finetuning import FinetuneConfig
from pretrain.model.build import build, special_token_ids
from pretrain.resolution import load_config
from pretrain.run.provenance import device_name
from tests.stock_models import stock_class, stock_config

LENGTH, BATCH_SIZE = 128, 64


def read(task: str, split: str, tokenizer: Any, glue_dir: Path) -> Encoded:
    """The tokens of a task's file."""
    rows = read_examples(GLUE_TASKS[task], split, EvalConfig(glue_dir=glue_dir))
    texts = [GLUE_TASKS[task].make_input(row) for row in rows]
    return encode(tokenizer, texts, [int(row["label"]) for row in rows], LENGTH)


def pad(data: Encoded) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(n, 128) ids and mask, and (n,) labels, as a data set mapped with padding="max_length" holds them."""
    inside = np.arange(LENGTH) < data.lengths[:, None]
    ids = np.zeros(inside.shape, dtype=np.int64)
    ids[inside] = data.tokens
    return torch.from_numpy(ids), torch.from_numpy(inside.astype(np.int64)), torch.from_numpy(data.labels)


def both_models(path: Path, tokenizer: Any) -> list[PreTrainedModel]:
    """A classifier of a configuration's sizes as transformers ships it, and ours with the same weights."""
    config = load_config(path, [])
    sizes = build(config, len(tokenizer), special_token_ids(tokenizer)).config
    ours = AutoModelForSequenceClassification.from_config(sizes)
    plain = stock_class(type(ours))(stock_config(ours.config))
    plain.load_state_dict(ours.state_dict())
    return [plain, ours]


def update(model: PreTrainedModel, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """One update, the same in both ways."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def seconds(device: str) -> float:
    """CPU time of this process, or on a GPU the clock's time once it is done."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def measure(path: Path, data: Encoded, tokenizer: Any, rounds: int, device: str) -> list:
    """Seconds of a step: [stock, ours] of each round."""
    stock, ours = both_models(path, tokenizer)
    for model in (stock, ours):
        model.to(device)  # type: ignore[bad-argument-type]
    classifier = make_classifier(ours)
    optimizers = (
        torch.optim.AdamW(stock.parameters(), lr=5e-5),
        torch.optim.AdamW(ours.parameters(), lr=5e-5, fused=True),
    )
    ids, mask, labels = (tensor.to(device) for tensor in pad(data))
    order = np.random.default_rng(0).permutation(len(data))
    stock.train()
    classifier.train()
    times = []
    for number in range(rounds + 1):
        batch = order[number * BATCH_SIZE % len(data) :][:BATCH_SIZE]
        start = seconds(device)
        logits = stock(input_ids=ids[batch], attention_mask=mask[batch]).logits
        update(stock, optimizers[0], F.cross_entropy(logits, labels[batch]))
        middle = seconds(device)
        logits = classifier(data.take(batch)).logits
        update(ours, optimizers[1], F.cross_entropy(logits, labels[batch]))
        times.append([middle - start, seconds(device) - middle])
    return times[1:]  # the first one warms up


def speed(args: argparse.Namespace) -> Iterator[str]:
    """A table of speed a configuration."""
    tokenizer: Any = AutoTokenizer.from_pretrained(args.tokenizer)
    for path in args.configs:
        yield f"\n{path}: {'CPU seconds' if args.device == 'cpu' else 'seconds'} of an epoch\n"
        yield "| task | steps | tokens an input | stock | ours | ratio |"
        yield "| --- | --: | --: | --: | --: | --: |"
        totals = np.zeros(2)
        for task in args.tasks:
            data = read(task, "train", tokenizer, args.glue_dir)
            steps = -(-len(data) // BATCH_SIZE)
            stock, ours = steps * np.mean(measure(path, data, tokenizer, args.rounds, args.device), axis=0)
            totals += stock, ours
            length = data.lengths.mean()
            yield f"| {task} | {steps} | {length:.1f} | {stock:.1f} | {ours:.1f} | {stock / ours:.2f} |"
        yield f"| all | | | {totals[0]:.1f} | {totals[1]:.1f} | {totals[0] / totals[1]:.2f} |"


def stock_scores(folder: Path, task: str, seed: int, args: argparse.Namespace) -> dict[str, float]:
    """Fine-tune and score in the stock way."""
    tokenizer = load_classifier_tokenizer(folder)
    model = load_classifier(folder, GLUE_TASKS[task].num_labels, seed, tokenizer, "cpu")
    ids, mask, labels = pad(read(task, "train", tokenizer, args.glue_dir))
    epochs = args.epochs
    steps = -(-len(labels) // BATCH_SIZE) * epochs
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(BATCH_SIZE):
            logits = model(input_ids=ids[batch], attention_mask=mask[batch]).logits
            update(model, optimizer, F.cross_entropy(logits, labels[batch]))
            schedule.step()
    model.eval()
    ids, mask, labels = pad(read(task, "validation", tokenizer, args.glue_dir))
    with torch.inference_mode():
        parts = zip(ids.split(BATCH_SIZE), mask.split(BATCH_SIZE), strict=True)
        logits = torch.cat([model(input_ids=ids, attention_mask=mask).logits for ids, mask in parts])
    predictions = logits.argmax(1).numpy()
    return {name: METRICS[name](labels.numpy(), predictions) for name in GLUE_TASKS[task].metrics}


def our_scores(folder: Path, task: str, seed: int, args: argparse.Namespace) -> dict[str, float]:
    """Fine-tune and score with this project; no evaluation on the way, so that the last weights stay."""
    glue = FinetuneConfig(
        learning_rate=args.learning_rate,
        num_train_epochs=args.epochs,
        select_on="validation",
        seeds=(seed,),
        dtype=args.dtype,
    )
    config = EvalConfig(glue_dir=args.glue_dir, finetune=glue, device="cpu")
    definition = GLUE_TASKS[task]
    settings = definition.finetuning(glue).model_copy(update={"eval_steps": 10**9})
    trained = train(folder, [definition], config, settings, seed)
    data = trained.validation[task]
    predictions = predict(trained.classifier, data, BATCH_SIZE, args.dtype).logits.argmax(1)
    return {name: METRICS[name](data.labels, predictions) for name in definition.metrics}


def scores(args: argparse.Namespace) -> Iterator[str]:
    """A table of scores."""
    yield f"\n{args.epochs} epochs at {args.learning_rate:g}, {args.dtype}, seeds {args.seeds}; mean (sd)\n"
    yield "| model | task | metric | stock | ours | difference (standard error) |"
    yield "| --- | --- | --- | --: | --: | --: |"
    for folder in args.scores:
        for task in args.tasks:
            stock, ours = (
                [way(folder, task, seed, args) for seed in args.seeds] for way in (stock_scores, our_scores)
            )
            for metric in GLUE_TASKS[task].metrics:
                a, b = (np.array([found[metric] for found in way]) for way in (stock, ours))
                error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / len(a))
                yield (
                    f"| {folder.parts[-4]} | {task} | {metric} | {a.mean():.1f} ({a.std(ddof=1):.1f}) "
                    f"| {b.mean():.1f} ({b.std(ddof=1):.1f}) | {b.mean() - a.mean():+.1f} ({error:.1f}) |"
                )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.finetune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("configs", type=Path, nargs="*")
    parser.add_argument("--scores", type=Path, nargs="+", help="folders of trained models")
    parser.add_argument("--glue-dir", type=Path, required=True)
    parser.add_argument("--tokenizer", help="for configurations: a folder or a name on the hub")
    parser.add_argument("--tasks", nargs="+", default=["cola", "mrpc", "rte", "boolq"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cpu", help="of the speed, not the scores"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="of our scores")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"`python -m benchmarks.finetune {shlex.join(sys.argv[1:])}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {device_name(torch.device(args.device))}, {platform.machine()}, "
        f"one thread, torch {torch.__version__}, transformers {transformers.__version__}"
    )
    for line in scores(args) if args.scores else speed(args):
        print(line, flush=True)


if __name__ == "__main__":
    main()
