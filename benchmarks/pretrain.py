"""Training throughput: this project's loop against transformers.Trainer, and variants against each other.

python -m benchmarks.pretrain configs/gpt-neo.yaml --cases trainer trainer-packed@bf16+compiled gelu gelu@no
python -m benchmarks.pretrain configs/gpt-neo.yaml --cases gelu kan:grid_size=3 --data.source embedded

Every case but two is a run of the configuration: its model, its packed batches, loss, clipping and optimizer.
``trainer`` is the stock model in transformers.Trainer as the source study set it up: each document padded to
block_size, the model's default attention, Trainer's defaults for the rest. ``trainer-packed`` is that on
texts put one behind the other and cut into rows of block_size (run_clm's group_texts): nothing is padded, and
attention sees what lies before in a row, of whichever document. A case that is not as a long run is by itself
ends in ``@`` and words joined by +: ``no`` or ``bf16`` for its precision, ``compiled`` for the whole
model by torch.compile: ``trainer-packed@bf16+compiled`` or ``gelu@no``. Each round does a few updates of
every case, one case after the other, so that whatever else the machine does falls on all of them. A ratio is
the median over the rounds of a case's real tokens per second (padding is not counted) over the first one's in
the same round. Memory is the peak of an update above weights and what the optimizer keeps. All other flags
are those of train.py. Prints markdown.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from accelerate.utils import set_seed
from datasets import Dataset
from transformers import DataCollatorForLanguageModeling, Trainer, TrainerCallback, TrainingArguments

from base.text.corruption import SpanCorruptor
from benchmarks.ffn import peak_mb
from ffn_variants.kernels.compilation import compile_seconds, use_compiled_kernels
from pretrain.config import ResolvedConfig
from pretrain.data import corpus
from pretrain.data.prepare import PreparedData, prepare_data
from pretrain.data.step_batches import BatchSource, cut_step
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config
from pretrain.run.provenance import device_name
from pretrain.training.device import (
    build_accelerator,
    choose_precision,
    compiles_model,
    join_processes,
    with_train,
)
from pretrain.training.loop import Loop
from tests.stock_models import stock_class, stock_config

TRAINERS = {"trainer": False, "trainer-packed": True}
"""Whether each packs."""


class OurCase:
    """Updates of this project's loop."""

    def __init__(self, config: ResolvedConfig, data: PreparedData, path: Path):
        join_processes(config.train)
        precision = choose_precision(config.train.mixed_precision, is_long=True)
        accelerator = build_accelerator(config, path, precision)
        on_gpu = accelerator.device.type == "cuda"
        config = with_train(config, per_device_train_batch_size=cut_step(config.train, 1, on_gpu)[1])
        config = with_train(config, compile_model=compiles_model(config, True, on_gpu))
        set_seed(config.seed)
        network = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
        masker = build_masker(config, data.tokenizer)
        pad_token_id: int = data.tokenizer.pad_token_id  # type: ignore[assignment]
        source = BatchSource(config, masker, pad_token_id, fixed_shapes=on_gpu)
        self.loop = Loop(
            config,
            accelerator,
            build_loss(network, config.family, config.train.compile_model is True),
            source,
            data,
            path,
        )
        self.parameters = sum(parameter.numel() for parameter in network.parameters())

    def update(self, count: int) -> int:
        """Do the next updates; returns their tokens, once the device is done."""
        use_compiled_kernels(self.loop.config.train.torch_compile is not False)  # as in a long run
        tokens, losses = 0, []
        for _ in range(count):
            step = self.loop._step(self.loop.state.step)
            losses.append(self.loop._update(step))
            self.loop.state.step += 1
            tokens += step.num_tokens
        torch.stack(losses).tolist()  # waits for the device
        return tokens


class Turnstile(TrainerCallback):
    """Lets a Trainer in another thread do as many updates as it is told to."""

    def __init__(self) -> None:
        self.allowed, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.allowed.acquire()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.done.release()


class CountingCollator:
    """The usual collator, which also counts the tokens that are no padding, in the order of the batches.

    Of an encoder-decoder, for which transformers has none, each row is corrupted as one document.
    """

    def __init__(self, config: ResolvedConfig, tokenizer: Any) -> None:
        self.tokens: list[int] = []
        self.masker, share = build_masker(config, tokenizer), config.train.mlm_probability
        self.usual = DataCollatorForLanguageModeling(
            tokenizer, mlm=self.masker is not None, mlm_probability=share
        )
        self.rng = np.random.default_rng(config.seed)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        mask = np.array([row["attention_mask"] for row in rows])
        self.tokens.append(int(mask.sum()))
        if not isinstance(self.masker, SpanCorruptor):
            return dict(self.usual(rows))
        ids = np.array([row["input_ids"] for row in rows])
        made = self.masker(ids, mask * np.arange(ids.shape[1]), self.rng)
        read, targets = torch.from_numpy(made["input_ids"]), torch.from_numpy(made["targets"])
        is_text = torch.from_numpy(made["document_ids"] > 0).long()
        return {"input_ids": read, "attention_mask": is_text, "labels": targets}


class TrainerCase:
    """Updates of transformers.Trainer on the stock model, with documents padded to block_size, or packed."""

    def __init__(self, config: ResolvedConfig, data: PreparedData, path: Path, is_packed: bool):
        rows = (packed_rows if is_packed else padded_documents)(config, data.tokenizer)
        self.turnstile = Turnstile()
        trainer = stock_trainer(config, data.tokenizer, rows, path, [self.turnstile], num_train_epochs=100)
        self.parameters = trainer.model.num_parameters()  # type: ignore[missing-attribute]
        self.collator: Any = trainer.data_collator
        self.batches_per_update = trainer.args.gradient_accumulation_steps
        self.used = 0
        threading.Thread(target=trainer.train, daemon=True).start()

    def update(self, count: int) -> int:
        """Do the next updates; returns their tokens, once the device is done."""
        for _ in range(count):
            self.turnstile.allowed.release()
        for _ in range(count):
            self.turnstile.done.acquire()
        used = self.used + count * self.batches_per_update
        tokens = sum(self.collator.tokens[self.used : used])
        self.used = used
        return tokens


def stock_trainer(
    config: ResolvedConfig,
    tokenizer: Any,
    rows: Dataset,
    path: Path,
    callbacks: Sequence[TrainerCallback] = (),
    **arguments: Any,
) -> Trainer:
    """Make a Trainer of transformers for the stock model on rows of token ids."""
    set_seed(config.seed)
    share, size = cut_step(config.train, num_processes=1, on_gpu=torch.cuda.is_available())
    network = build(config, len(tokenizer), special_token_ids(tokenizer))
    return Trainer(
        model=stock_class(type(network))(stock_config(network.config)),
        args=quiet_arguments(
            path,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=-(-share // size),
            learning_rate=config.optim.learning_rate,
            bf16=config.train.mixed_precision == "bf16",
            torch_compile=config.train.compile_model is True,
            **arguments,
        ),
        train_dataset=rows,
        data_collator=CountingCollator(config, tokenizer),
        callbacks=list(callbacks),
    )


def quiet_arguments(path: Path, **arguments: Any) -> TrainingArguments:
    """Arguments of a Trainer that neither prints nor saves on its way."""
    return TrainingArguments(
        output_dir=str(path),
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        **arguments,
    )


def first_documents(config: ResolvedConfig, split: corpus.Split) -> list[str]:
    """The first 4,000 documents of the corpus."""
    texts: Iterator[str] = iter(corpus.documents(config.data, split))
    return list(itertools.islice(texts, 4000))


def packed_rows(config: ResolvedConfig, tokenizer: Any, split: corpus.Split = "train") -> Dataset:
    """The first documents of the corpus, one behind the other, cut into rows of block_size."""
    encoded, size = tokenizer(first_documents(config, split))["input_ids"], config.data.block_size
    tokens = list(itertools.chain.from_iterable(encoded))
    rows = [tokens[start : start + size] for start in range(0, len(tokens) - size + 1, size)]
    return Dataset.from_dict({"input_ids": rows, "attention_mask": [[1] * size] * len(rows)})


def padded_documents(config: ResolvedConfig, tokenizer: Any, split: corpus.Split = "train") -> Dataset:
    """The first documents of the corpus, each cut or padded to block_size."""
    chosen = first_documents(config, split)
    encoded = tokenizer(chosen, truncation=True, padding="max_length", max_length=config.data.block_size)
    return Dataset.from_dict({"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]})


def least_peak_mb(case: OurCase | TrainerCase, device: torch.device) -> float:
    """The least of three: now and then the allocator asks for more than an update needs.

    NaN of a step that is recorded as a CUDA graph: it had its memory as it was.
    """
    if isinstance(case, OurCase) and case.loop.passes and not case.loop.passes.failure:
        return float("nan")
    return min(peak_mb(lambda: case.update(1), device) for _ in range(3))


def parse_case(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``name:option=value,option=value@word+word`` as a name, and as sections of a configuration."""
    text, _, words = text.partition("@")
    name, _, rest = text.partition(":")
    options: dict[str, float | str] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        options[key] = float(value) if value.replace(".", "", 1).isdigit() else value
    model = {} if name in TRAINERS else {"ffn": name, "ffn_options": options or None}
    train: dict[str, Any] = {"compile_model": "compiled" in words.split("+")} if words else {}
    for precision in {"no", "bf16"} & set(words.split("+")):
        train["mixed_precision"] = precision
    return name, {"model": model, "train": train}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pretrain",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--cases", nargs="+", default=["trainer", "gelu"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=1, help="of every case in a round")
    args, flags = parser.parse_known_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cases: dict[str, OurCase | TrainerCase] = {}
    rates: dict[str, list[float]] = {text: [] for text in args.cases}
    with tempfile.TemporaryDirectory() as folder:
        for text in args.cases:
            name, sections = parse_case(text)
            config = load_config(args.config, flags, sections)
            data, path = prepare_data(config), Path(folder) / text
            is_ours = name not in TRAINERS
            cases[text] = (
                OurCase(config, data, path) if is_ours else TrainerCase(config, data, path, TRAINERS[name])
            )
        for number in range(args.rounds + 2):
            print(f"\rround {max(0, number - 1)}/{args.rounds}", end="", file=sys.stderr, flush=True)
            for text, case in cases.items():
                start = time.perf_counter()
                tokens = case.update(args.updates)
                if number > 1:  # the first two compile
                    rates[text].append(tokens / (time.perf_counter() - start))
        memory = {text: least_peak_mb(case, device) for text, case in cases.items()}
        print(file=sys.stderr)
    first = args.cases[0]
    print(f"`python -m benchmarks.pretrain {shlex.join(sys.argv[1:])}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {device_name(device)}, "
        f"{platform.machine()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{args.rounds} rounds of {args.updates} updates, "
        f"{compile_seconds():.0f} s of compiling before\n"
    )
    print(f"| case | parameters | real tokens/s | x {first} | peak of an update, MB |")
    print("| --- | --: | --: | --: | --: |")
    for text, case in cases.items():
        ratio = statistics.median(a / b for a, b in zip(rates[text], rates[first], strict=True))
        rate = statistics.median(rates[text])
        print(f"| {text} | {case.parameters:,} | {rate:,.0f} | {ratio:.2f} | {memory[text]:,.0f} |")


if __name__ == "__main__":
    main()
