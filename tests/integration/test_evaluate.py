"""Evaluating saved runs: rows, items, resuming, and what a user sees of mistakes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from eval.config import EvalConfig
from eval.evaluate import evaluate_run
from eval.finetuning import FinetuneConfig
from eval.identity import identify_run
from eval.protocol import ProtocolConfig
from eval.work_units import check_sources, is_evaluated
from eval.zero_shot.text_task import find_suite_tasks
from ffn_variants import UsageError
from pretrain.run.run_folder import sole_writer
from scores.rows import ROW_COLUMNS, read_rows
from scores.run_scores import summary
from tests.cases import first_is_fast

GLUE = FinetuneConfig(num_train_epochs=1, max_train_examples=64, max_validation_examples=32)
EVERY = EvalConfig(suites=("embedded-pairs",), embedded_pairs_per_paradigm=5)
SIX = tuple(task.name for task in find_suite_tasks("embedded-pairs", EVERY)[:6])
PAIRS = EVERY.model_copy(update={"pair_tasks": SIX})
BOTH = PAIRS.model_copy(update={"suites": ("embedded-pairs", "embedded-glue"), "finetune": GLUE})


def done_records(run: Path) -> list[dict]:
    return list(json.loads((run / "eval" / "done.json").read_text())["tasks"].values())


def count_calls(monkeypatch) -> list[str]:
    """Record the tasks that are measured from here on."""
    import eval.classification.score_task
    from eval.zero_shot.pairs_and_choices import ChoiceTask

    calls: list[str] = []
    measure, evaluate_tasks = ChoiceTask.measure, eval.classification.score_task.evaluate_tasks

    def counted_pairs(task, *arguments):
        calls.append(task.name)
        return measure(task, *arguments)

    def counted_tasks(model_dir, tasks, *arguments):
        calls.extend(task.name for task in tasks)
        return evaluate_tasks(model_dir, tasks, *arguments)

    monkeypatch.setattr(ChoiceTask, "measure", counted_pairs)
    monkeypatch.setattr("eval.evaluate.evaluate_tasks", counted_tasks)
    return calls


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "roberta"]))
@pytest.mark.ci
def test_a_run_gets_rows_and_items(make_run, family):
    run = make_run(family, "kan")
    rows = evaluate_run(run, BOTH, progress=False)
    assert tuple(rows.columns) == ROW_COLUMNS
    pd.testing.assert_frame_equal(rows, read_rows(run / "eval" / "rows.parquet"))
    assert set(rows["run_id"]) == {"/".join(run.parts[-3:])}
    assert set(zip(rows["family"], rows["variant"], rows["seed"], strict=True)) == {(family, "kan", 3)}
    assert rows.groupby("benchmark").size().to_dict() == {"embedded-glue": 2, "embedded-pairs": 6}
    assert set(rows["metric"]) == {"accuracy"}
    assert set(rows.loc[rows["benchmark"] == "embedded-glue", "group"]) == {"GLUE"}
    pairs = pd.read_parquet(run / "eval" / "items" / "embedded-pairs.parquet")
    recomputed = 100 * pairs.groupby("task")["correct"].mean()
    stored = rows[rows["benchmark"] == "embedded-pairs"].set_index("task")["score"]
    pd.testing.assert_series_equal(recomputed.sort_index(), stored.sort_index(), check_names=False)
    assert ((pairs["score_good"] > pairs["score_bad"]) == (pairs["margin"] > 0)).all()
    glue = pd.read_parquet(run / "eval" / "items" / "embedded-glue.parquet")
    assert len(glue) == 2 * 32
    assert (glue["logits"].map(lambda logits: logits.argmax()) == glue["prediction"]).all()
    assert glue["protocol"].nunique() == 1
    assert not list(run.rglob("*.tmp-*"))


def test_work_that_is_done_is_not_repeated(make_run, monkeypatch):
    run = make_run()
    assert not is_evaluated(run, BOTH)
    assert is_evaluated(run, EvalConfig(suites=()))  # asks for nothing
    first = evaluate_run(run, BOTH, progress=False)
    (run / "model" / "README.md").write_text("# A card\n")  # no part of the weights
    assert is_evaluated(run, BOTH)
    calls = count_calls(monkeypatch)
    pd.testing.assert_frame_equal(evaluate_run(run, BOTH, progress=False), first)
    assert calls == []
    # Another suite or speed asks for nothing new; another protocol asks for its own tasks only.
    assert is_evaluated(run, PAIRS.model_copy(update={"batch_tokens": 64}))
    more_epochs = BOTH.model_copy(update={"finetune": GLUE.model_copy(update={"num_train_epochs": 2})})
    assert not is_evaluated(run, more_epochs)
    evaluate_run(run, more_epochs, progress=False)
    assert calls == ["acceptability", "entailment"]


@pytest.mark.parametrize(("step", "num_done"), [("items", 3), ("rows.parquet", 3), ("done.json", 1)])
@pytest.mark.ci
def test_a_kill_while_writing_loses_one_task_at_most(make_run, monkeypatch, step, num_done):
    run = make_run()
    undisturbed = evaluate_run(run, PAIRS, progress=False)
    shutil.rmtree(run / "eval")
    replace, killed_at = os.replace, []

    def kill_at_the_fourth(source, target):
        if step in str(target) and len(killed_at) < 4:
            killed_at.append(target)
            if len(killed_at) == 4:
                raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr("base.files.os.replace", kill_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(run, PAIRS, progress=False)
    calls = count_calls(monkeypatch)
    resumed = evaluate_run(run, PAIRS, progress=False)
    assert len(calls) == 6 - num_done
    pd.testing.assert_frame_equal(resumed, undisturbed)
    items = pd.read_parquet(run / "eval" / "items" / "embedded-pairs.parquet")
    assert len(items) == 6 * 5
    assert not items.duplicated(["task", "pair_id"]).any()


@pytest.mark.ci
def test_other_weights_are_scored_where_their_training_vouches_for_them(make_run, capsys):
    run, other = make_run(seed=3), make_run(seed=4)
    before = evaluate_run(run, BOTH, progress=False)
    shutil.copy(other / "model" / "model.safetensors", run / "model" / "model.safetensors")
    assert not is_evaluated(run, PAIRS)
    write_completion(RunFolder(run), {}, "")
    rows = evaluate_run(run, PAIRS)
    assert "is not known to be of these weights" in capsys.readouterr().err
    assert set(rows["benchmark"]) == {"embedded-pairs"}
    expected = evaluate_run(other, PAIRS, progress=False)
    assert rows["score"].tolist() == expected["score"].tolist()
    (earlier,) = run.glob("eval-earlier-*")
    pd.testing.assert_frame_equal(read_rows(earlier / "rows.parquet"), before)


def test_a_damaged_model_is_refused_and_its_scores_stay(make_run, evaluate, capsys):
    run, whole = make_run(seed=3), make_run(seed=4)
    for each in (run, whole):
        write_completion(RunFolder(each), {}, "")
    before = evaluate_run(run, PAIRS, progress=False)
    path = run / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x80
    path.write_bytes(content)
    assert not is_evaluated(run, PAIRS)
    names = ("--suites", "embedded-pairs", "--embedded-pairs-per-paradigm", 5, "--pair-tasks", *SIX)
    assert evaluate(run, whole, *names, "--workers", 1) == 2
    told, said = capsys.readouterr()
    (line,) = (line for line in said.splitlines() if "model.safetensors" in line)
    assert "ffn-ablations train" in line
    assert SIX[0] in told
    assert identify_run(whole).run_id in told
    pd.testing.assert_frame_equal(read_rows(run / "eval" / "rows.parquet"), before)
    assert is_evaluated(whole, PAIRS)  # the other run was scored all the same


def test_whether_a_run_is_scored_can_be_asked_of_any_folder(make_run):
    run = make_run()
    evaluate_run(run, PAIRS, progress=False)
    for name in ("config.yaml", "eval/done.json", "eval/rows.parquet", "model/config.json"):
        whole = (run / name).read_bytes()
        for content in (b"", b"[]", b"\xff\xfe", b"{"):
            (run / name).write_bytes(content)
            assert not is_evaluated(run, PAIRS), (name, content)
        (run / name).write_bytes(whole)
    assert is_evaluated(run, PAIRS)


def test_faulty_data_keeps_what_was_scored_before(make_run, tmp_path):
    run = make_run()
    folder = tmp_path / "blimp" / "full"
    folder.mkdir(parents=True)
    good = json.dumps({"sentence_good": "the dog ran", "sentence_bad": "the dog run"}) + "\n"
    (folder / "a.jsonl").write_text(good)
    (folder / "b.jsonl").write_text(good + '{"sentence_bad": "x"}\n')
    config = EvalConfig(suites=("blimp",), blimp_dir=tmp_path / "blimp")
    with pytest.raises(UsageError, match=r"b\.jsonl, row 2: no column 'sentence_good'"):
        evaluate_run(run, config, progress=False)
    assert read_rows(run / "eval" / "rows.parquet")["task"].tolist() == ["a"]
    (folder / "b.jsonl").write_text(good)
    assert evaluate_run(run, config, progress=False)["task"].tolist() == ["a", "b"]


def test_what_is_no_run_or_has_no_model_is_refused(make_run, tmp_path):
    with pytest.raises(UsageError, match="no run folder"):
        evaluate_run(tmp_path, PAIRS)
    run = make_run()
    shutil.rmtree(run / "model")
    with pytest.raises(UsageError, match=r"has no model/config\.json"):
        evaluate_run(run, PAIRS)
    assert not (run / "eval" / "rows.parquet").exists()
    assert not is_evaluated(run, PAIRS)


def test_one_process_at_a_time(make_run):
    run = make_run()
    with sole_writer(run), pytest.raises(UsageError, match="another process"):
        evaluate_run(run, PAIRS, progress=False)


def test_sources_are_checked_before_any_model_is_loaded(shared_data, tmp_path):
    real = EvalConfig(blimp_dir=shared_data / "blimp", glue_dir=shared_data / "glue")
    assert check_sources(real) == []
    with pytest.raises(UsageError, match=f"did you mean '{SIX[0]}'"):
        check_sources(PAIRS.model_copy(update={"pair_tasks": (f"{SIX[0]}s",)}))
    with pytest.raises(UsageError, match="no folder"):
        check_sources(EvalConfig(suites=("glue",), glue_dir=tmp_path / "absent"))
    (tmp_path / "full").mkdir()
    shutil.copy(shared_data / "blimp" / "full" / "passive_1.jsonl.gz", tmp_path / "full")
    (note,) = check_sources(EvalConfig(suites=("blimp",), blimp_dir=tmp_path))
    assert "leaves out 66 absent tasks" in note


def test_protocols_are_recorded_and_done_each_for_itself(make_run):
    run = make_run()
    first = evaluate_run(run, PAIRS, progress=False)
    spaced = PAIRS.model_copy(update={"protocol": ProtocolConfig(preset="babylm23", prefix="bos")})
    assert not is_evaluated(run, spaced)
    second = evaluate_run(run, spaced, progress=False)
    assert is_evaluated(run, spaced)
    assert not is_evaluated(run, PAIRS)
    assert second["task"].tolist() == first["task"].tolist()
    items = pd.read_parquet(run / "eval" / "items" / "embedded-pairs.parquet")
    assert items["protocol"].str.startswith("babylm23,prefix=bos ").all()
    (record,) = {json.dumps({**r, "data": 0}) for r in done_records(run)}
    assert '"leading_space": "one"' in record
    assert '"prefix": "bos"' in record


def test_perplexity_takes_what_pretraining_held_out(make_run, tmp_path, capsys):
    run = make_run()
    config = EvalConfig(suites=("perplexity",), max_pairs=4)
    rows = evaluate_run(run, config, progress=False)
    assert dict(zip(rows["metric"], rows["n_items"], strict=True)) == {"perplexity": 4, "bits_per_byte": 4}
    assert rows["score"][rows["metric"] == "bits_per_byte"].between(1, 20).all()
    assert is_evaluated(run, config)
    (tmp_path / "own.txt").write_text("A story of my own.")
    own = config.model_copy(update={"text_file": tmp_path / "own.txt"})
    assert set(evaluate_run(run, own, progress=False)["task"]) == {"validation", "own"}
    assert "validation bits_per_byte" in summary([rows]).replace("  ", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("RUN --suites blmp", "blimp"),
        ("RUN --suites babylm23", "--blimp-dir FOLDER"),
        ("RUN --suites wug", "--babylm25-dir FOLDER"),
        ("RUN --suites blimp --protocol babylm24", "did you mean 'babylm2"),
        ("RUN --tasks arc_esy --include-path absent", "no folder absent"),
        ("RUN --suites glue --glue-dir absent", "no folder absent"),
        ("RUN --suite glue --finetune.tasks rt", "rte"),
        (f"RUN --suites embedded-pairs --pair-tasks {SIX[0]}s", f"did you mean '{SIX[0]}'"),
        ("", "RUNS is missing"),
        ("absent --suites embedded-pairs", "absent"),
        ("RUN --head", "--finetune.head needs a value"),
        ("RUN --max-pairs 0", "--max-pairs: must be at least 1 (is 0)"),
    ],
)
def test_mistakes_are_told_and_end_with_status_two(evaluate, capsys, arguments, message):
    assert evaluate(*arguments.split()) == 2
    assert message in capsys.readouterr().err
