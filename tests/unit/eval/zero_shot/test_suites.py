"""The suites: their tasks, where their data may lie, and scores of BabyLM 2025 by plain passes."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from eval.config import EvalConfig
from eval.data_files import read_rows
from eval.scoring.scorers import SCORERS, TextScorer
from eval.zero_shot.pairs_and_choices import ChoiceTask, read_items
from eval.zero_shot.text_task import find_suite_tasks, find_text_tasks, missing_tasks
from ffn_variants import UsageError
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer
from scores.suites import BLIMP_PARADIGMS, SUITES
from tests.babylm_data import write_data
from tests.cases import listed


# The suites: which tasks they have, where their data may lie, and what is said of data that is not there.
def write_lines(path: Path, rows: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def real(shared_data) -> EvalConfig:
    folders = {"blimp_dir": shared_data / "blimp", "babylm25_dir": shared_data / "babylm2025"}
    return EvalConfig(suites=("blimp", "babylm23", "blimp-fast"), **folders)


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
    ("suite", "num_tasks", "num_items"), [("babylm23", 17, 63_280), ("blimp-fast", 67, 13_400)]
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
    suites = ("blimp-fast", "babylm23", "embedded-pairs")
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
    configs = [EvalConfig(embedded_pairs_per_paradigm=3, embedded_seed=seed) for seed in (1, 1, 2)]
    first, again, other = (find_suite_tasks("embedded-pairs", config) for config in configs)
    read = [[task.load_rows() for task in tasks] for tasks in (first, again, other)]
    assert read[0] == read[1] != read[2]
    assert all(len(rows) == 3 for rows in read[0])
    assert first[0].source != other[0].source


@pytest.mark.parametrize(("rows", "message"), listed(__file__, "faulty pairs"))
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


def test_pairs_of_ones_own_are_a_task_a_file(tmp_path):
    rows = [{"sentence_good": "He runs.", "sentence_bad": "He run."}]
    write_lines(tmp_path / "verbs.jsonl", rows)
    (tmp_path / "nouns.csv").write_text("sentence_bad,sentence_good\nTwo dog.,Two dogs.\n")
    paths = (tmp_path / "verbs.jsonl", tmp_path / "nouns.csv")
    options = {"verbs": ("He runs.", "He run."), "nouns": ("Two dogs.", "Two dog.")}
    for task in find_suite_tasks("own-pairs", EvalConfig(pair_files=paths)):
        (item,) = read_items(task)
        assert tuple(text for _, text in item.options) == tuple(f" {text}" for text in options.pop(task.name))
    assert not options
    (tmp_path / "nouns.csv").write_text("good,bad\na,b\n")
    (tmp_path / "other").mkdir()
    write_lines(tmp_path / "other" / "verbs.jsonl", rows)
    for files, message in (
        ((), "--pair-files FILE"),
        ((paths[0], tmp_path / "other" / "verbs.jsonl"), "of another name"),
        ((tmp_path / "absent.csv",), "no file .*absent.csv"),
        ((paths[1],), "no column 'sentence_good'"),
    ):
        with pytest.raises(UsageError, match=message):
            find_suite_tasks("own-pairs", EvalConfig(pair_files=files))


def test_missing_folders_and_tasks_are_named(tmp_path, shared_data):
    blimp = shared_data / "blimp"
    (tmp_path / "empty" / "full").mkdir(parents=True)
    for suite, fields, message in (
        ("babylm23", {}, "filter-data of the BabyLM 2023"),
        ("comps", {}, "--babylm25-dir FOLDER"),
        ("comps", {"babylm25_dir": tmp_path}, r"no comps/comps_base\.jsonl"),
        ("comps", {"babylm25_dir": tmp_path / "absent"}, "no folder .*absent"),
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
    rows = read_rows(sets / "blimp_fast.jsonl.gz", ("UID",))
    for uid in ("causative", "wh_island"):
        own = [row for row in rows if row["UID"] == uid]
        write_lines(tmp_path / "fast_eval" / "blimp_fast" / f"{uid}.jsonl", own)
    tasks = find_text_tasks(EvalConfig(suites=("blimp-fast",), babylm25_dir=tmp_path))
    assert [(task.name, len(read_items(task))) for task in tasks] == [("causative", 200), ("wh_island", 200)]


# EWoK and COMPS against plain forward passes.
OBJECTIVES = ("causal", "masked", "span_corruption")


@pytest.fixture(scope="module")
def tokenizer():
    made = train_tokenizer(iter(stories(300, 0)), 400)
    add_sentinels(made)
    return made


@pytest.fixture(scope="module")
def scorers(stock_model, tokenizer) -> dict[str, TextScorer]:
    models = {name: stock_model(name, len(tokenizer)) for name in OBJECTIVES}
    return {name: SCORERS[name](model, tokenizer, "babylm25") for name, model in models.items()}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("babylm"))


@pytest.fixture
def restated(tokenizer, whole_passes):
    """log p(text | context) by transformers' forward pass over all of it."""

    def score(scorer: TextScorer, context: str, text: str) -> float:
        before, ids = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in (context, context + text))
        assert ids[: len(before)] == before
        places = range(1 + len(before), 1 + len(ids))
        if scorer.objective == "causal":
            return whole_passes(scorer.model, [1, *ids], places)
        if scorer.objective == "masked":
            return whole_passes(scorer.model, [1, *ids, 2], places, tokenizer.mask_token_id)
        gap = tokenizer.convert_tokens_to_ids("<extra_id_0>")
        labels = torch.tensor([[gap, *ids[len(before) :]]])
        with torch.no_grad():
            logits = scorer.model(input_ids=torch.tensor([[1, *before, gap, 2]]), labels=labels).logits
        return -cross_entropy(logits[0, 1:].double(), labels[0, 1:], reduction="sum").item()

    return score


def tasks_of(suite: str, data: Path | None):
    return find_suite_tasks(suite, EvalConfig(suites=(), babylm25_dir=data))


def of_ewok(row: dict) -> list[tuple[str, str]]:
    return [(row["Context1"], f" {row[target]}") for target in ("Target1", "Target2")]


def of_comps(row: dict) -> list[tuple[str, str]]:
    prefixes = row["prefix_acceptable"], row["prefix_unacceptable"]
    return [(prefix, f" {row['property_phrase']}") for prefix in prefixes]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("suite", "task", "file", "options"),
    [
        ("ewok", "agent-properties", "ewok_filtered/agent-properties", of_ewok),
        ("comps", "base", "comps/comps_base", of_comps),
        ("comps", "wugs_dist_in_between", "comps/comps_wugs_dist-in-between", of_comps),
    ],
)
def test_pairs_are_scored_behind_their_contexts(
    scorers, data, restated, objective, suite, task, file, options
):
    (found,) = (each for each in tasks_of(suite, data) if each.name == task)
    result = found.measure(scorers[objective], print)
    lines = (data / "full_eval" / f"{file}.jsonl").read_text().splitlines()
    pairs = [options(json.loads(line)) for line in lines]
    expected = np.array([[restated(scorers[objective], *option) for option in pair] for pair in pairs])
    scores = result.items[["score_good", "score_bad"]].to_numpy()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-4)
    right = (expected[:, 0] > expected[:, 1]) + 0.5 * (expected[:, 0] == expected[:, 1])
    assert result.metrics["accuracy"] == pytest.approx(100 * right.mean())
    assert result.items["margin"].tolist() == (scores[:, 0] - scores[:, 1]).tolist()


@pytest.mark.parametrize(("suite", "names"), listed(__file__, "tasks of suites"))
def test_every_task_of_a_suite_is_found(data, suite, names):
    assert [task.name for task in tasks_of(suite, data)] == list(names or SUITES[suite].tasks)


@pytest.mark.parametrize(("suite", "name", "row", "words"), listed(__file__, "faulty rows"))
def test_faulty_rows_are_named(tmp_path, suite, name, row, words):
    data = write_data(tmp_path)
    (data / "full_eval" / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    stem = Path(name).stem.removeprefix("comps_")
    (task,) = (task for task in tasks_of(suite, data) if task.name == stem)
    with pytest.raises(UsageError, match=f"row 1.*{words}"):
        read_items(task)


@pytest.mark.parametrize(("suite", "name"), listed(__file__, "absent data"))
def test_absent_data_are_named(tmp_path, suite, name):
    data = write_data(tmp_path)
    shutil.rmtree(data / "fast_eval")  # which is taken in its place
    path = data / "full_eval" / name
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"{path.name.removesuffix('.jsonl')}"):
        tasks_of(suite, data)
    with pytest.raises(UsageError, match="--babylm25-dir FOLDER"):
        tasks_of(suite, None)
