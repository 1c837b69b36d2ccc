"""Own scores beside published ones: every number against scipy or plain numpy on made scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis import Request
from report.parts.published import PART, Published, Record, beside_published
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


def interval(record: Record, kind: str) -> tuple[float, float | None, float | None]:
    return record[kind], record[f"{kind}_low"], record[f"{kind}_high"]


def compare(
    rows: pd.DataFrame, source: str = "thesis", factor: str = "ffn", baseline: str = "gelu"
) -> Published:
    return beside_published(normalise_rows(rows), source, factor, baseline)  # type: ignore[arg-type]


def welch_of(terms: list[tuple[float, np.ndarray]]) -> tuple[float, float, float]:
    """The estimate and its interval by the formulas of Welch and Satterthwaite, one arm at a time."""
    estimate = sum(weight * x.mean() for weight, x in terms)
    parts = [(weight**2 * x.var(ddof=1) / len(x), len(x) - 1) for weight, x in terms]
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / left for part, left in parts)
    half = stats.t.ppf(0.975, df) * variance**0.5
    return estimate, estimate - half, estimate + half


def test_a_level_beside_published_runs_is_welchs() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0})
    own = scores(rows, variant="relu")
    said = scores(read_published("thesis"), family="gpt_neo", variant="relu", benchmark="babylm23")
    found = only(compare(rows).levels, variant="relu")
    expected = stats.ttest_ind(own, said, equal_var=False).confidence_interval(0.95)
    assert (found["num_own"], found["num_published"], found["table"]) == (4, 6, "all-seeds")
    assert (found["own"], found["published"]) == pytest.approx((own.mean(), said.mean()))
    assert interval(found, "difference") == pytest.approx((own.mean() - said.mean(), *expected))


def test_a_level_beside_one_number_is_students_about_it() -> None:
    rows = made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0})
    own = scores(rows, variant="thesis-kan")
    found = only(compare(rows).levels, variant="thesis-kan")
    expected = stats.ttest_1samp(own, 56.69).confidence_interval(0.95)
    assert (found["table"], found["num_published"]) == ("table5", 1)
    assert interval(found, "published") == (56.69, None, None)
    assert interval(found, "difference")[1:] == pytest.approx((expected.low - 56.69, expected.high - 56.69))


def test_one_own_run_has_no_interval() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0}, num_runs=1)
    found = compare(rows)
    for one in (*found.levels, *found.effects):
        assert interval(one, "difference")[1:] == interval(one, "own")[1:] == (None, None)


def test_an_effect_stands_beside_the_published_effect() -> None:
    rows = made({("gpt_neo", "gelu"): 47.0, ("gpt_neo", "relu"): 48.0})
    own = [(1.0, scores(rows, variant="relu")), (-1.0, scores(rows, variant="gelu"))]
    table = read_published("thesis")
    table = table[(table.family == "gpt_neo") & (table.benchmark == "babylm23")]
    said = [(1.0, scores(table, variant="relu")), (-1.0, scores(table, variant="gelu"))]
    found = only(compare(rows).effects, variant="relu")
    assert interval(found, "own") == pytest.approx(welch_of(own))
    assert interval(found, "published") == pytest.approx(welch_of(said))
    assert interval(found, "difference") == pytest.approx(welch_of([*own, *((-w, x) for w, x in said)]))


def test_an_effect_of_one_published_run_leaves_its_spread_out() -> None:
    rows = made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0}, benchmark="glue")
    own = [(1.0, scores(rows, variant="thesis-kan")), (-1.0, scores(rows, variant="gelu"))]
    table = read_published("thesis")
    base = scores(table, family="roberta", variant="gelu", benchmark="glue")
    found = only(compare(rows).effects, variant="thesis-kan")
    assert interval(found, "published") == (pytest.approx(63.65 - base.mean()), None, None)
    known = welch_of([*own, (1.0, base)])
    assert interval(found, "difference") == pytest.approx(tuple(x - 63.65 for x in known))


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
    low, high = stats.ttest_1samp(gain, (one - other).mean()).confidence_interval(0.95)
    assert effect["published_of"] == "mean of 7 models"
    assert effect["published"] == pytest.approx((one - other).mean())
    assert interval(effect, "own") == pytest.approx(
        (gain.mean(), *stats.ttest_1samp(gain, 0).confidence_interval(0.95))
    )
    assert interval(effect, "difference")[1:] == pytest.approx(
        (low - (one - other).mean(), high - (one - other).mean())
    )
    assert "imdb" in found.published_alone
    assert found.own_alone == ()


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
    assert "`swipe window=64`" in found.own_alone


def test_an_effect_over_two_tables_names_both() -> None:
    rows = made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0})
    assert only(compare(rows).effects, variant="thesis-kan")["table"] == "table5 minus all-seeds"


def test_what_has_no_counterpart_is_said() -> None:
    rows = pd.concat(
        [
            made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "swish"): 56.0, ("gpt_neo", "silu"): 57.0}),
            made({("gpt_neo", "gelu"): 57.0}, "entity-tracking"),
        ]
    )
    found = compare(rows)
    assert set(found.own_alone) == {"entity-tracking", "`swish`"}
    assert "glue" in found.published_alone
    assert "`thesis-swish`" in found.published_alone
    assert "`silu`" not in found.published_alone
    assert compare(made({("gpt_neo", "gelu"): 1.0}, "perplexity")).levels == []


def test_a_tables_blimp_without_tasks_is_the_source_studys_and_that_of_67_paradigms_is_not() -> None:
    arms = {("gpt_neo", "gelu"): 57.0}
    assert compare(made(arms, "blimp")).levels
    assert not compare(made(arms, "blimp", task="wh_island", metric="accuracy")).levels


def test_the_page_and_the_files_hold_the_numbers(tmp_path: Path) -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0, ("gpt_neo", "swish"): 56.0})
    rows.to_csv(tmp_path / "own.csv", index=False)
    analysis = write_report(tmp_path / "own.csv", tmp_path / "out", Request(published="thesis"))
    (effect,) = PART.of(analysis).effects
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    section = text.split("<summary>Published numbers: no verdict rests on them</summary>")[1]
    low = effect["difference_low"]
    row = next(line for line in section.splitlines() if "| `relu` |" in line)
    assert f"| {effect['difference']:+.2f} |" in row
    assert f"{low:+.2f}" not in section  # nothing there is corrected
    assert "Only own: `swish`." in section
    assert "figures/published.svg" in section
    assert (tmp_path / "out" / "figures" / "published.svg").is_file()
    assert "--published thesis" in text
    saved = pd.read_csv(tmp_path / "out" / "tables" / "published_effects.csv")
    assert saved.difference_low.tolist() == pytest.approx([low])
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
