"""Every file of a finished study, damaged in every way: repaired or named, and no number changes in silence.

The study has the shape of the quickstart's, made smaller: four runs, each pretrained, scored on pairs and
fine-tuned. One file is damaged at a time. Then come the commands that a user has, in the order in which she
would give them: status, report, evaluation, the study's own command, which ends with its report, and status.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.exports import number_tables
from eval.report.inputs.sources import read_source
from pretrain.run.folders import RunFolder, StudyFolder
from tests.processes import run_command

DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "emptied": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "bit-flipped": lambda content: _with_flipped_bit(content),
    "deleted": lambda content: None,
}
MACHINE_TIME = ("hours", "tokens_per_s", "peak_memory_mb", "trained_with", "train_hours", "time_s")
"""Columns of a report that differ when the same training is done again."""
NO_STATE = (".lock", ".log", ".out", ".err", ".pkl", ".svg", ".png", ".html", ".sh", ".broken")
"""Names that end so hold no state: locks, logs, what submitit is done with, and pictures."""
NAMING = ("damaged", "left out", "error", "cannot be", "is gone", "edited", "again", "not there", "has no")
"""Words of a line that tells of a damage, and not only of progress."""
FAST = (("model/model.safetensors", "bit-flipped"), ("provenance.json", "zeroed"))
"""Cases of the fast set, one that is repaired and one that is named; `pytest -m slow` has all."""


def _with_flipped_bit(content: bytes) -> bytes:
    """Flip a bit in the middle, which in a text is one of a word or a number and not of a space."""
    place = next((p for p in range(len(content) // 2, len(content)) if content[p : p + 1].isalnum()), 0)
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] if content else b""


@dataclass(frozen=True)
class FinishedStudy:
    """A study that ran undisturbed, which every case copies, and the numbers of its report.

    Attributes:
        numbers: As a report of now computes them.
        written: As its own report has them, in ``report.json``.
    """

    file: Path
    runs: Path
    numbers: dict[str, object]
    written: dict[str, object]

    @property
    def folder(self) -> Path:
        return self.runs / "damaged"


@pytest.fixture(scope="session")
def finished(tmp_path_factory, repository: Path) -> FinishedStudy:
    home = tmp_path_factory.mktemp("finished")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    content = {
        "name": "damaged",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu", "relu"],
        "seeds": [1, 2],
        "config": {
            "model": sizes,
            "data": {"num_stories": 200, "vocab_size": 400, "block_size": 64},
            "optim": {"max_steps": 6},
            "train": {"save_steps": 2, "logging_steps": 1, "torch_compile": False},
        },
        "evaluation": {
            "suites": ["embedded-pairs", "embedded-glue"],
            "max_pairs": 4,
            "finetune": {"num_train_epochs": 1},
        },
    }
    file = home / "damaged.yaml"
    file.write_text(yaml.safe_dump(content))
    done = submit(file, home / "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = home / "runs" / "damaged"
    return FinishedStudy(file, home / "runs", numbers(analysis_of(folder)), written_numbers(folder))


def submit(file: Path, runs: Path) -> subprocess.CompletedProcess[str]:
    return run_command(
        "slurm.submit", file, "--runs-dir", runs, "--cells-per-job", 4, "--retry-failed", timeout_s=600
    )


def analysis_of(folder: Path) -> Analysis:
    return analyse(read_source(folder), Request())


def numbers(analysis: Analysis) -> dict[str, object]:
    """Every number of a report that a machine's speed does not decide, by table."""
    found = {}
    for name, table in number_tables(analysis).items():
        if "spending" in table:
            table = table[table["spending"] != "hours"]
        of_machine = [column for column in table.columns if any(word in column for word in MACHINE_TIME)]
        found[name] = json.loads(table.drop(columns=of_machine).to_json())
    return found


def written_numbers(folder: Path) -> dict[str, object]:
    """The same, as the study's own report has them; empty where it has none."""
    file = StudyFolder(folder).report_dir / "report.json"
    if not file.is_file():
        return {}
    content = json.loads(file.read_text())
    return {
        name: [
            {key: value for key, value in row.items() if not any(word in key for word in MACHINE_TIME)}
            for row in content[name]
            if row.get("spending") != "hours"
        ]
        for name in ("scores", "seeds", "comparisons", "phenomena", "tasks", "training", "learning_curves")
    }


def targets(study: FinishedStudy) -> list[str]:
    """Name each kind of file of a study once: those of one run, of the study, of the cache, some code."""
    files = [path for path in study.runs.rglob("*") if path.is_file() and not path.name.endswith(NO_STATE)]
    one = StudyFolder(study.folder).run_folders("gpt_neo")[0]
    others = [run.path for run in StudyFolder(study.folder).run_folders("gpt_neo")[1:]]
    cells = [path for path in files if path.parent.name == "cells" and one.path.name not in path.name]
    code = [path for path in files if "code" in path.parts]
    kept = {path for path in code if path.name in ("SNAPSHOT.json", "activations.py", "glue.yaml")}
    tables = [path for path in files if path.parent.name == "tables" and path.stem != "comparisons"]
    left_out = {*cells, *tables, *(set(code) - kept)}
    chosen = [p for p in files if p not in left_out and not any(p.is_relative_to(o) for o in others)]
    return sorted(path.relative_to(study.runs).as_posix() for path in chosen)


@dataclass(frozen=True)
class Verdict:
    """What became of a damage: ``repaired``, ``named``, or ``no number`` where none rests on the file."""

    outcome: str
    said: str


class Case:
    """One damage of one file, in a copy of the study.

    Args:
        study: The undisturbed one.
        home: Where the copy lies.
        name: The file, below ``runs/``.
        damage: A key of ``DAMAGES``.
    """

    def __init__(self, study: FinishedStudy, home: Path, name: str, damage: str) -> None:
        self.study, self.name, self.damage = study, name, damage
        self.runs = home / "runs"
        shutil.copytree(study.runs, self.runs)
        self.path = self.runs / name
        self.folder = self.runs / study.folder.name
        before = self.path.read_bytes()
        self.content = DAMAGES[damage](before)
        self.said: list[str] = []

    def judge(self) -> Verdict:
        """Damage the file, give all commands, and say what became of it."""
        others = self._files_of_others()
        self.path.unlink() if self.content is None else self.path.write_bytes(self.content)
        self._call("slurm.status", self.folder)
        early = self._numbers()
        self._call("eval", self.folder)
        done = submit(self.study.file, self.runs)
        self._hear(done)
        late = written_numbers(self.folder)
        if (report := StudyFolder(self.folder).report_file).is_file():
            self.said.append(report.read_text())
        self._call("slurm.status", self.folder)
        said = "\n".join(self.said)
        assert "Traceback" not in said, said
        assert self._files_of_others() == others, f"files of other runs were changed\n{said}"
        is_named = self._is_named(said)
        is_same = late == self.study.written
        assert early == self.study.numbers or is_named, f"numbers before changed in silence\n{said}"
        assert is_same or is_named, f"numbers after changed in silence\n{said}"
        if is_same and done.returncode == 0:
            is_back = self.path.is_file() and self.path.read_bytes() != self.content
            outcome = "repaired" if is_back else "named" if is_named else "no number"
            return Verdict(outcome, said)
        assert is_named, f"exit {done.returncode}, and the file is not named\n{said}"
        return Verdict("named", said)

    def _call(self, module: str, *args: object) -> None:
        self._hear(run_command(module, *args, timeout_s=600))

    def _hear(self, done: subprocess.CompletedProcess[str]) -> None:
        self.said += [f"$ {' '.join(map(str, done.args))}", done.stdout, done.stderr]
        assert done.returncode in (0, 1, 2), "\n".join(self.said)

    def _numbers(self) -> object:
        """Return what a report would say now, with its notes heard."""
        done = run_command("tests.integration.test_damage", self.folder, timeout_s=600)
        self.said += [f"$ report of {self.folder}", done.stderr]
        if done.returncode:
            return None
        content = json.loads(done.stdout)
        self.said += content["notes"]
        return content["numbers"]

    def _is_named(self, said: str) -> bool:
        """Whether a line that is no table names the file, the folder it lies in, or its run."""
        path = Path(self.name)
        names = [path.name, path.parent.name if path.parent.name == "model" else path.name]
        lines = [line for line in said.splitlines() if any(word in line for word in NAMING)]
        if "cells" in path.parts or ".cache" in path.parts:
            names.append(path.stem.split("--")[0])
        run = self._run_id()
        return any(name in line for line in lines for name in names) or bool(
            run and any(run in line for line in lines)
        )

    def _run_id(self) -> str | None:
        runs = (run for run in StudyFolder(self.study.folder).run_folders("gpt_neo"))
        own = [run.run_id for run in runs if (self.study.runs / self.name).is_relative_to(run.path)]
        return own[0] if own else None

    def _files_of_others(self) -> dict[str, bytes]:
        """Everything that decides a number of the runs that were not damaged."""
        own = self._run_id()
        runs = [run for run in StudyFolder(self.folder).run_folders("gpt_neo") if run.run_id != own]
        return {str(path): path.read_bytes() for run in runs for path in _deciding(run)}


def _deciding(run: RunFolder) -> Iterator[Path]:
    yield from (run.config_file, run.provenance_file, run.metrics_file, run.completion_marker)
    yield from (path for path in sorted(run.model_dir.iterdir()) if path.is_file())
    yield from sorted(run.score_files())


def cases(study: FinishedStudy) -> list[tuple[str, str]]:
    """Every file with every damage."""
    return [(name, damage) for name in targets(study) for damage in DAMAGES]


def judge_all(study: FinishedStudy, home: Path, chosen: list[tuple[str, str]]) -> list[str]:
    """Judge cases, print each as it ends; returns those that failed."""
    counts: Counter[str] = Counter()
    failed = []
    for number, (name, damage) in enumerate(chosen):
        folder = home / f"{number:03d}"
        try:
            outcome = Case(study, folder, name, damage).judge().outcome
        except AssertionError as error:
            outcome = "FAILED"
            failed.append(f"{damage} {name}: {error}")
        counts[outcome] += 1
        print(f"{number + 1}/{len(chosen)} {damage} {name}: {outcome}", flush=True)
        shutil.rmtree(folder)
    print(f"{len(chosen)} cases: {dict(counts)}", flush=True)
    return failed


@pytest.mark.ci
def test_a_damage_is_repaired_and_one_is_named(finished: FinishedStudy, tmp_path: Path):
    chosen = [
        (name, damage)
        for name, damage in cases(finished)
        if any(name.endswith(f"/{end}") and damage == how for end, how in FAST)
    ]
    outcomes = [
        Case(finished, tmp_path / str(number), *case).judge().outcome for number, case in enumerate(chosen)
    ]
    assert sorted(outcomes) == ["named", "repaired"]


@pytest.mark.slow
def test_every_damage_is_repaired_or_named(finished: FinishedStudy, tmp_path: Path):
    assert len(cases(finished)) > 250
    assert not judge_all(finished, tmp_path, cases(finished))


def print_numbers(folder: Path) -> None:
    """Print what a report says, for a process of its own."""
    analysis = analysis_of(folder)
    print(json.dumps({"numbers": numbers(analysis), "notes": list(analysis.source.notes)}))


if __name__ == "__main__":
    import sys

    print_numbers(Path(sys.argv[1]))
