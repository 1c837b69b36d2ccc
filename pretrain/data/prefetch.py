"""The next step's batches, made in a thread while the current step computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")


def one_ahead(make: Callable[[int], Made], numbers: Iterable[int]) -> Generator[Made, None, None]:
    """Yield ``make(number)`` for every number, each made in a thread while the one before is in use.

    Close the iterator (``contextlib.closing``) to end the thread; it also ends with the numbers.

    Args:
        make: Must be a function of its argument alone; what it raises is raised where its result is due.
        numbers: What to call it with, in order.
    """
    rest = iter(numbers)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as thread:
        due = [thread.submit(make, number) for number in itertools.islice(rest, 1)]
        while due:
            made = due.pop().result()
            due = [thread.submit(make, number) for number in itertools.islice(rest, 1)]
            yield made
