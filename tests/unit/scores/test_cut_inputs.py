"""Tasks whose inputs are longer than what a model reads."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from base.run.folder_names import RunFolder
from scores.items import cut_input_notes, cut_inputs


def items(**truncated: list[bool]) -> pd.DataFrame:
    rows = [(task, value) for task, values in truncated.items() for value in values]
    return pd.DataFrame(rows, columns=["task", "truncated"])


def write(run: Path, benchmark: str, table: pd.DataFrame) -> None:
    file = RunFolder(run).items_file(benchmark)
    file.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(file)


def test_a_task_is_named_where_most_of_its_inputs_lost_tokens():
    table = items(whole=[False] * 4, half=[True, False], most=[True, True, False, True], all=[True])
    assert cut_inputs(table) == {"most": 0.75, "all": 1.0}
    assert cut_inputs(pd.DataFrame({"task": ["pairs"], "correct": [True]})) == {}


def test_a_report_names_the_runs(tmp_path):
    for name, values in (("a", [True, True]), ("b", [True, False, True]), ("c", [False])):
        write(tmp_path / name, "glue", items(rte=values, cola=[False]))
        write(tmp_path / name, "blimp", pd.DataFrame({"task": ["x"], "correct": [True]}))
    (tmp_path / "c/eval/items/broken.parquet").write_bytes(b"no parquet")
    notes = cut_input_notes({name: RunFolder(tmp_path / name) for name in "abc"})
    assert notes == [
        "glue/rte: 100% of the inputs are longer than what the model reads, and cut, in a",
        "glue/rte: 67% of the inputs are longer than what the model reads, and cut, in b",
    ]
