"""What every job on a cluster starts with: ``python -m slurm.queue.start <study>/jobs <key>``.

submitit looks for a job's content under SLURM's id. Here it gets that name from the job itself, so that jobs
also run whose submitting command was killed before it learned their id.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from submitit import JobEnvironment
from submitit.core.submission import process_job

from slurm.queue.submissions import read_submission


def main(folder: str, key: str) -> None:
    """Run the job that this process is a task of.

    Args:
        folder: Where the jobs' files lie.
        key: The submission's.
    """
    submission = read_submission(Path(folder).parent, key)
    if submission and submission.is_dropped:
        print(f"SLURM had not answered for this job ({key}), and its cells were handed in again", flush=True)
        return
    os.environ["SUBMITIT_FOLDER"] = folder
    environment = JobEnvironment()
    content = environment.paths.submitted_pickle
    # What lies there already is this job's where it was queued again; else that of one with the same id on
    # another cluster.
    is_again = int(os.environ.get("SLURM_RESTART_COUNT") or 0) > 0
    if not (is_again and content.exists()):
        suffix = f"_{environment.array_task_id}" if environment.array_job_id else ""
        link = content.with_name(f"{content.name}.{os.getpid()}-{environment.global_rank}")
        with contextlib.suppress(FileExistsError):
            link.symlink_to(f"{key}{suffix}.pkl")
        link.replace(content)
    process_job(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
