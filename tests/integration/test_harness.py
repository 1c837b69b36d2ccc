"""Tasks of lm-eval by name, and the rows and items that come of them."""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from transformers import AutoTokenizer

from eval.config import EvalConfig
from eval.evaluate import evaluate_run
from eval.identity import model_folder
from eval.scoring.scorers import SCORERS
from eval.work_units import check_sources, is_evaluated
from eval.zero_shot.lm_eval_tasks import find_harness_tasks
from ffn_variants import UsageError
from ffn_variants.models.loading import load_language_model
from pretrain.data.embedded import minimal_pairs, stories
from scores.lm_eval_metrics import PERCENT_METRICS, PERPLEXITIES
from scores.store import read_baselines
from scores.suites import HARNESS_METRICS

"""lm-eval's own command line with the models of this project, as docs/evaluation.md has it."""
PAIRS = next(iter(minimal_pairs(12, 0).values()))
TEXTS = stories(4, 1)
# lm-eval puts a space before a choice and none before a target, whose task brings its own.
CLOZES = [{"context": "Once upon a", "word": " time"}, {"context": "The dog was very", "word": " happy"}]
ANIMALS = ["a cat", "a dog", "a hen", "a cow"]
QUESTIONS = [{"choices": ANIMALS[:2], "right": 1}, {"choices": ANIMALS, "right": 0}]


def test_the_metrics_that_get_a_name_in_rows_are_those_of_the_registry():
    assert sorted([*PERCENT_METRICS.values(), *PERPLEXITIES]) == sorted(m.name for m in HARNESS_METRICS)


@pytest.fixture
def tasks(tmp_path) -> Path:
    """Task files as lm-eval reads them: a task of each kind that is scored, a group, and one that writes."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows: dict[str, list[dict]] = {
        "my_pairs": [{key: row[key] for key in ("sentence_good", "sentence_bad")} for row in PAIRS],
        "my_questions": QUESTIONS,
        "my_cloze": CLOZES,
        "my_texts": [{"text": text} for text in TEXTS],
        "my_writing": CLOZES,
    }
    for name, settings in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()).items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[name]))
        data = {"data_files": {"test": str(path)}, "cache_dir": str(tmp_path / "cache")}
        task = {"task": name, "dataset_path": "json", "dataset_kwargs": data, "test_split": "test"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(task | settings))
    (folder / "group.yaml").write_text("group: my_group\ntask: [my_pairs, my_cloze]\n")
    return folder


def load_scorer(run: Path):
    kind = "causal" if run.parts[-3] == "gpt_neo" else "masked"
    return SCORERS[kind](*load_language_model(model_folder(run), kind, "cpu"), "native")


def scores(scorer, pairs: list[tuple[str, str]]) -> list[float]:
    return scorer.score_continuations(pairs).log_likelihood.tolist()


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_tasks_of_every_scored_kind_give_rows_and_items(make_run, family, tasks):
    run = make_run(family)
    config = EvalConfig(suites=(), tasks=("my_group", "my_texts"), include_path=(tasks,))
    rows = evaluate_run(run, config, progress=False)
    assert is_evaluated(run, config)
    found = rows.set_index(["benchmark", "task", "metric"])["score"]
    scorer = load_scorer(run)
    pseudo = "pseudo_" if scorer.objective == "masked" else ""

    sides = ("sentence_good", "sentence_bad")
    good, bad = (scores(scorer, [("", f" {row[side]}") for row in PAIRS]) for side in sides)
    accuracy = 100 * np.mean([a > b for a, b in zip(good, bad, strict=True)])
    assert found["lm-eval-my_group", "my_pairs", "accuracy"] == pytest.approx(accuracy)
    items = pd.read_parquet(run / "eval" / "items" / "lm-eval-my_group.parquet")
    of_pairs = items[items["task"] == "my_pairs"]
    np.testing.assert_allclose(np.stack(of_pairs["scores"]), np.stack([good, bad], 1), atol=1e-4)
    assert of_pairs["item_id"].tolist() == [str(index) for index in range(12)]
    assert (of_pairs["metric_acc"].mean() * 100) == pytest.approx(accuracy)
    tokenize = partial(AutoTokenizer.from_pretrained(run / "model"), add_special_tokens=False)
    lengths = [len(tokenize(row["sentence_good"])["input_ids"]) for row in PAIRS]
    assert [counts[0] for counts in of_pairs["num_tokens"]] == lengths
    assert items["protocol"].str.startswith("native ").all()

    clozes = scores(scorer, [(row["context"], row["word"]) for row in CLOZES])
    of_cloze = found["lm-eval-my_group", "my_cloze", f"{pseudo}perplexity"]
    assert of_cloze == pytest.approx(math.exp(-np.mean(clozes)), rel=1e-4)

    nats = -sum(document.log_likelihood for document in scorer.score_documents(TEXTS))
    num_bytes = sum(len(text.encode()) for text in TEXTS)
    bits = found["lm-eval-my_texts", "my_texts", f"{pseudo}bits_per_byte"]
    assert bits == pytest.approx(nats / math.log(2) / num_bytes, rel=1e-4)


def test_what_guessing_scores_is_kept_beside_the_scores(make_run, tasks):
    run = make_run("gpt_neo")
    config = EvalConfig(suites=(), tasks=("my_group", "my_questions", "my_texts"), include_path=(tasks,))
    evaluate_run(run, config, progress=False)
    known = read_baselines(run)
    assert known.keys() == {"lm-eval-my_group", "lm-eval-my_questions"}
    assert known["lm-eval-my_group"].keys() == {"my_pairs"}  # a cloze has no choices
    assert known["lm-eval-my_group"]["my_pairs"]["accuracy"] == 50
    assert known["lm-eval-my_questions"]["my_questions"]["accuracy"] == pytest.approx((50 + 25) / 2)


def test_fewer_documents_are_spread_over_a_task(make_run, tasks):
    run = make_run()
    config = EvalConfig(suites=(), tasks=("my_pairs",), include_path=(tasks,), max_pairs=3)
    rows = evaluate_run(run, config, progress=False)
    assert rows["n_items"].tolist() == [3]
    items = pd.read_parquet(run / "eval" / "items" / "lm-eval-my_pairs.parquet")
    assert items["item_id"].tolist() == ["0", "4", "8"]


def test_what_a_task_is_asked_is_known_by_content(tasks):
    config = EvalConfig(suites=(), tasks=("my_pairs",), include_path=(tasks,))
    (before,) = find_harness_tasks(config)
    moved = tasks.rename(tasks.parent / "elsewhere")
    text = (moved / "my_pairs.yaml").read_text().replace(str(tasks), str(moved))
    (moved / "my_pairs.yaml").write_text(text)
    (after,) = find_harness_tasks(config.model_copy(update={"include_path": (moved,)}))
    assert after.source == before.source


def test_a_task_that_cannot_be_scored_is_refused_before_a_model_is_loaded(tasks):
    def check(name):
        check_sources(EvalConfig(suites=(), tasks=(name,), include_path=(tasks,)))

    with pytest.raises(UsageError, match=r"my_writing has the model write text \(generate_until\)"):
        check("my_writing")
    (tasks / "my_pairs.jsonl").unlink()
    with pytest.raises(UsageError, match="my_pairs cannot be loaded: "):
        check("my_pairs")


def test_tasks_on_the_command_line_stand_for_the_suites(make_run, tasks, evaluate, capsys):
    run = make_run("roberta")
    flags = ("--tasks", "my_pairs", "--include-path", tasks, "--protocol", "lm-eval", "--workers", "1")
    assert evaluate(run, *flags) == 0
    assert "my_pairs accuracy" in " ".join(capsys.readouterr().out.split())
    done = json.loads((run / "eval" / "done.json").read_text())
    assert done["tasks"].keys() == {"lm-eval-my_pairs/my_pairs"}
