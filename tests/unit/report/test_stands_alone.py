"""A report needs the table, ``report``, ``scores`` and ``base``; neither torch nor what makes scores."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ABSENT = ("torch", "transformers", "eval", "inside", "pretrain", "ffn_variants", "slurm")
WITHOUT_THEM = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"no module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
import report.command

assert report.command.__file__.startswith(sys.argv[1])
sys.argv = ["report", "scores.csv", "--out", "out"]
report.command.main()
"""


def test_a_report_is_written_where_only_its_own_rooms_can_be_imported(
    repository: Path, tmp_path: Path
) -> None:
    for package in ("base", "scores", "report"):
        shutil.copytree(repository / package, tmp_path / "code" / package)
    shutil.copy(repository / "examples" / "scores.csv", tmp_path)
    command = [sys.executable, "-c", WITHOUT_THEM, str(tmp_path / "code")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "**Can it be believed?**" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
