"""Archive a study: everything that its report reads, and no model, small enough for a repository.

    python -m slurm.archive.keep runs/zoo --out docs/zoo/runs

Writes an archive for each variant of each family, and beside them what the study asked, tuned and decided.
Somebody else, or you on another machine, brings it back with python -m slurm.archive.restore: the report
comes out the same, and python -m slurm.submit goes on with what is missing, a newcomer of --add included.

The same command again adds what has finished since. Host names and command lines are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from base.command_line import parse_flags
from base.errors import run_cli
from pretrain.run.folders import StudyFolder


@dataclass(frozen=True, kw_only=True)
class KeepArgs:
    """Archive a study: everything that its report reads, and no model."""

    study: Positional[Path]
    """The study's folder, such as runs/zoo."""
    out: Path
    """Folder for the archives; those that are there are brought up to date."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 2 where a finished run is damaged, and the others are archived."""
    options = parse_flags(KeepArgs, args, prog="python -m slurm.archive.keep", description=__doc__)

    from slurm.archive.contents import write_archives

    kept = write_archives(StudyFolder(options.study), options.out)
    for line in (kept.done, *kept.notes):
        print(line)
    return 2 if kept.has_damage else 0


if __name__ == "__main__":
    run_cli(main)
