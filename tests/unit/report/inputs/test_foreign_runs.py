"""Exports of W&B and MLflow: the scores put in come out."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from base.errors import UsageError
from report.inputs.sources import read_source
from report.request import Request

RUNS = [(variant, seed) for variant in ("gelu", "kan") for seed in (1, 2, 3)]
LOSSES = {(variant, seed): 2.0 + seed / 8 + (variant == "kan") for variant, seed in RUNS}


def losses(path: Path, **request: Any) -> dict[tuple[str, int], float]:
    rows = read_source(path, Request(**request)).rows
    return dict(zip(zip(rows.variant, rows.seed, strict=True), rows.score, strict=True))


def history(names: list[str]) -> list[dict[str, Any]]:
    steps = [(run, step) for step in (200, 100) for run in RUNS]  # the last step first
    return [dict(zip(names, (*run, step, LOSSES[run] + 200 - step), strict=True)) for run, step in steps]


def chart() -> list[dict[str, Any]]:
    lines = {f"{v}-seed{s} - val/loss": loss for (v, s), loss in LOSSES.items()}
    bands = {f"{name}{mark}": 9.0 for name in lines for mark in ("__MIN", "__MAX")}
    return [{"Step": 1, **dict.fromkeys(lines, 7.0), **bands}, {"Step": 2, **lines, **bands}]


def mlflow() -> list[dict[str, Any]]:
    fields = {"experiment_id": 3, "params.lr": 0.1, "status": "FINISHED", "tags.mlflow.user": "me"}
    names = [f"{v}-seed{s}" for v, s in RUNS]
    return [
        {**fields, "run_id": f"{i:032x}", "metrics.val_loss": LOSSES[RUNS[i]], "tags.mlflow.runName": name}
        for i, name in enumerate(names)
    ]


@pytest.mark.parametrize("rows", [history(["variant", "seed", "_step", "val_loss"]), chart(), mlflow()])
def test_exports_of_steps_charts_and_runs_give_a_score_a_run(rows: list[dict[str, Any]], tmp_path: Path):
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    assert losses(tmp_path / "a.csv") == LOSSES


def test_names_of_runs_are_no_variants_where_a_column_says_these(tmp_path: Path):
    table = pd.DataFrame([(f"fluffy-{v}-{s}", v, s, x) for (v, s), x in LOSSES.items()])
    path = tmp_path / "a.csv"
    table.set_axis(["Name", "ffn", "seed", "val_loss"], axis=1).to_csv(path, index=False)
    with pytest.raises(UsageError, match="--columns variant=ffn"):
        losses(path)
    assert losses(path, columns=("variant=ffn",)) == LOSSES
    assert len(losses(path, columns=("name=Name",))) == len(LOSSES)
