"""Damages the files of a finished small study, one at a time, and says what becomes of each damage.

    python -m benchmarks.damage --home /tmp/damage                # 300 cases
    python -m benchmarks.damage --home /tmp/damage --cases 20
    python -m benchmarks.damage --home /tmp/damage --only rows.parquet provenance.json

The study has four runs, scored on minimal pairs and fine-tuned, and their report. A case is a copy of it in
which one file (of each kind two are taken) is emptied, halved, deleted, exchanged with another run's, put
back to an earlier version, given CRLF line ends, replaced by a folder, or has one bit flipped (weights and
tables). Then come ``report``, ``eval`` and ``study run``. What becomes of it is

    made again   the file is another one than the damaged one, all numbers and weights are as before
    named        a printed line or a report's warning tells of the file, its run or its folder, or a command
                 ends with an error of one line
    harmless     nothing is said, and all numbers and weights are as before
    SILENT       nothing is said, and a number or a weight is another one
    TRACEBACK    a command ends with a traceback

Numbers are those of ``report`` before anything can be repaired, and of the study's own report in the end.
A line of ``HOME/damage.jsonl`` is a case; cases that stand there are not repeated, and ``--part 1/2`` and
``--part 2/2`` share the cases between two processes. Ends with 1 where a case is SILENT or a TRACEBACK.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import random
import re
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure

from benchmarks.goldens import COMMAND, ENVIRONMENT, ROOT, trained
from benchmarks.kills import EVALUATION, SCORED_ON, read_lines, study_words, without_machine, write_configs

NO_STATE = (".lock", ".log", ".out", ".err", ".pkl", ".svg", ".png", ".html", ".sh", ".pid")
"""Names that end so hold no state: locks, logs and pictures."""
NAMING = re.compile(r"damaged|left out|error|cannot|gone|edited|again|\b(no|not|another|broken|differs?)\b")
"""Words of a line that tells of a damage, and not only of progress."""
WITH_FLIPS = (".safetensors", ".parquet", ".npy", ".bin")


def flipped(content: bytes) -> bytes:
    """Flip a bit in the middle."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "bit flipped": flipped,
}
LOADED = ("scipy.stats", "accelerate", "eval.command", "report.write", "slurm.run_study")
"""Modules that commands need, which are slow to load."""
STUDY = Path("runs", "small")
ELSEWHERE = ("deleted", "a folder", "exchanged", "an earlier version")


class Study:
    """The prepared study; a case copies it.

    Args:
        home: Where everything lies.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.whole, self.earlier = home, home / "whole", home / "earlier"

    def prepare(self) -> None:
        """Run the study, unless it is there: first two of its runs with some scores, then all of it."""
        if not (self.home / "READY").exists():
            for folder in (self.whole, self.earlier):
                shutil.rmtree(folder, ignore_errors=True)
            write_configs(self.whole)
            file = self.whole / "small.yaml"
            content = yaml.safe_load(file.read_text())
            fewer = {"seeds": [1], "evaluation": EVALUATION | {"suites": ["embedded-pairs"]}}
            for version in (content | fewer, content):
                file.write_text(yaml.safe_dump(version))
                code, said = self.give(self.whole, study_words(self.whole))
                assert code == 0, said
                if version is not content:
                    shutil.copytree(self.whole, self.earlier)
            (self.home / "READY").touch()
        lines = told(self.whole, self.give_all(self.whole))
        self.usual = set(map(without_numbers, lines))
        self.before, self.after = self.numbers(self.whole)
        assert self.after, "the undisturbed study has no report"

    def give(self, home: Path, words: Sequence[object]) -> tuple[int, str]:
        """Give a command in a fork of this process; returns code and output."""
        log = home / "said"
        sys.stdout.flush()
        if (process := os.fork()) == 0:
            give_here(list(map(str, words)), log)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), log.read_text(errors="replace")

    def give_all(self, home: Path) -> list[tuple[int, str]]:
        """Give all commands that a user has; returns codes and outputs."""
        shutil.rmtree(home / "report", ignore_errors=True)
        report = ["report", home / STUDY, "--out", home / "report"]
        commands = (report, ["eval", home / STUDY, *SCORED_ON], study_words(home))
        return [self.give(home, words) for words in commands]

    def numbers(self, home: Path) -> tuple[str, str]:
        """What ``report`` said at first, and the study's own in the end, with weights and losses."""
        before = numbers_of(home / "report" / "report.json", home)
        after = numbers_of(home / STUDY / "report" / "report.json", home)
        runs = sorted(path.parent for path in (home / STUDY).rglob("COMPLETED"))
        weights = {str(run.relative_to(home)): trained_or_damaged(run) for run in runs} if after else {}
        return before, after and after + json.dumps(weights, sort_keys=True)

    def cases(self) -> list[tuple[str, str]]:
        """Two files of each kind with every damage that changes them, mixed, the same in every call."""
        files = [path for path in sorted((self.whole / "runs").rglob("*")) if path.is_file()]
        kinds: dict[str, list[str]] = {}
        for name in (path.relative_to(self.whole) for path in files):
            in_run = str(Path(*name.parts[5:])) if name.parts[2] == "gpt_neo" else ""
            kinds.setdefault(in_run or name.parts[2] + name.suffix, []).append(str(name))
        names = [name for kind in kinds.values() for name in kind[:2] if not name.endswith(NO_STATE)]
        cases = [(name, damage) for name in names for damage in (*DAMAGES, *ELSEWHERE)]
        random.Random(0).shuffle(cases)
        return [case for case in cases if self.damaged(*case) != (self.whole / case[0]).read_bytes()]

    def damaged(self, name: str, damage: str) -> bytes | None:
        """What a file holds after a damage, which may be what it held; None where it is gone."""
        path, earlier = self.whole / name, self.earlier / name
        content = path.read_bytes()
        is_table = name.endswith(WITH_FLIPS)
        if damage == "exchanged":
            return other.read_bytes() if (other := self.other(name)) else content
        if damage == "an earlier version":
            return earlier.read_bytes() if earlier.is_file() else content
        if damage not in DAMAGES:
            return None
        is_meant = is_table if damage == "bit flipped" else not is_table or damage != "CRLF"
        return DAMAGES[damage](content) if content and is_meant else content

    def other(self, name: str) -> Path | None:
        """The same file of another run."""
        parts = Path(name).parts  # runs/small/gpt_neo/VARIANT/RUN/...
        if len(parts) < 6 or parts[2] != "gpt_neo":
            return None
        others = sorted((self.whole / Path(*parts[:3])).glob("*/*/" + "/".join(parts[5:])))
        return next((path for path in others if path != self.whole / name), None)

    def judge(self, number: int, name: str, damage: str) -> dict[str, Any]:
        """Do a case; returns its line."""
        home = self.home / f"case-{number:04d}"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.whole, home, symlinks=True)
        write_configs(home)
        damaged, path = self.damaged(name, damage), home / name
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        elif damage == "a folder":
            path.mkdir()
        results = self.give_all(home)
        lines = [line for line in told(home, results) if without_numbers(line) not in self.usual]
        parts = Path(name).parts
        run = "/".join(parts[2:5]) if len(parts) > 5 else ""
        names = list(filter(None, (parts[-1], run, f"/{parts[-2]}")))
        naming = [line for line in lines if any(n in line for n in names) and NAMING.search(line)]
        errors = [line for line in lines if line.startswith("error:")]
        before, after = self.numbers(home)
        is_equal = before in ("", self.before) and after == self.after
        is_back = path.is_file() and path.read_bytes() != damaged
        if any("Traceback" in said for _, said in results):
            outcome = "TRACEBACK"
        elif is_equal and is_back:
            outcome = "made again"
        elif naming or errors:
            outcome = "named"
        else:
            outcome = "harmless" if is_equal and before else "SILENT"
        if outcome not in ("SILENT", "TRACEBACK"):
            shutil.rmtree(home)
        line = {"file": name, "damage": damage, "outcome": outcome, "codes": [code for code, _ in results]}
        return line | {"said": [*naming, *errors][:3]}


def trained_or_damaged(run: Path) -> dict[str, Any]:
    """Weights and losses of a run, or that its losses are gone or cannot be read."""
    try:
        return trained(run)
    except (ValueError, OSError):
        return {"damaged": run.name}


def give_here(words: Sequence[str], log: Path) -> None:
    """Be a command: everything printed goes to a file, and this process ends with it."""
    code: Any = 1
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(file, stream)
        os.chdir(ROOT)
        sys.argv = [str(COMMAND), *words]
        command = next(iter(importlib.metadata.entry_points(group="console_scripts", name="ffn-ablations")))
        code = command.load()()
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def without_pictures() -> None:
    """Draw nothing: pictures hold no state and are most of what a report costs."""
    for name in ("draw_without_rendering", "savefig"):
        setattr(Figure, name, lambda *_, **__: None)


def heard(said: str, home: Path) -> list[str]:
    """The lines that a command printed, free of where the case lies."""
    return [line.strip() for line in said.replace(str(home), "HOME").splitlines() if line.strip()]


def told(home: Path, results: Sequence[tuple[int, str]]) -> list[str]:
    """What commands printed and what the reports warn of at their top."""
    pages = [home / "report" / "report.md", home / STUDY / "report" / "report.md"]
    texts = [page.read_text(errors="replace") for page in pages if page.is_file()]
    warnings = [line for text in texts for line in heard(text, home) if line.startswith("> - ")]
    return warnings + [line for _, said in results for line in heard(said, home)]


def without_numbers(line: str) -> str:
    """A line with # for each number, as times differ between two calls."""
    return re.sub(r"\d+", "#", line)


def numbers_of(report: Path, home: Path) -> str:
    """What a report says in numbers and words; empty where there is none."""
    if not report.is_file():
        return ""
    return json.dumps(without_machine(json.loads(report.read_text()), home), sort_keys=True)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, required=True, help="a folder for the study, cases and results")
    parser.add_argument("--cases", type=int, default=300, help="how many (default: 300)")
    parser.add_argument("--only", nargs="+", default=[], help="files whose path ends so")
    parser.add_argument("--part", default="1/1", help="of the cases, as 1/2")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    for library in LOADED:
        importlib.import_module(library)  # once, for all commands
    without_pictures()
    home = options.home.resolve()
    study, lines = Study(home), home / "damage.jsonl"
    study.prepare()
    cases = [case for case in study.cases() if not options.only or case[0].endswith(tuple(options.only))]
    place, parts = map(int, options.part.split("/"))
    for number, (name, damage) in list(enumerate(cases[: options.cases]))[place - 1 :: parts]:
        if any((line["file"], line["damage"]) == (name, damage) for line in read_lines(lines)):
            continue
        line = study.judge(number, name, damage)
        with lines.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{number + 1}/{len(cases)} {damage} {name}: {line['outcome']}", flush=True)
    counts = Counter((line["damage"], line["outcome"]) for line in read_lines(lines))
    outcomes = ("made again", "named", "harmless", "SILENT", "TRACEBACK")
    print(f"\n| damage | {' | '.join(outcomes)} |\n| --- {'| --: ' * len(outcomes)}|")
    for damage in sorted({damage for damage, _ in counts}):
        print(f"| {damage} | {' | '.join(str(counts[damage, outcome]) for outcome in outcomes)} |")
    return int(any(outcome in ("SILENT", "TRACEBACK") for _, outcome in counts))


if __name__ == "__main__":
    sys.exit(main())
