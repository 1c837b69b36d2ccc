"""Tables as people write them: each gives the right rows, or one line that says which cell is in the way."""

import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from base.errors import UsageError
from report.inputs.sources import Source, read_source, source_of_frame
from report.readers.reading import split_names
from report.request import Request
from scores.run_scores import normalise_rows, run_scores
from tests.cases import listed
from tests.unit.report.studies import analysed

Cells = dict[tuple[str, int, str], str]

VARIANTS, SEEDS, BENCHMARKS = ("gelu", "kan"), (1, 2, 3), ("blimp", "ewok")
CELLS: Cells = {
    (variant, seed, benchmark): f"{level + seed / 8:.3f}"
    for (variant, benchmark), level in {
        ("gelu", "blimp"): 58.125, ("gelu", "ewok"): 51, ("kan", "blimp"): 61.5, ("kan", "ewok"): 54.5
    }.items()
    for seed in SEEDS
}  # fmt: skip
SCORES = {key: float(cell) for key, cell in CELLS.items()}
ODD = ("kan", 2, "ewok")
"""Whose cell is exchanged for another."""


def long(cells: Cells) -> list[list[Any]]:
    return [["variant", "seed", "benchmark", "score"], *([*key, cell] for key, cell in cells.items())]


def wide(cells: Cells, names: str = "variant", seeds: str = "seed") -> list[list[Any]]:
    runs = [(v, s) for v in VARIANTS for s in SEEDS]
    return [[names, seeds, *BENCHMARKS], *([*run, *(cells[*run, b] for b in BENCHMARKS)] for run in runs)]


def of_models(cells: Cells) -> list[list[Any]]:
    return wide(cells, "Model", "SEED")


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


SHAPES = (long, wide, of_models, seeds_as_columns, columns_of_both, with_index_and_notes)


def beside(rows: list[list[Any]], **columns: Any) -> list[list[Any]]:
    """With further columns, each of one value or of one for every row."""
    rows = [list(row) for row in rows]
    for name, values in columns.items():
        of_rows = values if isinstance(values, list) else [values] * (len(rows) - 1)
        for row, value in zip(rows, [name, *of_rows], strict=True):
            row.append(value)
    return rows


def shapes_in_turn(*values: Any) -> list[tuple[Any, Any]]:
    """Every value, and every shape, with one of the other kind."""
    places = range(max(len(values), len(SHAPES)))
    return [(SHAPES[place % len(SHAPES)], values[place % len(values)]) for place in places]


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


@pytest.mark.parametrize(
    ("shape", "writing"),
    shapes_in_turn((",", str), ("\t", "{} %".format), (";", lambda text: text.replace(".", ","))),
)
def test_every_shape_and_number_gives_the_same_scores(shape, writing, tmp_path):
    delimiter, written = writing
    rows = shape({key: written(cell) for key, cell in CELLS.items()})
    source = read_source(write(tmp_path / "scores.csv", rows, delimiter))
    assert scores_of(source) == SCORES
    assert ("commas in scores are read as decimal" in "; ".join(source.notes)) == (delimiter == ";")


GAPS = ("", "-", "\N{EN DASH}", "n/a", "NaN", "?", "diverged", "OOM")


@pytest.mark.parametrize(("shape", "gap"), shapes_in_turn(*GAPS))
def test_a_cell_without_a_number_is_named_and_counts_as_missing(shape, gap, tmp_path):
    rows = shape({**CELLS, ODD: "gap"})
    row, column = place_of(rows, "gap")
    rows[row - 1][rows[0].index(column)] = gap
    source = read_source(write(tmp_path / "scores.csv", rows))
    assert scores_of(source) == {key: score for key, score in SCORES.items() if key != ODD}
    place = f"row {row}" if shape is long else f"{column}, row {row}"
    place += f" ({repr(gap) if gap else 'empty'})"
    assert f"1 cell(s) hold no number and count as not scored: {place}" in source.notes


UNREADABLE = (
    "60.2*", "60.2\N{DAGGER}", "60.2 \N{PLUS-MINUS SIGN} 0.3", "60.2 (0.3)", "1,234.5", "1 234", "60.2pts",
    "$60.2", "~60", "60.2.1", "60.2%%",
)  # fmt: skip


@pytest.mark.parametrize(("shape", "cell"), shapes_in_turn(*UNREADABLE))
def test_a_cell_with_more_than_a_number_is_refused_by_its_place(shape, cell, tmp_path):
    rows = shape({**CELLS, ODD: cell})
    row, column = place_of(rows, cell)
    place = f"row {row}" if shape is long else f"column {column}, row {row}"
    with pytest.raises(UsageError) as told:
        read_source(write(tmp_path / "scores.csv", rows))
    assert f"score '{cell}' in {place} is not a number" in str(told.value)


def test_no_column_of_scores_is_left_out_in_silence(tmp_path: Path):
    rows = wide({key: "60.2 (0.3)" if key[2] == "ewok" else cell for key, cell in CELLS.items()})
    with pytest.raises(UsageError, match=r"score '60.2 \(0.3\)' in column ewok, row 2"):
        read_source(write(tmp_path / "scores.csv", rows))
    rows = wide({key: "-" if key[2] == "ewok" else cell for key, cell in CELLS.items()})
    assert "not read as scores: ewok" in read_source(write(tmp_path / "scores.csv", rows)).notes
    rows = wide(dict.fromkeys(CELLS, "x"))
    with pytest.raises(UsageError, match=r"no cell of a column .* holds a number: blimp, row 2 \('x'\)"):
        read_source(write(tmp_path / "scores.csv", rows))
    rows = [[*row, text] for row, text in zip(wide(CELLS), ["day", *["2026-01-02"] * 6], strict=True)]
    assert read_source(write(tmp_path / "scores.csv", rows)).notes == ("not read as scores: day",)


def test_commas_that_may_set_off_thousands_are_refused(tmp_path: Path):
    rows = wide({key: "1,234" if key[1] == 1 else "987" for key in CELLS})
    with pytest.raises(UsageError, match="score '1,234' in column blimp, row 2 is not a number"):
        read_source(write(tmp_path / "scores.csv", rows, ";"))


@pytest.mark.parametrize(("before", "after", "encoding", "line"), listed(__file__, "rows in files"))
def test_rows_are_counted_as_in_the_file(before: str, after: str, encoding: str, line: str, tmp_path: Path):
    text = f"{before}variant,seed,benchmark,score\n{after}gelu,1,blimp,50\n{after}gelu,one,blimp,51\n"
    row = text.splitlines().index("gelu,one,blimp,51") + 1
    (tmp_path / "scores.csv").write_bytes(text.replace("\n", line).encode(encoding))
    with pytest.raises(UsageError, match=rf"seed 'one' in row {row} is not a number"):
        read_source(tmp_path / "scores.csv")


@pytest.mark.parametrize(("head", "rows", "expected"), listed(__file__, "columns before names"))
def test_what_a_column_says_goes_before_what_a_name_may_mean(head, rows, expected, tmp_path):
    (tmp_path / "scores.csv").write_text("\n".join([head, *rows]))
    found = read_source(tmp_path / "scores.csv").rows
    assert set(zip(found.variant, found.seed, strict=True)) == set(expected)


def test_a_family_column_is_used_beside_names_of_folders(tmp_path: Path):
    rows = [[f"runs/a/gpt_neo/{v}/seed{s}-0a1b2c3d", "mine", 2.0 + s] for v in VARIANTS for s in SEEDS]
    source = read_source(write(tmp_path / "scores.csv", [["run", "family", "loss"], *rows]))
    assert set(source.rows.family) == {"mine"}


@pytest.mark.parametrize("cell", ["diverged", "OOM", "failed", "nan"])
def test_a_verdict_on_a_table_says_that_it_is_of_surviving_runs(cell: str, tmp_path: Path):
    losses = {"gelu": [3.21, 3.25, 3.19, 3.22], "swiglu": [3.01, cell, 3.02, ""]}
    rows = [[v, s, x] for v, of_variant in losses.items() for s, x in enumerate(of_variant, start=1)]
    source = read_source(write(tmp_path / "scores.csv", [["variant", "seed", "val_loss"], *rows]))
    assert [run.run_id for run in source.failed] == ["model/swiglu/seed2"]
    (comparison,) = analysed(source, baseline="gelu").comparisons
    assert comparison.num_failed == 1


def test_a_frame_may_lack_scores_as_a_file_may():
    frame = pd.DataFrame({"variant": ["gelu"] * 3 + ["mine"] * 3, "seed": [1, 2, 3] * 2})
    scores = [60.1, 61.2, 60.4, 63.1, float("nan"), 62.2]
    source = source_of_frame(frame.assign(blimp=scores), Request())
    assert list(source.rows["score"]) == [each for each in scores if each == each]
    assert (source.failed, source.notes[-1].count("data row 5 (empty)")) == ((), 1)


def test_tasks_without_seeds_are_of_one_run_and_repeated_scores_of_several(tmp_path: Path):
    rows = [["variant", "benchmark", "task", "score"], ["gelu", "x", "1", 1], ["gelu", "x", "2", 2]]
    source = read_source(write(tmp_path / "scores.csv", rows))
    assert set(source.rows.seed) == {1}
    assert "no column says seeds" in "; ".join(source.notes)
    repeated = [*rows, ["gelu", "x", "1", 3], ["gelu", "x", "2", 4]]
    runs = read_source(write(tmp_path / "scores.csv", repeated)).rows.set_index(["seed", "task"]).score
    assert runs.to_dict() == {(1, "1"): 1.0, (1, "2"): 2.0, (2, "1"): 3.0, (2, "2"): 4.0}
    with pytest.raises(UsageError, match="has every row 2 times; keep one of each"):
        read_source(write(tmp_path / "scores.csv", [*rows, *rows[1:]]))


def test_several_columns_of_scores_beside_a_benchmark_are_its_metrics(tmp_path: Path):
    rows = [["variant", "seed", "accuracy", "f1"], *wide(CELLS)[1:]]
    rows = beside(rows, dataset="cola")
    path = write(tmp_path / "scores.csv", rows)
    columns = ("benchmark=dataset",)
    for scores in ((), ("accuracy", "f1")):
        source = read_source(path, Request(columns=columns, scores=scores))
        keys = zip(source.rows.variant, source.rows.seed, source.rows.metric, strict=True)
        names = {"blimp": "accuracy", "ewok": "f1"}
        expected = {(v, s, names[b]): score for (v, s, b), score in SCORES.items()}
        assert dict(zip(keys, source.rows.score, strict=True)) == expected
        assert set(source.rows.benchmark) == {"cola"}
        assert "measured and not compared: cola f1" in analysed(source).warnings
    rows[0][2] = "metric"
    with pytest.raises(UsageError, match="write --columns score=f1"):
        read_source(write(path, rows), Request(columns=columns, scores=("f1",)))


def test_scores_of_one_task_that_are_half_fractions_are_refused(tmp_path: Path):
    rows = long({key: str(float(cell) / 100) if key[1] == 1 else cell for key, cell in CELLS.items()})
    with pytest.raises(
        UsageError, match=r"scores of blimp all are 0\.61625 \(model kan seed 1\) and 61\.875; write all as"
    ):
        analysed(write(tmp_path / "scores.csv", rows))
    # A bad model's exact match may be below one percent, and a good one's above.
    rows = long({key: str(0.25 * key[1]) if key[0] == "gelu" else "3" for key in CELLS if key[2] == "blimp"})
    rows[1][3] = "1.5"
    assert analysed(write(tmp_path / "scores.csv", rows)).baseline == "gelu"


def test_runs_that_share_no_task_are_said_to(tmp_path: Path):
    rows = [["variant", "seed", "benchmark", "task", "score"]]
    rows += [[v, s, "glue", f"{v}{s}", 50] for v in VARIANTS for s in SEEDS]
    with pytest.raises(UsageError, match="no benchmark has a task that most of its runs share"):
        analysed(write(tmp_path / "scores.csv", rows))
    rows += [[v, s, "blimp", "all", 50 + s] for v in VARIANTS for s in SEEDS]
    table = read_source(write(tmp_path / "scores.csv", rows)).rows
    scores, notes = run_scores(normalise_rows(table))
    assert set(scores.benchmark) == {"blimp"}
    assert notes == ["glue: left out, most of its runs share no task"]


def test_metrics_of_which_nothing_is_known_are_the_cause_where_nothing_is_compared(tmp_path: Path):
    rows = [["variant", "seed", "benchmark", "metric", "score"]]
    rows += [[v, s, "lambada", "raw_bleurt", s / 8] for v in VARIANTS for s in SEEDS]
    with pytest.raises(UsageError, match="nothing is known of raw_bleurt, so nothing is compared"):
        analysed(write(tmp_path / "scores.csv", rows))


TYPED: dict[str, list] = {"variant": ["gelu", "gelu", "kan", "kan"], "seed": [1, 2, 1, 2]}
TYPED |= {"benchmark": ["blimp"] * 4, "score": [70.5, 71.0, 66.0, 67.0]}


@pytest.mark.parametrize(
    "columns",
    [
        {"score": list(map(Decimal, ("70.5", "71", "66", "67"))), "seed": list(map(Decimal, "1212"))},
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


def from_excel(path: Path) -> Request:
    rows = ["variant;seed;benchmark;score;"]
    rows += [";".join(map(str, (*key, f"{score} %", ""))) for key, score in SCORES.items()]
    path.write_text("\r\n".join(rows), encoding="utf-16")
    return Request()


def as_table_of_runs(path: Path) -> Request:
    """W&B's table of runs; one of them crashed, and its score is of another step."""
    rows = [[f"{v}-seed{s}", "finished", "", "me", "0.1", *scores] for v, s, *scores in wide(CELLS)[1:]]
    rows.append(["kan-seed4", "crashed", "", "me", "0.1", "1.0", "1.0"])
    write(path, [["Name", "State", "Notes", "User", "lr", *BENCHMARKS], *rows])
    return Request(scores=BENCHMARKS)


@pytest.mark.parametrize(
    ("export", "notes"),
    [
        (from_excel, ()),
        (as_table_of_runs, ("left out, not finished: row 8 (crashed)", "gelu-seed1 is gelu, seed 1")),
    ],
)
def test_exports_give_the_same_scores_and_say_what_was_guessed(export, notes, tmp_path):
    request = export(tmp_path / "scores.csv")
    source = read_source(tmp_path / "scores.csv", request)
    assert scores_of(source) == SCORES
    assert source.rows.family.nunique() == 1
    for note in notes:
        assert note in "; ".join(source.notes)


def test_a_column_that_rows_and_a_benchmark_share_is_no_score(tmp_path: Path):
    """Without ``--scores`` only names that are known are scores, and other numbers are asked about."""
    head, *rows = wide(CELLS)
    path = write(tmp_path / "a.csv", [["variant", "seed", "blimp", "accuracy"], *rows])
    assert set(read_source(path).rows.benchmark) == {"blimp", "accuracy"}
    path = write(tmp_path / "b.csv", beside([head, *rows], lr=[1, 2, 3] * 2, params=9))
    assert "not read as scores: lr, params" in read_source(path).notes
    path = write(tmp_path / "c.csv", beside([head, *rows], depth=[1, 2, 3] * 2))
    with pytest.raises(UsageError, match=r"which columns are scores, with --scores: .* blimp, ewok, depth"):
        read_source(path)


def frame(*columns: str, **of_rows: Any) -> pd.DataFrame:
    return pd.DataFrame([(v, s, 60 + s) for v in VARIANTS for s in SEEDS], columns=columns).assign(**of_rows)


@pytest.mark.parametrize(
    ("table", "cure"),
    [
        (frame("model", "dataset", "accuracy", dataset=[*"xyz"] * 2), r"in dataset.*--columns task=dataset"),
        (frame("model", "epoch", "accuracy"), "variant differ in epoch"),
        (frame("model", "seed", "acc").pivot(index="seed", columns="model").droplevel(0, 1).reset_index(),
         r"if gelu, kan are variants.*table.melt\(\['seed'\]"),
        (frame("model", "1", "2").pivot_table("2", "model", "1").reset_index(), "seeds are called seed_1"),
    ],
)  # fmt: skip
def test_what_tells_rows_apart_and_is_not_read_is_refused_with_its_cure(table, cure, tmp_path):
    table.to_csv(tmp_path / "a.csv", index=False)
    for read in (lambda: read_source(tmp_path / "a.csv"), lambda: source_of_frame(table)):
        with pytest.raises(UsageError, match=cure):
            read()


def test_two_lines_of_names_are_refused_by_what_stands_in_them(tmp_path: Path):
    table = frame("model", "seed", "accuracy", loss=2.0)
    for lines, cure in (
        (table.pivot(index="seed", columns="model"), r"'accuracy' twice.*stack\(\).reset_index"),
        (table.groupby("model").agg(["mean", "std"]).drop(columns="seed"), "no runs in it"),
    ):
        lines.to_csv(tmp_path / "a.csv")
        with pytest.raises(UsageError, match=cure):
            read_source(tmp_path / "a.csv")
    stacked = table.pivot(index="seed", columns="model").stack(future_stack=True).reset_index()
    assert set(source_of_frame(stacked).rows.variant) == set(VARIANTS)


@pytest.mark.parametrize(("cell", "is_lower"), [("false", True), ("True", False), ("0", True)])
def test_a_column_that_says_what_is_better_when_higher_is_heeded(cell: str, is_lower: bool, tmp_path: Path):
    source = read_source(write(tmp_path / "a.csv", beside(long(CELLS), higher_is_better=cell)))
    assert set(source.declared.lower_is_better.values()) == {is_lower}


@pytest.mark.parametrize(("column", "ended", "other", "shape"), listed(__file__, "states of runs"))
def test_runs_that_a_tracker_says_did_not_finish_are_left_out(column, ended, other, shape, tmp_path):
    rows = beside({"long": long, "wide": wide}[shape](CELLS), **{column: ended})
    rows.append(["kan", 4, *(["blimp"] if shape == "long" else [1.0]), 1.0, other])
    source = read_source(write(tmp_path / "a.csv", rows))
    assert scores_of(source) == SCORES
    assert source.notes == (f"left out, not finished: row {len(rows)} ({other.lower() or 'no state'})",)


def test_a_state_that_is_no_run_s_leaves_runs_alone(tmp_path: Path):
    places = ["CA" if seed == 1 else "NY" for _, seed, _ in CELLS]
    path = write(tmp_path / "a.csv", beside(long(CELLS), state=places))
    assert scores_of(read_source(path)) == SCORES
    path = write(tmp_path / "b.csv", beside(long(CELLS), state="running"))
    with pytest.raises(UsageError, match=r"state says of no run that it finished \(running\)"):
        read_source(path)
    assert len(read_source(path, Request(axis=("state",))).rows) == len(SCORES)


HEADER = "variant,seed,benchmark,score\n"


@pytest.mark.parametrize(("content", "reading", "message"), listed(__file__, "tables that cannot be read"))
def test_tables_that_cannot_be_read(tmp_path: Path, content: str, reading: dict, message: str):
    (tmp_path / "scores.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        analysed(tmp_path / "scores.csv", **reading)


@pytest.mark.parametrize(("column", "values", "told"), listed(__file__, "columns that go with variants"))
def test_a_column_that_goes_with_the_variant_is_told_as_a_confound(tmp_path: Path, column, values, told):
    runs = [(variant, seed) for variant in ("gelu", "kan", "swiglu") for seed in SEEDS]
    rows = [[*run, value, 60 + place] for place, (run, value) in enumerate(zip(runs, values, strict=True))]
    names, request = ["variant", "seed", column, "blimp"], Request(scores=("blimp",))
    of_file = read_source(write(tmp_path / "scores.csv", [names, *rows]), request)
    frame = pd.DataFrame(rows, columns=names)
    assert source_of_frame(frame, request).notes == of_file.notes
    note = f"`{column}` differs between variants ({told}): what it does and what the FFN does cannot be"
    assert [x for x in of_file.notes if "told apart" in x] == [f"{note} told apart"][: len(told)]


@pytest.mark.parametrize(("column", "first"), [("run", 1), ("Trial", 1), ("exp_id", 30), ("replicate", "r")])
def test_a_column_that_numbers_runs_is_the_seed_and_its_other_rows_are_refused(tmp_path: Path, column, first):
    runs = [(variant, f"{first}{seed}") for variant in ("gelu", "kan") for seed in SEEDS]
    scores = [[*run, 60 + place] for place, run in enumerate(runs)]
    source = read_source(write(tmp_path / "scores.csv", [["variant", column, "blimp"], *scores]))
    assert len(scores_of(source)) == len(runs)
    assert source.notes == (f"the column {column} tells runs apart, as seeds do",)
    several = [[*run, split, 60 + place] for place, run in enumerate(runs) for split in "abcd"]
    path = write(tmp_path / "several.csv", [["variant", column, "split", "blimp"], *several])
    with pytest.raises(UsageError, match="rows of one run differ in split, and nothing says what it is"):
        read_source(path)


def test_rows_that_a_column_of_any_name_groups_are_no_seeds(tmp_path: Path):
    rows = [[v, x, 60 + n] for v in ("gelu", "kan") for x in "abc" for n in range(4)]
    path = write(tmp_path / "scores.csv", [["variant", "fold", "blimp"], *rows])
    with pytest.raises(UsageError, match="differ in fold, and nothing says what it is"):
        read_source(path)


def test_a_confound_is_looked_for_within_families_and_tells_of_the_factor():
    runs = [(f, v, s) for f in "fg" for v in ("gelu", "kan") for s in SEEDS]
    frame = pd.DataFrame(runs, columns=["family", "variant", "seed"]).assign(blimp=range(50, 62))
    of_family, of_kan = frame.family.map({"f": 1, "g": 2}), (frame.variant == "kan") & (frame.family == "g")
    request = Request(scores=("blimp",))
    assert source_of_frame(frame.assign(epochs=of_family), request).notes == ()
    (note,) = source_of_frame(frame.assign(epochs=1 + of_kan), request).notes
    assert "(gelu 1, kan 2)" in note
    by_size = Request(scores=("blimp",), axis=("size",), factor="size")
    table = frame.drop(columns="family").assign(size=frame.family, epochs=of_family)
    assert "`epochs` differs between sizes (f 1, g 2)" in "; ".join(source_of_frame(table, by_size).notes)


@pytest.mark.parametrize(("content", "reading", "runs", "told"), listed(__file__, "what is told of tables"))
def test_what_is_left_out_or_doubtful_is_told(tmp_path: Path, content, reading, runs, told):
    (tmp_path / "scores.csv").write_text(content, encoding="utf-8")
    source = read_source(tmp_path / "scores.csv", Request(**reading))
    found = source.rows.groupby("variant").seed.unique().map(sorted).map(tuple)
    assert found.to_dict() == runs
    assert all(re.search(text, note) for text, note in zip(told, source.notes, strict=True))


def test_somebody_else_s_gelu_is_the_baseline(tmp_path: Path):
    rows = "".join(
        f"{v},{s},blimp,{50 + 3 * i + s}\n" for i, v in enumerate(("KAN", "GELU")) for s in range(3)
    )
    (tmp_path / "scores.csv").write_text(HEADER + rows)
    assert analysed(tmp_path / "scores.csv").baseline == "GELU"


@pytest.mark.parametrize(("names", "template", "expected"), listed(__file__, "names of runs"))
def test_names(names: list[str], template: str | None, expected: list[tuple[str, str]]):
    read, _ = split_names(names, template, ["size"], "x")
    seeds = read.seed if "seed" in read else [""] * len(read)
    assert tuple(zip(read.variant, seeds, strict=True)) == expected


def test_arms_that_number_their_seeds_otherwise_lack_none(tmp_path: Path):
    seeds = {"gelu": (1, 2, 3), "kan": (42, 43, 44), "relu": (1, 2)}
    rows = [["variant", "seed", "accuracy"], *([v, s, 50 + s / 8] for v, x in seeds.items() for s in x)]
    missing = analysed(write(tmp_path / "scores.csv", rows)).missing
    assert missing[["variant", "seeds"]].to_numpy().tolist() == [["relu", "3"]]
