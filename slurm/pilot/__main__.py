"""Run the pilot of a study: which tokens, learning rate and batch see most per hour?

    python -m slurm.pilot my-study.yaml --workers 2
    python -m slurm.pilot my-study.yaml --dry-run

Runs what the study's `pilot:` section names, two variants at a few seeds under each recipe, into the folder
<runs>/<name>-pilot, and says which recipe to put into the study. The same command again repeats nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from base.command_line import parse_flags
from base.errors import run_cli
from slurm.arguments import SubmitArgs, check_options


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a pilot that runs here has cells that are not done at the end."""
    options = parse_flags(SubmitArgs, args, prog="python -m slurm.pilot", description=__doc__)
    check_options(options)

    from slurm.pilot.study import load_pilot
    from slurm.run.launch import launch

    return launch(options, load_pilot)


if __name__ == "__main__":
    run_cli(main)
