"""What this project says, recorded before a rebuild and compared with what it says after it.

    python -m benchmarks.goldens write /tmp/before         # in the tree before; some minutes
    python -m benchmarks.goldens write /tmp/after          # in the tree after
    python -m benchmarks.goldens compare /tmp/before /tmp/after --meant meant.txt

``write`` records, as a JSON file each, with times, paths, versions and commits taken out:

    reports    of the archived studies in docs/ and of tables of many shapes: md, html as text, json, csv
    ids        run ids and config hashes: of the archives, of the shipped studies, of configs resolved again
    trainings  losses, weights and reloaded logits of a tiny run of each family, of variants and optimizers
    scores     of subsets of BLiMP and GLUE (from ../shared/data where it is) and of the embedded suites
    killed     a run killed after a checkpoint and resumed, beside one that was not disturbed

It uses commands, the files that they write and transformers alone, so that the same script reads both trees.
``compare`` prints every difference with its path and ends with 1 where one is not meant. A line of the file
of meant differences is a pattern of what is printed, as ``reports/*/json/bayesian: *``; # begins a comment.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import html
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
COMMAND = Path(sys.executable).with_name("ffn-ablations")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
RUN_ID = re.compile(r"[\w-]+/[\w.+=,-]+/[\w.+=,-]+-[0-9a-f]{8}\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
CLOCK = ("time_s", "tokens_per_s", "compile_s", "peak_memory_mb", "mean_tokens_per_s")
"""Fields of a training's metrics that differ when it is done again."""

CONFIG = {
    "model": {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "data": {"source": "embedded", "num_stories": 150, "vocab_size": 300, "block_size": 64},
    "optim": {"learning_rate": 3.0e-3, "max_steps": 12},
    "train": {"batch_size": 4, "save_steps": 5, "logging_steps": 1, "eval_steps": 6, "torch_compile": False},
}
FAMILIES = ("gpt_neo", "roberta", "llama", "t5")
VARIANTS = ("relu2", "xielu", "polynorm", "rational", "swiglu", "kan", "fourier-kan", "cheby-kan")
VARIANTS += ("spline-kan", "gr-kan", "moe", "product-key-memory")
FINETUNE = {"num_train_epochs": 1, "max_train_examples": 64, "max_validation_examples": 32}
SUITES = ("perplexity", "embedded-pairs", "embedded-glue")

LOSS, PAIRS, WORLD = "held-out-loss", "pairs", "world"
TABLES: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]] = {
    "plain": ({}, ()),
    "one-seed": ({"seeds": 1}, ()),
    "two-seeds": ({"seeds": 2}, ()),
    "twelve-seeds": ({"seeds": 12}, ()),
    "two-variants": ({"variants": 2}, ()),
    "twelve-variants": ({"variants": 12, "outcomes": (LOSS,)}, ("--margin", "held-out-loss=0.02")),
    "two-families": ({"families": FAMILIES[:2]}, ()),
    "three-outcomes": ({"families": FAMILIES[:3], "outcomes": (LOSS, PAIRS, WORLD)}, ("--primary", PAIRS)),
    "no-effects": ({"effect": 0.0, "spread": 0.1, "seeds": 8}, ("--margin", "pairs=1")),
    "large-effects": ({"effect": 5.0}, ()),
    "tasks": ({"tasks": 12}, ()),
    "missing-runs": ({"rows": "variant != 'v3' or seed <= 2"}, ()),
    "missing-cells": ({"rows": "variant != 'v3' or benchmark != 'pairs'", "outcomes": (LOSS, PAIRS)}, ()),
    "missing-arm": ({"rows": "variant != 'v3' or family != 'roberta'", "families": FAMILIES[:2]}, ()),
    "wide": ({"outcomes": (LOSS, PAIRS), "wide": True}, ("--scores", LOSS, PAIRS)),
    "fractions": ({"scale": 0.01, "wide": True}, ("--scores", PAIRS, "--scale", "fraction")),
    "paired": ({}, ("--paired",)),
    "bootstrap": ({"seeds": 6}, ("--method", "bootstrap")),
    "max-t": ({"variants": 6, "outcomes": (PAIRS, WORLD)}, ("--correction", "max-t")),
    "sizes": ({"axis": "size", "outcomes": (LOSS,)}, ("--axis", "size")),
    "heads": ({"axis": "head"}, ("--factor", "head", "--baseline", "linear")),
    "contrast": ({}, ("--contrast", "v1+v2 - gelu+v3")),
    "looks": ({"seeds": 6}, ("--looks", "3", "6")),
    "plan": ({}, ("--plan",)),
}
LEVELS = {"size": ("0.1M", "0.5M", "2M"), "head": ("linear", "mlp", "fourier-kan"), "": ("",)}


def make_table(
    *,
    variants: int = 4,
    seeds: int = 5,
    families: Sequence[str] = ("gpt_neo",),
    outcomes: Sequence[str] = (PAIRS,),
    tasks: int = 1,
    effect: float = 1.0,
    spread: float = 0.7,
    scale: float = 1.0,
    rows: str = "",
    axis: str = "",
    wide: bool = False,
) -> pd.DataFrame:
    """Make scores up, the same in every call: one row a score, or with ``wide`` a column an outcome.

    Each variant is ``effect`` points above or below the one before, each level of ``axis`` one above; of the
    rows those are left that ``rows`` describes.
    """
    arms = ["gelu", *(f"v{place}" for place in range(1, variants))]
    names = ["family", axis or "level", "variant", "seed", "benchmark", "task"]
    values = map(list, (families, LEVELS[axis], arms, range(1, seeds + 1), outcomes, range(tasks)))
    table = pd.MultiIndex.from_product(list(values), names=names).to_frame(index=False)
    place = table["variant"].map(arms.index)
    noise = spread * np.random.default_rng(0).normal(size=len(table))
    points = effect * place * (-1.0) ** place + table[axis or "level"].map(LEVELS[axis].index) + noise
    table["score"] = np.where(table["benchmark"] == LOSS, 3 - points / 50, (65 + points) * scale).round(5)
    table = table.query(rows) if rows else table
    table = table if axis else table.drop(columns="level")
    if wide:
        table = table.pivot(index=["family", "variant", "seed"], columns="benchmark", values="score")
    return table.reset_index(drop=not wide)


class Recorder:
    """Gives commands and reads what they leave.

    Args:
        home: A folder for all that commands write.
        jobs: How many commands run at the same time.
    """

    def __init__(self, home: Path, jobs: int) -> None:
        self.home, self.runs, self.jobs = home, home / "runs", jobs

    def command(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Give a command in the root of this tree."""
        line = [str(COMMAND), *map(str, words)]
        return subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)

    def each(self, call: Callable[[str], Any], names: Iterable[str]) -> dict[str, Any]:
        """Call with each name, some at the same time; returns what comes back, or how it failed."""
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = {name: pool.submit(call, name) for name in names}
        failures = {name: {"not recorded": repr(future.exception())} for name, future in futures.items()}
        return {name: failures[name] if f.exception() else f.result() for name, f in futures.items()}

    def normalised(self, text: str) -> list[str]:
        """The lines of a text without what differs between two machines, moments or checkouts."""
        text = text.replace(str(self.home), "HOME").replace(str(ROOT), "REPOSITORY")
        command = r"(python -m eval\.report|ffn-ablations report) (HOME|runs)/\S+ --out.*"
        text = re.sub(command, "COMMAND", text)
        text = re.sub(r"\d{4}-\d\d-\d\d(T[\d:+.]+)?", "DATE", text)
        text = re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", text)
        return re.sub(r"ffn-ablations \d+\.\d+\.\d+", "ffn-ablations VERSION", text).split("\n")

    def failure(self, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        """What a command said that did not end well."""
        return {"exit": done.returncode, "error": self.normalised(done.stderr)[-3:]}

    # Reports

    def reports(self) -> dict[str, Any]:
        """Reports of archives and of tables."""
        tables = self.each(self.of_table, TABLES)
        archives = self.each(lambda name: self.report(self.restored(name), name), archives_by_name())
        return archives | {f"table-{name}": report for name, report in tables.items()}

    def restored(self, name: str) -> Path:
        """Bring an archived study back, unless it is there."""
        folder = self.home / "archives" / name
        if not folder.exists():
            words = (archives_by_name()[name], "--runs-dir", folder)
            done = self.command("study", "restore", *words)
            if done.returncode:
                done = self.command("study", "archive", *words, "--restore")
            assert not done.returncode, done.stderr
        return next(path for path in folder.iterdir() if not path.name.startswith("."))

    def of_table(self, name: str) -> dict[str, Any]:
        """Write a table and report on it."""
        shape, flags = TABLES[name]
        path = self.home / "tables" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        make_table(**shape).to_csv(path, index=False)
        return self.report(path, f"table-{name}", flags)

    def report(self, source: Path, name: str, flags: Sequence[str] = ()) -> dict[str, Any]:
        """Report on a study or a table; returns all that it writes but figures."""
        out = self.home / "reports" / name
        done = self.command("report", source, "--out", out, *flags)
        if done.returncode:
            return self.failure(done)
        return {"printed": self.normalised(done.stdout)} | self.written_report(out)

    def written_report(self, out: Path) -> dict[str, Any]:
        """Read a report's files."""
        if not (out / "report.json").is_file():
            return {}
        content = read_json(out / "report.json")
        content = {key: content[key] for key in content if key not in ("versions", "command")}
        content = json.loads("\n".join(self.normalised(json.dumps(content))))
        return {
            "md": self.normalised((out / "report.md").read_text()),
            "html": self.normalised(text_of((out / "report.html").read_text())),
            "json": content,
            "csv": {path.stem: self.normalised(path.read_text()) for path in out.glob("tables/*.csv")},
        }

    # Run ids

    def ids(self) -> dict[str, Any]:
        """Run ids and hashes, of archives and as they are computed now."""
        studies = ROOT / "configs" / "studies"
        names = sorted(path.stem for path in studies.glob("*.yaml"))
        shipped = self.each(lambda name: self.ids_of("study", "run", studies / f"{name}.yaml"), names)
        archives = self.each(self.archived_ids, archives_by_name())
        return archives | {f"study-{name}": ids for name, ids in shipped.items()}

    def archived_ids(self, name: str) -> dict[str, Any]:
        """The hashes of an archive's runs, and where three of their configs would be trained now."""
        folder = self.restored(name)
        paths = sorted(folder.rglob("provenance.json"))
        hashes = {
            path.parent.relative_to(folder).as_posix(): read_json(path)["config_hash"] for path in paths
        }
        sample = list(hashes)[:: len(hashes) // 3 + 1]
        resolved = {run: self.ids_of("train", folder / run / "config.yaml") for run in sample}
        return {"hashes": hashes, "resolved again": resolved}

    def ids_of(self, *words: object) -> Any:
        """The run ids that a command names before it does anything."""
        done = self.command(*words, "--dry-run", "--runs-dir", self.home / "none")
        return self.failure(done) if done.returncode else sorted(set(RUN_ID.findall(done.stdout)))

    # Trainings

    def config(self, family: str, **optim: object) -> Path:
        """Write the config of a tiny run."""
        name = "-".join([family, *map(str, optim.values())])
        path = self.home / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"family": family, **CONFIG, "optim": CONFIG["optim"] | optim}))
        return path

    def trainings(self) -> dict[str, Any]:
        """Tiny runs: each family, twelve variants, each optimizer."""
        wanted = {family: (self.config(family), "gelu") for family in FAMILIES}
        wanted |= {variant: (self.config("gpt_neo"), variant) for variant in VARIANTS}
        wanted |= {name: (self.config("gpt_neo", optimizer=name), "gelu") for name in ("muon", "adafactor")}
        self.train("first", *wanted["gpt_neo"])  # writes the corpus that all read
        results = self.each(lambda name: self.train(name, *wanted[name]), wanted)
        for name, result in results.items():
            if "metrics" in result:
                result["logits"] = reloaded_logits(self.run_folder(name))
        return results

    def train(self, name: str, config: Path, variant: str) -> dict[str, Any]:
        """Train a run; returns its losses and the hash of its weights."""
        done = self.command(*self.train_words(name, config, variant))
        return self.failure(done) if done.returncode else trained(self.run_folder(name))

    def train_words(self, name: str, config: Path, variant: str) -> list[object]:
        """The words of the command that trains a run."""
        return ["train", config, "--ffn", variant, "--run-name", name, "--runs-dir", self.runs]

    def run_folder(self, name: str) -> Path:
        """Where a run of that name is."""
        return next(self.runs.glob(f"*/*/*/{name}"))

    # Scores

    def scores(self) -> dict[str, Any]:
        """A small study with its scores."""
        evaluation = {
            "suites": list(SUITES),
            "max_pairs": 12,
            "finetune": {"tasks": ["cola", "rte"], **FINETUNE},
        }
        if DATA.is_dir():
            evaluation["suites"] += ["blimp", "glue"]
            evaluation |= {"blimp_dir": str(DATA / "blimp"), "glue_dir": str(DATA / "glue")}
        families = {family: str(self.config(family)) for family in FAMILIES[:2]}
        study = {"name": "scored", "families": families, "variants": ["gelu", "relu2"], "seeds": [1]}
        path = self.home / "scored.yaml"
        config = {"data": {"block_size": 128}}  # BLiMP has texts of more than 64 tokens
        path.write_text(yaml.safe_dump(study | {"config": config, "evaluation": evaluation}))
        done = self.command("study", "run", path, "--runs-dir", self.runs, "--cells-per-job", 2)
        if done.returncode:
            return self.failure(done)
        folder = self.runs / "scored"
        runs = {path.parent.relative_to(folder).as_posix(): path.parent for path in folder.rglob("COMPLETED")}
        report = read_json(folder / "report" / "report.json")
        tables = {name: report[name] for name in ("scores", "seeds", "comparisons", "tasks", "answer")}
        return {"runs": {name: scored(run) for name, run in runs.items()}, "report": tables}

    # A kill

    def killed(self) -> dict[str, Any]:
        """Kill a run after its first checkpoint, and go on with it."""
        config = self.config("gpt_neo", max_steps=60)
        whole = self.train("whole", config, "gelu")
        words = list(map(str, [COMMAND, *self.train_words("resumed", config, "gelu")]))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(words, cwd=ROOT, env=ENVIRONMENT, start_new_session=True, **quiet)
        while process.poll() is None and not list(self.runs.glob("*/*/*/resumed/checkpoints/step_???????")):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        is_finished = (self.run_folder("resumed") / "COMPLETED").exists()
        is_killed = process.wait() == -signal.SIGKILL and not is_finished
        resumed = self.train("resumed", config, "gelu")
        return {"killed": is_killed, "equal": resumed == whole, "resumed": resumed}


def archives_by_name() -> dict[str, Path]:
    """The folders of archived studies in docs/."""
    folders = sorted({path.parents[1] for path in (ROOT / "docs").rglob("*.tar.xz")})
    return {"-".join(path.parent.relative_to(ROOT / "docs").parts): path for path in folders}


def text_of(page: str) -> str:
    """The words of a page, a line for each piece of text, without styles, scripts and drawings."""
    text = html.unescape(re.sub(r"(?s)<(style|script|svg)\b.*?</\1>|<[^>]+>", "\n", page))
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text())


def trained(run: Path) -> dict[str, Any]:
    """Losses, learning rates and gradient norms of a run, and the hash of its weights."""
    from safetensors.numpy import load_file

    weights = load_file(run / "model" / "model.safetensors")
    digest = hashlib.sha256(b"".join(name.encode() + weights[name].tobytes() for name in sorted(weights)))
    metrics = {}
    for number, line in enumerate((run / "metrics.jsonl").read_text().splitlines()):
        metrics[f"line {number}"] = {k: v for k, v in json.loads(line).items() if k not in CLOCK}
    return {"metrics": metrics, "weights": digest.hexdigest()}


def reloaded_logits(run: Path) -> list[float]:
    """Logits of some tokens, by the model as transformers loads it from the run's folder."""
    import torch
    import transformers

    import ffn_variants.models  # noqa: F401 - registers the model types

    kinds = {"roberta": "AutoModelForMaskedLM", "t5": "AutoModelForSeq2SeqLM"}
    kind = next((kinds[name] for name in kinds if name in run.parts), "AutoModelForCausalLM")
    model = getattr(transformers, kind).from_pretrained(run / "model").eval()
    tokens = torch.arange(10, 26)[None]
    more = {"decoder_input_ids": tokens[:, :4]} if "t5" in run.parts else {}
    with torch.no_grad():
        return model(input_ids=tokens, **more).logits[0, -1, :8].double().tolist()


def scored(run: Path) -> dict[str, Any]:
    """All scores of a run, and a hash of each column of its items."""
    result: dict[str, Any] = trained(run) | {"scores": {}, "items": {}}
    for path in sorted((run / "eval").rglob("*.parquet")):
        table = pd.read_parquet(path)
        if "score" in table and "metric" in table:
            keys = ["benchmark", "task", "metric", "head", "seed"]
            for row in table.to_dict("records"):
                result["scores"]["/".join(str(row[key]) for key in keys)] = [row["score"], row["n_items"]]
        else:
            result["items"][path.stem] = {str(name): column_hash(table[name]) for name in table}
    return result


def column_hash(column: pd.Series) -> str:
    """A hash of a column's values."""
    return hashlib.sha256("\n".join(map(repr, column.tolist())).encode()).hexdigest()[:16]


def write(folder: Path, only: Sequence[str], jobs: int) -> None:
    """Record everything below a folder, a file for each entry."""
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="goldens-") as home:
        recorder = Recorder(Path(home).resolve(), jobs)
        for part in only:
            began = time.monotonic()
            for name, value in getattr(recorder, part)().items():
                path = folder / part / f"{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(value, indent=1, sort_keys=True))
            print(f"{part}: {time.monotonic() - began:.0f} s", flush=True)


def read(folder: Path) -> dict[str, Any]:
    """Read what ``write`` left, by part and name."""
    parts: dict[str, Any] = {}
    for path in sorted(folder.glob("*/*.json")):
        parts.setdefault(path.parent.name, {})[path.stem] = read_json(path)
    return parts


def differences(before: Any, after: Any, path: str = "", tolerance: float = 0.0) -> Iterator[str]:
    """Say each difference as ``path: what``.

    Args:
        before: Dictionaries, lists, strings and numbers as in JSON.
        after: The same of another time.
        path: Where in the whole they lie.
        tolerance: By which numbers may differ, also those in texts, as a share of those above 1.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            below = f"{path}/{key}".lstrip("/")
            if key not in after or key not in before:
                yield f"{below}: {'gone' if key in before else 'new'}"
            else:
                yield from differences(before[key], after[key], below, tolerance)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield from differing_lines(before, after, path)
            return
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}/{place}", tolerance)
    elif not is_equal(before, after, tolerance):
        yield f"{path}: {shortened(before)} -> {shortened(after)}"


def differing_lines(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[str]:
    """Say which entries of a list are gone and which are new."""
    old, new = ([json.dumps(entry, sort_keys=True) for entry in entries] for entries in (before, after))
    for line in list(difflib.unified_diff(old, new, n=0))[2:]:  # behind the two names
        if line[0] in "+-":
            yield f"{path}: {line[0]} {shortened(line[1:].strip())}"


def is_equal(before: Any, after: Any, tolerance: float) -> bool:
    """Whether two values are equal, up to a tolerance of the numbers in them."""
    if type(before) is bool or type(after) is bool or not tolerance:
        return repr(before) == repr(after)
    old, new = str(before), str(after)
    if NUMBER.sub("", old) != NUMBER.sub("", new):
        return False
    pairs = zip(map(float, NUMBER.findall(old)), map(float, NUMBER.findall(new)), strict=True)
    return all(abs(one - two) <= tolerance * max(1.0, abs(one)) for one, two in pairs)


def shortened(value: Any) -> str:
    """A value in at most 200 characters."""
    return text if len(text := str(value)) <= 200 else f"{text[:197]}..."


def compare(before: Path, after: Path, meant: Sequence[str], tolerance: float) -> int:
    """Print the differences; returns how many are not meant."""
    counts: Counter[str] = Counter()
    for line in differences(read(before), read(after), tolerance=tolerance):
        pattern = next((one for one in meant if fnmatchcase(line, one)), "")
        counts[pattern] += 1
        if not pattern:
            print(line)
    for pattern in meant:
        print(f"meant: {counts[pattern]} differences as {pattern}")
    print(f"{counts['']} differences that are not meant")
    return counts[""]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_write = commands.add_parser("write", help="record what this tree says")
    parts = ["reports", "ids", "trainings", "scores", "killed"]
    of_write.add_argument("folder", type=Path, help="where to, outside the repository")
    of_write.add_argument("--only", nargs="+", choices=parts, default=parts, help="these parts")
    of_write.add_argument("--jobs", type=int, default=2, help="commands at the same time (default: 2)")
    of_compare = commands.add_parser("compare", help="print what differs")
    of_compare.add_argument("before", type=Path)
    of_compare.add_argument("after", type=Path)
    of_compare.add_argument("--meant", type=Path, help="a file of patterns of differences that are meant")
    of_compare.add_argument("--tolerance", type=float, default=0.0, help="of numbers (default: exact)")
    options = parser.parse_args()
    if options.command == "write":
        write(options.folder, options.only, options.jobs)
        return 0
    lines = options.meant.read_text().splitlines() if options.meant else []
    meant = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return int(compare(options.before, options.after, meant, options.tolerance) > 0)


if __name__ == "__main__":
    sys.exit(main())
