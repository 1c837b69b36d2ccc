"""What a user sees: progress bars, lines beside them, durations, lists and tables of text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tqdm import tqdm

Tell = Callable[[str], None]
"""Is told in a few words how something goes, as often as one likes."""


def is_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class ProgressBar:
    """A bar on standard error where that is a terminal or a notebook, and lines that stay.

    Args:
        total: How much there is to do.
        unit: What is counted.
        done: How much of it was done before.
        name: What stands in front of the bar.
        shown: Show and say nothing at all where false.
        to_stderr: Whether lines go to standard error too, and not to standard output.
    """

    count: ClassVar[str] = ""
    """What every name begins with, such as ``2 of 6, `` while the second of six runs is trained."""
    is_quiet: ClassVar[bool] = False
    """Whether results are not said, as whoever called has them as objects."""

    def __init__(
        self,
        total: int,
        unit: str,
        *,
        done: int = 0,
        name: str | None = None,
        shown: bool = True,
        to_stderr: bool = False,
    ) -> None:
        self._shown, self._to_stderr = shown, to_stderr
        self._is_notebook = is_notebook()
        self.is_drawn = shown and total > 0 and (self._is_notebook or sys.stderr.isatty())
        self._bar = tqdm(
            total=total,
            initial=done,
            desc=name and self.count + name,
            unit=unit,
            disable=not self.is_drawn,
            dynamic_ncols=True,
            leave=not self._is_notebook,  # there the next bar takes its line
        )

    def advance(self, count: int = 1) -> None:
        self._bar.update(count)

    def show_beside(self, text: str) -> None:
        """Replace what stands behind the bar."""
        self._bar.set_postfix_str(text)

    def say(self, text: str, *, is_result: bool = False) -> None:
        """Print a line that stays, without breaking the bar.

        Args:
            text: The line.
            is_result: Whether a call from Python returns it, too.
        """
        if is_result and self.is_quiet:
            return
        stream = sys.stderr if self._to_stderr else sys.stdout
        if self.is_drawn:
            self._bar.write(text, file=stream)
        elif self._shown:
            print(text, file=stream, flush=True)

    def close(self) -> None:
        """Leave the bar where it is, full; a notebook wipes it."""
        if self.is_drawn:
            self._bar.refresh()
        self._bar.close()


def duration(seconds: float) -> str:
    """Write seconds as ``45 s``, ``2 min 05 s`` or ``1 h 02 min``; less than none is none."""
    minutes, odd_seconds = divmod(max(0, round(seconds)), 60)
    if minutes < 60:
        return f"{minutes} min {odd_seconds:02d} s" if minutes else f"{odd_seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def first_few(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Join the first ``most`` names and count the others: ``"a, b and 3 more"``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


NUMBER = re.compile(r"[+-]?(\d[\d,]*(\.\d+)?(e[+-]?\d+)?[%x+]?|nan|inf)")
"""A whole cell: ``1,024``, ``-0.1``, ``3e-4``, ``97%``, and ``2.5+`` of what is at least as much."""
NO_NUMBER = ("-", "")
"""What stands in a column of numbers where there is none."""


def format_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows into columns, the header first; columns of numbers to the right."""
    columns = [_aligned(column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))


def _aligned(column: tuple[str, ...]) -> list[str]:
    width, numbers = max(map(len, column)), [cell for cell in column[1:] if cell not in NO_NUMBER]
    if numbers and all(map(NUMBER.fullmatch, numbers)):
        return [cell.rjust(width) for cell in column]
    return [cell.ljust(width) for cell in column]
