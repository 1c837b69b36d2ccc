"""Own scores beside published ones: every number against plain numpy on made scores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from report.command import main
from report.compute import analyse
from report.inputs.sources import source_of_frame
from report.parts.published import PART, Published, Record, beside_published
from report.request import Request
from report.write import number_tables
from scores.published import read_published
from scores.run_scores import normalise_rows
from tests.unit.report.rendering import render

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
    chosen = (rows[list(place)] == pd.Series(place)).all(axis=1)
    return rows[chosen].score.to_numpy(float)


def only(records: Sequence[Record], **place: str) -> Record:
    (one,) = [x for x in records if x.items() >= place.items()]
    return one


def compare(
    rows: pd.DataFrame, source: str = "thesis", factor: str = "ffn", baseline: str = "gelu"
) -> Published:
    return beside_published(normalise_rows(rows), source, factor, baseline)  # type: ignore[arg-type]


def test_levels_and_effects_stand_beside_the_means_of_published_runs() -> None:
    rows = made({("gpt_neo", "gelu"): 47.0, ("gpt_neo", "relu"): 48.0})
    table = read_published("thesis")
    gelu, relu = (scores(rows, variant=name).mean() for name in ("gelu", "relu"))
    published_gelu, published_relu = (
        scores(table, family="gpt_neo", benchmark="babylm23", variant=name).mean()
        for name in ("gelu", "relu")
    )
    found = compare(rows)
    level, effect = only(found.levels, variant="relu"), only(found.effects, variant="relu")
    assert (level["num_own"], level["num_published"], level["table"]) == (4, 6, "all-seeds")
    assert (level["own"], level["published"]) == pytest.approx((relu, published_relu))
    assert level["difference"] == pytest.approx(relu - published_relu)
    changes = (relu - gelu, published_relu - published_gelu)
    assert (effect["own"], effect["published"]) == pytest.approx(changes)
    assert effect["difference"] == pytest.approx(changes[0] - changes[1])


def test_a_level_stands_beside_one_number_and_an_effect_over_two_tables_names_both() -> None:
    found = compare(made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0}))
    level = only(found.levels, variant="thesis-kan")
    assert (level["table"], level["num_published"], level["published"]) == ("table5", 1, 56.69)
    assert only(found.effects, variant="thesis-kan")["table"] == "table5 minus all-seeds"


def of_head(head: str, mean: float, backbone: tuple[str, str], task: str = "ag-news") -> pd.DataFrame:
    """Accuracies of three seeds of a head on a backbone."""
    return made({backbone: mean}, "classification", 3, head=head, task=task, metric="accuracy")


def test_heads_are_compared_within_a_seed_and_a_model_of_ones_own_with_the_mean_over_the_papers() -> None:
    linear = of_head("linear frozen", 70.0, ("gpt_neo", "gelu"))
    fourier = of_head("fourier-kan init_scale=0.1 frozen", 72.0, ("gpt_neo", "gelu"))
    found = compare(pd.concat([linear, fourier]), "fr-kan", "head", "linear frozen")
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
    assert effect["own"] == pytest.approx((fourier.score.to_numpy() - linear.score.to_numpy()).mean())


def test_a_backbone_that_the_paper_has_stands_beside_its_own_numbers() -> None:
    rows = of_head("swipe", 80.0, ("bert", "bert-base-uncased"), "imdb-long")
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
    rows = of_head("fourier-kan frozen", 80.0, ("pretrained", name))
    (level,) = compare(rows, "fr-kan", "head", "linear frozen").levels
    assert level["published_of"] == models
    assert accuracy is None or level["published"] == accuracy


def test_a_head_never_stands_beside_a_model_that_has_none() -> None:
    parts = [
        of_head(head, 90.0, ("pretrained", "bert-base"), task)
        for head in ("linear", "segment-attention", "swipe window=64")
        for task in ("20-newsgroups", "imdb-long")
    ]
    found = compare(pd.concat(parts), "swipe", "head", "linear")
    assert {(x["task"], x["head"], x["published_of"]) for x in found.levels} == {
        ("20-newsgroups", "linear", "bert"),
        ("20-newsgroups", "segment-attention", "bert"),
        ("imdb-long", "linear", "bert"),  # and segment-attention not beside fastText's 82.44
    }


def test_what_has_no_counterpart_stands_beside_nothing() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "swish"): 56.0, ("gpt_neo", "silu"): 57.0})
    assert {x["variant"] for x in compare(rows).levels} == {"gelu", "silu"}
    assert compare(made({("gpt_neo", "gelu"): 1.0}, "perplexity")).levels == []
    assert compare(made({("gpt_neo", "gelu"): 57.0}, "blimp")).levels == []  # a mean over 67 paradigms


def test_the_page_and_the_tables_hold_the_numbers() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0, ("gpt_neo", "swish"): 56.0})
    analysis = analyse(source_of_frame(rows), Request(published="thesis"))
    (effect,) = PART.of(analysis).effects
    heading = "<summary>Published numbers: no verdict rests on them</summary>"
    section = render(analysis).split(heading)[1]
    row = next(line for line in section.splitlines() if "| `relu` |" in line)
    assert f"| {effect['difference']:+.2f} |" in row
    tables = number_tables(analysis)
    assert tables["published_effects"].difference.tolist() == pytest.approx([effect["difference"]])
    assert tables["published_levels"].num_published.tolist()[0] == 6
    plain = analyse(source_of_frame(rows))
    assert [x.verdict for x in plain.claims] == [x.verdict for x in analysis.claims]
    assert "Published numbers" not in render(plain)


def test_fractions_are_taken_times_100() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0})
    fractions = source_of_frame(rows.assign(score=rows.score / 100))
    analysis = analyse(fractions, Request(published="thesis", scale="fraction"))
    expected = scores(rows, variant="relu").mean()
    assert only(PART.of(analysis).levels, variant="relu")["own"] == pytest.approx(expected)


def test_an_unknown_source_is_told_before_anything_is_written(tmp_path: Path) -> None:
    known = "unknown value of --published: 'thesi'; did you mean 'thesis'?"
    with pytest.raises(UsageError, match=re.escape(known)):
        main(["thesis:table5", "--out", str(tmp_path / "out"), "--published", "thesi"])
    assert not (tmp_path / "out").exists()
