"""The suites: which tasks they have, where their data may lie, and what is said of data that is not there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from eval.config import EvalConfig
from eval.data_files import read_rows
from eval.zero_shot.pairs_and_choices import ChoiceTask, read_items
from eval.zero_shot.text_task import find_suite_tasks, find_text_tasks, missing_tasks
from ffn_variants import UsageError
from scores.suites import BLIMP_PARADIGMS, SUITES


def write_lines(path: Path, rows: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def real(shared_data) -> EvalConfig:
    return EvalConfig(
        suites=("blimp", "babylm23", "blimp-fast", "entity-tracking", "wug"),
        blimp_dir=shared_data / "blimp",
        babylm25_dir=shared_data / "babylm2025",
    )


def test_thirteen_labels_are_twelve_phenomena(real):
    tasks = find_suite_tasks("blimp", real)
    phenomena: dict[str, set[str]] = {}
    for task in tasks:
        row = read_rows(task.load_rows.args[0], ())[0]
        (pair,) = read_items(ChoiceTask("blimp", task.name, f"first {task.source}", lambda row=row: [row]))
        phenomena.setdefault(pair.labels["phenomenon"], set()).add(task.name)
    assert {name: set(uids) for name, uids in BLIMP_PARADIGMS.items()} == phenomena
    assert len(phenomena) == 12
    assert len(phenomena["argument_structure"]) == 9


@pytest.mark.parametrize(
    ("suite", "num_tasks", "num_items"),
    [
        ("babylm23", 17, 57_812 + 5_468),
        ("blimp-fast", 67, 13_400),
        ("entity-tracking", 3, 9_483),
        ("wug", 1, 200),
    ],
)
@pytest.mark.ci
def test_the_suites_of_the_real_data_are_complete(real, suite, num_tasks, num_items):
    tasks = find_suite_tasks(suite, real)
    assert missing_tasks(suite, tasks) == []
    assert len(tasks) == len(SUITES[suite].tasks) == num_tasks
    labels = {task.name: [item.labels for item in read_items(task)] for task in tasks}
    assert sum(map(len, labels.values())) == num_items
    assert all(task.suite == suite for task in tasks)
    for name, of_task in labels.items():
        if suite == "babylm23":
            assert {label["phenomenon"] for label in of_task} == {name}
            assert len({(label["paradigm"], label["pair_id"]) for label in of_task}) == len(of_task)
        elif suite == "blimp-fast":
            (phenomenon,) = {label["phenomenon"] for label in of_task}
            assert len(of_task) == 200
            assert name in BLIMP_PARADIGMS[phenomenon]


def test_a_limit_holds_for_every_task(real):
    suites = ("blimp-fast", "wug", "embedded-pairs")
    tasks = find_text_tasks(real.model_copy(update={"suites": suites, "max_pairs": 3}))
    assert {task.suite for task in tasks} == set(suites)
    assert {len(read_items(task)) for task in tasks} == {3}


def test_plain_gzipped_and_array_files_hold_the_same_pairs(tmp_path):
    rows = [{"sentence_good": "x", "sentence_bad": "y\u2028z"}]
    write_lines(tmp_path / "full" / "a.jsonl", rows)
    write_lines(tmp_path / "full" / "b.jsonl.gz", rows)
    (tmp_path / "full" / "c.json").write_text(json.dumps(rows))
    (tmp_path / "full" / "notes.txt").write_text("not data")
    tasks = find_suite_tasks("blimp", EvalConfig(blimp_dir=tmp_path))
    assert [task.name for task in tasks] == ["a", "b", "c"]
    assert all(task.load_rows() == rows for task in tasks)


def test_the_source_follows_the_content_and_not_the_place(tmp_path):
    tasks = []
    for folder, bad in (("one", "b"), ("two", "b"), ("three", "c")):
        write_lines(tmp_path / folder / "full" / "x.jsonl", [{"sentence_good": "a", "sentence_bad": bad}])
        tasks += find_suite_tasks("blimp", EvalConfig(blimp_dir=tmp_path / folder))
    one, two, three = tasks
    assert one.source == two.source != three.source
    assert one == two != three
    # Reading is remembered by content, so the other place is not read again.
    assert read_items(one) is read_items(two)
    assert [item.options[1] for item in read_items(three)] == [("", " c")]


def test_the_embedded_pairs_follow_their_seed():
    first, again, other = (
        find_suite_tasks("embedded-pairs", EvalConfig(embedded_pairs_per_paradigm=3, embedded_seed=seed))
        for seed in (1, 1, 2)
    )
    read = [[task.load_rows() for task in tasks] for tasks in (first, again, other)]
    assert read[0] == read[1] != read[2]
    assert all(len(rows) == 3 for rows in read[0])
    assert first[0].source != other[0].source


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"sentence_good": "a", "sentence_bad": "b"}, {"sentence_bad": "b"}],
            "row 2: no column 'sentence_good'",
        ),
        ([{"sentence_good": " ", "sentence_bad": "b"}], "row 1: sentence_good is not a text: ' '"),
        ([{"sentence_good": "a", "sentence_bad": 3}], "row 1: sentence_bad is not a text: 3"),
        (["text"], "row 1: not a JSON object"),
        ([], "holds no rows"),
    ],
)
def test_faulty_pairs_are_named(tmp_path, rows, message):
    write_lines(tmp_path / "full" / "binding.jsonl.gz", rows)
    (task,) = find_suite_tasks("blimp", EvalConfig(blimp_dir=tmp_path))
    with pytest.raises(UsageError, match=f"binding.*{message}"):
        read_items(task)


def test_files_that_are_no_text_are_named(tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    (folder / "b.jsonl.gz").write_bytes(b"not gzip")
    (folder / "c.jsonl").write_text('{"sentence_good": ')
    for task in find_suite_tasks("blimp", EvalConfig(blimp_dir=tmp_path)):
        with pytest.raises(UsageError, match=f"{task.name}.jsonl"):
            task.load_rows()


def test_missing_folders_and_tasks_are_named(tmp_path, shared_data):
    blimp = shared_data / "blimp"
    (tmp_path / "empty" / "full").mkdir(parents=True)
    for suite, fields, message in (
        ("babylm23", {}, "filter-data of the BabyLM 2023"),
        ("entity-tracking", {}, "--babylm25-dir FOLDER"),
        ("entity-tracking", {"babylm25_dir": tmp_path}, r"no entity_tracking_regular\.jsonl"),
        ("wug", {"babylm25_dir": tmp_path / "absent"}, "no folder .*absent"),
        ("blimp", {"blimp_dir": tmp_path}, "no folder .*full"),
        ("blimp", {"blimp_dir": tmp_path / "empty"}, "holds no"),
        ("babylm23", {"blimp_dir": blimp, "pair_tasks": ("bindin",)}, "did you mean 'binding'"),
    ):
        with pytest.raises(UsageError, match=message):
            find_text_tasks(EvalConfig(suites=(suite,), **fields))
    (only,) = find_text_tasks(EvalConfig(suites=("babylm23",), blimp_dir=blimp, pair_tasks=("binding",)))
    assert only.name == "binding"


def test_the_hub_without_network_says_what_to_do():
    tasks = find_suite_tasks("blimp", EvalConfig())
    assert len(tasks) == 67
    with pytest.raises(UsageError, match="--blimp-dir FOLDER"):
        tasks[0].load_rows()


def test_the_layouts_of_the_original_pipelines_are_understood(shared_data, tmp_path):
    for ours, theirs in (("filtered", "blimp_filtered"), ("supplement", "supplement_filtered")):
        (tmp_path / theirs).symlink_to(shared_data / "blimp" / ours)
    assert len(find_suite_tasks("babylm23", EvalConfig(blimp_dir=tmp_path))) == 17
    sets = shared_data / "babylm2025"
    nouns = "wug_adj_nominalization"
    places = {
        f"entity_tracking_{name}": f"entity_tracking/{name}"
        for name in ("regular", "ambiref", "move_contents")
    }
    for ours, theirs in (places | {nouns: f"{nouns}/{nouns}"}).items():
        write_lines(tmp_path / "full_eval" / f"{theirs}.jsonl", read_rows(sets / f"{ours}.jsonl.gz", ())[:5])
    rows = read_rows(sets / "blimp_fast.jsonl.gz", ("UID",))
    for uid in ("causative", "wh_island"):
        own = [row for row in rows if row["UID"] == uid]
        write_lines(tmp_path / "fast_eval" / "blimp_fast" / f"{uid}.jsonl", own)
    tasks = find_text_tasks(
        EvalConfig(suites=("entity-tracking", "wug", "blimp-fast"), babylm25_dir=tmp_path)
    )
    names = ["regular", "ambiref", "move_contents", nouns, "causative", "wh_island"]
    assert [task.name for task in tasks] == names
    assert [len(read_items(task)) for task in tasks] == [5, 5, 5, 5, 200, 200]
