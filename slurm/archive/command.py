"""What ``ffn-ablations study archive`` is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.sections import Section
from slurm.archive.keep import keep
from slurm.archive.restore import restore


class ArchiveArgs(Section):
    """Archive a study: everything that its report reads, and no model, small enough for a repository.

    ffn-ablations study archive runs/zoo --out docs/zoo/runs

    ffn-ablations study archive docs/zoo/runs --restore

    The first writes an archive for each variant of each family, and beside them what the study asked, tuned
    and decided; given again, it adds what has finished since. Host names and command lines are left out.

    The second brings a study back, here or on another machine: its report comes out the same, and study run
    goes on with what is missing, a newcomer of --add included. What is there already stays as it is.
    """

    folder: Positional[Path]
    """The study's folder, such as runs/zoo; with --restore the folder of its archives."""
    out: Path | None = None
    """Folder for the archives; those that are there are brought up to date."""
    restore: bool = False
    """Bring the study back from its archives."""
    runs_dir: Path = Path("runs")
    """With --restore: the folder of all runs; the study gets one in it, of its name."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 2 where something is damaged, and the others are archived or brought back."""
    asked = parse_flags(ArchiveArgs, args, prog="ffn-ablations study archive")
    if asked.restore:
        return restore(asked.folder, asked.runs_dir)
    if asked.out is None:
        raise UsageError("--out is missing: Folder for the archives. --help says more")
    return keep(asked.folder, asked.out)
