"""Run the cells of a study that are not done yet, then write its report.

    python -m slurm.submit configs/studies/quickstart.yaml --workers 2
    python -m slurm.submit configs/studies/thesis.yaml --cluster slurm --preset configs/clusters/one-gpu.yaml
    python -m slurm.submit configs/studies/thesis.yaml --dry-run

The same command again repeats nothing: cells that are done, queued or running are left alone, unfinished ones
resume from their last checkpoint. With --cluster slurm the command returns at once; the study goes on without
it and ends with its report. python -m slurm.status STUDY says where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from slurm.arguments import SubmitArgs


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a local study has cells that are not done at the end."""
    options = parse_flags(SubmitArgs, args, prog="python -m slurm.submit", description=__doc__)
    for name in ("workers", "cells_per_job", "cells_at_once", "max_running"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be 1 or more")

    from slurm.launch import launch

    return launch(options)


if __name__ == "__main__":
    run_cli(main)
