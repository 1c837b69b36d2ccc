"""Minimal pairs: where they come from, what lm-eval makes of them, and faulty files."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from eval.blimp import (
    PairTask,
    find_pair_tasks,
    missing_tasks,
    read_pairs,
    score_pairs,
    select_pair_tasks,
    task_group,
)
from eval.config import EvalConfig
from eval.lm_models import TextScorer
from eval.paradigms import BLIMP_PARADIGMS
from eval.scoring import ScoredText, Scores
from ffn_variants import UsageError


class LengthScorer(TextScorer):
    """Gives each text minus its number of characters: scores that a test can tell by hand."""

    def __init__(self) -> None:
        self._rank, self._world_size, self._device = 0, 1, None
        self.calls = 0

    def loglikelihood(self, requests):
        self.calls += 1
        return [(-float(len(request.args[0] + request.args[1])), False) for request in requests]

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]

    def load(self, folder, device):
        raise NotImplementedError

    def score(self, texts: list[ScoredText]) -> Scores:
        raise NotImplementedError

    end_ids: list[int] = []  # noqa: RUF012


def task_of(rows: list[dict], name: str = "binding") -> PairTask:
    return PairTask("blimp-filtered", name, "test", lambda: rows)


def write_lines(path: Path, rows: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_items_hold_the_scores_of_each_pair_in_order():
    rows = [
        {"sentence_good": "a b", "sentence_bad": "a b c", "UID": "one", "pairID": "7"},
        {"sentence_good": "a b c d", "sentence_bad": "a b", "UID": "two", "pair_id": 0},
        {"sentence_good": "same", "sentence_bad": "same"},
    ]
    task = task_of(rows)
    items = score_pairs(task, read_pairs(task, None), LengthScorer())
    assert items["score_good"].tolist() == [-3, -7, -4]
    assert items["score_bad"].tolist() == [-5, -3, -4]
    assert items["margin"].tolist() == [2, -4, 0]
    assert items["correct"].tolist() == [1, 0, 0.5]
    assert items["tie"].tolist() == [False, False, True]
    assert items["num_tokens_good"].tolist() == [2, 4, 1]
    assert items["pair_id"].tolist() == ["7", "0", "2"]
    assert items["paradigm"].tolist() == ["one", "two", "binding"]
    assert set(items["suite"]) == {"blimp-filtered"}
    assert set(items["task"]) == {"binding"}


def test_lm_eval_itself_reports_the_same_accuracy():
    from lm_eval.evaluator import evaluate

    from eval.lm_tasks import make_pairs_task

    pairs = pd.DataFrame({"sentence_good": ["a", "abc", "ab"], "sentence_bad": ["ab", "a", "ab"]})
    results = evaluate(LengthScorer(), {"pairs": make_pairs_task("pairs", pairs)}, bootstrap_iters=0)
    assert results["results"]["pairs"]["acc,none"] == pytest.approx(0.5)


def test_thirteen_labels_are_twelve_phenomena(shared_data):
    config = EvalConfig(blimp_dir=shared_data / "blimp")
    tasks = find_pair_tasks("blimp", config)
    assert len(tasks) == 67
    assert missing_tasks("blimp", tasks) == []
    phenomena: dict[str, set[str]] = {}
    for task in tasks:
        pairs = read_pairs(task, 2)
        phenomena.setdefault(pairs["phenomenon"][0], set()).add(task.name)
    assert {name: set(uids) for name, uids in BLIMP_PARADIGMS.items()} == phenomena
    assert len(phenomena) == 12
    assert len(phenomena["argument_structure"]) == 9


def test_the_suites_of_the_real_data_are_complete(shared_data):
    config = EvalConfig(blimp_dir=shared_data / "blimp")
    for suite, num_tasks, num_pairs in (("blimp-filtered", 12, 57_812), ("blimp-supplement", 5, 5_468)):
        tasks = find_pair_tasks(suite, config)
        assert missing_tasks(suite, tasks) == []
        assert len(tasks) == num_tasks
        pairs = [read_pairs(task, None) for task in tasks]
        assert sum(map(len, pairs)) == num_pairs
        for task, of_task in zip(tasks, pairs, strict=True):
            assert set(of_task["phenomenon"]) == {task.name}
            assert not of_task.duplicated(["paradigm", "pair_id"]).any()


def test_fewer_pairs_are_spread_over_the_file():
    rows = [{"sentence_good": f"{n}", "sentence_bad": "x"} for n in range(10)]
    assert read_pairs(task_of(rows), 4)["sentence_good"].tolist() == ["0", "2", "5", "7"]
    assert len(read_pairs(task_of(rows), 99)) == 10


def test_a_task_of_several_phenomena_is_its_own_group():
    assert task_group(pd.DataFrame({"phenomenon": ["a", "a"], "task": ["t", "t"]})) == "a"
    assert task_group(pd.DataFrame({"phenomenon": ["a", "b"], "task": ["t", "t"]})) == "t"


def test_plain_gzipped_and_array_files_hold_the_same_pairs(tmp_path):
    rows = [{"sentence_good": "x", "sentence_bad": "y\u2028z"}]
    write_lines(tmp_path / "supplement" / "a.jsonl", rows)
    write_lines(tmp_path / "supplement" / "b.jsonl.gz", rows)
    (tmp_path / "supplement" / "c.json").write_text(json.dumps(rows))
    (tmp_path / "supplement" / "notes.txt").write_text("not data")
    tasks = find_pair_tasks("blimp-supplement", EvalConfig(blimp_dir=tmp_path))
    assert [task.name for task in tasks] == ["a", "b", "c"]
    assert all(task.read() == rows for task in tasks)


def test_the_source_follows_the_content_and_not_the_place(tmp_path):
    for folder in ("one", "two"):
        write_lines(tmp_path / folder / "full" / "x.jsonl", [{"sentence_good": "a", "sentence_bad": "b"}])
    write_lines(tmp_path / "three" / "full" / "x.jsonl", [{"sentence_good": "a", "sentence_bad": "c"}])
    one, two, three = (
        find_pair_tasks("blimp", EvalConfig(blimp_dir=tmp_path / folder))[0].source
        for folder in ("one", "two", "three")
    )
    assert one == two != three


def test_the_embedded_pairs_follow_their_seed():
    first, again, other = (
        find_pair_tasks("embedded-pairs", EvalConfig(embedded_pairs_per_paradigm=3, embedded_seed=seed))
        for seed in (1, 1, 2)
    )
    assert (
        [task.read() for task in first] == [task.read() for task in again] != [task.read() for task in other]
    )
    assert all(len(task.read()) == 3 for task in first)
    assert first[0].source != other[0].source


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [{"sentence_good": "a", "sentence_bad": "b"}, {"sentence_bad": "b"}],
            "row 2: no column 'sentence_good'",
        ),
        ([{"sentence_good": None, "sentence_bad": "b"}], "row 1: no column 'sentence_good'"),
        ([{"sentence_good": " ", "sentence_bad": "b"}], "row 1: sentence_good is not a sentence: ' '"),
        ([{"sentence_good": 3, "sentence_bad": "b"}], "row 1: sentence_good is not a sentence: 3"),
        (["text"], "row 1: not a JSON object"),
        ([], "holds no rows"),
    ],
)
def test_faulty_pairs_are_named(tmp_path, content, message):
    path = write_lines(tmp_path / "filtered" / "binding.jsonl.gz", content)
    task = find_pair_tasks("blimp-filtered", EvalConfig(blimp_dir=tmp_path))[0]
    with pytest.raises(UsageError, match=message) as error:
        read_pairs(task, None)
    assert path.name in str(error.value) or "blimp-filtered/binding" in str(error.value)


def test_files_that_are_no_text_are_named(tmp_path):
    folder = tmp_path / "filtered"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    (folder / "b.jsonl.gz").write_bytes(b"not gzip")
    (folder / "c.jsonl").write_text('{"sentence_good": ')
    for task in find_pair_tasks("blimp-filtered", EvalConfig(blimp_dir=tmp_path)):
        with pytest.raises(UsageError, match=f"{task.name}.jsonl"):
            task.read()


def test_missing_folders_and_tasks_are_named(tmp_path):
    with pytest.raises(UsageError, match="filter-data of the BabyLM 2023"):
        find_pair_tasks("blimp-filtered", EvalConfig())
    with pytest.raises(UsageError, match=r"no folder .*full"):
        find_pair_tasks("blimp", EvalConfig(blimp_dir=tmp_path))
    (tmp_path / "full").mkdir()
    with pytest.raises(UsageError, match="holds no"):
        find_pair_tasks("blimp", EvalConfig(blimp_dir=tmp_path))
    with pytest.raises(UsageError, match="did you mean 'binding'"):
        select_pair_tasks([task_of([])], ("bindin",))


def test_the_hub_without_network_says_what_to_do():
    tasks = find_pair_tasks("blimp", EvalConfig())
    assert len(tasks) == 67
    with pytest.raises(UsageError, match="--blimp-dir FOLDER"):
        tasks[0].read()


def test_the_names_of_the_original_pipeline_are_understood(shared_data, tmp_path):
    shutil.copytree(shared_data / "blimp" / "supplement", tmp_path / "supplement_filtered")
    assert len(find_pair_tasks("blimp-supplement", EvalConfig(blimp_dir=tmp_path))) == 5


def test_scores_that_are_no_numbers_are_refused():
    scorer = LengthScorer()
    scorer.loglikelihood = lambda requests: [(float("nan"), False) for _ in requests]
    task = task_of([{"sentence_good": "a", "sentence_bad": "b"}])
    with pytest.raises(UsageError, match="not finite"):
        score_pairs(task, read_pairs(task, None), scorer)


def test_requests_reach_the_model_without_a_delimiter():
    seen = []

    class Recorder(LengthScorer):
        def loglikelihood(self, requests: list[SimpleNamespace]):
            seen.extend(request.args for request in requests)
            return super().loglikelihood(requests)

    task = task_of([{"sentence_good": "Good one.", "sentence_bad": "Bad\none."}])
    score_pairs(task, read_pairs(task, None), Recorder())
    assert seen == [("", "Good one."), ("", "Bad\none.")]
    assert np.all([context == "" for context, _ in seen])
