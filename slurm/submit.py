"""Run the cells of a study that are not done yet, then write its report.

    ffn-ablations study run quickstart --workers 2
    ffn-ablations study run thesis --cluster slurm --preset one-gpu
    ffn-ablations study run my-study.yaml --dry-run
    ffn-ablations study run zoo --add mine.py:SPEC --trust-remote-code

The same command again repeats nothing: cells that are done, queued or running are left alone, unfinished ones
resume from their last checkpoint. With --cluster slurm the command returns at once; the study goes on without
it and ends with its report. ffn-ablations study status STUDY says where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from base.command_line import parse_flags
from slurm.arguments import SubmitArgs, check_options


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a local study has cells that are not done at the end."""
    options = parse_flags(SubmitArgs, args, prog="ffn-ablations study run", description=__doc__)
    check_options(options)

    from slurm.run.launch import launch

    return launch(options)
