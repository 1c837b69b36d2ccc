"""Evaluating runs and studies: rows, items, resuming, workers, names, and what a user sees of mistakes."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from safetensors.torch import load_file

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from eval.command import find_runs, study_config
from eval.config import EvalConfig
from eval.evaluate import evaluate_run, evaluate_runs
from eval.finetuning import FinetuneConfig
from eval.identity import identify_run
from eval.protocol import ProtocolConfig
from eval.work_units import check_sources, is_evaluated
from eval.zero_shot.during_training import TrainingScorer
from eval.zero_shot.text_task import find_suite_tasks
from pretrain.resolution import load_config
from pretrain.run.run_folder import sole_writer
from pretrain.training.training_run import train
from report.inputs.sources import read_source
from scores.rows import ROW_COLUMNS, read_rows, write_rows
from scores.run_scores import summary
from tests.cases import FEW_TASKS, first_is_fast
from tests.processes import run_fresh

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
    monkeypatch.setattr("eval.classification.score_task.evaluate_tasks", counted_tasks)
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


def test_faulty_data_keeps_what_was_scored_before(make_run, tmp_path, capsys):
    run = make_run()
    folder = tmp_path / "blimp" / "full"
    folder.mkdir(parents=True)
    good = json.dumps({"sentence_good": "the dog ran", "sentence_bad": "the dog run"}) + "\n"
    (folder / "a.jsonl").write_text(good)
    (folder / "b.jsonl").write_text(good + '{"sentence_bad": "x"}\n')
    config = EvalConfig(suites=("blimp",), blimp_dir=tmp_path / "blimp")
    with pytest.raises(UsageError, match=r"b\.jsonl, row 2: no column 'sentence_good'"):
        evaluate_run(run, config)
    assert "failed: " not in capsys.readouterr().err  # as the error comes next
    assert read_rows(run / "eval" / "rows.parquet")["task"].tolist() == ["a"]
    (folder / "b.jsonl").write_text(good)
    (folder / "c.jsonl").write_text(good.replace("dog", "dog and the cat" * 30))
    with pytest.raises(
        UsageError, match=r"1 of 2 tasks cannot .* a text of \d+ tokens .* data.block_size \d+"
    ):
        evaluate_run(run, config, progress=False)
    assert read_rows(run / "eval" / "rows.parquet")["task"].tolist() == ["a"]  # told before b is scored
    (folder / "c.jsonl").unlink()
    assert evaluate_run(run, config, progress=False)["task"].tolist() == ["a", "b"]


def test_what_is_no_run_or_has_no_model_is_refused(make_run, tmp_path):
    with pytest.raises(UsageError, match="no run folder"):
        evaluate_run(tmp_path, PAIRS)
    run = make_run()
    shutil.rmtree(run / "model")
    with pytest.raises(UsageError, match=r"has no model/config\.json: its training did not finish"):
        evaluate_run(run, PAIRS)
    RunFolder(run).completion_marker.touch()
    with pytest.raises(UsageError, match="it was removed; train it again, by the same command"):
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


OF_STUDY = PAIRS.model_copy(update={"pair_tasks": tuple(FEW_TASKS), "embedded_pairs_per_paradigm": 4})


@pytest.fixture
def study(tmp_path, write_run) -> Path:
    """A study of two runs, one of each family, with untrained weights."""
    for seed, family in enumerate(("gpt_neo", "roberta"), start=1):
        write_run(tmp_path, family, "relu", seed, "two")
    section = {"evaluation": OF_STUDY.model_dump(mode="json")}
    (tmp_path / "two" / "study.yaml").write_text(yaml.safe_dump(section))
    return tmp_path / "two"


def results(run: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, items = (run / "eval" / name for name in ("rows.parquet", "items/embedded-pairs.parquet"))
    return pd.read_parquet(rows), pd.read_parquet(items)


@pytest.mark.slow
def test_workers_write_what_one_process_writes_and_a_broken_run_does_not_stop_them(study, tmp_path):
    runs, _ = find_runs([study])
    for run in runs:
        evaluate_run(run, OF_STUDY, progress=False)
    alone = [results(run) for run in runs]
    for run in runs:
        shutil.rmtree(run / "eval")
    broken = tmp_path / "broken"
    shutil.copytree(runs[0], broken)
    (broken / "model" / "model.safetensors").write_bytes(b"broken")
    outcome = evaluate_runs([broken, *runs], OF_STUDY, num_workers=2, progress=False)
    for run, (rows, items) in zip(runs, alone, strict=True):
        pd.testing.assert_frame_equal(outcome.rows[run], rows)
        pd.testing.assert_frame_equal(results(run)[1], items)
    assert len(outcome.failures) == len(FEW_TASKS)
    for failure in outcome.failures:
        assert failure.run_dir == broken
        assert isinstance(failure.error, UsageError)
        assert "cannot load the model" in str(failure)


def test_a_study_is_evaluated_as_its_file_says(study, tmp_path):
    assert study_config([study]) == OF_STUDY
    assert study_config([tmp_path]) == EvalConfig()
    (study / "study.yaml").write_text("evaluation: {suites: [blmp]}")
    with pytest.raises(UsageError, match=r"what to evaluate: suites.0: unknown suite 'blmp'; did"):
        study_config([study])


def test_a_study_names_what_is_not_trained(study, tmp_path):
    runs, notes = find_runs([study])
    assert [run.parent.parent.name for run in runs] == ["gpt_neo", "roberta"]
    assert notes == []
    shutil.rmtree(runs[0] / "model")
    trained, notes = find_runs([study])
    assert trained == runs[1:]
    assert notes == [f"{study}: left out, not trained yet: {runs[0].relative_to(study)}"]
    shutil.rmtree(runs[1] / "model")
    with pytest.raises(UsageError, match="holds 2 runs and none is trained yet"):
        find_runs([study])
    with pytest.raises(UsageError, match="no run given"):
        find_runs([])


FOUR = ("--suites", "embedded-pairs", "--pair-tasks", *FEW_TASKS, "--max-pairs", "4")


@pytest.fixture(scope="module")
def scored(tmp_path_factory, write_run) -> Path:
    """A study of two named runs and one other, scored; returns its folder."""
    runs_dir = tmp_path_factory.mktemp("runs")
    for ffn, seed, name in (("gelu", 1, "a-first"), ("gelu", 2, None), ("relu", 1, "seed-of-doubt")):
        folder = write_run(runs_dir, ffn=ffn, seed=seed, run_name=name)
        write_completion(RunFolder(folder), {}, "")
    runs, notes = find_runs([runs_dir / "test"])
    config = EvalConfig(suites=("embedded-pairs",), pair_tasks=tuple(FEW_TASKS), max_pairs=4)
    outcome = evaluate_runs(runs, config, num_workers=1, progress=False)
    assert (len(outcome.rows), outcome.failures, notes) == (3, [], [])
    return runs_dir / "test"


@pytest.fixture
def named(scored, tmp_path) -> Path:
    """A copy of that study."""
    return shutil.copytree(scored, tmp_path / "test")


@pytest.mark.ci
def test_rows_of_earlier_versions_are_those_of_the_run_they_lie_in(named):
    """They called a named run as if it had no name."""
    expected = read_source(named).rows
    run = RunFolder(named / "gpt_neo" / "gelu" / "a-first")
    write_rows(read_rows(run.rows_file).assign(run_id="gpt_neo/gelu/seed1-0a1b2c3d"), run.rows_file)
    pd.testing.assert_frame_equal(read_source(named).rows, expected)


@pytest.mark.ci
def test_what_is_scored_already_loads_no_library_of_models(scored):
    assert run_fresh("eval", str(scored), *FOUR) == (0, [])


def test_two_runs_of_one_seed_are_refused_by_their_names(named):
    shutil.copytree(named / "gpt_neo" / "gelu" / "a-first", named / "gpt_neo" / "gelu" / "again")
    with pytest.raises(UsageError, match=r"2 runs \(gpt_neo/gelu/a-first, gpt_neo/gelu/again\)"):
        read_source(named)


def test_a_run_outside_of_any_study_is_scored_by_its_path(named, tmp_path, evaluate):
    alone = tmp_path / "elsewhere"
    shutil.move(named / "gpt_neo" / "relu" / "seed-of-doubt", alone)
    scores = read_rows(alone / "eval" / "rows.parquet")
    shutil.rmtree(alone / "eval")
    assert evaluate(alone, *FOUR) == 0
    pd.testing.assert_frame_equal(read_rows(alone / "eval" / "rows.parquet"), scores)
    with pytest.raises(UsageError, match="it is one run: give its study's folder"):
        read_source(alone)
    assert find_runs([alone]) == ([alone], [])


def settings(tmp_path, family: str, **chosen):
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    overrides = {
        "family": family,
        "model": {"ffn": "swish", **sizes},
        "data": {"source": "embedded", "num_stories": 300, "vocab_size": 400, "block_size": 64},
        "train": {"batch_size": 32, "torch_compile": False, **chosen},
        "output": {"runs_dir": str(tmp_path), "study": "scored" if chosen else "plain"},
    }
    return load_config(None, overrides=overrides)


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "roberta"]))
@pytest.mark.ci
def test_scores_on_the_way_are_those_of_the_command_and_change_nothing(tmp_path, family):
    scored = train(settings(tmp_path, family, eval_every=3, eval_suite="embedded-pairs"), TrainingScorer)
    plain = train(settings(tmp_path, family))
    assert scored.name == plain.name
    ours, theirs = (load_file(run / "model" / "model.safetensors") for run in (scored, plain))
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    lines = [json.loads(line) for line in (scored / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "embedded-pairs" in line]
    last = lines[-1]["max_steps"]
    assert [line["step"] for line in lines] == sorted({*range(3, last + 1, 3), last})
    rows = evaluate_run(scored, EvalConfig(suites=("embedded-pairs",)), progress=False)
    assert lines[-1]["embedded-pairs"] == pytest.approx(rows["score"].mean(), abs=1e-9)
    for group, score in rows.groupby("group")["score"].mean().items():
        assert lines[-1][f"embedded-pairs/{group}"] == pytest.approx(score, abs=1e-9)


def test_a_suite_without_pairs_or_data_is_refused_before_the_first_step(tmp_path):
    with pytest.raises(UsageError, match=r"train\.eval_suite 'blimp-fst'; did you mean 'blimp-fast'"):
        train(settings(tmp_path, "gpt_neo", eval_every=3, eval_suite="blimp-fst"), TrainingScorer)
    with pytest.raises(UsageError, match="blimp-fast is not on the hub"):
        train(settings(tmp_path, "gpt_neo", eval_every=3), TrainingScorer)
