"""What follows from names, against a plain loop over every row."""

from __future__ import annotations

import numpy as np
import pandas as pd

from scores.rows import of_each, of_each_row


def test_each_row_has_the_value_of_a_plain_loop_and_each_name_is_looked_up_once():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"task": rng.choice(["b", "a", "c"], 200), "metric": rng.choice(["f1", ""], 200)})
    asked: list[tuple[str, str]] = []

    def joined(task: str, metric: str) -> tuple[str, str]:
        asked.append((task, metric))
        return task, metric

    found = of_each_row(table, joined)
    assert list(found) == [(row["task"], row["metric"]) for _, row in table.iterrows()]
    assert len(asked) == len(set(asked)) == 6
    assert list(of_each(table["task"], str.upper)) == [name.upper() for name in table["task"]]
    assert len(of_each(table["task"][:0], str.upper)) == 0
