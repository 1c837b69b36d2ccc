"""Every shipped classification task of the hub: repository, files and columns are those that its YAML has.

The layouts are those that the tasks' files say were seen; the texts are made up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from eval.classification.tasks.schema import shipped_task, shipped_tasks
from tests.hub.published import write_data_set
from tests.hub.stand_in import StandIn

pytestmark = pytest.mark.slow

CONVERTED = "refs/convert/parquet"
FILES: dict[str, tuple[str, str]] = {
    "20-newsgroups": ("train.jsonl", "test.jsonl"),
    "ag-news": ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
    "arxiv": ("no_ref/train-00000-of-00001.parquet", "no_ref/test-00000-of-00001.parquet"),
    "dbpedia": ("dbpedia_14/train-00000-of-00001.parquet", "dbpedia_14/test-00000-of-00001.parquet"),
    "hatexplain": ("plain_text/train/0000.parquet", "plain_text/test/0000.parquet"),
    "imdb": ("plain_text/train-00000-of-00001.parquet", "plain_text/test-00000-of-00001.parquet"),
    "language-identification": ("train.csv valid.csv", "test.csv"),
    "multiwoz": ("v2.2_active_only/train/0000.parquet", "v2.2_active_only/test/0000.parquet"),
    "sst5": ("train.jsonl dev.jsonl", "test.jsonl"),
    "trec-50": ("train.jsonl", "test.jsonl"),
    "yelp-full": (
        "yelp_review_full/train-00000-of-00001.parquet",
        "yelp_review_full/test-00000-of-00001.parquet",
    ),
}
"""Where a task's examples lie: what it is trained on, and what it is reported on."""

OTHERS = {
    "arxiv": ("default/train-00000-of-00001.parquet", "default/test-00000-of-00001.parquet"),
    "imdb": ("plain_text/unsupervised-00000-of-00001.parquet",),
    "multiwoz": ("v2.2/train/0000.parquet", "v2.2/test/0000.parquet"),
}
"""What lies beside it."""


def row_of(task: str, label: Any, number: int, words: str) -> dict[str, Any]:
    """An example as the hub has it, with its label in the hub's form."""
    text = f"{words} {number} of {label}"
    match task:
        case "dbpedia":
            return {"label": number, "title": f"Title {number}", "content": text}
        case "hatexplain":
            votes = {"label": [number, number, (number + 1) % 3], "annotator_id": [1, 2, 3]}
            return {"id": str(number), "annotators": votes, "post_tokens": text.split()}
        case "language-identification":
            return {"labels": label, "text": text}
        case "multiwoz":
            frames = [{"service": [label]}, {"service": []}]
            turns = {"speaker": [0, 1], "utterance": [text, "Yes."], "frames": frames}
            return {"dialogue_id": str(number), "services": [label], "turns": turns}
        case "trec-50":
            return {"text": text, "label": number, "label_original": label, "label_coarse": number % 6}
        case "imdb":
            return {"text": f"{text} {'word ' * 520}" if number else text, "label": number}
    return {"text": text, "label": number}


def write(folder: Path, name: str, rows: Iterable[dict]) -> None:
    """Write rows in the form that the name of a file says."""
    path, table = folder / name, pd.DataFrame(list(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)


def write_card(folder: Path, files: Iterable[str]) -> None:
    """Write the card of a repository whose configurations are folders."""
    configurations: dict[str, list[str]] = {}
    for file in files:
        place, _, name = file.rpartition("/")
        configurations.setdefault("default" if place == "data" else place, []).append(name.split("-")[0])
    lines = ["---", "configs:"]
    for name, splits in configurations.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        place = "data" if name == "default" and "data/train-00000-of-00001.parquet" in files else name
        lines += [f"  - {{split: {split}, path: {place}/{split}-*}}" for split in splits]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))


def publish(hub: StandIn, task: str, folder: Path) -> dict[str, list[str]]:
    """Publish the data set of a task; returns the texts of each split."""
    definition = shipped_task(task)
    assert definition.hub
    assert definition.labels
    texts: dict[str, list[str]] = {}
    for split, names in zip(("train", "validation"), FILES[task], strict=True):
        for name in names.split():
            rows = [row_of(task, label, i, name) for i, label in enumerate(definition.labels)]
            write(folder, name, rows)
            texts.setdefault(split, []).extend(f"{name} {i} of" for i in range(len(rows)))
    for name in OTHERS.get(task, ()):
        write(folder, name, [row_of(task, label, i, "no") for i, label in enumerate(definition.labels)])
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*-of-00001.parquet"))
    if files:
        write_card(folder, files)
    hub.publish("datasets", definition.hub.path, folder, branch=definition.hub.revision or "main")
    return texts


def read_files(requests: Iterable[str], repository: str) -> set[str]:
    """Which files of data were asked for."""
    asked = (re.search(rf"/datasets/{repository}/resolve/[^/]+/(.+)", request) for request in requests)
    return {found[1] for found in asked if found and found[1].endswith((".parquet", ".jsonl", ".csv"))}


def test_the_layouts_are_those_of_all_tasks_that_read_the_hub() -> None:
    elsewhere = {name for name in shipped_tasks() if shipped_task(name).benchmark == "glue"} | {"imdb-long"}
    assert {name for name in shipped_tasks() if shipped_task(name).hub} - elsewhere == FILES.keys()


@pytest.mark.parametrize("task", FILES)
def test_a_task_reads_its_own_files_and_columns(hub: StandIn, run, tmp_path: Path, task: str) -> None:
    texts = publish(hub, task, tmp_path / "repository")
    done = run("tests.hub.read", "tasks", task)
    assert done.returncode == 0, done.stderr
    examples = json.loads(done.stdout)[task]
    definition = shipped_task(task)
    for split, expected in texts.items():
        found = [json.dumps(row) for row in examples[split]]
        assert len(found) == len(expected)
        for words, text in zip(expected, found, strict=True):
            assert words in text or words.replace(" ", '", "') in text
        numbers = list(range(len(definition.labels or ()))) * (len(expected) // len(definition.labels or ()))
        labels = [row["label"] for row in examples[split]]
        assert (
            [label.index(1) for label in labels] == numbers if definition.multi_label else labels == numbers
        )
    wanted = {name for names in FILES[task] for name in names.split()}
    assert definition.hub
    assert read_files(hub.requests, definition.hub.path) - set(OTHERS["imdb"]) == wanted


def test_long_reviews_are_the_long_ones_of_the_same_repository(hub: StandIn, run, tmp_path: Path) -> None:
    publish(hub, "imdb", tmp_path / "repository")
    done = run("tests.hub.read", "tasks", "imdb-long")
    assert done.returncode == 0, done.stderr
    assert [row["label"] for row in json.loads(done.stdout)["imdb-long"]["train"]] == [1]


GLUE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("cola", "sst2"), ("sentence",)),
    **dict.fromkeys(("mrpc", "rte"), ("sentence1", "sentence2")),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "boolq": ("question", "passage"),
    "multirc": ("paragraph", "question", "answer"),
    "wsc": ("text", "span1_text", "span2_text"),
}


@pytest.mark.parametrize("task", [*GLUE, "mnli-mm"])
def test_a_task_of_glue_reads_its_configuration_alone(hub: StandIn, run, tmp_path: Path, task: str) -> None:
    splits = {"mnli": ("train", "validation_matched", "validation_mismatched")}
    configurations = {
        name: {
            split: [
                {**{column: f"{name} {split} {column} {i}" for column in columns}, "label": i % 2, "idx": i}
                for i in range(4)
            ]
            for split in splits.get(name, ("train", "validation"))
        }
        for name, columns in GLUE.items()
    }
    definition = shipped_task(task)
    assert definition.hub
    hub.publish("datasets", definition.hub.path, write_data_set(tmp_path / "repository", configurations))
    done = run("tests.hub.read", "tasks", task)
    assert done.returncode == 0, done.stderr
    examples, name = json.loads(done.stdout)[task], task.removesuffix("-mm")
    validation = {"mnli": "validation_matched", "mnli-mm": "validation_mismatched"}.get(task, "validation")
    assert examples["train"] == configurations[name]["train"]
    assert examples["validation"] == configurations[name][validation]
    asked = read_files(hub.requests, definition.hub.path)
    assert {file.partition("/")[0] for file in asked} == {name}
