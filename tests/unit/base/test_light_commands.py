"""What a command loads for its own work: no library of models where it only reads flags, files or rows.

Each runs in a process of its own, as a process of pytest has imported it all already.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import first_is_fast

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


def run(*words: str) -> tuple[int, list[str]]:
    """Run a command; returns its exit status and what it loaded."""
    code = [sys.executable, "-c", RUN.replace("HEAVY", repr(HEAVY)), *words]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120, check=True)
    return tuple(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "command",
    first_is_fast(
        ["train", "eval", "report", "study run", "study status", "study archive", "explain", "generate"]
    ),
)
@pytest.mark.ci
def test_help_loads_no_library_of_models(command: str) -> None:
    assert run(*command.split(), "--help") == (0, [])


@pytest.mark.ci
def test_a_mistake_in_a_flag_is_told_without_a_library_of_models() -> None:
    assert run("train", "--fnn", "kan") == (2, [])
    assert run("trani", "tiny") == (2, [])
    assert run("study", "run", "--cluster", "slrum", "study.yaml") == (2, [])


@pytest.mark.ci
def test_a_report_of_a_csv_loads_no_library_of_models(repository: Path, tmp_path: Path) -> None:
    table = repository / "examples" / "scores.csv"
    assert run("report", str(table), "--out", str(tmp_path)) == (0, [])
    assert (tmp_path / "report.md").is_file()


@pytest.mark.ci
def test_the_status_of_a_study_loads_no_library_of_models(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    assert run("study", "status", str(tmp_path)) == (0, [])
