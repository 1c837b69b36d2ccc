"""Looking into several runs at a time, each in a process with one thread."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from base.errors import UsageError, as_usage_error
from eval.inspection.measure import Settings, inspect_run
from eval.results.inspection import RunInspection

Outcome = tuple[RunInspection, bool] | Exception


def inspect_runs(
    paths: Sequence[Path], settings: Settings, workers: int, trust_remote_code: bool
) -> Iterator[tuple[Path, Outcome]]:
    """Look into runs, in whichever order they end; an error is an outcome, and the others go on.

    Args:
        paths: Folders of runs.
        settings: What is measured.
        workers: Processes at a time; with one, all is done here.
        trust_remote_code: Whether to run FFN variants that the runs bring.
    """
    if min(workers, len(paths)) < 2:
        for path in paths:
            yield path, _outcome(path, settings, trust_remote_code)
        return
    # A forked process would inherit locks that threads of this one hold.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin)
    try:
        waiting = {pool.submit(_outcome, path, settings, trust_remote_code): path for path in paths}
        while waiting:
            for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                path = waiting.pop(done)
                try:
                    yield path, done.result()
                except BrokenProcessPool:
                    yield (
                        path,
                        UsageError(
                            f"{path}: a process was killed, often for lack of memory; try --workers 1"
                        ),
                    )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _outcome(path: Path, settings: Settings, trust_remote_code: bool) -> Outcome:
    try:
        return inspect_run(path, settings, trust_remote_code, lambda _: None)
    except Exception as error:
        return as_usage_error(error)


def _begin() -> None:
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
