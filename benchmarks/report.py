"""How long a report of the full size takes."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from tqdm import tqdm

from base.command_line import parse_flags
from base.sections import Section
from report.inputs.sources import read_source
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Inference, compare_with_baseline
from report.significance.factor import Relabelling
from scores.rows import ROW_COLUMNS, write_rows
from scores.run_scores import comparable_scores, mean_scores
from scores.suites import BLIMP_PARADIGMS

FAMILIES = ("gpt_neo", "roberta", "family3", "family4")
BENCHMARK = "blimp"
GLUE_TASKS = ("boolq", "cola", "mnli", "mnli-mm", "mrpc", "multirc", "qnli", "qqp", "rte", "sst2", "wsc")
CORES = 2


class ReportBenchmarkArgs(Section):
    """The report of a study of the full size: its time and memory, and its statistics.

    OMP_NUM_THREADS=2 python -m benchmarks.report
    python -m benchmarks.report --variants 4 --tasks 10 --items 100 --study /tmp/study

    Writes a study folder of made-up scores in the real format, unless --study names one that is there
    already, and measures

        report      the whole command in a process of its own, on two cores: seconds and peak memory
        statistics  all comparisons of one benchmark, in this process

    Prints markdown.
    """

    variants: int = 14
    """The baseline among them."""
    families: int = 2
    seeds: int = 6
    tasks: int = 67
    items: int = 1000
    """Of each task."""
    rounds: int = 3
    """Of what is measured in turn."""
    study: Path | None = None
    """Folder to write the study into, or where it was written before (default: one that is deleted)."""


def task_names(count: int) -> list[tuple[str, str]]:
    """The first (task, phenomenon) pairs of BLiMP, repeated under numbers where more are wanted."""
    known = [(task, phenomenon) for phenomenon, tasks in BLIMP_PARADIGMS.items() for task in tasks]
    return [
        (f"{task}{place // len(known) or ''}", phenomenon)
        for place in range(count)
        for task, phenomenon in [known[place % len(known)]]
    ]


def write_study(folder: Path, args: ReportBenchmarkArgs) -> None:
    """Write rows, items and training logs of every run, from fixed generators."""
    variants = ["gelu", *(f"variant{number}" for number in range(1, args.variants))]
    tasks = task_names(args.tasks)
    generator = np.random.default_rng(0)
    # Logits of difficulty: of each task, of each item, and of each item for a variant.
    difficulty = generator.normal(0.7, 1.0, args.tasks)[:, None] + generator.normal(
        0, 1.5, (args.tasks, args.items)
    )
    frame = _item_frame(tasks, args.items)
    cells = list(product(FAMILIES[: args.families], enumerate(variants), range(1, args.seeds + 1)))
    for family, (place, variant), seed in tqdm(cells, desc="write study", unit="run", disable=None):
        own = np.random.default_rng([FAMILIES.index(family), place, seed])
        shared = np.random.default_rng([FAMILIES.index(family), place])
        shift = shared.normal(0, 0.05) + shared.normal(0, 0.3, difficulty.shape)
        shift = shift + own.normal(0, 0.03) + own.normal(0, 0.15, (args.tasks, 1))
        margin = difficulty + shift + own.logistic(size=difficulty.shape)
        run_id = f"{family}/{variant}/seed{seed}-0a1b2c3d"
        _write_run(folder / run_id, (run_id, family, variant, seed), tasks, frame, margin, own)
    content = {
        "families": list(FAMILIES[: args.families]),
        "variants": variants,
        "seeds": list(range(1, args.seeds + 1)),
        "evaluation": {"suites": [BENCHMARK, "glue"]},
        "report": {"baseline": "gelu", "margin": 1.0},
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def _item_frame(tasks: list[tuple[str, str]], items: int) -> pd.DataFrame:
    """What the items of all runs share, with the columns that the evaluation writes."""
    names = np.repeat([task for task, _ in tasks], items)
    frame = pd.DataFrame({"suite": BENCHMARK, "task": names})
    frame["phenomenon"] = np.repeat([phenomenon for _, phenomenon in tasks], items)
    frame["paradigm"] = names
    frame["pair_id"] = np.tile([str(number) for number in range(items)], len(tasks))
    return frame.sort_values("task", kind="stable", ignore_index=False)


def _write_run(
    run: Path,
    identity: tuple[str, str, str, int],
    tasks: list[tuple[str, str]],
    frame: pd.DataFrame,
    margin: np.ndarray,
    generator: np.random.Generator,
) -> None:
    margins = margin.ravel()[frame.index]
    good = generator.normal(-60, 15, len(margins))
    lengths = generator.integers(5, 25, len(margins))
    items = frame.assign(
        score_good=good,
        score_bad=good - margins,
        margin=margins,
        num_tokens_good=lengths,
        num_tokens_bad=lengths,
        tie=False,
        correct=(margins > 0).astype(float),
        protocol="native,overflow=truncate 9c5701fd6673",
    )
    (run / "eval" / "items").mkdir(parents=True)
    items.to_parquet(run / "eval" / "items" / f"{BENCHMARK}.parquet", index=False)
    rows = [
        (*identity, BENCHMARK, task, phenomenon, "accuracy", 100 * float((margin[place] > 0).mean()),
         margin.shape[1], "")
        for place, (task, phenomenon) in enumerate(tasks)
    ]  # fmt: skip
    shift = generator.normal(0, 0.8)
    rows += [
        (*identity, "glue", task, "glue", "accuracy", 65 + shift + generator.normal(0, 1.5), 2000, "default")
        for task in GLUE_TASKS
    ]
    write_rows(pd.DataFrame(rows, columns=list(ROW_COLUMNS[:-1])), run / "eval" / "rows.parquet")
    steps = np.arange(100, 10_001, 100)
    lines = [{"step": int(step), "loss": 3.0, "grad_norm": 1 + float(generator.random())} for step in steps]
    lines += [
        {"step": int(step), "eval_loss": 2.5 + 40 / step**0.5 / 4 + 0.01 * shift} for step in steps[9::10]
    ]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    provenance = {
        "parameters": {"total": 10_000_000, "ffn": 4_000_000},
        "flops_per_token": {"total": 20_000_000, "ffn": 8_000_000},
        "device": "cpu",
        "results": {"mean_tokens_per_s": 50_000 + 500 * shift, "time_s": 7200.0, "peak_memory_mb": 4000.0},
    }
    (run / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")


def measure_report(study: Path, out: Path) -> tuple[float, float]:
    """Return seconds and peak GiB of the whole command in a process of its own."""
    command = [sys.executable, "-m", "ffn_ablations", "report", str(study), "--out", str(out)]
    root = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{shlex.join(command)} failed")
    return seconds, usage.ru_maxrss / 2**20


def interleave(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every way in each round."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, do in ways.items():
            start = time.perf_counter()
            do()
            seconds[way].append(time.perf_counter() - start)
    return seconds


def measure(study: Path, rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as out:
        seconds, memory = measure_report(study, Path(out))
    source = read_source(study)
    tasks = comparable_scores(Relabelling.of_rows(source.rows, "ffn").rows(source.rows))
    scores, _ = mean_scores(tasks)
    benchmark = Benchmark(BENCHMARK)
    others = [name for name in source.design.variants if name != "gelu"]
    of_benchmark = scores[scores.benchmark == benchmark]
    alone = interleave(
        {
            "statistics": lambda: compare_with_baseline(
                ArmTable.of_scores(of_benchmark, benchmark), "gelu", others, Inference()
            )
        },
        rounds,
    )
    print("| what | seconds | peak memory, GiB |\n| --- | --: | --: |")
    print(f"| report | {seconds:.1f} | {memory:.2f} |")
    for name, times in alone.items():
        print(f"| {name} | {statistics.median(times):.2f} | |")


def main() -> None:
    """Write the study where it is not there, and measure."""
    args = parse_flags(ReportBenchmarkArgs, prog="python -m benchmarks.report")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy", "pandas")
    )
    print(f"`python -m benchmarks.report {shlex.join(sys.argv[1:])}`  ")
    print(f"{datetime.date.today():%d %B %Y}, {platform.machine()}, {CORES} cores, {versions}\n")
    with tempfile.TemporaryDirectory() as temporary:
        study = args.study or Path(temporary) / "study"
        if not (study / "study.yaml").is_file():
            # A process of its own: a child's peak memory is never below what its parent holds when it starts.
            writer = multiprocessing.get_context("spawn").Process(target=write_study, args=(study, args))
            writer.start()
            writer.join()
        measure(study, args.rounds)


if __name__ == "__main__":
    main()
