"""How long it takes to expand a study of many cells."""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import yaml

from base.command_line import parse_flags
from base.families import Budget
from base.files import write_text
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from base.sections import Section
from eval.identity import identify_run, weights_hash
from eval.work_units import work_units
from pretrain.run.run_folder import config_hash, write_config
from scores.rows import write_rows
from scores.store import Ledger, write_ledger
from slurm.study.cells import RunCell, trained_cells
from slurm.study.study import load_study

ROOT = Path(__file__).parents[1]
FAMILIES = ("gpt_neo", "roberta")
VARIANTS = ("gelu", "learnable-gelu", "relu", "prelu", "silu", "swish", "none", "kan", "fourier-kan")
VARIANTS += ("thesis-swish",)

MEASURE = """
import json, sys, time
from pathlib import Path
def now():
    return [time.perf_counter(), time.process_time()]
start = now()
from slurm.worker import is_done
from slurm.study.study import load_study
imported = now()
study = load_study(Path(sys.argv[1]))
expanded = now()
done = sum(map(is_done, study.cells))
checked = now()
assert done == len(study.cells), f"{done} of {len(study.cells)} done"
times = [start, imported, expanded, checked]
print(json.dumps([[b - a for a, b in zip(*pair)] for pair in zip(times, times[1:])]))
"""


class Args(Section):
    """A study of many cells: how long it takes to expand it and to find what is done.

    python -m benchmarks.study
    python -m benchmarks.study --seeds 6 --budget width

    Writes a study of two families, ten variants and as many seeds as named, and the folders of its finished
    runs: configs, scores of BLiMP and GLUE as recorded by an evaluation, and weights of the given size. Then
    measures

        import    what both need, in a process of its own
        expand    load_study: every cell's config, checked, with its hash
        done      is_done of every cell, as at a second submission: every file is read for the first time

    each in a new process in every round. Prints markdown.
    """

    seeds: int = 50
    """Seeds; each has 20 cells."""
    budget: Budget = "params"
    """How the variants' widths are chosen."""
    weights_kb: int = 100
    """Size of each run's weights; they are hashed once in a process."""
    rounds: int = 5
    """Repetitions, each in a new process."""


def write_study(folder: Path, args: Args) -> Path:
    """Write the study's file; its runs lie beside it."""
    content = {
        "name": "many",
        "families": {name: str(ROOT / "configs" / f"{name.replace('_', '-')}.yaml") for name in FAMILIES},
        "variants": list(VARIANTS),
        "seeds": list(range(1, args.seeds + 1)),
        "config": {"output": {"runs_dir": str(folder)}, "model": {"ffn_budget": args.budget}},
        "evaluation": {"suites": ["blimp", "glue"]},
    }
    path = folder / "many.yaml"
    write_text(path, yaml.safe_dump(content))
    return path


def finish(cell: RunCell, weights_kb: int) -> None:
    """Leave what a finished and evaluated run leaves, as far as a check reads it."""
    write_config(cell.run_dir, cell.config)
    run = RunFolder(cell.run_dir)
    model = run.model_dir
    model.mkdir()
    (model / "model.safetensors").write_bytes(os.urandom(1024 * weights_kb))
    saved = {"model_type": f"ffn_{cell.config.family}", "ffn": cell.config.model.ffn}
    write_text(model / "config.json", json.dumps(saved))
    write_completion(run, {}, config_hash(cell.config))
    asked = list(work_units(cell.run_dir, identify_run(cell.run_dir), cell.evaluation))
    tasks = {
        "/".join([work.benchmark, task, *([protocol["head"]] if "head" in protocol else [])]): protocol
        for work in asked
        for task, protocol in work.protocols.items()
    }
    of_run = {"run_id": cell.run_id, "family": cell.config.family, "variant": cell.config.model.ffn}
    scores = [
        {"benchmark": work.benchmark, "task": task, "metric": metric, "head": work.head, "primary": not place}
        for work in asked
        for task in work.protocols
        for place, metric in enumerate(
            next((each.metrics for each in work.classified if each.name == task), ("accuracy",))
        )
    ]
    rows = pd.DataFrame(scores).assign(**of_run, seed=cell.config.seed, group="", score=50.0, n_items=1)
    write_rows(rows, run.rows_file)
    write_ledger(run, Ledger(weights=weights_hash(cell.run_dir), tasks=tasks))


def measure(study: Path) -> list[list[float]]:
    """Seconds, and seconds of processor time, of import, expansion and check, in a new process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MEASURE, str(study)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    """Write the study, measure, print."""
    args = parse_flags(Args, prog="python -m benchmarks.study")
    with tempfile.TemporaryDirectory() as folder:
        path = write_study(Path(folder), args)
        cells = trained_cells(load_study(path).cells)
        for cell in cells:
            finish(cell, args.weights_kb)
        rounds = [measure(path) for _ in range(args.rounds)]
    print(f"`{shlex.join(['python', '-m', 'benchmarks.study', *sys.argv[1:]])}`, ", end="")
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}: {len(cells)} cells, ", end="")
    print(f"budget {args.budget}, median (min to max) of {args.rounds} rounds\n")
    print("| step | seconds | of processor time |\n|---|--:|--:|")
    for name, taken in zip(("import", "expand", "done"), zip(*rounds, strict=True), strict=True):
        print(f"| {name} | {' | '.join(map(_spread, zip(*taken, strict=True)))} |")


def _spread(seconds: tuple[float, ...]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
