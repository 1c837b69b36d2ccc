"""``python -m eval``: classification tasks of one's own, and every head on a run's backbone or any other."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from eval.classification.find_tasks import embedded_tasks
from eval.classification.prediction import predict
from eval.classification.score_task import METRICS
from eval.command import main
from eval.config import EvalConfig
from eval.evaluate import evaluate_run, evaluate_runs
from eval.finetuning import FinetuneConfig
from eval.work_units import is_evaluated
from inside.classifier.classifiers import Subject
from scores.head_descriptions import HEAD_NAMES
from scores.rows import read_rows
from scores.run_scores import normalise_rows, run_scores
from tests.cases import first_is_fast

QUICK = ("--finetune.num-train-epochs", "1", "--workers", "1")


@pytest.fixture(scope="module")
def run(tmp_path_factory, write_run) -> Path:
    return write_run(tmp_path_factory.mktemp("runs"), ffn="gelu")


@pytest.fixture
def task(tmp_path) -> Path:
    """A task of three labels by name, in a table."""
    words = {"rain": "the rain fell", "snow": "it snowed all day", "sun": "a bright sun"}
    for split, size in (("train", 60), ("validation", 21)):
        rows = [(f"{words[name]}, {n}", name) for n, name in enumerate([*words] * (size // 3))]
        pd.DataFrame(rows, columns=["remark", "mood"]).to_csv(tmp_path / f"{split}.csv", index=False)
    path = tmp_path / "weather.yaml"
    files = "files: {train: train.csv, validation: validation.csv}\n"
    path.write_text(f"{files}text: remark\nlabel: mood\nmetrics: [macro_f1, cohen_kappa, accuracy]\n")
    return path


def test_a_task_of_ones_own_is_scored_and_only_it(run, task, evaluate, capsys):
    assert evaluate(run, "--classify", task, *QUICK) == 0
    assert "classification\n" in capsys.readouterr().out
    rows = read_rows(run / "eval" / "rows.parquet")
    of_task = rows[rows["task"] == "weather"]
    assert of_task["metric"].tolist() == ["macro_f1", "cohen_kappa", "accuracy"]
    assert set(rows["benchmark"]) == {"classification"}
    assert set(of_task["group"]) == {"classification"}
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    items = items[items["task"] == "weather"]
    labels, predictions = items["label"].to_numpy(), items["prediction"].to_numpy()
    assert len(items) == 21
    for metric, score in zip(of_task["metric"], of_task["score"], strict=True):
        assert score == pytest.approx(METRICS[metric](labels, predictions)), metric
    assert run_scores(normalise_rows(rows))[0].score.item() == of_task["score"].iloc[0]
    baselines = json.loads((run / "eval" / "baselines.json").read_text())["classification"]["weather"]
    assert baselines["accuracy"] == pytest.approx(100 / 3)
    assert baselines["cohen_kappa"] == 0


def test_inputs_that_are_all_cut_are_told(run, task, evaluate, capsys):
    task = task.rename(task.with_name("cut.yaml"))
    task.write_text(task.read_text().replace("text: remark", 'text: "{remark}; {remark}; {remark}"'))
    assert evaluate(run, "--classify", task, "--finetune.max-length", "8", *QUICK) == 0
    said = "note: classification/cut: 100% of the inputs are longer than what the model reads, and cut"
    assert said in capsys.readouterr().err
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    assert items[items["task"] == "cut"]["truncated"].all()


def test_tasks_with_one_and_with_several_labels_share_a_benchmark(run, task, evaluate, tmp_path):
    for split in ("train", "validation"):
        table = pd.read_csv(tmp_path / f"{split}.csv")
        rows = [{"remark": text, "moods": [mood, "any"]} for text, mood in table.to_numpy()]
        (tmp_path / f"{split}.json").write_text(json.dumps(rows))
    several = tmp_path / "moods.yaml"
    several.write_text(
        "files: {train: train.json, validation: validation.json}\ntext: remark\nlabel: moods\n"
        "labels: [rain, snow, sun, any]\nmulti_label: true\nmetrics: [accuracy, micro_f1]\n"
    )
    assert evaluate(run, "--classify", task, several, "--head", "linear", *QUICK) == 0
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    of_head = items[items["head"] == "linear"]
    one, many = (of_head[of_head["task"] == name] for name in ("weather", "moods"))
    assert one["label"].tolist() == [0, 1, 2] * 7
    assert np.vstack(many["labels"].to_list()).tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]] * 7
    scores = read_rows(run / "eval" / "rows.parquet").set_index(["task", "head", "metric"])["score"]
    right = [(own == given).all() for own, given in zip(many["labels"], many["predictions"], strict=True)]
    assert scores["moods", "linear", "accuracy"] == pytest.approx(100 * np.mean(right))
    share = (one["label"] == one["prediction"]).mean()
    assert scores["weather", "linear", "accuracy"] == pytest.approx(100 * share)


def test_a_faulty_task_is_told_of_before_others_are_scored(run, task, evaluate, capsys):
    whole, faulty = task.with_name("whole.yaml"), task.with_name("faulty.yaml")
    whole.write_text(task.read_text())
    faulty.write_text(task.read_text().replace("text: remark", "text: remrk"))
    chosen = ("--finetune.max-validation-examples", "10")
    assert evaluate(run, "--classify", faulty, whole, *chosen, *QUICK) == 2
    assert "no text in column 'remrk'" in capsys.readouterr().err
    assert evaluate(run, "--classify", whole, *chosen, *QUICK) == 0
    baselines = json.loads((run / "eval" / "baselines.json").read_text())["classification"]
    # Of the examples that are reported on, not of the whole file.
    items = pd.read_parquet(run / "eval" / "items" / "classification.parquet")
    labels = items[items["task"] == "whole"]["label"]
    assert len(labels) == 10
    assert baselines["whole"]["accuracy"] == pytest.approx(100 * (labels == 0).mean())


def test_a_changed_task_is_scored_again_and_an_unchanged_one_is_not(run, task, evaluate, capsys):
    task = task.rename(task.with_name("changing.yaml"))

    def score(old: str, new: str) -> tuple[list[str], dict]:
        """Change the task and score it; returns its metrics and how it was scored."""
        task.write_text(task.read_text().replace(old, new))
        assert evaluate(run, "--classify", task, *QUICK) == 0
        rows = read_rows(run / "eval" / "rows.parquet")
        done = json.loads((run / "eval" / "done.json").read_text())["tasks"]
        (protocol,) = (record for key, record in done.items() if "changing" in key)
        return rows.loc[rows["task"] == "changing", "metric"].tolist(), protocol

    metrics, first = score("", "")
    assert metrics == ["macro_f1", "cohen_kappa", "accuracy"]
    assert score("", "")[1] == first
    assert "everything asked for is scored already" in capsys.readouterr().err
    gained, _ = score("cohen_kappa", "micro_f1, cohen_kappa")
    assert gained == ["macro_f1", "micro_f1", "cohen_kappa", "accuracy"]
    assert score("text: remark", 'text: "so: {remark}"')[1] != first


FEW = {"max_train_examples": 64, "max_validation_examples": 24}
FINETUNE = FinetuneConfig(num_train_epochs=1, learning_rate=0.01, **FEW)
EMBEDDED = EvalConfig(suites=("embedded-glue",))


def with_heads(*heads: str, config: EvalConfig = EMBEDDED, **settings) -> EvalConfig:
    finetune = FINETUNE.model_copy(update={"head": heads, **settings})
    return config.model_copy(update={"finetune": finetune})


@pytest.fixture
def topics(write_task) -> Path:
    """A task whose texts may have several of three labels, each told by a word."""
    generator = np.random.default_rng(0)
    words = {"play": "ball", "eat": "cake", "sleep": "bed"}

    def example(chosen: np.ndarray) -> dict:
        labels = [label for label, is_in in zip(words, chosen, strict=True) if is_in]
        return {"text": f"they saw a {' and a '.join(words[x] for x in labels) or 'dog'}.", "is": labels}

    chosen = {
        split: generator.random((size, 3)) < 0.5 for split, size in (("train", 400), ("validation", 60))
    }
    rows = {split: [example(each) for each in of_split] for split, of_split in chosen.items()}
    labels = "text: text\nlabel: is\nlabels: [play, eat, sleep]\nmulti_label: true\n"
    return write_task("topics", rows, f"{labels}metrics: [micro_f1, accuracy]\n")


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "t5"]))
@pytest.mark.ci
def test_every_head_scores_a_task_and_is_kept_apart(make_run, family):
    run = make_run(family)
    heads = [*HEAD_NAMES, "fourier-kan grid_size=3", "linear frozen", "swipe frozen", "space frozen"]
    config = with_heads(*heads)
    rows = evaluate_run(run, config, progress=False)
    counts = rows.groupby("head").size()
    assert counts.to_dict() == dict.fromkeys(heads, 2)
    assert is_evaluated(run, config)
    assert is_evaluated(run, with_heads("fourier-kan grid_size=3"))
    assert not is_evaluated(run, with_heads("fourier-kan grid_size=4"))
    # An option at its default is the head without it.
    assert is_evaluated(run, with_heads("fourier-kan grid_size=5"))
    items = pd.read_parquet(run / "eval" / "items" / "embedded-glue.parquet")
    assert set(items["head"]) == set(heads)
    scores = rows.set_index(["task", "head"])["score"]
    for (task, head), own in items.groupby(["task", "head"]):
        assert 100 * (own["label"] == own["prediction"]).mean() == pytest.approx(scores[task, head])
    of_segments = items[items["head"] == "swipe"]["segment_scores"]
    assert all(len(own) >= 1 for own in of_segments)


def test_one_head_more_measures_that_head_alone(make_run):
    run = make_run()
    first = evaluate_run(run, with_heads("linear frozen"), progress=False)
    both = evaluate_run(run, with_heads("linear frozen", "kan frozen"), progress=False)
    assert set(both["head"]) == {"linear frozen", "kan frozen"}
    kept = both[both["head"] == "linear frozen"].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, first)


def test_the_table_shows_the_tasks_and_heads_of_this_call(make_run, topics, monkeypatch, capsys):
    run = make_run()
    own = with_heads("mlp frozen", config=EvalConfig(suites=(), classify=(str(topics),)))
    evaluate_runs([run], with_heads("linear frozen", "kan frozen"), progress=False)
    evaluate_runs([run], with_heads("linear frozen", learning_rate=0.02), progress=False)
    outcome = evaluate_runs([run], own, progress=False)
    assert set(outcome.rows[run]["head"]) == {"linear frozen", "kan frozen", "mlp frozen"}
    assert set(outcome.requested[run]["benchmark"]) == {"classification"}
    assert set(outcome.requested[run]["head"]) == {"mlp frozen"}
    again = evaluate_runs([run], with_heads("kan frozen"), progress=False)
    assert [*again.requested[run]["head"].unique()] == ["kan frozen"]
    # Both are kept; what was scored otherwise since then is scored again, and stands in the order asked.
    flags = ["--finetune.num-train-epochs", "1", "--finetune.max-train-examples", "64", "--workers", "1"]
    flags += ["--finetune.max-validation-examples", "24", "--finetune.learning-rate", "0.01"]
    heads = ["--head", "linear frozen", "kan frozen grid_size=5"]
    monkeypatch.setattr("sys.argv", ["eval", str(run), "--suites", "embedded-glue", *heads, *flags])
    assert main() == 0
    table = capsys.readouterr().out
    assert "topics" not in table
    assert "mlp" not in table
    assert table.splitlines()[1].split() == ["linear", "frozen", "kan", "frozen"]
    rows = read_rows(run / "eval" / "rows.parquet")
    scores = rows[rows["benchmark"] == "embedded-glue"].pivot(index="task", columns="head", values="score")
    for task in ("acceptability", "entailment"):
        shown = [f"{scores.loc[task, head]:.1f}" for head in ("linear frozen", "kan frozen")]
        assert [task, "accuracy", *shown] in [line.split() for line in table.splitlines()]


def test_each_run_may_be_finetuned_with_its_own_seed(make_run):
    config = with_heads("linear frozen", seeds="run")
    runs, reported = [make_run(seed=seed) for seed in (3, 4)], []
    for run, seed in zip(runs, (3, 4), strict=True):
        evaluate_run(run, config, progress=False)
        items = pd.read_parquet(run / "eval" / "items" / "embedded-glue.parquet")
        assert set(items["seed"]) == {seed}
        reported.append(items[["task", "idx"]])
        assert is_evaluated(run, with_heads("linear frozen", seeds=(seed,)))
    pd.testing.assert_frame_equal(*reported)  # on the same 24 validation examples


@pytest.mark.parametrize("head", first_is_fast(["swipe frozen segments=sentences", "linear"]))
@pytest.mark.ci
def test_a_text_may_have_several_labels(make_run, topics, head):
    config = with_heads(
        head, pooling="mean", num_train_epochs=30, max_train_examples=None, max_validation_examples=None,
        config=EvalConfig(suites=(), classify=(str(topics),)),
    )  # fmt: skip
    rows = evaluate_run(make_run("roberta"), config, progress=False).set_index("metric")["score"]
    # All three labels for every text have a micro F1 of about 67.
    assert rows["micro_f1"] > 80


@pytest.mark.parametrize("head", ["kan frozen", "swipe"])
def test_a_kept_classifier_predicts_what_it_predicted(make_run, head, monkeypatch):
    run, config = make_run("roberta"), with_heads(head)
    task = next(iter(embedded_tasks(config).values()))
    first = Subject(run, task, config).load()
    validation = first.documents.data
    logits = predict(first.classifier, validation, 16).logits
    rows = evaluate_run(run, config, progress=False)
    expected = rows[rows["task"] == task.name]["score"].item()
    assert 100 * (logits.argmax(1) == validation.labels).mean() == pytest.approx(expected)
    assert len(first.documents.texts) == len(validation)
    monkeypatch.setattr("inside.classifier.classifiers.train", None)  # nothing is trained again
    again = Subject(run, task, config).load()
    np.testing.assert_allclose(predict(again.classifier, again.documents.data, 16).logits, logits, atol=1e-5)
    with pytest.raises(TypeError):
        Subject(run, task, with_heads(head, num_train_epochs=2)).load()


def test_predictions_are_in_the_order_of_the_examples(make_run):
    config = with_heads("swipe segments=windows window=6 stride=2")
    task = next(iter(embedded_tasks(config).values()))
    found = Subject(make_run(), task, config).load()
    data = found.documents.data
    assert (np.diff(data.lengths) < 0).any()  # so that reading them by length changes their order
    logits, segment_scores = predict(found.classifier, data, 16)
    assert len(segment_scores) == len(logits) == len(data)
    for number in range(0, len(data), 7):
        with torch.inference_mode():
            alone = found.classifier(data.take([number]))
        np.testing.assert_allclose(logits[number], alone.logits[0], atol=1e-5)
        np.testing.assert_allclose(segment_scores[number], alone.segment_scores[0], atol=1e-5)


def test_any_saved_model_is_a_backbone(tokenizer, tmp_path, monkeypatch, evaluate, capsys):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 32, "d_kv": 8}
    other = tmp_path / "my-t5"
    T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **sizes)).save_pretrained(other)
    tokenizer.save_pretrained(other)
    monkeypatch.chdir(tmp_path)
    arguments = (
        other, "--suites", "embedded-glue", "--head", "linear", "fourier-kan", "--freeze-backbone",
        "--finetune.seeds", "1", "2", "--finetune.num-train-epochs", "1", "--workers", "1",
        "--finetune.max-train-examples", "64",
    )  # fmt: skip
    assert evaluate(*arguments) == 0
    assert "head fourier-kan frozen" in capsys.readouterr().out
    tables = [read_rows(path) for path in Path("runs/backbones").glob("*/*/seed*/eval/rows.parquet")]
    rows = pd.concat(tables)
    assert set(rows["seed"]) == {1, 2}
    assert set(zip(rows["family"], rows["variant"], strict=True)) == {("t5", "my-t5")}
    assert rows.groupby("head").size().to_dict() == {"linear frozen": 4, "fourier-kan frozen": 4}
    assert evaluate(other, "--suites", "blimp", "--workers", "1") == 2
    assert "and only those score texts (blimp); give the run's folder" in capsys.readouterr().err
