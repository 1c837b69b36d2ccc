"""Tables as people write them: each gives the right rows, or one line that says which cell is in the way."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from base.errors import UsageError
from report.compute import analyse
from report.inputs.sources import Source, read_source, source_of_frame
from report.request import Request
from scores.run_scores import normalise_rows, run_scores

Cells = dict[tuple[str, int, str], str]

VARIANTS, SEEDS, BENCHMARKS = ("gelu", "kan"), (1, 2, 3), ("blimp", "ewok")
CELLS: Cells = {
    (variant, seed, benchmark): f"{level + seed / 8:.3f}"
    for (variant, benchmark), level in {
        ("gelu", "blimp"): 58.125, ("gelu", "ewok"): 51, ("kan", "blimp"): 61.5, ("kan", "ewok"): 54.5
    }.items()
    for seed in SEEDS
}  # fmt: skip
ODD = ("kan", 2, "ewok")
"""Whose cell is exchanged for another."""


def long(cells: Cells) -> list[list[Any]]:
    return [["variant", "seed", "benchmark", "score"], *([*key, cell] for key, cell in cells.items())]


def wide(cells: Cells, names: str = "variant", seeds: str = "seed") -> list[list[Any]]:
    runs = [(v, s) for v in VARIANTS for s in SEEDS]
    return [[names, seeds, *BENCHMARKS], *([*run, *(cells[*run, b] for b in BENCHMARKS)] for run in runs)]


def of_models(cells: Cells) -> list[list[Any]]:
    return wide(cells, "Model", "SEED")


def of_methods(cells: Cells) -> list[list[Any]]:
    return wide(cells, "method")


def seeds_as_columns(cells: Cells) -> list[list[Any]]:
    rows = [[v, b, *(cells[v, s, b] for s in SEEDS)] for v in VARIANTS for b in BENCHMARKS]
    return [["Model", "Benchmark", "seed_1", "Seed 2", "seed3"], *rows]


def columns_of_both(cells: Cells) -> list[list[Any]]:
    keys = [(b, s) for b in BENCHMARKS for s in SEEDS]
    rows = [[v, *(cells[v, s, b] for b, s in keys)] for v in VARIANTS]
    return [["variant", *(f"{b} (seed {s})" for b, s in keys)], *rows]


def with_index_and_notes(cells: Cells) -> list[list[Any]]:
    head, *rows = wide(cells)
    return [["", *head, "notes"], *([number, *row, "rerun"] for number, row in enumerate(rows))]


SHAPES = (long, wide, of_models, of_methods, seeds_as_columns, columns_of_both, with_index_and_notes)


def write(path: Path, rows: list[list[Any]], delimiter: str = ",") -> Path:
    quoted = [[f'"{cell}"' if delimiter in str(cell) else str(cell) for cell in row] for row in rows]
    path.write_text("\n".join(map(delimiter.join, quoted)) + "\n", encoding="utf-8")
    return path


def scores_of(source: Source) -> dict[tuple[str, int, str], float]:
    rows = source.rows
    return dict(zip(zip(rows.variant, rows.seed, rows.benchmark, strict=True), rows.score, strict=True))


def place_of(rows: list[list[Any]], cell: str) -> tuple[int, str]:
    """The row of the file, and the column, that a cell stands in."""
    return next((i + 1, rows[0][row.index(cell)]) for i, row in enumerate(rows) if cell in row)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("delimiter", "written"),
    [(",", str), ("\t", "{} %".format), (";", lambda text: text.replace(".", ","))],
    ids=["points", "percent", "commas"],
)
def test_every_shape_and_number_gives_the_same_scores(
    shape: Callable[[Cells], list[list[Any]]], delimiter: str, written: Callable[[str], str], tmp_path: Path
):
    rows = shape({key: written(cell) for key, cell in CELLS.items()})
    source = read_source(write(tmp_path / "scores.csv", rows, delimiter))
    assert scores_of(source) == {key: float(cell) for key, cell in CELLS.items()}


GAPS = ("", "-", "\N{EN DASH}", "n/a", "NaN", "?", "diverged", "OOM")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gap", GAPS)
def test_a_cell_without_a_number_is_named_and_counts_as_missing(
    shape: Callable[[Cells], list[list[Any]]], gap: str, tmp_path: Path
):
    rows = shape({**CELLS, ODD: "gap"})
    row, column = place_of(rows, "gap")
    rows[row - 1][rows[0].index(column)] = gap
    source = read_source(write(tmp_path / "scores.csv", rows))
    assert scores_of(source) == {key: float(cell) for key, cell in CELLS.items() if key != ODD}
    place = f"row {row}" if shape is long else f"{column}, row {row}"
    place += f" ({repr(gap) if gap else 'empty'})"
    assert f"1 cell(s) hold no number and count as not scored: {place}" in source.notes


UNREADABLE = (
    "60.2*", "60.2\N{DAGGER}", "60.2 \N{PLUS-MINUS SIGN} 0.3", "60.2 (0.3)", "1,234.5", "1 234", "60.2pts",
    "$60.2", "~60", "60.2.1", "60.2%%",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cell", UNREADABLE)
def test_a_cell_with_more_than_a_number_is_refused_by_its_place(
    shape: Callable[[Cells], list[list[Any]]], cell: str, tmp_path: Path
):
    rows = shape({**CELLS, ODD: cell})
    row, column = place_of(rows, cell)
    place = f"row {row}" if shape is long else f"column {column}, row {row}"
    with pytest.raises(UsageError) as told:
        read_source(write(tmp_path / "scores.csv", rows))
    assert f"score '{cell}' in {place} is not a number" in str(told.value)
    assert "\n" not in str(told.value)


def test_no_column_of_scores_is_left_out_in_silence(tmp_path: Path):
    rows = wide({key: "60.2 (0.3)" if key[2] == "ewok" else cell for key, cell in CELLS.items()})
    with pytest.raises(UsageError, match=r"score '60.2 \(0.3\)' in column ewok, row 2"):
        read_source(write(tmp_path / "scores.csv", rows))
    rows = wide({key: "-" if key[2] == "ewok" else cell for key, cell in CELLS.items()})
    assert "not read as scores: ewok" in read_source(write(tmp_path / "scores.csv", rows)).notes
    rows = wide(dict.fromkeys(CELLS, "x"))
    with pytest.raises(
        UsageError, match=r"no cell of a column of scores holds a number: blimp, row 2 \('x'\)"
    ):
        read_source(write(tmp_path / "scores.csv", rows))
    rows = [[*row, text] for row, text in zip(wide(CELLS), ["day", *["2026-01-02"] * 6], strict=True)]
    assert read_source(write(tmp_path / "scores.csv", rows)).notes == ("not read as scores: day",)


def test_commas_that_may_set_off_thousands_are_refused(tmp_path: Path):
    rows = wide({key: "1,234" if key[1] == 1 else "987" for key in CELLS})
    with pytest.raises(UsageError, match="score '1,234' in column blimp, row 2 is not a number"):
        read_source(write(tmp_path / "scores.csv", rows, ";"))


def test_a_wrong_seed_of_a_wide_table_is_named_by_its_row(tmp_path: Path):
    (tmp_path / "scores.csv").write_text("variant,seed,blimp,ewok\ngelu,1,70,60\nkan,x,61,50\n")
    with pytest.raises(UsageError, match=r"seed 'x' in row 3 is not a number"):
        read_source(tmp_path / "scores.csv")


@pytest.mark.parametrize(
    ("before", "after", "encoding"),
    [("", "", "utf-8"), ("", "\n \n", "utf-8-sig"), ("\n\n", "\n", "utf-16"), ("", ",,,\n", "utf-8")],
)
@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
def test_rows_are_counted_as_in_the_file(before: str, after: str, encoding: str, line: str, tmp_path: Path):
    text = f"{before}variant,seed,benchmark,score\n{after}gelu,1,blimp,50\n{after}gelu,one,blimp,51\n"
    row = text.splitlines().index("gelu,one,blimp,51") + 1
    (tmp_path / "scores.csv").write_bytes(text.replace("\n", line).encode(encoding))
    with pytest.raises(UsageError, match=rf"seed 'one' in row {row} is not a number"):
        read_source(tmp_path / "scores.csv")


@pytest.mark.parametrize(
    ("head", "rows", "expected"),
    [
        ("Name,seed,loss", ["gelu-seed1,1,2", "gelu-seed2,2,3"], {("gelu", 1), ("gelu", 2)}),
        ("Name,seed,loss", ["gelu-s2,1,2", "gelu-s2,2,3"], {("gelu-s2", 1), ("gelu-s2", 2)}),
        ("run,seed,loss", ["me/gelu,7,2", "me/kan,7,3"], {("gelu", 7), ("kan", 7)}),
        ("model,loss", ["gelu,2", "gelu,3", "kan,4"], {("gelu", 1), ("gelu", 2), ("kan", 1)}),
        ("model,benchmark,task,score", ["gelu,x,a,2", "gelu,x,b,3"], {("gelu", 1)}),
    ],
)
def test_what_a_column_says_goes_before_what_a_name_may_mean(
    head: str, rows: list[str], expected: set[tuple[str, int]], tmp_path: Path
):
    (tmp_path / "scores.csv").write_text("\n".join([head, *rows]))
    found = read_source(tmp_path / "scores.csv").rows
    assert set(zip(found.variant, found.seed, strict=True)) == expected


def test_a_family_column_is_used_beside_names_of_folders(tmp_path: Path):
    rows = [[f"runs/a/gpt_neo/{v}/seed{s}-0a1b2c3d", "mine", 2.0 + s] for v in VARIANTS for s in SEEDS]
    source = read_source(write(tmp_path / "scores.csv", [["run", "family", "loss"], *rows]))
    assert set(source.rows.family) == {"mine"}


def test_tasks_without_seeds_are_of_one_run_and_repeated_scores_of_several(tmp_path: Path):
    rows = [["variant", "benchmark", "task", "score"], ["gelu", "x", "1", 1], ["gelu", "x", "2", 2]]
    source = read_source(write(tmp_path / "scores.csv", rows))
    assert set(source.rows.seed) == {1}
    assert "no column says seeds" in "; ".join(source.notes)
    repeated = [*rows, ["gelu", "x", "1", 3], ["gelu", "x", "2", 4]]
    runs = read_source(write(tmp_path / "scores.csv", repeated)).rows.set_index(["seed", "task"]).score
    assert runs.to_dict() == {(1, "1"): 1.0, (1, "2"): 2.0, (2, "1"): 3.0, (2, "2"): 4.0}


def test_several_columns_of_scores_beside_a_benchmark_are_its_metrics(tmp_path: Path):
    rows = wide(CELLS)
    rows = [
        ["variant", "seed", "dataset", "accuracy", "f1"],
        *([v, s, "cola", a, f] for v, s, a, f in rows[1:]),
    ]
    path = write(tmp_path / "scores.csv", rows)
    columns = ("benchmark=dataset",)
    for scores in ((), ("accuracy", "f1")):
        source = read_source(path, Request(columns=columns, scores=scores))
        keys = zip(source.rows.variant, source.rows.seed, source.rows.metric, strict=True)
        assert dict(zip(keys, source.rows.score, strict=True)) == {
            (v, s, {"blimp": "accuracy", "ewok": "f1"}[b]): float(cell) for (v, s, b), cell in CELLS.items()
        }
        assert set(source.rows.benchmark) == {"cola"}
        assert "measured and not compared: cola f1" in analyse(source).warnings
    rows[0][3:] = ["metric", "f1"]
    with pytest.raises(UsageError, match="write --columns score=f1"):
        read_source(write(path, rows), Request(columns=columns, scores=("f1",)))


def test_a_variant_of_which_only_duplicates_are_there_is_called_so(tmp_path: Path):
    rows = long(CELLS) + [[*key, "50"] for key in CELLS if key[0] == "gelu"]
    with pytest.raises(UsageError, match=r"no score of gelu is left .* duplicates with different scores"):
        analyse(read_source(write(tmp_path / "scores.csv", rows)))


def test_scores_of_one_task_that_are_half_fractions_are_refused(tmp_path: Path):
    rows = long({key: str(float(cell) / 100) if key[1] == 1 else cell for key, cell in CELLS.items()})
    with pytest.raises(
        UsageError, match=r"scores of blimp all are 0\.61625 and 61\.875; write all as percent"
    ):
        analyse(read_source(write(tmp_path / "scores.csv", rows)))
    # A bad model's exact match may be below one percent, and a good one's above.
    rows = long({key: str(0.25 * key[1]) if key[0] == "gelu" else "3" for key in CELLS if key[2] == "blimp"})
    rows[1][3] = "1.5"
    assert analyse(read_source(write(tmp_path / "scores.csv", rows))).baseline == "gelu"


def test_runs_that_share_no_task_are_said_to(tmp_path: Path):
    rows = [["variant", "seed", "benchmark", "task", "score"]]
    rows += [[v, s, "glue", f"{v}{s}", 50] for v in VARIANTS for s in SEEDS]
    with pytest.raises(UsageError, match="no benchmark has a task that most of its runs share"):
        analyse(read_source(write(tmp_path / "scores.csv", rows)))
    rows += [[v, s, "blimp", "all", 50 + s] for v in VARIANTS for s in SEEDS]
    table = read_source(write(tmp_path / "scores.csv", rows)).rows
    scores, notes = run_scores(normalise_rows(table))
    assert set(scores.benchmark) == {"blimp"}
    assert notes == ["glue: left out, most of its runs share no task"]


def test_metrics_of_which_nothing_is_known_are_the_cause_where_nothing_is_compared(tmp_path: Path):
    rows = [["variant", "seed", "benchmark", "metric", "score"]]
    rows += [[v, s, "lambada", "raw_bleurt", s / 8] for v in VARIANTS for s in SEEDS]
    with pytest.raises(UsageError, match="nothing is known of raw_bleurt, so nothing is compared"):
        analyse(read_source(write(tmp_path / "scores.csv", rows)))


TYPED = {
    "variant": ["gelu", "gelu", "kan", "kan"],
    "seed": [1, 2, 1, 2],
    "benchmark": ["blimp"] * 4,
    "score": [70.5, 71.0, 66.0, 67.0],
}


@pytest.mark.parametrize(
    "columns",
    [
        {
            "score": [Decimal("70.5"), Decimal(71), Decimal(66), Decimal(67)],
            "seed": list(map(Decimal, "1212")),
        },
        {name: pd.Categorical(TYPED[name]) for name in TYPED},
        {"config": [{"lr": 1}] * 4, "tags": [["a"]] * 4, "blob": [b"\xff"] * 4},
        {"created": pd.to_datetime(["2026-01-01"] * 4), "day": [datetime.date(2026, 1, 1)] * 4},
    ],
)
def test_columns_of_any_type_are_read_or_passed_over(columns: dict[str, Any], tmp_path: Path):
    table = pd.DataFrame({**TYPED, **columns})
    table.to_parquet(tmp_path / "rows.parquet")
    narrow = table.drop(columns="benchmark").rename(columns={"score": "blimp"})
    for source in (read_source(tmp_path / "rows.parquet"), source_of_frame(table), source_of_frame(narrow)):
        assert list(source.rows.score) == TYPED["score"]
        assert list(source.rows.variant) == TYPED["variant"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seed", pd.to_datetime(["2026-01-01"] * 4)),
        ("score", pd.to_timedelta([1, 2, 3, 4], unit="s")),
        ("score", [[70.0]] * 4),
    ],
)
def test_structures_and_times_are_no_scores_and_no_seeds(name: str, values: Any, tmp_path: Path):
    pd.DataFrame({**TYPED, name: values}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(UsageError, match=f"{name} .* in data row 1 is not a number") as told:
        read_source(tmp_path / "rows.parquet")
    assert "\n" not in str(told.value)
