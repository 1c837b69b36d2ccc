"""What a run's folder keeps of each task, killed and damaged at every place."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from base.run.folder_names import RunFolder
from scores.rows import check_rows, unmark
from scores.store import ResultStore, Scores, read_scores

PROTOCOL = {"version": 2}


def record(store: ResultStore, task: str, protocol: dict, benchmark: str = "glue", score: float = 50) -> None:
    """Keep a score and two items of a task."""
    row = {"run_id": "gpt_neo/gelu/seed1-abc", "family": "gpt_neo", "variant": "=gelu", "seed": 1}
    scored = {"benchmark": benchmark, "task": task, "group": "GLUE", "metric": "accuracy", "score": score}
    items = pd.DataFrame({"task": task, "idx": ["0", "1"], "label": [0, 1], "prediction": [1, 1]})
    store.record(benchmark, task, protocol, check_rows(pd.DataFrame([row | scored | {"n_items": 2}])), items)


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


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "deleted":
        path.unlink()
        return
    half = len(content) // 2
    changed = {"emptied": b"", "halved": content[:half], "zeroed": bytes(len(content))}
    path.write_bytes(changed[how])


def test_items_from_before_there_were_heads_give_way_task_by_task(tmp_path):
    for protocol in ({"version": 2}, {"version": 3, "head": "default"}):
        for task in ("cola", "rte"):
            record(ResultStore(tmp_path, "weights"), task, protocol)
    items = pd.read_parquet(tmp_path / "eval" / "items" / "glue.parquet")
    assert items["task"].tolist() == ["cola"] * 2 + ["rte"] * 2
    assert set(items["head"]) == {"default"}


@pytest.mark.parametrize(
    "again", [pytest.param(False, marks=pytest.mark.ci), pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_kill_between_any_two_writes_leaves_every_finished_task_believed(tmp_path, monkeypatch, again):
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

        task = "rte" if again else "sst2"
        store = ResultStore(run_dir, "weights")
        monkeypatch.setattr("base.files.os.replace", kill)
        try:
            record(store, task, {"version": 3})
            finished = True
        except KeyboardInterrupt:
            steps += 1
        monkeypatch.setattr("base.files.os.replace", replace)
        before = known(run_dir)
        assert before.is_done("glue", "cola", PROTOCOL)
        assert before.is_done("blimp", "a", PROTOCOL)
        assert before.is_done("glue", task, {"version": 3}) is finished
        record(store if count % 2 else ResultStore(run_dir, "weights"), task, {"version": 3})
        after = known(run_dir)
        assert after.is_done("glue", task, {"version": 3})
        assert after.rows["task"].tolist() == (["a", "cola", "rte"] + ["sst2"] * (not again))
        assert len(pd.read_parquet(run_dir / "eval" / "items" / "glue.parquet")) == 2 * (2 + (not again))
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
    damage(run_dir / "eval" / name, how)
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
    as_text = pd.read_csv(run_dir / "eval" / "rows.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(
        check_rows(unmark(as_text), source="rows.csv"), undisturbed, check_exact=True
    )
    assert ResultStore(run_dir, "weights").notes == []


@pytest.mark.parametrize("how", ["halved", "deleted"])
def test_scores_without_a_ledger_are_kept_and_not_believed(tmp_path, how):
    run_dir = scored(tmp_path)
    rows = (run_dir / "eval" / "rows.parquet").read_bytes()
    damage(run_dir / "eval" / "done.json", how)
    store = ResultStore(run_dir, "weights")
    assert store.notes == [
        "eval/rows.parquet is not known to be of these weights; it is kept in eval-earlier-1, and everything "
        "is scored again"
    ]
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
