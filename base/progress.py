"""What a user sees while something takes long: a bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tqdm import tqdm

Tell = Callable[[str], None]
"""Is told in a few words how something goes, as often as one likes."""


class ProgressBar:
    """A bar on standard error where that is a terminal, nothing where it is not, and lines that stay.

    Args:
        total: How much there is to do.
        unit: What is counted.
        done: How much of it was done before.
        name: What stands in front of the bar.
        shown: Show and say nothing at all where false.
        to_stderr: Whether lines go to standard error too, and not to standard output.
        form: What the bar looks like, as tqdm has it.
    """

    def __init__(
        self,
        total: int,
        unit: str,
        *,
        done: int = 0,
        name: str | None = None,
        shown: bool = True,
        to_stderr: bool = False,
        form: str | None = None,
    ) -> None:
        self._shown, self._to_stderr = shown, to_stderr
        self.in_terminal = shown and total > 0 and sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            initial=done,
            desc=name,
            unit=unit,
            bar_format=form,
            dynamic_ncols=True,
            disable=not self.in_terminal,
        )

    def advance(self, count: int = 1) -> None:
        self._bar.update(count)

    def show_beside(self, text: str) -> None:
        """Replace what stands behind the bar."""
        self._bar.set_postfix_str(text)

    def say(self, text: str) -> None:
        """Print a line that stays, without breaking the bar."""
        stream = sys.stderr if self._to_stderr else sys.stdout
        if self.in_terminal:
            self._bar.write(text, file=stream)
        elif self._shown:
            print(text, file=stream, flush=True)

    def close(self) -> None:
        """Leave the bar where it is."""
        self._bar.close()


def duration(seconds: float) -> str:
    """Write seconds as ``45 s``, ``2 min 05 s`` or ``1 h 02 min``; less than none is none."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"
