"""Scores, differences by phenomenon and published numbers against pandas; what a verdict rests on."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis import Analysis
from report.inputs.sources import source_of_frame
from report.page import card
from report.part import Page
from report.parts import phenomena, published, scores, sensitivity
from report.write import number_tables
from scores.published import read_published
from scores.run_scores import normalise_rows
from tests.cases import listed
from tests.unit.report.studies import analysed, render, table

NUM_SEEDS = {"gelu": 3, "kan": 1, "relu": 4}


@pytest.fixture(scope="module")
def scored() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    rows = [
        (family, variant, seed, benchmark, mean + generator.normal())
        for family in ("gpt_neo", "roberta")
        for variant, number in NUM_SEEDS.items()
        for seed in range(1, number + 1)
        for benchmark, mean in (("blimp", 60.0), ("glue", 70.0))
        if (family, benchmark) != ("gpt_neo", "glue")
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


@pytest.fixture(scope="module")
def of_scores(scored: pd.DataFrame) -> Analysis:
    return analysed(scored)


def test_the_page_has_means_spreads_and_counts(scored: pd.DataFrame, of_scores: Analysis) -> None:
    page = Page(alternative_texts={"seeds": "dots"})
    section = scores.PART.section(of_scores, scores.PART.of(of_scores), page)
    lines = section.markdown.splitlines()
    (header,) = (line for line in lines if line.startswith("| family |"))
    metrics = [cell.split(",")[0].strip() for cell in header.split("|")[3:-1]]
    runs = scored.groupby(["family", "variant", "benchmark"]).score
    for family, label in (("gpt_neo", "GPT-Neo"), ("roberta", "RoBERTa")):
        for variant, number in NUM_SEEDS.items():
            (line,) = (line for line in lines if line.startswith(f"| {label} | `{variant}` |"))
            cells = dict(zip(metrics, (cell.strip() for cell in line.split("|")[3:-1]), strict=True))
            for benchmark in ("blimp", "glue"):
                key = family, variant, benchmark
                if key not in runs.groups:
                    assert cells[benchmark] == "-"
                    continue
                sd = f" ± {runs.get_group(key).std():.1f}" if number > 1 else ""
                assert cells[benchmark] == f"{runs.get_group(key).mean():.1f}{sd} ({number})"
    assert "**" not in section.body
    assert "![dots](figures/seeds.svg)" in section.body


def test_every_seed_is_in_the_tables(scored: pd.DataFrame, of_scores: Analysis) -> None:
    names = ["family", "variant", "benchmark", "seed"]
    table = number_tables(of_scores)["seeds"].set_index(names).score
    assert table.to_dict() == pytest.approx(scored.set_index(names).score.to_dict())


def test_the_figure_has_every_seed_as_a_dot(scored: pd.DataFrame, of_scores: Analysis) -> None:
    figure, _ = scores.draw_seeds(of_scores)
    assert len(figure.axes) == 3
    dots = [
        float(x) for axes in figure.axes for line in axes.lines if line.get_marker() == "o"
        for x in line.get_xdata()
    ]  # fmt: skip
    assert sorted(dots) == pytest.approx(sorted(scored.score))


PAGE = Page(alternative_texts={})
FAMILIES, VARIANTS = ("gpt_neo", "roberta"), ("gelu", "kan", "relu", "swish")


def made_tasks(groups: dict[str, int]) -> pd.DataFrame:
    """Scores of three seeds on so many tasks of each group; kan has one run in the last family."""
    generator = np.random.default_rng(1)
    rows = [
        (family, variant, seed, "blimp", f"{group} {task}", group, "accuracy",
         60 + generator.normal() - place * (task % 3))
        for family in FAMILIES
        for place, variant in enumerate(VARIANTS)
        for seed in range(1, 2 if (family, variant) == ("roberta", "kan") else 4)
        for group, tasks in groups.items()
        for task in range(tasks)
    ]  # fmt: skip
    names = ["family", "variant", "seed", "benchmark", "task", "group", "metric", "score"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture(scope="module")
def of_tasks() -> pd.DataFrame:
    return made_tasks({"islands": 2, "binding": 3, "npi": 2})


@pytest.fixture(scope="module")
def analysis(of_tasks: pd.DataFrame) -> Analysis:
    return analysed(of_tasks)


def differences(of_tasks: pd.DataFrame, part: str) -> pd.DataFrame:
    """By part and variant, families alike: means over tasks, then seeds, minus those of gelu."""
    runs = of_tasks.groupby([part, "family", "variant", "seed"]).score.mean()
    means = runs.groupby([part, "family", "variant"]).mean().unstack("variant")
    return means.sub(means["gelu"], axis=0).groupby(part).mean().drop(columns="gelu")


def phenomena_of(analysis: Analysis) -> str:
    found = phenomena.PART.section(analysis, phenomena.PART.of(analysis), PAGE)
    return found.markdown


def test_the_page_has_plain_differences_and_nothing_tested(of_tasks, analysis):
    text, expected = phenomena_of(analysis), differences(of_tasks, "group")
    for group, row in expected.iterrows():
        line, *_ = (x for x in text.splitlines() if x.startswith(f"| {group} | ") and "accuracy" not in x)
        assert list(map(float, line.split("|")[2:-1])) == pytest.approx(row.to_list(), abs=0.05)
    assert not re.search(r"\*\*|\bp\b|significant", text)


def test_the_table_has_sizes_and_no_tests(analysis: Analysis) -> None:
    table = number_tables(analysis)["phenomena"]
    assert len(table) == 9
    assert set(table[table.standard_error.isna()].contrast) == {"kan - gelu"}
    assert not {"p", "p_corrected", "verdict"} & set(table.columns)


def test_tasks_have_a_table_in_each_family(of_tasks: pd.DataFrame, analysis: Analysis) -> None:
    means = of_tasks.groupby(["family", "task", "variant"]).score.mean()
    text = phenomena_of(analysis)
    assert text.count("| group | task | metric | `gelu` | `kan` | `relu` | `swish` |\n") == 2
    for family in FAMILIES:
        cells = " | ".join(f"{means[family, 'binding 2', name]:.1f}" for name in VARIANTS)
        assert f"| binding | binding 2 | accuracy ↑ | {cells} |" in text


def test_a_table_without_tasks_has_no_phenomena() -> None:
    analysis = analysed(made_tasks({"g": 1}).drop(columns=["task", "group", "metric"]))
    assert phenomena.PART.of(analysis) is None
    assert "tasks" in number_tables(analysis)


RNG = np.random.default_rng(20)


def made(arms: dict, benchmark: str = "babylm23", num_runs: int = 4, **more: object) -> pd.DataFrame:
    """Scores around a mean by family and variant (and head)."""
    rows = [
        {"family": family, "variant": variant, "seed": seed, "benchmark": benchmark, "score": score, **more}
        for (family, variant), mean in arms.items()
        for seed, score in enumerate(RNG.normal(mean, 1.0, num_runs), start=1)
    ]
    return pd.DataFrame(rows)


def chosen(rows: pd.DataFrame, **place: str) -> np.ndarray:
    chosen = (rows[list(place)] == pd.Series(place)).all(axis=1)
    return rows[chosen].score.to_numpy(float)


def only(records: Sequence[published.Record], **place: str) -> published.Record:
    (one,) = [x for x in records if x.items() >= place.items()]
    return one


def beside(
    rows: pd.DataFrame, source: str = "thesis", factor: str = "ffn", baseline: str = "gelu"
) -> published.Published:
    return published.beside_published(normalise_rows(rows), source, factor, baseline)  # type: ignore[arg-type]


def test_levels_and_effects_stand_beside_the_means_of_published_runs() -> None:
    rows = made({("gpt_neo", "gelu"): 47.0, ("gpt_neo", "relu"): 48.0})
    table = read_published("thesis")
    gelu, relu = (chosen(rows, variant=name).mean() for name in ("gelu", "relu"))
    place = {"family": "gpt_neo", "benchmark": "babylm23"}
    published_gelu, published_relu = (chosen(table, variant=v, **place).mean() for v in ("gelu", "relu"))
    found = beside(rows)
    level, effect = only(found.levels, variant="relu"), only(found.effects, variant="relu")
    assert (level["num_own"], level["num_published"], level["table"]) == (4, 6, "all-seeds")
    assert (level["own"], level["published"]) == pytest.approx((relu, published_relu))
    assert level["difference"] == pytest.approx(relu - published_relu)
    changes = (relu - gelu, published_relu - published_gelu)
    assert (effect["own"], effect["published"]) == pytest.approx(changes)
    assert effect["difference"] == pytest.approx(changes[0] - changes[1])


def test_a_level_stands_beside_one_number_and_an_effect_over_two_tables_names_both() -> None:
    found = beside(made({("roberta", "gelu"): 57.0, ("roberta", "thesis-kan"): 56.0}))
    level = only(found.levels, variant="thesis-kan")
    assert (level["table"], level["num_published"], level["published"]) == ("table5", 1, 56.69)
    assert only(found.effects, variant="thesis-kan")["table"] == "table5 minus all-seeds"


def of_head(head: str, mean: float, backbone: tuple[str, str], task: str = "ag-news-pooled") -> pd.DataFrame:
    """Accuracies of three seeds of a head on a backbone."""
    return made({backbone: mean}, "classification", 3, head=head, task=task, metric="accuracy")


def test_heads_are_compared_within_a_seed_and_a_model_of_ones_own_with_the_mean_over_the_papers() -> None:
    linear = of_head("linear frozen", 70.0, ("gpt_neo", "gelu"))
    fourier = of_head("fourier-kan frozen", 72.0, ("gpt_neo", "gelu"))
    found = beside(pd.concat([linear, fourier]), "fr-kan", "head", "linear frozen")
    table = read_published("fr-kan")
    table = table[(table.task == "ag-news-pooled") & (table.metric == "accuracy")]
    of_heads = table.pivot(index="family", columns="head", values="score")
    one, other = of_heads["fourier-kan frozen"], of_heads["linear frozen"]
    assert len(one) == len(other) == 7
    (effect,) = found.effects
    assert effect["published_of"] == "mean of 7 models"
    assert effect["published"] == pytest.approx((one - other).mean())
    assert effect["own"] == pytest.approx((fourier.score.to_numpy() - linear.score.to_numpy()).mean())


@pytest.mark.parametrize(("name", "models", "accuracy"), listed(__file__, "backbones"))
def test_a_studys_backbones_are_told_by_their_names(name: str, models: str, accuracy: float | None) -> None:
    rows = of_head("fourier-kan frozen", 80.0, ("pretrained", name))
    (level,) = beside(rows, "fr-kan", "head", "linear frozen").levels
    assert level["published_of"] == models
    assert accuracy is None or level["published"] == accuracy


def test_a_head_never_stands_beside_a_model_that_has_none() -> None:
    heads, bert = ("linear", "segment-attention", "swipe window=64"), ("pretrained", "bert-base")
    parts = [of_head(head, 90.0, bert, task) for head in heads for task in ("20-newsgroups", "imdb-long")]
    found = beside(pd.concat(parts), "swipe", "head", "linear")
    assert {(x["task"], x["head"], x["published_of"]) for x in found.levels} == {
        ("20-newsgroups", "linear", "bert"),
        ("20-newsgroups", "segment-attention", "bert"),
        ("imdb-long", "linear", "bert"),  # and segment-attention not beside fastText's 82.44
    }


def test_what_has_no_counterpart_stands_beside_nothing() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "swish"): 56.0, ("gpt_neo", "silu"): 57.0})
    assert {x["variant"] for x in beside(rows).levels} == {"gelu", "silu"}
    assert beside(made({("gpt_neo", "gelu"): 1.0}, "perplexity")).levels == []
    assert beside(made({("gpt_neo", "gelu"): 57.0}, "blimp")).levels == []  # a mean over 67 paradigms


def test_the_page_and_the_tables_hold_the_numbers() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0, ("gpt_neo", "swish"): 56.0})
    analysis = analysed(rows, published="thesis")
    (effect,) = published.PART.of(analysis).effects
    (claim,) = published.PART.of(analysis).claims
    heading = f"<summary>Published numbers: claims: 1 {claim['verdict']}</summary>"
    section = render(analysis).split(heading)[1]
    row = next(line for line in section.splitlines() if "| `relu` |" in line)
    assert f"| {effect['difference']:+.2f} |" in row
    tables = number_tables(analysis)
    assert tables["published_effects"].difference.tolist() == pytest.approx([effect["difference"]])
    assert tables["published_levels"].num_published.tolist()[0] == 6
    plain = analysed(rows)
    assert [x.verdict for x in plain.claims] == [x.verdict for x in analysis.claims]
    assert "Published numbers" not in render(plain)


def test_fractions_are_taken_times_100() -> None:
    rows = made({("gpt_neo", "gelu"): 57.0, ("gpt_neo", "relu"): 56.0})
    fractions = source_of_frame(rows.assign(score=rows.score / 100))
    analysis = analysed(fractions, published="thesis", scale=("fraction",))
    expected = chosen(rows, variant="relu").mean()
    assert only(published.PART.of(analysis).levels, variant="relu")["own"] == pytest.approx(expected)


def of_two(gelu: Sequence[float], kan: Sequence[float]) -> Analysis:
    return analysed(table({("f", "gelu"): gelu, ("f", "kan"): kan}, "b"))


def changes(found: Analysis) -> dict[str, str]:
    """The verdicts without one run, where that is another one."""
    (x,) = sensitivity.PART.of(found) or ()
    return {run: c.verdict for run, c in x.changed}


def test_one_run_that_carries_a_verdict_is_named():
    gelu = [60.0, 60.4, 59.7, 60.1, 54.0]
    kan = [58.9, 59.2, 58.7, 59.1, 58.8]
    assert stats.ttest_ind(gelu, kan, equal_var=False).pvalue > 0.05
    assert stats.ttest_ind(gelu[:4], kan, equal_var=False).pvalue < 0.05
    found = of_two(gelu, kan)
    assert changes(found) == {"f gelu seed 5": "worse"}
    assert "Shown only without one run: `kan`." in card(found)


def test_a_clear_difference_is_robust():
    rng = np.random.default_rng(0)
    assert changes(of_two(rng.normal(60, 0.5, 6), rng.normal(66, 0.5, 6))) == {}
