"""What a command loads for its own work: no library of models where it only reads flags, files or rows.

Each runs in a process of its own, as a process of pytest has imported it all already.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import words_of

HEAVY = ("torch", "transformers", "datasets", "submitit", "sklearn", "lm_eval", "scipy.stats")
RUN = """
import json, sys
from ffn_ablations.cli import run
try:
    run()
except SystemExit as end:
    status = end.code or 0
print(json.dumps([status, [name for name in HEAVY if name in sys.modules]]), file=sys.stderr)
"""


def run(*command: str) -> tuple[int, list[str], float]:
    """Run a command; returns its exit status, what it loaded, and the seconds of processor time it took."""
    code = RUN.replace("HEAVY", repr(HEAVY)) + (
        "import resource\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words_of(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    *_, told, used_s = done.stderr.splitlines()
    return (*json.loads(told), float(used_s))


@pytest.mark.parametrize(
    "command",
    [
        "pretrain.train",
        "pretrain.generate",
        "eval",
        "report",
        "slurm.submit",
        "slurm.status",
        "ffn_ablations",
        "ffn_ablations report",
        "ffn_ablations study status",
        "ffn_ablations study archive",
        "ffn_ablations explain",
    ],
)
@pytest.mark.ci
def test_help_loads_no_library_of_models(command: str) -> None:
    assert run(*command.split(), "--help")[:2] == (0, [])


def test_training_explains_itself_within_two_seconds() -> None:
    assert run("pretrain.train", "configs/tiny.yaml", "--help")[2] < 2.0


def test_a_mistake_in_a_flag_is_told_without_a_library_of_models() -> None:
    assert run("pretrain.train", "--fnn", "kan")[:2] == (2, [])
    assert run("ffn_ablations", "trani", "tiny")[:2] == (2, [])
    assert run("slurm.submit", "--cluster", "slrum", "study.yaml")[:2] == (2, [])


@pytest.mark.ci
def test_a_report_of_a_csv_loads_no_library_of_models(tmp_path: Path) -> None:
    scores = [
        f"gpt_neo,{variant},{seed},blimp,{50 + seed + place}"
        for place, variant in enumerate(("gelu", "kan"))
        for seed in range(3)
    ]
    table = tmp_path / "scores.csv"
    table.write_text("\n".join(["family,variant,seed,benchmark,score", *scores]))
    assert run("ffn_ablations", "report", str(table), "--out", str(tmp_path / "out"))[:2] == (0, [])
    assert (tmp_path / "out" / "report.md").is_file()


@pytest.mark.ci
def test_the_status_of_a_study_loads_no_library_of_models(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    assert run("ffn_ablations", "study", "status", str(tmp_path))[:2] == (0, [])
