"""Tasks whose inputs are longer than what a model reads, by the items that are kept of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from base.errors import UsageError
from base.sentences import first_few
from eval.results.rows import read_table
from pretrain.run.folders import RunFolder

MOST = 0.5
"""A larger share of a task's inputs is told."""
CUT = "truncated"
"""The column of items that says whether an input lost tokens."""
SHOWN = 3


def cut_inputs(items: pd.DataFrame) -> dict[str, float]:
    """Return the tasks of which most inputs lost tokens, to the share of those that did."""
    if CUT not in items:
        return {}
    shares = items.groupby("task")[CUT].mean()
    return {str(task): float(share) for task, share in shares.items() if share > MOST}


def describe_cut(task: str, share: float) -> str:
    """Say it of one task."""
    return f"{task}: {share:.0%} of the inputs are longer than what the model reads, and cut"


def cut_input_notes(runs: Mapping[str, RunFolder]) -> list[str]:
    """Say of which tasks of a study most inputs are cut, and in which of its runs."""
    cut: dict[str, list[str]] = defaultdict(list)
    for run_id, run in runs.items():
        for path in sorted(run.items_dir.glob("*.parquet")):
            try:
                if not {"task", CUT} <= set(pq.read_schema(path).names):
                    continue
                items = read_table(path, ["task", CUT]).to_pandas()
            except (OSError, pa.ArrowInvalid, UsageError):
                continue  # told by whoever needs the items
            for task, share in cut_inputs(items).items():
                cut[describe_cut(f"{path.stem}/{task}", share)].append(run_id)
    return [f"{said}, in {first_few(run_ids, SHOWN)}" for said, run_ids in cut.items()]
