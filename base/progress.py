"""What a user sees while something takes long: a bar in a terminal or notebook, plain lines anywhere else."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tqdm import tqdm

Tell = Callable[[str], None]
"""Is told in a few words how something goes, as often as one likes."""


class _NotebookBar(tqdm):
    """A bar that a cell shows in one place, whatever is printed meanwhile."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self._display_id: str | None = None
        super().__init__(*args, **how, file=io.StringIO(), ascii=False, mininterval=0.5)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:  # type: ignore[bad-override]
        """Draw it, or draw it again."""
        shown = {"text/plain": str(self) if msg is None else msg}
        tools = sys.modules["IPython.display"]
        if self._display_id is None:
            self._display_id = tools.display(shown, raw=True, display_id=True).display_id
        else:
            tools.update_display(shown, raw=True, display_id=self._display_id)
        return True

    @classmethod
    def write(cls, s: str, file: Any = None, end: str = "\n", nolock: bool = False) -> None:
        """Print a line below it."""
        print(s, file=file, end=end, flush=True)


def is_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class ProgressBar:
    """A bar on standard error where that is a terminal, or in a notebook's cell; and lines that stay.

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
        notebook = is_notebook()
        self.is_drawn = shown and total > 0 and (notebook or sys.stderr.isatty())
        kind: Any = _NotebookBar if notebook else partial(tqdm, dynamic_ncols=True)
        self._bar = kind(
            total=total, initial=done, desc=name, unit=unit, bar_format=form, disable=not self.is_drawn
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
            is_result: Whether whoever called has it as an object, too, which a notebook shows instead.
        """
        if is_result and isinstance(self._bar, _NotebookBar):
            return
        stream = sys.stderr if self._to_stderr else sys.stdout
        if self.is_drawn:
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
