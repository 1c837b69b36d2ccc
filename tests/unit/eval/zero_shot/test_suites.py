"""The suites: which tasks they have, where their data may lie, and what is said of data that is not there."""

from __future__ import annotations

import gzip
import json
import shutil
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
    assert sum(len(read_items(task)) for task in tasks) == num_items
    assert all(task.suite == suite for task in tasks)


def test_paradigms_of_the_fast_suite_are_of_two_hundred_pairs_and_known_phenomena(real):
    for task in find_suite_tasks("blimp-fast", real):
        pairs = read_items(task)
        (phenomenon,) = {pair.labels["phenomenon"] for pair in pairs}
        assert len(pairs) == 200
        assert task.name in BLIMP_PARADIGMS[phenomenon]


def test_pair_ids_of_the_filtered_tasks_are_unique(real):
    for task in find_suite_tasks("babylm23", real):
        labels = [pair.labels for pair in read_items(task)]
        assert {label["phenomenon"] for label in labels} == {task.name}
        assert len({(label["paradigm"], label["pair_id"]) for label in labels}) == len(labels)


def test_a_limit_holds_for_every_task(real):
    config = real.model_copy(update={"suites": (*real.suites, "embedded-pairs"), "max_pairs": 3})
    tasks = find_text_tasks(config)
    assert len(tasks) > 67 + 17 + 67 + 3 + 1
    assert [len(read_items(task)) for task in tasks if task.suite != "blimp"] == [3] * (len(tasks) - 67)


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
    for folder, bad in (("one", "b"), ("two", "b"), ("three", "c")):
        write_lines(tmp_path / folder / "full" / "x.jsonl", [{"sentence_good": "a", "sentence_bad": bad}])
    one, two, three = (
        find_suite_tasks("blimp", EvalConfig(blimp_dir=tmp_path / folder))[0]
        for folder in ("one", "two", "three")
    )
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
    ("content", "message"),
    [
        (
            [{"sentence_good": "a", "sentence_bad": "b"}, {"sentence_bad": "b"}],
            "row 2: no column 'sentence_good'",
        ),
        ([{"sentence_good": " ", "sentence_bad": "b"}], "row 1: sentence_good is not a text: ' '"),
        (["text"], "row 1: not a JSON object"),
        ([], "holds no rows"),
    ],
)
def test_faulty_pairs_are_named(tmp_path, content, message):
    path = write_lines(tmp_path / "full" / "binding.jsonl.gz", content)
    task = find_suite_tasks("blimp", EvalConfig(blimp_dir=tmp_path))[0]
    with pytest.raises(UsageError, match=message) as error:
        read_items(task)
    assert path.name in str(error.value) or "blimp/binding" in str(error.value)


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
    def found(*suites, **fields):
        return find_text_tasks(EvalConfig(suites=suites, **fields))

    with pytest.raises(UsageError, match=r"filter-data of the BabyLM 2023"):
        found("babylm23")
    with pytest.raises(UsageError, match="--babylm25-dir FOLDER"):
        found("entity-tracking")
    with pytest.raises(UsageError, match=r"no entity_tracking_regular\.jsonl"):
        found("entity-tracking", babylm25_dir=tmp_path)
    with pytest.raises(UsageError, match=r"no folder .*absent"):
        found("wug", babylm25_dir=tmp_path / "absent")
    with pytest.raises(UsageError, match=r"no folder .*full"):
        found("blimp", blimp_dir=tmp_path)
    (tmp_path / "full").mkdir()
    with pytest.raises(UsageError, match="holds no"):
        found("blimp", blimp_dir=tmp_path)
    with pytest.raises(UsageError, match="did you mean 'binding'"):
        found("babylm23", blimp_dir=shared_data / "blimp", pair_tasks=("bindin",))
    (only,) = found("babylm23", blimp_dir=shared_data / "blimp", pair_tasks=("binding",))
    assert only.name == "binding"


def test_the_hub_without_network_says_what_to_do():
    tasks = find_suite_tasks("blimp", EvalConfig())
    assert len(tasks) == 67
    with pytest.raises(UsageError, match="--blimp-dir FOLDER"):
        tasks[0].load_rows()


def test_the_layouts_of_the_original_pipelines_are_understood(shared_data, tmp_path):
    blimp, sets = shared_data / "blimp", shared_data / "babylm2025"
    shutil.copytree(blimp / "filtered", tmp_path / "blimp_filtered")
    shutil.copytree(blimp / "supplement", tmp_path / "supplement_filtered")
    assert len(find_suite_tasks("babylm23", EvalConfig(blimp_dir=tmp_path))) == 17
    for name in ("regular", "ambiref", "move_contents"):
        lines = gzip.decompress((sets / f"entity_tracking_{name}.jsonl.gz").read_bytes())
        target = tmp_path / "full_eval" / "entity_tracking" / f"{name}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lines)
    lines = gzip.decompress((sets / "wug_adj_nominalization.jsonl.gz").read_bytes())
    (tmp_path / "full_eval" / "wug_adj_nominalization").mkdir()
    (tmp_path / "full_eval" / "wug_adj_nominalization" / "wug_adj_nominalization.jsonl").write_bytes(lines)
    rows = read_rows(sets / "blimp_fast.jsonl.gz", ("UID",))
    for uid in ("causative", "wh_island"):
        write_lines(
            tmp_path / "fast_eval" / "blimp_fast" / f"{uid}.jsonl", [row for row in rows if row["UID"] == uid]
        )
    config = EvalConfig(suites=("entity-tracking", "wug", "blimp-fast"), babylm25_dir=tmp_path)
    tasks = find_text_tasks(config)
    names = ["regular", "ambiref", "move_contents", "wug_adj_nominalization", "causative", "wh_island"]
    assert [task.name for task in tasks] == names
    assert sum(len(read_items(task)) for task in tasks) == 9_483 + 200 + 400
