"""What a run's folder keeps of each task."""

from __future__ import annotations

import pandas as pd

from eval.results.rows import check_rows
from eval.results.store import ResultStore


def record(store: ResultStore, task: str, protocol: dict) -> None:
    """Keep a score and two items of a task."""
    row = {"run_id": "gpt_neo/gelu/seed1-abc", "family": "gpt_neo", "variant": "gelu", "seed": 1}
    scored = {"benchmark": "glue", "task": task, "group": "GLUE", "metric": "accuracy", "score": 50.0}
    items = pd.DataFrame({"task": task, "idx": ["0", "1"], "label": [0, 1], "prediction": [1, 1]})
    store.record("glue", task, protocol, check_rows(pd.DataFrame([row | scored | {"n_items": 2}])), items)


def test_items_from_before_there_were_heads_give_way_task_by_task(tmp_path):
    (tmp_path / "eval").mkdir()
    for protocol in ({"version": 2}, {"version": 3, "head": "default"}):
        for task in ("cola", "rte"):
            record(ResultStore(tmp_path, "weights"), task, protocol)
    items = pd.read_parquet(tmp_path / "eval" / "items" / "glue.parquet")
    assert items["task"].tolist() == ["cola"] * 2 + ["rte"] * 2
    assert set(items["head"]) == {"default"}
