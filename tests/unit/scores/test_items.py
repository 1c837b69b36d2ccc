"""Graded metrics against plain recomputations from stored items, and tasks whose inputs are cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import softmax

from base.errors import UsageError
from base.run.folder_names import RunFolder
from eval.model_card import _values
from report.compute import analyse
from report.inputs.sources import read_source
from report.request import Request
from scores.items import GRADES, cut_input_notes, cut_inputs, graded_rows
from scores.rows import ROW_COLUMNS, check_rows, read_rows
from scores.store import ResultStore
from scores.suites import SUITES

RUNS = [("roberta", variant, seed) for variant in ("gelu", "kan") for seed in (1, 2)]
PAIRS = {"agreement": ("syntax", 40), "order": ("syntax", 25), "number": ("morphology", 30)}
BOXES = {"regular": 30, "ambiref": 20}
PAIR_METRICS = ["log_odds", "log_odds_per_token"]


def record(
    study: Path,
    run: tuple[str, str, int],
    benchmark: str,
    task: str,
    group: str,
    items: pd.DataFrame,
    protocol: str = "native",
) -> Path:
    """Store one task of a run as the evaluation does; returns the file of its items."""
    family, variant, seed = run
    run_id = f"{family}/{variant}/seed{seed}-0a1b2c3d"
    score = 100 * items["correct"].mean()
    row = (run_id, *run, benchmark, task, group, "accuracy", score, len(items), "", True)
    (study / run_id / "eval").mkdir(parents=True, exist_ok=True)
    store = ResultStore(study / run_id, "weights")
    rows = pd.DataFrame([row], columns=list(ROW_COLUMNS))
    store.record(benchmark, task, {"name": protocol}, rows, items.assign(suite=benchmark, task=task))
    return RunFolder(study / run_id).items_file(benchmark)


def pairs(generator: np.random.Generator, size: int) -> pd.DataFrame:
    good, bad = generator.normal(-30, 5, (2, size))
    good[:2] = bad[:2]  # two pairs of the same sentence twice
    differing = np.r_[0, 0, generator.integers(1, 6, size - 2)]
    return pd.DataFrame(
        {
            "pair_id": np.arange(size).astype(str), "score_good": good, "score_bad": bad,
            "margin": good - bad, "num_tokens_differing": differing,
            "correct": (good > bad) + 0.5 * (good == bad),
        }
    )  # fmt: skip


def boxes(generator: np.random.Generator, size: int, options: int = 5) -> pd.DataFrame:
    scores = generator.normal(-8, 2, (size, options))
    correct = scores.argmax(1) == 0
    return pd.DataFrame(
        {"item_id": np.arange(size).astype(str), "scores": scores.tolist(), "correct": correct.astype(float)}
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for place, run in enumerate(RUNS):
        generator = np.random.default_rng(place)
        for task, (group, size) in PAIRS.items():
            record(folder, run, "blimp", task, group, pairs(generator, size))
        for task, size in BOXES.items():
            record(folder, run, "entity-tracking", task, "entity_tracking", boxes(generator, size))
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change, from before there were checksums."""
    folder = shutil.copytree(made, tmp_path / "study")
    for path in folder.rglob("done.json"):
        ledger = json.loads(path.read_text())
        path.write_text(json.dumps({"weights": ledger["weights"], "tasks": ledger["tasks"]}))
    return folder


def rows_of(study: Path) -> pd.DataFrame:
    return pd.concat([read_rows(path) for path in sorted(study.rglob("rows.parquet"))], ignore_index=True)


def graded(study: Path) -> tuple[pd.DataFrame, list[str]]:
    return graded_rows(study, rows_of(study))


def items_of(study: Path, benchmark: str, run_id: str = "roberta/kan/seed1-0a1b2c3d") -> Path:
    return RunFolder(study / run_id).items_file(benchmark)


def change(path: Path, how) -> None:
    how(pd.read_parquet(path)).to_parquet(path, index=False)


def test_grades_are_those_of_the_stored_items(study: Path):
    found, notes = graded(study)
    assert notes == []
    assert len(found) == len(RUNS) * (2 * len(PAIRS) + len(BOXES))
    together = check_rows(pd.concat([rows_of(study), found]))
    for row in together[together.metric != "accuracy"].itertuples():
        items = pd.read_parquet(study / row.run_id / "eval" / "items" / f"{row.benchmark}.parquet")
        items = items[items.task == row.task]
        if row.metric == "probability":
            expected = np.mean([100 * softmax(scores)[0] for scores in items.scores])
        else:
            odds = items.score_good - items.score_bad
            divided = odds / items.num_tokens_differing.replace(0, 1)
            expected = (odds if row.metric == "log_odds" else divided).mean()
        assert row.score == pytest.approx(expected, rel=1e-12)
        assert row.n_items == len(items)
        assert not row.primary
        assert row.run_id.startswith(f"{row.family}/{row.variant}/seed{row.seed}-")
        assert row.group == (PAIRS[row.task][0] if row.task in PAIRS else "entity_tracking")
    assert set(found[found.benchmark == "blimp"].metric) == set(PAIR_METRICS)
    assert set(found[found.benchmark == "entity-tracking"].metric) == {"probability"}


def test_what_is_said_of_a_suite_is_not_said_of_its_degrees(study: Path):
    request = Request(margin=("blimp=2",), chance=("blimp=49", "blimp log odds=0.1"))
    analysis = analyse(read_source(study), request)
    metrics = {str(name): metric for name, metric in analysis.metrics.items()}
    assert (metrics["blimp"].margin, metrics["blimp"].chance) == (2, 49)
    (of_suite, _) = SUITES["blimp"].graded
    assert (metrics["blimp log odds"].margin, metrics["blimp log odds"].chance) == (of_suite.margin, 0.1)
    assert metrics["blimp log odds per token"].chance == 0


def test_what_suites_call_graded_can_be_made_and_is_no_metric_of_theirs():
    for spec in SUITES.values():
        names = {metric.name for metric in spec.graded}
        assert names <= GRADES.keys()
        assert not names & {metric.name for metric in spec.metrics}
        assert all(metric.better == "higher" and metric.chance is not None for metric in spec.graded)
        assert bool(names) or spec.kind != "minimal pairs"


def test_probabilities_need_no_normalised_scores():
    scores = [[-1000.0, -1001.0], [300.0, 299.5, 300.5]]
    found = GRADES["probability"].of_items(pa.Table.from_pandas(pd.DataFrame({"scores": scores})))
    assert found == pytest.approx([100 * softmax(of_item)[0] for of_item in scores])


def test_tasks_that_have_no_score_and_metrics_that_rows_have_are_left_as_they_are(study: Path):
    rows = rows_of(study)
    own = rows[(rows.benchmark == "blimp") & (rows.task == "order")].assign(
        metric="log_odds", score=7.0, primary=False
    )
    some = pd.concat([rows[rows.task != "number"], own])
    found, notes = graded_rows(study, some)
    assert notes == []
    of_pairs = found[found.benchmark == "blimp"]
    assert set(zip(of_pairs.task, of_pairs.metric, strict=True)) == {
        (task, "log_odds_per_token") for task in ("agreement", "order")
    }


def no_items(path: Path) -> None:
    path.unlink()


def no_parquet(path: Path) -> None:
    path.write_bytes(b"none")


def no_task(path: Path) -> None:
    change(path, lambda items: items.drop(columns="task"))


def no_count(path: Path) -> None:
    change(path, lambda items: items.drop(columns="num_tokens_differing"))


def no_number(path: Path) -> None:
    change(path, lambda items: items.assign(margin="far"))


def infinite(path: Path) -> None:
    change(path, lambda items: items.assign(margin=items.margin.where(items.task != "order", np.inf)))


def exchanged(path: Path) -> None:
    shutil.copy(path.parents[3] / "seed2-0a1b2c3d" / "eval" / "items" / path.name, path)


@pytest.mark.parametrize(
    ("spoil", "reason", "lacking"),
    [
        (no_items, "which has no items", PAIR_METRICS),
        (no_parquet, "which has no readable items", PAIR_METRICS),
        (no_task, "which has no readable items", PAIR_METRICS),
        (no_count, "whose items are from before they held what it is made of", ["log_odds_per_token"]),
        (exchanged, "whose items of agreement, number, order do not average to its accuracy", PAIR_METRICS),
        (no_number, "whose items are not as they should be (Failed to parse string", PAIR_METRICS),
    ],
)
def test_runs_that_cannot_be_graded_are_named_and_the_others_are(study: Path, spoil, reason, lacking):
    whole, _ = graded(study)
    spoil(items_of(study, "blimp"))
    found, notes = graded(study)
    assert len(notes) == len(lacking)
    for metric, note in zip(lacking, notes, strict=True):
        assert note.startswith(f"blimp: no {metric} of roberta/kan/seed1-0a1b2c3d, {reason}")
    gone = (whole.run_id == "roberta/kan/seed1-0a1b2c3d") & whole.metric.isin(lacking)
    pd.testing.assert_frame_equal(found, whole[~gone].reset_index(drop=True))


def test_items_of_another_run_are_scored_again(study: Path):
    path = items_of(study, "blimp")
    assert ResultStore(path.parents[2], "weights").notes == []
    exchanged(path)
    rows = read_rows(path.parents[1] / "rows.parquet")
    pairs_alone = rows[rows["benchmark"] == "blimp"]
    with pytest.raises(UsageError, match=r"does not average to the accuracy of .*; evaluate the run again"):
        _values(RunFolder(path.parents[2]), pairs_alone)
    store = ResultStore(path.parents[2], "weights")
    assert store.notes == [
        "eval/items/blimp.parquet does not average to the accuracy of agreement, number, order; "
        "blimp is scored again"
    ]
    assert not store.is_done("blimp", "order", {"name": "native"})
    assert store.is_done("entity-tracking", "regular", {"name": "native"})
    assert not path.exists()


def test_a_task_with_a_score_that_is_not_finite_is_left_out_alone(study: Path):
    infinite(items_of(study, "blimp"))
    found, notes = graded(study)
    assert notes[0] == (
        "blimp: no log_odds of roberta/kan/seed1-0a1b2c3d, whose items of order are not all there with a "
        "finite margin"
    )
    own = found[(found.run_id == "roberta/kan/seed1-0a1b2c3d") & (found.metric == "log_odds")]
    assert set(own.task) == {"agreement", "number"}


def test_a_task_is_named_where_most_of_its_inputs_lost_tokens(tmp_path: Path):
    shares = {"whole": [False] * 4, "half": [True, False], "most": [True, True, False, True], "all": [True]}
    table = pd.DataFrame(
        [(task, x) for task, own in shares.items() for x in own], columns=["task", "truncated"]
    )
    assert cut_inputs(table) == {"most": 0.75, "all": 1.0}
    runs = {name: RunFolder(tmp_path / name) for name in "ab"}
    for run in runs.values():
        run.items_dir.mkdir(parents=True)
        table.to_parquet(run.items_file("glue"))
        pd.DataFrame({"task": ["x"], "correct": [True]}).to_parquet(run.items_file("blimp"))
    table[table.task == "all"].to_parquet(runs["b"].items_file("glue"))
    (runs["b"].items_dir / "broken.parquet").write_bytes(b"no parquet")
    assert cut_input_notes(runs) == [
        "glue/all: 100% of the inputs are longer than what the model reads, and cut, in a, b",
        "glue/most: 75% of the inputs are longer than what the model reads, and cut, in a",
    ]
