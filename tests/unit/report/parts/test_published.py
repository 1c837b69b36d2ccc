"""Own scores beside published ones: every number against plain numpy on made scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from report.parts.published import PART, Published, Record, beside_published
from report.request import Request
from report.write import write_report
from scores.published import read_published
from scores.run_scores import normalise_rows
from tests.processes import run_command

RNG = np.random.default_rng(20)


def made(arms: dict, benchmark: str = "babylm23", num_runs: int = 4, **more: object) -> pd.DataFrame:
    """Scores around a mean by family and variant (and head)."""
    rows = [
        {"family": family, "variant": variant, "seed": seed, "benchmark": benchmark, "score": score, **more}
        for (family, variant), mean in arms.items()
        for seed, score in enumerate(RNG.normal(mean, 1.0, num_runs), start=1)
    ]
    return pd.DataFrame(rows)


def scores(rows: pd.DataFrame, **place: str) -> np.ndarray:
    chosen = rows
    for column, value in place.items():
        chosen = chosen[chosen[column] == value]
    return chosen.score.to_numpy(float)


def only(records: Sequence[Record], **place: str) -> Record:
    (one,) = [x for x in records if x.items() >= place.items()]
    return one


def compare(
    rows: pd.DataFrame, source: str = "thesis", factor: str = "ffn", baseline: str = "gelu"
) -> Published:
    return beside_published(normalise_rows(rows), source, factor, baseline)  # type: ignore[arg-type]


def test_a_level_stands_beside_the_mean_of_published_runs() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0})
    own = scores(rows, variant="relu").mean()
    published = scores(read_published("thesis"), family="gpt_neo", variant="relu", benchmark="babylm23")
    level = only(compare(rows).levels, variant="relu")
    assert (level["num_own"], level["num_published"], level["table"]) == (4, 6, "all-seeds")
    assert (level["own"], level["published"]) == pytest.approx((own, published.mean()))
    assert level["difference"] == pytest.approx(own - published.mean())


def test_a_level_stands_beside_one_number() -> None:
    rows = made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0})
    level = only(compare(rows).levels, variant="thesis-kan")
    assert (level["table"], level["num_published"], level["published"]) == ("table5", 1, 56.69)


def test_an_effect_stands_beside_the_published_effect() -> None:
    rows = made({("gpt_neo", "gelu"): 47.0, ("gpt_neo", "relu"): 48.0})
    own = scores(rows, variant="relu").mean() - scores(rows, variant="gelu").mean()
    table = read_published("thesis")
    table = table[(table.family == "gpt_neo") & (table.benchmark == "babylm23")]
    published = scores(table, variant="relu").mean() - scores(table, variant="gelu").mean()
    effect = only(compare(rows).effects, variant="relu")
    assert (effect["own"], effect["published"]) == pytest.approx((own, published))
    assert effect["difference"] == pytest.approx(own - published)


def test_heads_are_compared_within_a_seed_and_a_model_of_ones_own_with_the_mean_over_the_papers() -> None:
    place = {"task": "ag-news", "metric": "accuracy"}
    linear = made({("gpt_neo", "gelu"): 70.0}, "classification", 3, head="linear frozen", **place)
    fourier = made(
        {("gpt_neo", "gelu"): 72.0}, "classification", 3, head="fourier-kan init_scale=0.1 frozen", **place
    )
    found = compare(pd.concat([linear, fourier]), "fr-kan", "head", "linear frozen")
    gain = fourier.score.to_numpy() - linear.score.to_numpy()
    table = read_published("fr-kan")
    table = table[(table.task == "ag-news") & (table.metric == "accuracy")]
    one, other = (
        table[table["head"] == head].set_index("family").score
        for head in ("fourier-kan frozen", "linear frozen")
    )
    assert len(one) == len(other) == 7
    (effect,) = found.effects
    assert effect["published_of"] == "mean of 7 models"
    assert effect["published"] == pytest.approx((one - other).mean())
    assert effect["own"] == pytest.approx(gain.mean())


def test_a_backbone_that_the_paper_has_stands_beside_its_own_numbers() -> None:
    rows = made(
        {("bert", "bert-base-uncased"): 80.0},
        "classification",
        3,
        head="swipe",
        task="imdb-long",
        metric="accuracy",
    )
    (level,) = compare(rows, "swipe", "head", "linear").levels
    assert (level["published_of"], level["published"], level["table"]) == ("bert", 90.19, "table4")


@pytest.mark.parametrize(
    ("name", "models", "accuracy"),
    [
        ("distilbert-base-uncased", "distilbert", 87.7),
        ("roberta-base", "roberta", 83.6),
        ("electra-base-discriminator", "electra", 61.2),
        ("gpt_neo-gelu-seed1", "mean of 7 models", None),
    ],
)
def test_a_studys_backbones_are_told_by_their_names(name: str, models: str, accuracy: float | None) -> None:
    place = {"head": "fourier-kan frozen", "task": "ag-news", "metric": "accuracy"}
    rows = made({("pretrained", name): 80.0}, "classification", 3, **place)
    (level,) = compare(rows, "fr-kan", "head", "linear frozen").levels
    assert level["published_of"] == models
    assert accuracy is None or level["published"] == accuracy


def test_a_head_never_stands_beside_a_model_that_has_none() -> None:
    heads = ("linear", "segment-attention", "swipe window=64")
    place = {"metric": "accuracy", "benchmark": "classification"}
    parts = [
        made({("pretrained", "bert-base"): 90.0}, head=head, task=task, **place)
        for head in heads
        for task in ("20-newsgroups", "imdb-long")
    ]
    found = compare(pd.concat(parts), "swipe", "head", "linear")
    assert {(x["task"], x["head"], x["published_of"]) for x in found.levels} == {
        ("20-newsgroups", "linear", "bert"),
        ("20-newsgroups", "segment-attention", "bert"),
        ("imdb-long", "linear", "bert"),  # and segment-attention not beside fastText's 82.44
    }


def test_an_effect_over_two_tables_names_both() -> None:
    rows = made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0})
    assert only(compare(rows).effects, variant="thesis-kan")["table"] == "table5 minus all-seeds"


def test_what_has_no_counterpart_stands_beside_nothing() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "swish"): 56.0, ("gpt_neo", "silu"): 57.0})
    assert {x["variant"] for x in compare(rows).levels} == {"gelu", "silu"}
    assert compare(made({("gpt_neo", "gelu"): 1.0}, "perplexity")).levels == []
    assert compare(made({("gpt_neo", "gelu"): 57.0}, "blimp")).levels == []  # a mean over 67 paradigms


def test_the_page_and_the_files_hold_the_numbers(tmp_path: Path) -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0, ("gpt_neo", "swish"): 56.0})
    rows.to_csv(tmp_path / "own.csv", index=False)
    analysis = write_report(tmp_path / "own.csv", tmp_path / "out", Request(published="thesis"))
    (effect,) = PART.of(analysis).effects
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    section = text.split("<summary>Published numbers: no verdict rests on them</summary>")[1]
    row = next(line for line in section.splitlines() if "| `relu` |" in line)
    assert f"| {effect['difference']:+.2f} |" in row
    assert "--published thesis" in text
    saved = pd.read_csv(tmp_path / "out" / "tables" / "published_effects.csv")
    assert saved.difference.tolist() == pytest.approx([effect["difference"]])
    content = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert content["published_levels"][0]["num_published"] == 6
    plain = write_report(tmp_path / "own.csv", tmp_path / "plain")
    assert [x.verdict for x in plain.claims] == [x.verdict for x in analysis.claims]
    assert "Published numbers" not in (tmp_path / "plain" / "report.md").read_text(encoding="utf-8")


def test_fractions_are_taken_times_100(tmp_path: Path) -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0})
    rows.assign(score=rows.score / 100).to_csv(tmp_path / "own.csv", index=False)
    analysis = write_report(
        tmp_path / "own.csv", tmp_path / "out", Request(published="thesis", scale="fraction")
    )
    assert only(PART.of(analysis).levels, variant="relu")["own"] == pytest.approx(
        scores(rows, variant="relu").mean()
    )


def test_an_unknown_source_is_one_line(tmp_path: Path) -> None:
    done = run_command("report", "thesis:table5", "--out", tmp_path / "out", "--published", "thesi")
    assert done.returncode == 2
    assert "unknown value of --published: 'thesi'; did you mean 'thesis'?" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
