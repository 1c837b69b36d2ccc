"""Every data check: what it finds, what it leaves alone, and that it names its rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.run.folder_names import RunFolder
from report.inputs.study_checks import failed_notes, failed_runs, protocol_notes
from report.significance import data_checks
from report.significance.axes import Benchmark
from report.significance.comparison import metrics
from report.significance.data_checks import (
    balance_notes,
    clean_rows,
    find_outliers,
    flat_notes,
    outlier_notes,
    range_notes,
)
from report.significance.factor import Relabelling
from scores.metrics import Declared
from scores.run_scores import comparable_scores, normalise_rows, run_scores
from slurm.cell_state import CellState, write_state
from tests.unit.report.significance.comparing import table

NAMES = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]


def rows_of(*rows: tuple) -> pd.DataFrame:
    """Rows of (variant, seed, task, score) of one family and benchmark."""
    table = [("f", variant, seed, "blimp", task, "accuracy", score) for variant, seed, task, score in rows]
    return normalise_rows(pd.DataFrame(table, columns=NAMES))


def test_every_check_is_on_the_page():
    written = [
        name for name, check in vars(data_checks).items() if name.endswith("_notes") and callable(check)
    ]
    called = data_checks.notes_on_scores.__code__.co_names
    assert len(written) > 3
    assert not set(written) - set(called), "not called by notes_on_scores"


def test_repeated_rows_count_once_and_conflicting_ones_not_at_all():
    rows = rows_of(
        ("a", 1, "x", 50.0), ("a", 1, "x", 50.0), ("a", 2, "x", 51.0),
        ("b", 1, "x", 52.0), ("b", 1, "x", 53.0), ("b", 1, "x", 53.0), ("b", 2, "x", 54.0),
    )  # fmt: skip
    cleaned, notes = clean_rows(rows)
    assert cleaned[["variant", "seed", "score"]].to_records(index=False).tolist() == [
        ("a", 1, 50.0),
        ("a", 2, 51.0),
        ("b", 2, 54.0),
    ]
    assert notes == [
        "repeated rows, counted once: f a seed 1 blimp x",
        "duplicates with different scores, all left out: f b seed 1 blimp x",
    ]


def test_a_copied_run_counts_once():
    scores = [(f"x{task}", 50.1283 + 3.7141 * task) for task in range(8)]
    rows = rows_of(
        *(("a", seed, task, score) for seed in (1, 2) for task, score in scores),
        *(("a", 3, task, score + 2.81 * (-1) ** place) for place, (task, score) in enumerate(scores)),
        *(("a", 4, task, score + place / 2) for place, (task, score) in enumerate(scores)),
        *(("b", 7, task, score) for task, score in scores),
    )
    cleaned, notes = clean_rows(rows)
    assert set(zip(cleaned.variant, cleaned.seed, strict=True)) == {("a", 1), ("a", 3), ("a", 4), ("b", 7)}
    (note,) = notes
    assert "f a seed 1, f a seed 2 and f b seed 7" in note
    assert "was it copied?" in note


def test_equal_rounded_scores_are_named_and_kept():
    rows = rows_of(("a", 1, "x", 50.1), ("a", 1, "y", 60.2), ("a", 2, "x", 50.1), ("a", 2, "y", 60.2))
    cleaned, notes = clean_rows(rows)
    assert len(cleaned) == len(rows)
    assert notes == [
        "different runs with the same scores, which may be chance, kept: f a seed 1 and f a seed 2"
    ]


def test_decimals_of_losses_count():
    """Losses agree in four decimals by chance, in eight only if copied."""
    rough = {1: 1.1218, 2: 1.1224, 3: 1.1218, 4: 1.1192}
    exact = {1: 1.12182517, 2: 1.12241942, 3: 1.12182517, 4: 1.11923241}
    found = []
    for losses in (rough, exact):
        rows = rows_of(*(("a", seed, "x", loss) for seed, loss in losses.items())).assign(metric="perplexity")
        found.append(clean_rows(rows)[1])
    assert found[0] == []
    assert "was it copied?: f a seed 1 and f a seed 3" in found[1][0]


def test_one_equal_rounded_score_is_no_news():
    rows = rows_of(("a", 1, "x", 50.1), ("a", 2, "x", 50.1), ("b", 1, "x", 50.1))
    assert clean_rows(rows)[1] == []


@pytest.mark.parametrize(
    ("metric", "scores", "said"),
    [
        ("accuracy", [50.0, 100.0], None),
        ("accuracy", [50.0, 100.5], "scores outside 0 to 100 percent: f a seed 2 x (100.5)"),
        ("accuracy", [-0.5, 50.0], "scores outside 0 to 100 percent: f a seed 1 x (-0.5)"),
        ("matthews_correlation", [-20.0, 40.0], None),
        ("perplexity", [0.9, 120.0], None),
    ],
)
def test_ranges(metric: str, scores: list[float], said: str | None):
    rows = pd.DataFrame([("f", "a", seed, "x", metric, s) for seed, s in enumerate(scores, start=1)],
                        columns=["family", "variant", "seed", "benchmark", "metric", "score"])  # fmt: skip
    rows = normalise_rows(rows)
    tasks = comparable_scores(Relabelling.of_rows(rows, "ffn").rows(rows))
    assert range_notes(tasks, metrics(tasks, Declared(), [Benchmark("x")])) == ([said] if said else [])


def scores_of(cells: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    return run_scores(normalise_rows(table(cells)))[0]


def test_arms_with_one_run_and_arms_of_another_size_are_named():
    scores = scores_of(
        {("f", "a"): [1, 2, 3], ("f", "b"): [1, 2], ("f", "c"): [1], ("g", "a"): [1], ("g", "b"): [2, 3]}
    )
    assert balance_notes(scores, "a") == [
        "one run only, so nothing can be inferred: f c (blimp), g a (blimp)",
        "runs that differ in number from a's: f b 2 against 3 (blimp)",
    ]
    assert balance_notes(scores_of({("f", "a"): [1, 2], ("f", "b"): [1, 2]}), "a") == []


def test_outliers_are_those_of_the_externally_studentized_residual():
    """Against a regression on cell means without the run, as textbooks define it."""
    rng = np.random.default_rng(0)
    cells = {(f, v): list(rng.normal(50, 1, 6)) for f in ("f", "g") for v in "abc"}
    cells["f", "b"][2] += 8.0
    scores = scores_of(cells)
    found = find_outliers(scores)
    assert found[["family", "variant", "seed"]].to_records(index=False).tolist() == [("f", "b", 3)]
    assert found.others.item() == pytest.approx(np.mean([x for i, x in enumerate(cells["f", "b"]) if i != 2]))
    note = outlier_notes(found)[0]
    assert f"blimp f b seed 3 ({cells['f', 'b'][2]:.1f}, the others" in note

    def p_value(family: str, variant: str, seed: int) -> float:
        of_family = {v: np.array(x) for (f, v), x in cells.items() if f == family}
        rest = np.delete(of_family[variant], seed - 1)
        left = [*(x for v, x in of_family.items() if v != variant), rest]
        df = sum(len(x) - 1 for x in left)
        scale = np.sqrt(sum(((x - x.mean()) ** 2).sum() for x in left) / df)
        t = (of_family[variant][seed - 1] - rest.mean()) / (scale * np.sqrt(1 + 1 / len(rest)))
        return 2 * stats.t.sf(abs(t), df)

    flagged = {key for key in zip(scores.family, scores.variant, scores.seed, strict=True)
               if p_value(*key) * len(scores) < 0.05}  # fmt: skip
    assert flagged == {("f", "b", 3)}


@pytest.mark.slow
def test_ordinary_scores_have_no_outlier():
    rng = np.random.default_rng(1)
    many = [scores_of({("f", v): list(rng.normal(50, 1, 6)) for v in "abcd"}) for _ in range(60)]
    # At 5% a benchmark, so of 60 studies about three have one.
    assert 1 <= sum(len(find_outliers(scores)) > 0 for scores in many) <= 8


def test_runs_that_all_score_the_same_are_named():
    (note,) = flat_notes(scores_of({("f", "a"): [50, 50, 50], ("f", "b"): [50, 51, 52]}))
    assert note.startswith("blimp: all runs of f a score exactly 50,")


def test_diverged_runs_are_named_with_their_step(tmp_path: Path):
    run = tmp_path / "gpt_neo" / "kan" / "seed1-abc"
    run.mkdir(parents=True)
    (run / "FAILED").write_text(json.dumps({"step": 120, "problem": "the loss is nan"}))
    said = "diverged in pretraining: gpt_neo/kan/seed1-abc (the loss is nan at step 120)"
    for run_ids in (None, frozenset({"gpt_neo/kan/seed1-abc"})):
        assert list(failed_notes(failed_runs(tmp_path, run_ids))) == [said]
    assert failed_runs(tmp_path, frozenset({"gpt_neo/kan/seed2-abc"})) == ()


def test_failed_cells_are_named_with_their_error(tmp_path: Path):
    run_id = "gpt_neo/kan/seed1-abc"
    write_state(tmp_path, run_id, CellState(name="failed", error="UsageError: no such file"))
    write_state(tmp_path, "gpt_neo/kan/seed2-abc", CellState(name="done"))
    found = failed_runs(tmp_path, None)
    assert list(failed_notes(found)) == [f"failed: {run_id} (UsageError: no such file)"]
    assert failed_runs(tmp_path, frozenset({"gpt_neo/kan/seed2-abc"})) == ()


@pytest.mark.parametrize(("seeds", "differ"), [([[1], [2]], False), ([[1], [1, 2]], True)])
def test_each_run_may_have_its_own_seed_of_finetuning(tmp_path: Path, seeds, differ):
    folders = {}
    for own in seeds:
        run_id = f"gpt_neo/gelu/seed{len(folders)}-x"
        folders[run_id] = RunFolder(tmp_path / run_id)
        folders[run_id].eval_dir.mkdir(parents=True)
        ledger = {"weights": "w", "tasks": {"glue/rte/linear": {"version": 3, "seeds": own}}}
        (tmp_path / run_id / "eval" / "done.json").write_text(json.dumps(ledger))
    assert bool(protocol_notes(folders)) == differ


def test_tasks_scored_differently_within_a_family_are_named(tmp_path: Path):
    folders = {}
    for family, seed, version in (("gpt_neo", 1, 2), ("gpt_neo", 2, 2), ("gpt_neo", 3, 1), ("roberta", 1, 9)):
        run_id = f"{family}/gelu/seed{seed}-x"
        folder = tmp_path / run_id / "eval"
        folder.mkdir(parents=True)
        protocol = {"version": version, "reduction": "sum"}
        (folder / "done.json").write_text(json.dumps({"weights": "w", "tasks": {"blimp/x": protocol}}))
        folders[run_id] = RunFolder(tmp_path / run_id)
    assert protocol_notes(folders) == [
        "scored differently in gpt_neo, version: gpt_neo/gelu/seed3-x against the other runs (blimp/x)"
    ]
