"""Two models item by item: the command on runs and on lm-eval's samples, and what it must not say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from base.errors import UsageError
from eval.config import EvalConfig
from eval.report.two_models.command import main
from eval.report.two_models.compare import compare_models
from eval.report.two_models.items import read_model_items
from eval.runner.evaluate import evaluate_run
from eval.significance.comparison import DIFFERENT, EQUIVALENT, INCONCLUSIVE


@pytest.fixture
def scored(make_run) -> Callable[..., Path]:
    """A run with items of pairs, choices in texts and classifications."""

    def make(seed: int, **keys: object) -> Path:
        run = make_run("gpt_neo", seed=seed, **keys)
        evaluate_run(run, EvalConfig(suites=("embedded-pairs", "perplexity"), max_pairs=40), progress=False)
        return run

    return make


@pytest.mark.ci
def test_differences_are_those_of_the_scores(scored):
    first, second = scored(1), scored(2)
    found = compare_models(read_model_items(first), read_model_items(second))
    for whole in found.wholes:
        suite, _, metric = whole.outcome.name.partition(" ")
        rows = [pd.read_csv(run / "eval" / "rows.csv") for run in (first, second)]
        own = [r[(r.benchmark == suite) & (r.metric == metric.replace(" ", "_"))].score.mean() for r in rows]
        if metric == "log odds":  # made of the items when a report is read
            items = [pd.read_parquet(run / "eval" / "items" / f"{suite}.parquet") for run in (first, second)]
            own = [table.groupby("task").margin.mean().mean() for table in items]
        assert whole.means == pytest.approx(own, rel=1e-6), whole.outcome.name
        assert whole.paired.estimate == pytest.approx(own[1] - own[0], rel=1e-6, abs=1e-9)
    metrics = {whole.outcome.name.partition(" ")[2] for whole in found.wholes}
    assert metrics == {"accuracy", "log odds", "bits per byte"}
    (pairs,) = [x for x in found.wholes if x.outcome.name == "embedded-pairs accuracy"]
    assert pairs.cluster == "task"
    assert pairs.num_items == sum(x.num_items for x in found.parts if x.outcome == pairs.outcome)


@pytest.mark.ci
def test_the_page_speaks_of_items_and_never_of_trainings(scored, tmp_path, capsys):
    first, second = scored(1), scored(2, ffn="relu")
    out = tmp_path / "out"
    assert main([str(first), str(second), "--out", str(out)]) == 0
    text = (out / "items.md").read_text()
    said = capsys.readouterr().out
    assert "Nothing follows for another training of either" in said
    assert said.splitlines()[0] in text
    for verdict in (DIFFERENT, EQUIVALENT, INCONCLUSIVE, "better than", "significant"):
        assert verdict not in said, verdict
    numbers = json.loads((out / "items.json").read_text())
    assert {entry["outcome"] for entry in numbers["wholes"]} >= {"embedded-pairs accuracy"}
    assert (out / "parts.svg").is_file()
    # The command that stands in the page makes the same page.
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    main([str(first), str(second), "--out", str(out)])
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.ci
def test_two_seeds_of_one_variant_are_told_as_such(scored, tmp_path, capsys):
    main([str(scored(1)), str(scored(2)), "--out", str(tmp_path / "out")])
    assert "whatever differs here is what another seed does" in capsys.readouterr().out


def write_samples(folder: Path, right: list[int], **changes: object) -> Path:
    """As lm-eval logs two tasks of one group; ``right`` by item of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in ("a", "b"):
        items = [
            {"doc_id": i, "target": "0", "filter": "none", "metrics": ["acc"], "acc": float(x),
             "doc_hash": f"{task}{i}", "target_hash": "0", **changes}
            for i, x in enumerate(right)
        ]  # fmt: skip
        lines = "".join(json.dumps(item) + "\n" for item in items)
        (folder / f"samples_{task}_2026-01-01T00-00-00.000000.jsonl").write_text(lines)
    return folder


def test_samples_of_lm_eval(tmp_path):
    first = write_samples(tmp_path / "one", [1, 1, 0, 0, 0, 1])
    second = write_samples(tmp_path / "two", [1, 0, 1, 1, 1, 1])
    found = compare_models(read_model_items(first), read_model_items(second))
    assert [x.outcome.name for x in found.wholes] == ["lm-eval-a accuracy", "lm-eval-b accuracy"]
    assert found.wholes[0].paired.estimate == pytest.approx(100 / 3)
    right = found.wholes[0].right
    assert right is not None
    assert (right.only_first, right.only_second) == (3, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"doc_hash": "another"}, "item 0 of a is not the same in"),
        ({"metrics": ["acc", "f1"]}, "has no f1; was it edited"),
        ({"acc": "yes"}, "no metric that is a mean over items"),
        ({"doc_id": 1}, "item 1 of a is there twice"),
    ],
)
def test_items_that_do_not_fit(tmp_path, change, message):
    first = write_samples(tmp_path / "one", [1, 0, 1])
    second = write_samples(tmp_path / "two", [1, 0, 1], **change)
    with pytest.raises(UsageError, match=message) as told:
        compare_models(read_model_items(first), read_model_items(second))
    assert "\n" not in str(told.value)


def test_damaged_items_are_not_read(scored):
    run = scored(1)
    file = run / "eval" / "items" / "embedded-pairs.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(UsageError, match="score the run again"):
        read_model_items(run)


def test_folders_of_several_models_or_none(tmp_path):
    write_samples(tmp_path / "out" / "one", [1])
    write_samples(tmp_path / "out" / "two", [1])
    with pytest.raises(UsageError, match="holds items of 2 models"):
        read_model_items(tmp_path / "out")
    (tmp_path / "void").mkdir()
    with pytest.raises(UsageError, match="holds no items"):
        read_model_items(tmp_path / "void")


def test_a_few_items_that_all_agree_claim_nothing(tmp_path, capsys):
    for name, score in (("first", 1.0), ("second", 0.0)):
        rows = [
            {
                "doc_id": i,
                "target": "0",
                "filter": "none",
                "metrics": ["acc"],
                "doc_hash": f"{i}",
                "acc": score,
            }
            | {"doc": {"text": f"{i}"}, "arguments": [], "resps": [], "filtered_resps": []}
            | {"prompt_hash": f"{i}", "target_hash": "0"}
            for i in range(3)
        ]
        file = tmp_path / name / "samples_arc_2026-01-01T00-00-00.000000.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    assert main([str(tmp_path / "first"), str(tmp_path / "second"), "--out", str(out)]) == 0
    assert "do not tell them apart" in capsys.readouterr().out
    (whole,) = json.loads((out / "items.json").read_text())["wholes"]
    assert whole["p"] == whole["mcnemar"]["p_exact"] == 0.25
    assert whole["low"] is None
    assert "nan" not in (out / "items.md").read_text()
