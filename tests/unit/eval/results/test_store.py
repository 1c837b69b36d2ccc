"""What a run's folder keeps of each task, killed and damaged at every place."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from base.errors import UsageError
from eval.results.ledger import look
from eval.results.rows import check_rows, read_csv_rows
from eval.results.store import ResultStore, Scores
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import read_completion, write_completion

PROTOCOL = {"version": 2}
FILES = ("rows.parquet", "rows.csv", "items/blimp.parquet", "items/glue.parquet")


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
    ledger, damaged = look(RunFolder(run_dir))
    assert ledger is not None
    assert not damaged
    return Scores(run_dir, ledger)


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "deleted":
        path.unlink()
        return
    half = len(content) // 2
    flipped = content[:half] + bytes([content[half] ^ 4]) + content[half + 1 :]
    changed = {"emptied": b"", "halved": content[:half], "zeroed": bytes(len(content)), "flipped": flipped}
    path.write_bytes(changed[how])


def test_items_from_before_there_were_heads_give_way_task_by_task(tmp_path):
    for protocol in ({"version": 2}, {"version": 3, "head": "default"}):
        for task in ("cola", "rte"):
            record(ResultStore(tmp_path, "weights"), task, protocol)
    items = pd.read_parquet(tmp_path / "eval" / "items" / "glue.parquet")
    assert items["task"].tolist() == ["cola"] * 2 + ["rte"] * 2
    assert set(items["head"]) == {"default"}


def test_the_ledger_has_the_checksum_and_size_of_every_file(tmp_path):
    scored(tmp_path)
    files = json.loads((tmp_path / "eval" / "done.json").read_text())["files"]
    by_hand = {}
    for name in FILES:
        content = (tmp_path / "eval" / name).read_bytes()
        by_hand[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert files == by_hand
    assert sorted(path.name for path in (tmp_path / "eval").iterdir()) == [
        "done.json", "items", "rows.csv", "rows.parquet",
    ]  # fmt: skip


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.ci
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
        assert after.rows()["task"].tolist() == (["a", "cola", "rte"] + ["sst2"] * (not again))
        assert len(pd.read_parquet(run_dir / "eval" / "items" / "glue.parquet")) == 2 * (2 + (not again))
        assert not list(run_dir.rglob("*.new")) + list(run_dir.rglob("*.tmp-*"))
    assert steps == 5  # the ledger, items, both tables, the ledger


@pytest.mark.parametrize("how", ["emptied", "halved", "zeroed", "flipped", "deleted"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.ci
def test_a_damaged_file_is_written_again_or_its_tasks_are_scored_again(tmp_path, capsys, name, how):
    undisturbed = known(scored(tmp_path / "whole")).rows()
    run_dir = scored(tmp_path / "run")
    damage(run_dir / "eval" / name, how)
    damaged = look(RunFolder(run_dir))[1]
    assert list(damaged) == [name]
    store = ResultStore(run_dir, "weights")
    assert len(store.notes) == 1
    assert name in store.notes[0]
    pd.testing.assert_frame_equal(store.rows(), undisturbed, check_exact=True)
    tasks = [("blimp", "a"), ("glue", "cola"), ("glue", "rte")]
    left = [task for benchmark, task in tasks if not store.is_done(benchmark, task, PROTOCOL)]
    assert left == {"items/blimp.parquet": ["a"], "items/glue.parquet": ["cola", "rte"]}.get(name, [])
    broken = run_dir / "eval" / f"{name}.broken"
    assert broken.exists() is (how != "deleted")
    assert (str(broken.name) in capsys.readouterr().err) is (how != "deleted")
    for number, (benchmark, task) in enumerate(tasks, start=1):
        if task in left:
            record(store, task, PROTOCOL, benchmark, score=100 / 7 * number)
    again = known(run_dir)
    pd.testing.assert_frame_equal(again.rows(), undisturbed, check_exact=True)
    pd.testing.assert_frame_equal(read_csv_rows(run_dir / "eval" / "rows.csv"), undisturbed, check_exact=True)
    assert ResultStore(run_dir, "weights").notes == []


def test_without_either_table_all_is_scored_again(tmp_path):
    run_dir = scored(tmp_path)
    for name in FILES[:2]:
        damage(run_dir / "eval" / name, "halved")
    store = ResultStore(run_dir, "weights")
    assert "3 tasks are scored again" in store.notes[0]
    assert store.rows().empty
    assert not store.is_done("blimp", "a", PROTOCOL)


@pytest.mark.parametrize("how", ["emptied", "halved", "zeroed", "flipped", "deleted"])
def test_scores_without_a_ledger_are_kept_and_not_believed(tmp_path, how):
    run_dir = scored(tmp_path)
    rows = (run_dir / "eval" / "rows.parquet").read_bytes()
    damage(run_dir / "eval" / "done.json", how)
    store = ResultStore(run_dir, "weights")
    assert store.notes == [
        "no ledger says how these scores were made; they are kept in eval/earlier-unknown, and everything is "
        "scored again"
    ]
    assert store.rows().empty
    assert (run_dir / "eval" / "earlier-unknown" / "rows.parquet").read_bytes() == rows
    record(store, "cola", PROTOCOL)
    assert known(run_dir).rows()["task"].tolist() == ["cola"]


def trained_anew(run_dir: Path) -> None:
    (run_dir / "model").mkdir()
    (run_dir / "model" / "config.json").write_text("{}")
    write_completion(RunFolder(run_dir), {}, "0123abcd")


def test_scores_of_another_training_are_kept_beside_the_new_ones(tmp_path):
    run_dir = scored(tmp_path)
    rows = (run_dir / "eval" / "rows.parquet").read_bytes()
    trained_anew(run_dir)
    completion = read_completion(RunFolder(run_dir))
    assert completion is not None
    for weights in ("trained1", completion.weights):
        store = ResultStore(run_dir, weights)
        assert len(store.notes) == 1
        record(store, "cola", PROTOCOL)
    assert (run_dir / "eval" / "earlier-weights" / "rows.parquet").read_bytes() == rows
    assert (run_dir / "eval" / "earlier-trained1" / "done.json").is_file()
    assert known(run_dir).rows()["task"].tolist() == ["cola"]


def test_weights_that_nothing_explains_leave_the_scores_alone(tmp_path):
    run_dir = scored(tmp_path)
    before = {path: path.read_bytes() for path in run_dir.rglob("*.*") if path.is_file()}
    with pytest.raises(UsageError, match="nothing says which are right"):
        ResultStore(run_dir, "others")
    assert {path: path.read_bytes() for path in run_dir.rglob("*.*") if path.is_file()} == before


def test_an_older_ledger_is_read_and_gets_checksums_with_the_next_task(tmp_path):
    run_dir = scored(tmp_path)
    path = run_dir / "eval" / "done.json"
    older = {key: json.loads(path.read_text())[key] for key in ("weights", "tasks")}
    path.write_text(json.dumps(older, indent=1) + "\n")
    assert known(run_dir).is_done("blimp", "a", PROTOCOL)
    store = ResultStore(run_dir, "weights")
    assert store.notes == []
    record(store, "sst2", PROTOCOL)
    assert set(json.loads(path.read_text())["files"]) == set(FILES)
    path.write_text(json.dumps(older))
    (run_dir / "eval" / "rows.parquet").write_bytes(b"PAR1")
    assert "3 tasks are scored again" in ResultStore(run_dir, "weights").notes[0]


def test_another_process_that_writes_meanwhile_damages_nothing(tmp_path, monkeypatch):
    """A reader that has the ledger of before, and sees the files of after."""
    run_dir, after = scored(tmp_path / "before"), scored(tmp_path / "after")
    record(ResultStore(after, "weights"), "sst2", PROTOCOL)
    from eval.results import ledger

    read, seen = ledger.read_ledger, []

    def slow(run):
        found = read(run)
        if not seen:
            shutil.copytree(after, run_dir, dirs_exist_ok=True)
        seen.append(found)
        return found

    monkeypatch.setattr(ledger, "read_ledger", slow)
    found, damaged = look(RunFolder(run_dir))
    assert found is not None
    assert not damaged
    assert "glue/sst2" in found.tasks
