"""Run the cells of a study that are not done yet, then write its report.

    python -m slurm.submit quickstart --workers 2
    python -m slurm.submit thesis --cluster slurm --preset one-gpu
    python -m slurm.submit my-study.yaml --dry-run
    python -m slurm.submit zoo --add mine.py:SPEC --trust-remote-code

The same command again repeats nothing: cells that are done, queued or running are left alone, unfinished ones
resume from their last checkpoint. With --cluster slurm the command returns at once; the study goes on without
it and ends with its report. python -m slurm.status STUDY says where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from base.command_line import parse_flags
from base.errors import run_cli
from slurm.arguments import SubmitArgs, check_options


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a local study has cells that are not done at the end."""
    options = parse_flags(SubmitArgs, args, prog="python -m slurm.submit", description=__doc__)
    check_options(options)

    from slurm.run.launch import launch

    return launch(options)


if __name__ == "__main__":
    run_cli(main)
