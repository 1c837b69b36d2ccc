"""What a run's folder keeps of each task and its items, damaged at every place; metrics made of items."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from eval.model_card import _values
from report.compute import analyse
from report.inputs.sources import read_source
from report.request import Request
from scores.items import GRADES, cut_inputs, graded_rows
from scores.rows import ROW_COLUMNS, check_rows, read_rows, unmark
from scores.store import Measured, ResultStore, Scores, read_scores
from scores.suites import SUITES
from tests.cases import spoil

PROTOCOL = {"version": 2}


def record(store: ResultStore, task: str, protocol: dict, benchmark: str = "glue", score: float = 50) -> None:
    """Keep a score and two items of a task."""
    row = {"run_id": "gpt_neo/gelu/seed1-abc", "family": "gpt_neo", "variant": "=gelu", "seed": 1}
    scored = {"benchmark": benchmark, "task": task, "group": "GLUE", "metric": "accuracy", "score": score}
    items = pd.DataFrame({"task": task, "idx": ["0", "1"], "label": [0, 1], "prediction": [1, 1]})
    rows = check_rows(pd.DataFrame([row | scored | {"n_items": 2}]))
    store.record(Measured(benchmark, task, protocol, rows, items))


def scored(run_dir: Path) -> Path:
    """Score three tasks, with scores of all decimals."""
    for number, (benchmark, task) in enumerate([("blimp", "a"), ("glue", "cola"), ("glue", "rte")], start=1):
        record(ResultStore(run_dir, "weights"), task, PROTOCOL, benchmark, score=100 / 7 * number)
    return run_dir


def known(run_dir: Path) -> Scores:
    """Read a run as those do who write nothing; everything in it must be whole."""
    scores = read_scores(RunFolder(run_dir))
    assert scores.ledger is not None
    assert not scores.problem
    return scores


def test_items_from_before_there_were_heads_give_way_task_by_task(tmp_path):
    for protocol in ({"version": 2}, {"version": 3, "head": "default"}):
        for task in ("cola", "rte"):
            record(ResultStore(tmp_path, "weights"), task, protocol)
    items = pd.read_parquet(tmp_path / "eval" / "items" / "glue.parquet")
    assert items["task"].tolist() == ["cola"] * 2 + ["rte"] * 2
    assert set(items["head"]) == {"default"}


@pytest.mark.ci
def test_a_kill_between_any_two_writes_leaves_every_finished_task_believed(tmp_path, monkeypatch):
    """Every rename may be the last that happens; one that is left out stands for the kill before it."""
    replace, steps = __import__("os").replace, 0
    finished = False
    while not finished:
        run_dir = scored(tmp_path / f"killed{steps}")
        count = 0

        def kill(source, target, last=steps):
            nonlocal count
            if count == last:
                raise KeyboardInterrupt
            count += 1
            replace(source, target)

        store = ResultStore(run_dir, "weights")
        monkeypatch.setattr("base.files.os.replace", kill)
        try:
            record(store, "sst2", {"version": 3})
            finished = True
        except KeyboardInterrupt:
            steps += 1
        monkeypatch.setattr("base.files.os.replace", replace)
        before = known(run_dir)
        assert before.is_done("glue", "cola", PROTOCOL)
        assert before.is_done("blimp", "a", PROTOCOL)
        assert before.is_done("glue", "sst2", {"version": 3}) is finished
        record(store if count % 2 else ResultStore(run_dir, "weights"), "sst2", {"version": 3})
        after = known(run_dir)
        assert after.is_done("glue", "sst2", {"version": 3})
        assert after.rows["task"].tolist() == ["a", "cola", "rte", "sst2"]
        assert len(pd.read_parquet(run_dir / "eval" / "items" / "glue.parquet")) == 6
        assert not list(run_dir.rglob("*.new")) + list(run_dir.rglob("*.tmp-*"))
    assert steps == 5  # the ledger, items, both tables, the ledger


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("rows.parquet", "emptied"),
        pytest.param("rows.parquet", "deleted", marks=pytest.mark.ci),
        ("items/blimp.parquet", "zeroed"),
        ("items/glue.parquet", "halved"),
        pytest.param("items/glue.parquet", "deleted", marks=pytest.mark.ci),
    ],
)
def test_of_a_damaged_file_the_tasks_are_scored_again(tmp_path, name, how):
    undisturbed = known(scored(tmp_path / "whole")).rows
    run_dir = scored(tmp_path / "run")
    spoil(run_dir / "eval" / name, how)
    assert bool(read_scores(RunFolder(run_dir)).problem) == (name == "rows.parquet")
    store = ResultStore(run_dir, "weights")
    (note,) = store.notes
    assert note.startswith(f"eval/{name} ")
    assert note.endswith(" is scored again")
    tasks = [("blimp", "a"), ("glue", "cola"), ("glue", "rte")]
    left = [task for benchmark, task in tasks if not store.is_done(benchmark, task, PROTOCOL)]
    expected = {"items/blimp.parquet": ["a"], "items/glue.parquet": ["cola", "rte"]}
    assert left == expected.get(name, ["a", "cola", "rte"])
    for number, (benchmark, task) in enumerate(tasks, start=1):
        if task in left:
            record(store, task, PROTOCOL, benchmark, score=100 / 7 * number)
    again = known(run_dir)
    pd.testing.assert_frame_equal(again.rows, undisturbed, check_exact=True)
    as_text = unmark(pd.read_csv(run_dir / "eval" / "rows.csv", dtype=str, keep_default_na=False))
    pd.testing.assert_frame_equal(check_rows(as_text, source="rows.csv"), undisturbed, check_exact=True)
    assert ResultStore(run_dir, "weights").notes == []


@pytest.mark.parametrize("how", ["halved", "deleted"])
def test_scores_without_a_ledger_are_kept_and_not_believed(tmp_path, how):
    run_dir = scored(tmp_path)
    rows = (run_dir / "eval" / "rows.parquet").read_bytes()
    spoil(run_dir / "eval" / "done.json", how)
    store = ResultStore(run_dir, "weights")
    (note,) = store.notes
    assert note.startswith(
        "eval/rows.parquet is not known to be of these weights; it is kept in eval-earlier-1"
    )
    assert store.rows.empty
    assert (run_dir / "eval-earlier-1" / "rows.parquet").read_bytes() == rows
    record(store, "cola", PROTOCOL)
    assert known(run_dir).rows["task"].tolist() == ["cola"]


def test_scores_of_other_weights_are_kept_beside_the_new_ones(tmp_path):
    run_dir = scored(tmp_path)
    rows = (run_dir / "eval" / "rows.parquet").read_bytes()
    for number, weights in enumerate(["trained1", "trained2"], start=1):
        store = ResultStore(run_dir, weights)
        assert f"kept in eval-earlier-{number}" in store.notes[0]
        record(store, "cola", PROTOCOL)
    assert (run_dir / "eval-earlier-1" / "rows.parquet").read_bytes() == rows
    assert (run_dir / "eval-earlier-2" / "done.json").is_file()
    assert known(run_dir).rows["task"].tolist() == ["cola"]


RUNS = [("roberta", variant, seed) for variant in ("gelu", "kan") for seed in (1, 2)]
PAIRS = {"agreement": ("syntax", 40), "order": ("syntax", 25), "number": ("morphology", 30)}
DOMAINS = {"agent-properties": 30, "physical-relations": 20}
PAIR_METRICS = ["log_odds", "log_odds_per_token"]


def record_items(
    graded_study: Path,
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
    (graded_study / run_id / "eval").mkdir(parents=True, exist_ok=True)
    store = ResultStore(graded_study / run_id, "weights")
    rows = pd.DataFrame([row], columns=list(ROW_COLUMNS))
    items = items.assign(suite=benchmark, task=task)
    store.record(Measured(benchmark, task, {"name": protocol}, rows, items))
    return RunFolder(graded_study / run_id).items_file(benchmark)


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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for place, run in enumerate(RUNS):
        generator = np.random.default_rng(place)
        for task, (group, size) in PAIRS.items():
            record_items(folder, run, "blimp", task, group, pairs(generator, size))
        for task, size in DOMAINS.items():
            record_items(folder, run, "ewok", task, "ewok", pairs(generator, size))
    return folder


@pytest.fixture
def graded_study(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change, from before there were checksums."""
    folder = shutil.copytree(made, tmp_path / "study")
    for path in folder.rglob("done.json"):
        ledger = json.loads(path.read_text())
        path.write_text(json.dumps({"weights": ledger["weights"], "tasks": ledger["tasks"]}))
    return folder


def rows_of(graded_study: Path) -> pd.DataFrame:
    paths = sorted(graded_study.rglob("rows.parquet"))
    return pd.concat(map(read_rows, paths), ignore_index=True)


def graded(graded_study: Path) -> tuple[pd.DataFrame, list[str]]:
    return graded_rows(graded_study, rows_of(graded_study))


def items_of(graded_study: Path, benchmark: str, run_id: str = "roberta/kan/seed1-0a1b2c3d") -> Path:
    return RunFolder(graded_study / run_id).items_file(benchmark)


def change_items(path: Path, how) -> None:
    how(pd.read_parquet(path)).to_parquet(path, index=False)


def test_grades_are_those_of_the_stored_items(graded_study: Path):
    found, notes = graded(graded_study)
    assert notes == []
    assert len(found) == len(RUNS) * (2 * len(PAIRS) + len(DOMAINS))
    together = check_rows(pd.concat([rows_of(graded_study), found]))
    for row in together[together.metric != "accuracy"].itertuples():
        items = pd.read_parquet(graded_study / row.run_id / "eval" / "items" / f"{row.benchmark}.parquet")
        items = items[items.task == row.task]
        odds = items.score_good - items.score_bad
        divided = odds / items.num_tokens_differing.replace(0, 1)
        expected = (odds if row.metric == "log_odds" else divided).mean()
        assert row.score == pytest.approx(expected, rel=1e-12)
        assert row.n_items == len(items)
        assert not row.primary
        assert row.run_id.startswith(f"{row.family}/{row.variant}/seed{row.seed}-")
        assert row.group == (PAIRS[row.task][0] if row.task in PAIRS else "ewok")
    assert set(found[found.benchmark == "blimp"].metric) == set(PAIR_METRICS)
    assert set(found[found.benchmark == "ewok"].metric) == {"log_odds"}


def test_what_is_said_of_a_suite_is_not_said_of_its_degrees(graded_study: Path):
    request = Request(margin=("blimp=2",), chance=("blimp=49", "blimp log odds=0.1"))
    analysis = analyse(read_source(graded_study), request)
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


def test_tasks_that_have_no_score_and_metrics_that_rows_have_are_left_as_they_are(graded_study: Path):
    rows = rows_of(graded_study)
    own = rows[(rows.benchmark == "blimp") & (rows.task == "order")]
    own = own.assign(metric="log_odds", score=7.0, primary=False)
    some = pd.concat([rows[rows.task != "number"], own])
    found, notes = graded_rows(graded_study, some)
    assert notes == []
    of_pairs = found[found.benchmark == "blimp"]
    assert set(of_pairs.metric) == {"log_odds_per_token"}
    assert set(of_pairs.task) == {"agreement", "order"}


def exchanged(path: Path) -> None:
    shutil.copy(path.parents[3] / "seed2-0a1b2c3d" / "eval" / "items" / path.name, path)


def without(column: str) -> Callable[[Path], None]:
    return lambda path: change_items(path, lambda items: items.drop(columns=column))


@pytest.mark.parametrize(
    ("change", "reason", "lacking"),
    [
        (Path.unlink, "which has no items", PAIR_METRICS),
        (lambda path: path.write_bytes(b"none"), "which has no readable items", PAIR_METRICS),
        (without("task"), "which has no readable items", PAIR_METRICS),
        (without("num_tokens_differing"), "whose items are from before they held", PAIR_METRICS[1:]),
        (exchanged, "whose items of agreement, number, order do not average to its accuracy", PAIR_METRICS),
        (
            lambda path: change_items(path, lambda items: items.assign(margin="far")),
            "whose items are not as they should be (Failed to parse string",
            PAIR_METRICS,
        ),
    ],
)
def test_runs_that_cannot_be_graded_are_named_and_the_others_are(graded_study: Path, change, reason, lacking):
    whole, _ = graded(graded_study)
    change(items_of(graded_study, "blimp"))
    found, notes = graded(graded_study)
    assert len(notes) == len(lacking)
    for metric, note in zip(lacking, notes, strict=True):
        assert note.startswith(f"blimp: no {metric} of roberta/kan/seed1-0a1b2c3d, {reason}")
    of_run = (whole.run_id == "roberta/kan/seed1-0a1b2c3d") & (whole.benchmark == "blimp")
    gone = of_run & whole.metric.isin(lacking)
    pd.testing.assert_frame_equal(found, whole[~gone].reset_index(drop=True))


def test_items_of_another_run_are_scored_again(graded_study: Path):
    path = items_of(graded_study, "blimp")
    assert ResultStore(path.parents[2], "weights").notes == []
    exchanged(path)
    rows = read_rows(path.parents[1] / "rows.parquet")
    pairs_alone = rows[rows["benchmark"] == "blimp"]
    with pytest.raises(UsageError, match=r"does not average to the accuracy of .*; evaluate the run again"):
        _values(RunFolder(path.parents[2]), pairs_alone)
    store = ResultStore(path.parents[2], "weights")
    (note,) = store.notes
    assert note.startswith(
        "eval/items/blimp.parquet does not average to the accuracy of agreement, number, order"
    )
    assert not store.is_done("blimp", "order", {"name": "native"})
    assert store.is_done("ewok", "agent-properties", {"name": "native"})
    assert not path.exists()


def test_a_task_with_a_score_that_is_not_finite_is_left_out_alone(graded_study: Path):
    infinite = {"margin": lambda items: items.margin.where(items.task != "order", np.inf)}
    change_items(items_of(graded_study, "blimp"), lambda items: items.assign(**infinite))
    found, notes = graded(graded_study)
    assert notes[0].startswith(
        "blimp: no log_odds of roberta/kan/seed1-0a1b2c3d, whose items of order are not"
    )
    own = found[(found.run_id == "roberta/kan/seed1-0a1b2c3d") & (found.metric == "log_odds")]
    assert set(own[own.benchmark == "blimp"].task) == {"agreement", "number"}


def test_a_task_is_named_where_most_of_its_inputs_lost_tokens():
    shares = {"whole": [False] * 4, "half": [True, False], "most": [True, True, False, True], "all": [True]}
    rows = [(task, x) for task, own in shares.items() for x in own]
    assert cut_inputs(pd.DataFrame(rows, columns=["task", "truncated"])) == {"most": 0.75, "all": 1.0}
