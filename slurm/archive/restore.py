"""Bring back a study from its archives: what its report reads, without models.

    python -m slurm.archive.restore docs/zoo/runs
    python -m eval.report runs/zoo --out report
    python -m slurm.submit zoo --add mine.py:SPEC --trust-remote-code

The second line writes the report again, from the same numbers. The third goes on with the study: what was
brought back is finished, and a newcomer is trained and judged like the others. Runs and files that are there
already stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from base.command_line import parse_flags
from base.config_input import read_yaml
from base.errors import UsageError, run_cli
from pretrain.run.folders import StudyFolder
from slurm.archive.placing import place_archive, place_failures, place_study_files
from slurm.archive.tar import SUFFIX
from slurm.listing import read_listing


@dataclass(frozen=True, kw_only=True)
class RestoreArgs:
    """Bring back a study from its archives: what its report reads, without models."""

    archives: Positional[Path]
    """The folder of archives that was written of a study, such as docs/zoo/runs."""
    runs_dir: Path = Path("runs")
    """Folder of all runs; the study gets one in it, of its name."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 where something is damaged, and the others are brought back."""
    options = parse_flags(RestoreArgs, args, prog="python -m slurm.archive.restore", description=__doc__)
    found = StudyFolder(options.archives)
    archives = sorted(options.archives.glob(f"*/*{SUFFIX}"))
    if not archives or not found.study_file.is_file():
        raise UsageError(
            f"{options.archives} holds no archives of a study ({found.study_file.name} and "
            f"<family>/<variant>{SUFFIX}); name the folder that ffn-ablations study archive wrote"
        )
    study = StudyFolder(options.runs_dir / _name_of(found.study_file))
    place_study_files(found, study)
    failed = place_failures(found, study)
    placed = [place_archive(archive, study, failed) for archive in archives]
    wrong = [line for one in placed for line in one.wrong]
    for line in wrong:
        print(f"left out: {line}")
    restored, there = [run_id for one in placed for run_id in one.restored], sum(one.there for one in placed)
    beside = f"; {there} were there already" if there else ""
    print(f"{study.path}: {len(restored)} finished runs brought back, without their models{beside}")
    if others := set(restored) - set(read_listing(study.path).run_ids):
        print(
            f"note: {len(others)} of them are no cells of {study.study_file}, which was there and stays: no "
            "report has them; bring them back into another folder with --runs-dir"
        )
    return 1 if wrong else 0


def _name_of(study_file: Path) -> str:
    name = read_yaml(study_file).get("name")
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
        raise UsageError(f"{study_file}: name {name!r} is no name of a folder")
    return name


if __name__ == "__main__":
    run_cli(main)
