"""Sheets of Excel, events of TensorBoard, what W&B and MLflow write: the scores put in come out."""

import json
import sys
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


def write_book(path: Path, **sheets: pd.DataFrame) -> Path:
    with pd.ExcelWriter(path) as book:
        for name, table in sheets.items():
            table.to_excel(book, sheet_name=name, index=False, startrow=1)  # an empty row above
    return path


TABLE = pd.DataFrame([(*run, loss) for run, loss in LOSSES.items()], columns=["Model", "Seed", "val_loss"])


def test_the_only_sheet_that_is_filled_is_read_and_rows_are_those_of_the_file(tmp_path: Path):
    assert losses(write_book(tmp_path / "a.xlsx", Results=TABLE, Sheet2=pd.DataFrame())) == LOSSES
    bad = TABLE.assign(Seed=[1, 2, "x", 1, 2, 3])
    with pytest.raises(UsageError, match="seed 'x' in row 5 is not a number"):
        losses(write_book(tmp_path / "a.xlsx", Results=bad))
    with pytest.raises(UsageError, match=r"row 8 .empty.; save it in Excel, which computes formulas"):
        losses(write_book(tmp_path / "a.xlsx", Results=TABLE.assign(val_loss="=1.5*2")))


@pytest.mark.parametrize(
    ("column", "name", "ours"), [("Seed", "seed {}", "seed"), ("Model", "{}", "variant")]
)
def test_sheets_with_the_same_columns_are_one_table_once_it_is_said_what_they_are(
    column, name, ours, tmp_path
):
    sheets = {name.format(x): part.drop(columns=column) for x, part in TABLE.groupby(column)}
    path = write_book(tmp_path / "a.xlsx", **sheets)
    with pytest.raises(UsageError, match="--columns seed=sheet"):
        losses(path)
    assert losses(path, columns=(f"{ours}=sheet",)) == LOSSES


def test_one_of_different_sheets_is_chosen_by_its_name(tmp_path: Path):
    path = write_book(tmp_path / "a.xlsx", main=TABLE, sizes=pd.DataFrame({"Model": ["gelu"], "n": [1]}))
    assert losses(path, sheet="main") == LOSSES
    for sheet in (None, "man"):
        with pytest.raises(UsageError, match="choose one of its sheets, --sheet NAME: main, sizes"):
            losses(path, sheet=sheet)
    (tmp_path / "b.csv").write_text("variant,seed,val_loss\ngelu,1,2\n")
    with pytest.raises(UsageError, match="--sheet is about an Excel file"):
        losses(tmp_path / "b.csv", sheet="main")


def test_without_its_package_or_of_another_format_a_line_says_what_to_do(tmp_path: Path, monkeypatch):
    (tmp_path / "b.xlsx").write_text("no zip")
    with pytest.raises(UsageError, match=r"save it as \.xlsx \(~\$ is only a lock\)"):
        losses(tmp_path / "b.xlsx")
    path = write_book(tmp_path / "a.xlsx", Results=TABLE)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UsageError, match=r'pip install "ffn-ablations\[excel\]"'):
        losses(path)


@pytest.mark.ci
@pytest.mark.parametrize(
    "folder", ["{}-seed{}", "{}/seed_{}", "{}_s{}/runs/Nov27_host", "{}-seed{}/version_0"]
)
def test_the_last_value_of_each_scalar_of_a_folder_of_events_is_a_score(folder: str, tmp_path: Path):
    from torch.utils.tensorboard import SummaryWriter

    for run, loss in LOSSES.items():
        with SummaryWriter(str(tmp_path / folder.format(*run))) as writer:
            for step in (100, 200, 300)[: 2 if run == ("kan", 3) else 3]:
                writer.add_scalar("eval/loss", loss + 300 - step, step)
                writer.add_scalar("lr", 0.1, step)
            writer.add_hparams({"ffn": run[0]}, {"hparam/x": 1.0})  # in a folder of its own
    found = read_source(tmp_path, Request(scores=("eval/loss",)))
    assert losses(tmp_path, scores=("eval/loss",)) == LOSSES | {("kan", 3): LOSSES["kan", 3] + 100}
    assert any("ended before step 300" in note and note.count("(200)") == 1 for note in found.notes)


def test_summaries_of_wandb_are_read_with_the_configuration_beside_them(tmp_path: Path):
    for (variant, seed), loss in LOSSES.items():
        files = tmp_path / "wandb" / f"run-2026-{variant[0]}{seed}" / "files"
        files.mkdir(parents=True)
        summary = {"_step": 9, "_runtime": 1.5, "val": {"loss": loss}, "_wandb": {"runtime": 1}, "seen": [1]}
        (files / "wandb-summary.json").write_text(json.dumps(summary))
        (files / "config.yaml").write_text(f"ffn: {{value: {variant}}}\nseed: {{value: {seed}}}\n")
    assert losses(tmp_path, columns=("variant=ffn",)) == LOSSES


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


def test_a_parameter_that_mlflow_logged_can_be_a_confound(tmp_path: Path):
    rows = [{**row, "params.lr": 0.1 if "gelu" in row["tags.mlflow.runName"] else 0.2} for row in mlflow()]
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    assert "`params.lr` differs between variants (gelu 0.1, " in str(read_source(tmp_path / "a.csv").notes)


def test_names_of_runs_are_no_variants_where_a_column_says_these(tmp_path: Path):
    table = pd.DataFrame([(f"fluffy-{v}-{s}", v, s, x) for (v, s), x in LOSSES.items()])
    path = tmp_path / "a.csv"
    table.set_axis(["Name", "ffn", "seed", "val_loss"], axis=1).to_csv(path, index=False)
    assert losses(path) == LOSSES
    assert len(losses(path, columns=("name=Name",))) == len(LOSSES)
