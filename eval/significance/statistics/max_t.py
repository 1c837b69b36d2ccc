"""A correction for several comparisons that uses what they share: one baseline, the same runs and items.

Step-down min-p (Westfall and Young 1993, algorithm 2.8; Romano and Wolf 2005): the smallest p is judged by
how small the smallest of all would be if nothing differed, the next one by the smallest of those that are
left, and so on. Joint draws of the p-values without any difference say how small that is
(``eval.significance.statistics.joint_null``). Comparisons that say almost the same then cost almost nothing,
while Holm's correction reckons with the worst case.

Shapes: B draws, m comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.significance.statistics.bootstrap import most_beyond


class MaxT:
    """Keeps the chance of any false claim below the level, as ``Holm`` does.

    Args:
        null_p: (B, m) two-sided p-values of all comparisons in draws without any difference; nan where a draw
            gives none.
    """

    def __init__(self, null_p: np.ndarray) -> None:
        self.null_p = np.where(np.isnan(null_p), 1.0, null_p)

    def adjust(self, p_values: Sequence[float | None]) -> list[float | None]:
        """Correct m p-values; None stays None and is not counted. No p becomes smaller than it was.

        The observed study counts as one draw more, so that no corrected p is below 1 / (B + 1).
        """
        corrected: list[float | None] = [None] * len(p_values)
        running = 0.0
        for index, p, smallest in self._steps(p_values):
            share = float((1 + (smallest <= p).sum()) / (1 + len(smallest)))
            running = max(running, share, p)
            corrected[index] = running
        return corrected

    def levels(self, p_values: Sequence[float | None], level: float) -> list[float | None]:
        """Return the two-sided level of each interval: that of the smallest p of all, as ``Holm`` does.

        What is not shown has a p that is not below it. Where the interval of what is shown holds zero, it is
        to be cut there.
        """
        steps = self._steps(p_values)
        together = _critical(steps[0][2], level) if steps else None
        return [None if p is None else together for p in p_values]

    def _steps(self, p_values: Sequence[float | None]) -> list[tuple[int, float, np.ndarray]]:
        """From the smallest p: its place, itself, and (B,) the smallest of those from it on in each draw."""
        known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
        order = [index for _, index in known]
        smallest = np.minimum.accumulate(self.null_p[:, order[::-1]], axis=1)[:, ::-1]
        return [(index, p, smallest[:, rank]) for rank, (p, index) in enumerate(known)]


def _critical(smallest: np.ndarray, level: float) -> float:
    """Return below which p a step rejects: 0 where so few draws can never reject."""
    most = most_beyond(level, len(smallest))
    return 0.0 if most < 0 else min(level, float(np.partition(smallest, most)[most]))
