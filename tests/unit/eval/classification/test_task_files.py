"""Classification tasks from YAML files: what they may say, how examples are read, and faulty ones."""

import csv
import json
import re
from functools import partial
from pathlib import Path

import lm_eval
import pandas as pd
import pytest
import yaml

from eval.classification.classification_task import ClassificationTask
from eval.classification.data import read_task_data
from eval.classification.examples import SPLITS, data_source, pooled_places, read_examples
from eval.classification.find_tasks import GLUE_TASKS, classification_tasks, find_task
from eval.classification.list_heads import list_tasks
from eval.classification.schema import PooledSplit, benchmarks_asked_for, shipped_task, shipped_tasks
from eval.classification.score_task import majority_baselines
from eval.config import EvalConfig
from eval.finetuning import GLUE_TASK_NAMES, FinetuneConfig
from eval.work_units import classification_protocol
from ffn_variants import UsageError
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer
from scores.head_descriptions import HeadChoice
from tests.cases import listed

CONFIG = EvalConfig(suites=())
ROWS = [{"text": "it rained", "label": "bad"}, {"text": "it shone", "label": "good"}]


def write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def write(tmp_path):
    """Write a task and its files; returns the path of the task."""

    def write_task(train: list[dict], validation: list[dict] | None = None, **task) -> str:
        write_lines(tmp_path / "train.jsonl", train)
        write_lines(tmp_path / "validation.jsonl", train if validation is None else validation)
        files = {"files": {"train": "train.jsonl", "validation": "validation.jsonl"}, "text": "text"}
        path = tmp_path / "weather.yaml"
        path.write_text(yaml.safe_dump(files | task))
        return str(path)

    return write_task


def read(path: str, split: str = "train") -> list[dict]:
    return read_examples(find_task(path, CONFIG), split, CONFIG)


def test_the_task_in_the_documentation_works(repository, tmp_path):
    page = (repository / "docs/evaluation.md").read_text(encoding="utf-8")
    section = page[page.index("## Your own classification task") :]
    (tmp_path / "weather.yaml").write_text(re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)[0])
    for split in ("train", "validation"):
        table = re.findall(r"```csv\n(.*?)```", section, re.DOTALL)[0]
        (tmp_path / f"weather.{split}.csv").write_text(table)
    task = find_task(str(tmp_path / "weather.yaml"), CONFIG)
    assert (task.name, task.benchmark) == ("weather", "classification")
    assert task.metrics == ("macro_f1", "accuracy")
    rows = read_examples(task, "validation", CONFIG)
    found = [(task.make_input(row), row["label"]) for row in rows]
    assert found == [(("It rained, again.", None), 0), (('They said: "what a sunny day".', None), 1)]


def test_every_shipped_file_is_a_task_that_says_where_it_comes_from(repository, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tasks"])
    list_tasks()
    table, counts = capsys.readouterr().out, {}
    for name in shipped_tasks():
        task = shipped_task(name)
        assert task.reference
        assert re.search(rf"^{name} +{task.benchmark} +{task.hub.path}", table, re.MULTILINE)
        counts[name] = len(task.labels)
        text = (repository / f"eval/classification/tasks/{name}.yaml").read_text(encoding="utf-8")
        assert len(re.findall(r"^# (?:Comparable with|Not comparable) ", text, re.MULTILINE)) == 1
    fr_kan = {"ag-news": 4, "dbpedia": 14, "imdb": 2, "language-identification": 20, "sst5": 5, "trec-50": 50}
    fr_kan |= {"yelp-full": 5}
    fr_kan |= {f"{name}-pooled": count for name, count in fr_kan.items()}
    rest = {"20-newsgroups": 20, "imdb-long": 2, "arxiv": 11, "multiwoz": 8, "hatexplain": 3}
    rest |= {"hatexplain-from-imdb": 2}
    assert counts.items() >= (fr_kan | rest).items()
    assert set(counts) == {*fr_kan, *rest, *GLUE_TASK_NAMES}


@pytest.mark.parametrize("name", shipped_tasks())
def test_a_task_is_stood_for_by_the_first_metric_of_its_file_or_what_a_preset_averages(name):
    task = ClassificationTask(shipped_task(name), ())
    assert task.headline(FinetuneConfig()) == shipped_task(name).metrics[0]
    averaged = {"mrpc": "mean_accuracy_f1", "qqp": "mean_accuracy_f1", "multirc": "mean_f1_matthews"}
    config = FinetuneConfig(preset="source-study")
    assert task.headline(config) == averaged.get(name, shipped_task(name).metrics[0])
    measured = {*task.metrics, *task.finetuning(config).extra_metrics}
    assert task.headline(config) in measured


def test_two_splits_of_a_data_set_may_be_trained_on_together(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    files = {"train": ["a", "b"], "validation": ["c"], "test": ["d"]}
    (tmp_path / "set").mkdir()
    for split, texts in files.items():
        rows = [{"text": text, "label": number % 2} for number, text in enumerate(texts)]
        write_lines(tmp_path / f"set/{split}.jsonl", rows)
    hub = {"path": str(tmp_path / "set"), "train": "train+validation", "validation": "test"}
    (tmp_path / "joined.yaml").write_text(yaml.safe_dump({"hub": hub, "text": "text", "labels": [0, 1]}))
    task = str(tmp_path / "joined.yaml")
    assert [row["text"] for row in read(task)] == [*files["train"], *files["validation"]]
    assert [row["text"] for row in read(task, "validation")] == files["test"]


@pytest.mark.parametrize(
    ("size", "drawn", "parts"),  # as the notebooks print them: FR-KAN at 6705dfc
    [(50_000, 15_000, (10_500, 2_250)), (11_855, None, (8_298, 1_779)), (5_952, None, (4_166, 893))],
)
def test_a_pooled_split_has_the_published_sizes_and_no_example_twice(size, drawn, parts):
    found, again, other = (
        pooled_places(size, PooledSplit(seed=seed, max_examples=drawn)) for seed in (42, 42, 43)
    )
    assert tuple(map(len, found.values())) == parts
    assert len({*found["train"], *found["validation"]}) == sum(parts)
    assert found == again != other


def test_a_pooled_task_reads_both_files_for_both_parts(write):
    rows = [{"text": f"text {n}", "label": n % 2} for n in range(100)]
    files = [
        (rows[:90], rows[90:], {"seed": 42}),
        (rows[:90], rows[91:], {"seed": 42}),
        (rows[:90], rows[90:], None),
    ]
    paths = (write(train, other, labels=[0, 1], pooled=pooled) for train, other, pooled in files)
    assert len({data_source(find_task(path, CONFIG), CONFIG, "train") for path in paths}) == 3
    path = write(rows[:90], rows[90:], labels=[0, 1], pooled={"seed": 42})
    train, reported = ({row["text"] for row in read(path, split)} for split in SPLITS)
    assert (len(train), len(reported), len(train | reported)) == (70, 15, 85)
    assert all({f"text {n}" for n in range(90, 100)} & part for part in (train, reported))


def test_a_task_may_be_trained_on_another_and_count_its_labels_as_the_others(write, tmp_path):
    rows = [{"text": "it rained", "label": "neg"}, {"text": "it shone", "label": 1}]
    posts = [{"post": "p", "label": label} for label in ("hate", 1, ["rude", "rude", "fine"])]
    write_lines(tmp_path / "posts.jsonl", posts)
    reviews = write(rows, labels=["neg", "pos"])
    (tmp_path / "posts.yaml").write_text(
        f"{{files: {{train: posts.jsonl, validation: posts.jsonl}}, train_on: {reviews}, text: post, "
        "majority: true, labels: [neg, pos], label_map: {hate: neg, fine: pos, rude: neg}}"
    )
    config = CONFIG.model_copy(update={"classify": (reviews, str(tmp_path / "posts.yaml"))})
    ((reviews, task),) = classification_tasks(config)  # one training for both
    for split, texts, labels in (
        ("train", ["it rained", "it shone"], [0, 1]),
        ("validation", ["p"] * 3, [0, 1, 0]),
    ):
        read = [
            (task.source_of(split).make_input(x)[0], x["label"]) for x in read_examples(task, split, config)
        ]
        assert read == list(zip(texts, labels, strict=True))
    assert reviews.digest != task.digest


NO = ("no", "False", "negative", "unacceptable", "contradiction")


@pytest.mark.parametrize("task", GLUE_TASK_NAMES)
def test_labels_of_glue_are_called_as_lm_eval_asks_for_them(task):
    """Its file of a task lists answers in the order of the labels on the hub."""
    files = {name: f"super_glue/{name}/default" for name in ("boolq", "wsc")} | {
        "mnli-mm": "glue/mnli/default"
    }
    files["multirc"] = "super_glue/multirc/t5-prompt"  # the answers of its other file are the wrong way round
    path = Path(lm_eval.__file__).parent / "tasks" / f"{files.get(task, f'glue/{task}/default')}.yaml"
    line = re.findall(r"(?m)^doc_to_choice:(.*)$", path.read_text())[0]
    answers = re.findall(r"yes|no|True|False|Neither|negative|positive", line)
    names = shipped_task(task).label_names or ()
    assert [name.startswith("not_") or name in NO for name in names] == [answer in NO for answer in answers]
    assert ("neutral" in names) == ("Neither" in answers)
    assert GLUE_TASKS[task].label_names == names


def test_names_of_labels_leave_scores_valid(write):
    task = {"labels": [0, 1]}
    rows = [{"text": "a", "label": n} for n in (0, 1)]
    plain = find_task(write(rows, **task), CONFIG)
    named = find_task(write(rows, **task, label_names=["low", "high"]), CONFIG)
    assert plain.label_names == ("label 0", "label 1")
    assert named.label_names == ("low", "high")
    head = HeadChoice("linear")
    assert classification_protocol(named, CONFIG, head) == classification_protocol(plain, CONFIG, head)
    # As before files could name labels.
    assert find_task("ag-news", CONFIG).digest == "fc542d8cf95fccf6"


WRITERS = {
    ".jsonl": partial(pd.DataFrame.to_json, orient="records", lines=True),
    ".json": partial(pd.DataFrame.to_json, orient="records"),
    ".csv": partial(pd.DataFrame.to_csv, index=False, quoting=csv.QUOTE_ALL),
    ".tsv": partial(pd.DataFrame.to_csv, index=False, quoting=csv.QUOTE_ALL, sep="\t"),
    ".csv.gz": partial(pd.DataFrame.to_csv, index=False, quoting=csv.QUOTE_ALL),
    ".parquet": pd.DataFrame.to_parquet,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_kind_of_file_gives_the_same_examples(tmp_path, suffix):
    texts = ['a "quoted" text,\nof two lines\tand a tab', "NA", "007"]
    files = {split: f"{split}{suffix}" for split in ("train", "validation")}
    for name in files.values():
        WRITERS[suffix](pd.DataFrame({"text": texts, "stars": [1, 3, 2]}), tmp_path / name)
    task = {"files": files, "text": "text", "label": "stars", "labels": [1, 2, 3]}
    (tmp_path / "stars.yaml").write_text(yaml.safe_dump(task))
    found = [(row["text"], row["label"]) for row in read(str(tmp_path / "stars.yaml"))]
    assert found == list(zip(texts, [0, 2, 1], strict=True))


@pytest.mark.parametrize(("text", "expected"), listed(__file__, "inputs of a task"))
def test_an_input_is_a_field_a_template_or_two(write, text, expected):
    row = {"question": "Who?", "about": {"title": "Rain"}, "words": ["it", "rained"], "label": 0}
    row |= {"turns": [{"said": "Hi."}, {"said": "Bye."}]}
    path = write([row, row | {"label": 1}], text=text)
    task = find_task(path, CONFIG)
    example = read_examples(task, "train", CONFIG)[0]
    assert task.make_input(example) == expected
    assert task.turns(example) == (["Hi.", "Bye."] if text == "turns.said" else None)


def written_as(write, name: str, rows: list[dict], **fields) -> ClassificationTask:
    """A shipped task that is read from these rows."""
    shipped = shipped_task(name)
    text = list(shipped.text) if len(shipped.text) > 1 else shipped.text[0]
    return find_task(
        write(rows, text=text, label=shipped.label, labels=list(shipped.labels), **fields), CONFIG
    )


def test_turns_may_be_a_mapping_of_lists_as_the_hub_has_them(write):
    row = {"turns": {"utterance": ["Hi.", "Bye."], "speaker": [0, 1]}, "services": ["hotel", "taxi"]}
    rows = [row, row | {"services": []}]
    task = written_as(write, "multiwoz", rows, multi_label=True, metrics=["macro_f1"])
    examples = read_examples(task, "train", CONFIG)
    assert [task.turns(example) for example in examples] == [["Hi.", "Bye."]] * 2
    assert [example["label"] for example in examples] == [[0, 0, 0, 1, 0, 0, 1, 0], [0] * 8]


def test_annotators_vote_and_a_tie_is_left_out(write):
    votes = [[0, 0, 2], [1, 2, 2], [0, 1, 2], [1, 1, 1]]
    rows = [{"post_tokens": ["a", "b"], "annotators": [{"label": vote} for vote in of]} for of in votes]
    task = written_as(write, "hatexplain", rows, majority=True)
    examples = read_examples(task, "train", CONFIG)
    assert [example["label"] for example in examples] == [0, 2, 1]
    assert task.make_input(examples[0]) == ("a b", None)
    assert task.turns(examples[0]) is None


def test_short_examples_are_left_out_where_the_task_is_about_long_ones(write):
    rows = [{"text": "word " * n, "label": n % 2} for n in (3, 4, 5, 6)]
    assert [row["label"] for row in read(write(rows, min_words=5))] == [1, 0]
    with pytest.raises(UsageError, match=r"no example is left by min_words"):
        read(write(rows, min_words=50, labels=[0, 1]))


@pytest.mark.parametrize(
    ("labels", "declared", "expected"),
    [
        ([0, 1, 2, 1], None, [0, 1, 2, 1]),
        (["b", "a", "c", "a"], None, [1, 0, 2, 0]),
        ([1, 2, 3, 2], [1, 2, 3], [0, 1, 2, 1]),
        ([1.0, 0.0, 1.0, 0.0], [0, 1], [1, 0, 1, 0]),
        ([0, 2, 1, 2], ["World", "Sports", "Business"], [0, 2, 1, 2]),
        (["Sports", "World", "World", "Business"], ["World", "Sports", "Business"], [1, 0, 0, 2]),
        ([True, False, True, False], None, [1, 0, 1, 0]),
        ([True, False, True, False], ["True", "False"], [0, 1, 0, 1]),
        (["2", "1", "1", "2"], ["2", "1"], [0, 1, 1, 0]),
        ([[0], [], [0, 1], [1]], None, [[1, 0], [0, 0], [1, 1], [0, 1]]),
        ([["x"], ["z", "y"], [], ["z"]], None, [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]]),
    ],
)
def test_labels_become_integers_from_zero(write, labels, declared, expected):
    many = isinstance(labels[0], list)
    path = write([{"text": "a", "label": label} for label in labels], labels=declared, multi_label=many)
    assert [row["label"] for row in read(path)] == expected
    assert find_task(path, CONFIG).num_labels == (len(expected[0]) if many else max(expected) + 1)


@pytest.mark.parametrize(
    ("train", "task", "message"),
    [
        ([{"body": "a", "label": 0}] * 2, {"labels": [0, 1]}, r"train.jsonl, row 1: no text in column"),
        ([{"text": "a", "y": 0}] * 2, {"labels": [0, 1]}, r"row 1: no column 'label'; it has 'text', 'y'"),
        (ROWS, {"labels": ["bad", "fine"]}, r"row 2: label 'good'; weather's labels are bad, fine"),
        ([{"text": " ", "label": 0}, ROWS[0]], {"labels": [0, 1]}, r"row 1: every text of the .* is empty"),
        ([{"text": "a", "label": 1}, {"text": "a", "label": "x"}], {}, r"labels x, 1 are neither all"),
        ([{"text": "a", "label": n} for n in (1, 2, 3)], {}, r"1, 2, 3 .*without a gap; declare"),
        ([{"text": "a", "label": n} for n in (0.5, 2)], {}, r"row 1: label 0.5 is neither a name nor"),
        ([{"text": "a", "label": 0}] * 2, {}, r"field 'label' has 1 label\(s\), so there is"),
        ([{"text": "a", "label": [0, 1]}], {"labels": [0, 1]}, r"is a list; set multi_label"),
        (ROWS, {"labels": ["bad", "good"], "multi_label": True}, r"is no list; set multi_label"),
        ([{"text": "a", "label": ["w"]}], {"labels": ["x", "y"], "multi_label": True}, r"1: label 'w';"),
        ([{"text": "a", "label": 1}], {"labels": ["1", "2"]}, r"label 1; weather's labels are 1, 2"),
        ([{"text": ["a", 3], "label": 0}], {"labels": [0, 1]}, r"row 1: no text in column 'text'"),
        ([], {}, r"train.jsonl holds no rows"),
        ([{"text": "a", "label": n} for n in (0, 1, 2)], {"metrics": ["f1"]}, r"f1 is for two labels"),
    ],
)  # fmt: skip
def test_faulty_data_is_named_in_one_line(write, train, task, message):
    with pytest.raises(UsageError, match=message):
        read(write(train, **task))


def test_a_label_that_training_never_saw(write):
    unseen = [{"text": "it snowed", "label": "fair"}]
    message = r"validation.jsonl, row 1: label 'fair'; the training set .* has bad, good; .*declare"
    with pytest.raises(UsageError, match=message):
        read(write(ROWS, unseen), "validation")
    rows = read(write(ROWS, unseen, labels=["bad", "fair", "good"]), "validation")
    assert [row["label"] for row in rows] == [1]


def test_labels_that_the_training_set_gains_are_those_of_the_validation_file_too(write):
    tokenizer = train_tokenizer(iter(stories(20, 0)), 300)
    fair = {"text": "it blew", "label": "fair"}
    for more, expected in (([], ([0, 1], [1])), ([fair], ([0, 2, 1], [2]))):
        task = find_task(write([*ROWS, *more], ROWS[1:]), CONFIG)
        data = read_task_data([task], tokenizer, 32, CONFIG, task.finetuning(CONFIG.finetune))
        assert (data.train.labels.tolist(), data.validation["weather"].labels.tolist()) == expected


def test_the_list_of_tasks_takes_files_too(write, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tasks", "rte", write(ROWS, multi_label=True)])
    list_tasks()
    header, rte, weather = capsys.readouterr().out.splitlines()
    assert header.startswith("task")
    assert rte.split()[:3] == ["rte", "glue", "nyu-mll/glue"]
    assert "as in the data, any number of them" in weather
    monkeypatch.setattr("sys.argv", ["tasks", "rtee"])
    with pytest.raises(UsageError, match="did you mean 'rte'"):
        list_tasks()


def test_a_folder_stands_in_for_the_hub(tmp_path):
    config = EvalConfig(suites=(), classify=("trec-50", "ag-news"), classification_dir=tmp_path)
    with pytest.raises(UsageError, match=r"has no trec-50.train.jsonl, .jsonl.gz or .json"):
        classification_tasks(config)
    rows = [{"text": "Who ?", "label_original": "HUM:ind"}, {"text": "Where ?", "label_original": "LOC:city"}]
    for split in ("train", "validation"):
        write_lines(tmp_path / f"trec-50.{split}.jsonl", rows)
        (tmp_path / f"ag-news.{split}.json").write_text(json.dumps([{"text": "Rain.", "label": 3}]))
    (trec,), (news,) = classification_tasks(config)
    assert (trec.name, news.name) == ("trec-50", "ag-news")
    names = shipped_task("trec-50").labels or ()
    found = [names[row["label"]] for row in read_examples(trec, "validation", config)]
    assert found == ["HUM:ind", "LOC:city"]
    assert majority_baselines(trec, config)["accuracy"] == 50


def test_what_is_asked_for_is_grouped_and_named_once(shared_data, write):
    path = write(ROWS)
    config = EvalConfig(
        suites=("glue",), glue_dir=shared_data / "glue", classify=("mnli-mm", "rte", path, path, "mnli"),
        finetune=FinetuneConfig(tasks=("rte", "mnli")),
    )  # fmt: skip
    names = [[f"{task.benchmark}/{task.name}" for task in group] for group in classification_tasks(config)]
    assert names == [["glue/rte"], ["glue/mnli", "glue/mnli-mm"], ["classification/weather"]]
    assert benchmarks_asked_for(config) == ("glue", "classification")
    assert benchmarks_asked_for(EvalConfig(suites=(), classify=(path,), tasks=("x",))) == (
        "classification", "lm-eval-x",
    )  # fmt: skip
    other = Path(path).with_name("other.yaml")
    other.write_text(Path(path).read_text() + "name: weather\nmin_words: 1\n")
    with pytest.raises(UsageError, match="two tasks are called weather in benchmark classification"):
        classification_tasks(EvalConfig(suites=(), classify=(path, str(other))))


def test_scores_are_kept_for_the_data_and_the_definition(write, shared_data):
    """A changed file or task is another protocol, other metrics are not; GLUE's is as before."""

    def sources(path: str) -> tuple[str, str]:
        task = find_task(path, CONFIG)
        return data_source(task, CONFIG, *SPLITS), data_source(task, CONFIG, "train")

    first = sources(write(ROWS, labels=["bad", "good"]))
    assert sources(write(ROWS, labels=["bad", "good"], metrics=["macro_f1"])) == first
    changes = [
        sources(write([*ROWS, ROWS[0]], labels=["bad", "good"])),
        sources(write(ROWS, labels=["good", "bad"])),
        sources(write(ROWS, labels=["bad", "good"], text="so: {text}")),
        sources(write(ROWS, labels=["bad", "good"], min_words=1)),
    ]
    assert len({first, *changes}) == 5
    assert len({data for _, data in (first, *changes)}) == 5
    folder = EvalConfig(glue_dir=shared_data / "glue")
    assert re.fullmatch("[0-9a-f]{16}", data_source(GLUE_TASKS["rte"], folder, *SPLITS))
    assert data_source(GLUE_TASKS["rte"], EvalConfig(), *SPLITS) == "hub:nyu-mll/glue"
    assert data_source(find_task("ag-news", CONFIG), CONFIG, "train").startswith("hub:fancyzhx/ag_news:")


def test_the_epoch_is_chosen_by_the_first_metric_unless_the_config_says(write):
    path = write(ROWS, name="cola", metrics=["macro_f1", "accuracy"])
    task = find_task(path, CONFIG)
    for preset in ("default", "babylm23", "source-study"):
        settings = task.finetuning(FinetuneConfig(preset=preset))
        assert (settings.metric_for_best_model, settings.extra_metrics) == ("macro_f1", ())
    given = FinetuneConfig(metric_for_best_model="cohen_kappa")
    assert task.finetuning(given).metric_for_best_model == "cohen_kappa"
    for name in ("cola", "rte"):
        for config in (FinetuneConfig(), FinetuneConfig(preset="babylm25"), given):
            assert GLUE_TASKS[name].finetuning(config) == config.resolve(name)
