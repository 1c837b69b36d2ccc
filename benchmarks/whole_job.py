"""The whole job, from texts to scores on BLiMP and GLUE: this project beside what a user would do instead.

    python -m benchmarks.whole_job --size 0.3M
    python -m benchmarks.whole_job --size 9.6M --cases gelu gelu@no trainer-packed@no trainer@no --rounds 1

A case is named as in ``benchmarks.pretrain``, and does all of it by its own means:

    stage     a variant: train and eval                     trainer-packed, trainer
    tokens    reads the texts, tokenises and packs them     tokenises them, and packs or pads to block_size
    training  an epoch, the held-out loss, a saved model    the same by Trainer on the stock model
    blimp     the suite                                     lm-eval, batches of 32
    glue      fine-tuning, an evaluation an epoch           Trainer as in run_glue.py, padded by batch

``trainer`` pads as the source study did. All cases have the same texts, tokenizer, sizes, pairs, examples,
batches and rates; without ``@`` a variant has the precision that a run chooses by itself, and a Trainer
float32. Each runs in a process of its own, forked after the imports, on one thread. Times are of processor,
compilers included, which others on the machine change little; on a GPU they are the clock's. What compiles
runs once before, since that is kept on disk (``once``: how much longer that took). A ratio is the median over
the rounds of a case's sum over the first one's in the same round; all else are medians. Last, lm-eval scores
the first variant's model too, which must give this project's scores. Prints markdown.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import shlex
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import lm_eval.api.task
import lm_eval.evaluator
import lm_eval.models.huggingface  # noqa: F401  an import is no part of the job
import numpy as np
import pandas as pd
import torch._inductor.config
import transformers
from datasets import Dataset

import benchmarks.pretrain as steps
import eval.scoring.scorers  # noqa: F401
from base.run.folder_names import RunFolder
from benchmarks.eval import COLUMNS, SHARED, Bench
from benchmarks.loop import without_pauses
from eval.classification.find_tasks import GLUE_TASKS
from eval.classification.score_task import METRICS
from eval.config import EvalConfig
from eval.data_files import list_data_files, read_rows
from eval.evaluate import evaluate_run
from eval.finetuning import FinetuneConfig
from pretrain.config import ResolvedConfig
from pretrain.data.prepare import prepare_data
from pretrain.data.tokenizer import train_tokenizer
from pretrain.resolution import load_config
from pretrain.run.provenance import device_name
from pretrain.training.training_run import train
from scores.rows import read_table

STAGES = ("tokens", "training", "blimp", "glue")
CASES = ["gelu", "gelu@no", "trainer-packed@no", "trainer-packed@bf16", "trainer@no", "trainer@bf16"]
TASKS, SPLITS = ("mrpc", "rte"), ("train", "validation")


class Size(NamedTuple):
    """A model, and how much is done with it.

    Attributes:
        config: Of a run, and flags on top of it.
        vocab_size: Of a tokenizer trained before; None takes that of the source study.
        counts: Of texts, pairs a paradigm, examples a file, and epochs of fine-tuning.
    """

    config: tuple[str, ...]
    vocab_size: int | None
    counts: dict[str, int]


SIZES = {
    "0.3M": Size(
        ("mini-gpt-neo", "--model.hidden-size=96", "--model.intermediate-size=384", "--data.block-size=512"),
        1000,
        {"documents": 3000, "pairs": 100, "examples": 2000, "epochs": 3},
    ),
    "9.6M": Size(("gpt-neo",), None, {"documents": 200, "pairs": 15, "examples": 128, "epochs": 2}),
}
SMOKE = {"documents": 40, "pairs": 2, "examples": 20, "epochs": 1}


class Ours:
    """The stages by this project. Those that score return a mean in percent."""

    def __init__(self, config: ResolvedConfig, given: Path, tuning: FinetuneConfig) -> None:
        self.config, self.given, self.tuning = config, given, tuning

    def tokens(self) -> None:
        num_rows = len(prepare_data(self.config).train.input_ids)
        num_steps = self.config.optim.total_steps(num_rows, self.config.train.batch_size)
        self.config = without_pauses(self.config, num_steps)

    def training(self) -> None:
        self.run = train(self.config)

    def blimp(self) -> float:
        return self._score(EvalConfig(suites=("blimp",), blimp_dir=self.given / "blimp"))

    def glue(self) -> float:
        return self._score(EvalConfig(suites=("glue",), glue_dir=self.given / "glue", finetune=self.tuning))

    def _score(self, config: EvalConfig) -> float:
        rows = evaluate_run(self.run, config, progress=False)
        return float(rows.loc[rows["primary"] & rows["benchmark"].isin(config.suites), "score"].mean())


class Stock:
    """The stages by transformers and lm-eval."""

    def __init__(self, config: ResolvedConfig, given: Path, tuning: FinetuneConfig, packs: bool) -> None:
        self.config, self.given, self.tuning = config, given, tuning
        self.make_rows = steps.packed_rows if packs else steps.padded_documents
        self.folder = Path(config.output.runs_dir)

    def tokens(self) -> None:
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(self.given / "tokenizer")
        self.rows, self.held_out = (self.make_rows(self.config, self.tokenizer, split) for split in SPLITS)

    def training(self) -> None:
        what = self.config, self.tokenizer, self.rows, self.folder
        trainer: Any = steps.stock_trainer(*what, num_train_epochs=1)
        trainer.train()
        trainer.evaluate(self.held_out)
        trainer.save_model(str(self.folder))
        self.tokenizer.save_pretrained(self.folder)

    def blimp(self) -> float:
        scores = lm_eval_scores(self.folder, self.given)
        return 100 * float((scores[:, 0] > scores[:, 1]).mean())

    def glue(self) -> float:
        return float(np.mean([self._finetune(task) for task in TASKS]))

    def _finetune(self, task: str) -> float:
        """Fine-tune as run_glue.py does; returns the task's first metric."""
        metric, how = GLUE_TASKS[task].metrics[0], self.tuning.resolve(task)
        size, pad_token_id = how.per_device_train_batch_size, self.tokenizer.pad_token_id
        train_set, held_out = (self._examples(task, split, how.max_length) for split in SPLITS)
        trainer = transformers.Trainer(
            model=transformers.AutoModelForSequenceClassification.from_pretrained(
                self.folder, num_labels=GLUE_TASKS[task].num_labels, pad_token_id=pad_token_id
            ),
            args=steps.quiet_arguments(
                self.folder / task,
                learning_rate=how.learning_rate,
                per_device_train_batch_size=size,
                per_device_eval_batch_size=size,
                num_train_epochs=how.num_train_epochs,
                bf16=self.config.train.mixed_precision == "bf16",
                eval_strategy="epoch",
            ),
            train_dataset=train_set,
            eval_dataset=held_out,
            data_collator=transformers.DataCollatorWithPadding(self.tokenizer),
            compute_metrics=lambda found: {metric: METRICS[metric](found[1], found[0].argmax(1))},
        )
        trainer.train()
        return max(line.get(f"eval_{metric}", 0) for line in trainer.state.log_history)

    def _examples(self, task: str, split: str, max_length: int) -> Dataset:
        rows = read_rows(self.given / "glue" / f"{task}.{split}.jsonl", ["label"])
        first, second = map(list, zip(*map(GLUE_TASKS[task].make_input, rows), strict=True))
        tokens = self.tokenizer(first, second, truncation=True, max_length=max_length)
        return Dataset.from_dict({**tokens, "label": [row["label"] for row in rows]})


def lm_eval_scores(model_dir: Path, given: Path) -> np.ndarray:
    """(N, 2) log-likelihoods by lm-eval of both sentences of all pairs, paradigm by paradigm."""
    model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model_dir)
    files = list_data_files(given / "blimp" / "full").values()
    pairs = pd.concat([pd.DataFrame(read_rows(path, COLUMNS)) for path in files], ignore_index=True)
    return Bench("causal", model, tokenizer, 0).lm_eval(pairs, batch_size=32)


def compare_scores(run: Path, given: Path) -> str:
    """Let lm-eval score the model of a run, and say by how much the run's own scores differ."""
    items = read_table(RunFolder(run).items_file("blimp")).to_pandas().sort_values("task", kind="stable")
    ours = items[["score_good", "score_bad"]].to_numpy()
    theirs = lm_eval_scores(RunFolder(run).model_dir, given)
    apart = np.abs(ours - theirs).max()
    n = ((ours[:, 0] > ours[:, 1]) != (theirs[:, 0] > theirs[:, 1])).sum()
    return f"one model, {len(ours):,} pairs, by both: {apart:.1e} nats apart at most, other decisions: {n}"


def give(size: Size, counts: dict[str, int], folder: Path) -> None:
    """Write what all cases are given: texts, a tokenizer, BLiMP and GLUE."""
    files = {f"texts/{split}": (SHARED / f"tinystories/{split}.jsonl.gz", "documents") for split in SPLITS}
    files |= {
        f"blimp/full/{name}": (path, "pairs") for name, path in list_data_files(SHARED / "blimp/full").items()
    }
    names = [f"glue/{task}.{split}" for task in TASKS for split in SPLITS]
    files |= {name: (SHARED / f"{name}.jsonl.gz", "examples") for name in names}
    for name, (source, kind) in files.items():
        number = 60 if name == "texts/validation" else counts[kind]
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in read_rows(source, [])[:number]))
    if size.vocab_size is None:
        shutil.copytree(SHARED / "tokenizer-10k", folder / "tokenizer")
    else:
        texts = (row["text"] for row in read_rows(folder / "texts/train.jsonl", ["text"]))
        train_tokenizer(texts, size.vocab_size).save_pretrained(folder / "tokenizer")


def configure(size: Size, case: str, given: Path, runs_dir: Path, flags: list[str]) -> ResolvedConfig:
    """The run of a case."""
    sections = steps.parse_case(case)[1]
    sections["data"] = {f"{split}_files": [str(given / f"texts/{split}.jsonl")] for split in SPLITS}
    sections["data"] |= {"source": "files", "tokenizer": str(given / "tokenizer")}
    sections["optim"] = {"optimizer": "adamw", "max_steps": None, "num_train_epochs": 1}
    sections["train"]["batch_size"] = 8
    sections["output"] = {"runs_dir": str(runs_dir)}
    name, *own = size.config
    return load_config(Path(__file__).parents[1] / "configs" / f"{name}.yaml", [*own, *flags], sections)


def do(case: str, config: ResolvedConfig, given: Path, epochs: int) -> tuple[dict[str, Any], Path | None]:
    """Do all stages of a case in this process; returns a row, and the folder of this project's run."""
    tuning = FinetuneConfig(tasks=TASKS, select_on="validation", num_train_epochs=epochs)
    name, before_mb = steps.parse_case(case)[0], peak_mb()
    job: Any = Ours(config, given, tuning)
    if name in steps.TRAINERS:
        job = Stock(config, given, tuning, steps.TRAINERS[name])
    times, scores = [seconds()], []
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for stage in STAGES:
            scores.append(getattr(job, stage)())
            times.append(seconds())
    spent = {
        f"{stage}, s": part for stage, part in zip(STAGES, np.diff(times).round(2).tolist(), strict=True)
    }
    row = {"case": case, **spent, "sum, s": times[-1] - times[0]}
    row |= {"peak, MB": peak_mb() - before_mb, "blimp": scores[2], "glue": scores[3]}
    return row, getattr(job, "run", None)


def seconds() -> float:
    """Processor time of this process and the compilers that it waited for, or on a GPU the clock's."""
    if not torch.cuda.is_available():
        return sum(os.times()[:4])
    torch.cuda.synchronize()
    return time.perf_counter()


def peak_mb() -> float:
    """The most that this process ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def in_a_process(function: Any, *arguments: Any) -> Any:
    """Call a function in a fork of this process, which so stays as it is."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        return pool.submit(function, *arguments).result()


def measure(args: argparse.Namespace, counts: dict[str, int], flags: list[str]) -> tuple[pd.DataFrame, str]:
    """Do every case in every round; returns a row of each, and how both score one model."""
    size, rows, runs = SIZES[args.size], [], []
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "given")
        give(size, counts, given)
        for number in range(args.smoke, args.rounds + 1):
            for case in args.cases:
                is_stock = case.partition("@")[0] in steps.TRAINERS
                if number == 0 and (is_stock or "@" in case) and "compiled" not in case:
                    continue
                config = configure(size, case, given, Path(folder, f"{case}-{number}"), flags)
                row, run = in_a_process(do, case, config, given, counts["epochs"])
                rows.append({"round": number, **row})
                print(f"round {number}/{args.rounds}: {row}", file=sys.stderr, flush=True)
                runs += [run] if run else []
        same = in_a_process(compare_scores, runs[0], given) if runs else ""
    return pd.DataFrame(rows), same


def print_table(rows: pd.DataFrame, first: str) -> None:
    """Print medians over the rounds, and of the ratios; ``once`` is what the first run took more."""
    sums = rows.pivot(index="round", columns="case", values="sum, s")
    table = rows[rows["round"] > 0].drop(columns="round").groupby("case", sort=False).median()
    table.insert(5, f"x {first}", sums.loc[1:].div(sums.loc[1:, first], axis=0).median())
    table.insert(6, "once, s", (sums.reindex([0]).iloc[0] - table["sum, s"]).fillna(0))
    print(f"| case | {' | '.join(table.columns)} |\n| --- |{' --: |' * table.shape[1]}")
    for case, values in table.iterrows():
        print(f"| {case} | {' | '.join(f'{value:,.2f}' for value in values)} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.whole_job",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", choices=list(SIZES), default="0.3M", help="parameters of the model")
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a tiny job, which shows only that all works")
    for name in SMOKE:
        parser.add_argument(f"--{name}", type=int, help="in place of the size's")
    args, flags = parser.parse_known_args()
    typed = {name: value for name in SMOKE if (value := getattr(args, name))}
    counts = (SMOKE if args.smoke else SIZES[args.size].counts) | typed
    torch.set_num_threads(1)
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    torch._inductor.config.compile_threads = 1  # compilers are then children whose time is known
    rows, same = measure(args, counts, flags)
    device = device_name(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "lm_eval")]
    told = ", ".join([args.size, *(f"{count:,} {name}" for name, count in counts.items())])
    print(f"`python -m benchmarks.whole_job {shlex.join(sys.argv[1:])}`  ")
    print(f"{datetime.date.today():%d %B %Y}, {device}, {platform.machine()}, {', '.join(versions)}  ")
    print(f"{told}; {args.rounds} rounds at a load of {os.getloadavg()[1]:.1f}  \n{same}\n")
    print_table(rows, args.cases[0])


if __name__ == "__main__":
    main()
