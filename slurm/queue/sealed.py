"""What a job runs, with a checksum: a file damaged on a disk must not train another seed."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable

from submitit.helpers import DelayedSubmission


class Sealed:
    """A call that is made only if it is, to the bit, the one that was submitted.

    Args:
        call: What to call; its classes must be importable where the job runs.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self.content = pickle.dumps(call)
        self.sha256 = hashlib.sha256(self.content).hexdigest()

    def __call__(self) -> None:
        if hashlib.sha256(self.content).hexdigest() != self.sha256:
            raise SystemExit("this job's file is damaged, so it runs nothing; its cells are handed in anew")
        pickle.loads(self.content)()

    def checkpoint(self) -> DelayedSubmission:
        """What to queue again when time runs out: the same, as every cell continues where it was."""
        return DelayedSubmission(self)
