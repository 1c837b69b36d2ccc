"""What a study could see, recomputed from its scores without the report's own functions."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import read_source
from report.part import Page
from report.parts.power import PART
from report.request import Request
from tests.unit.report import rendering

VARIANTS, FAMILIES, SEEDS = ("gelu", "kan", "relu", "swish"), ("gpt_neo", "roberta"), (1, 2, 3, 4, 5)
LEVEL = 0.05 / (len(VARIANTS) - 1)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three outcomes: a loss of another size in each family, one that is learnt and one that is not."""
    rng = np.random.default_rng(7)
    rows = [
        (family, variant, seed, benchmark, centre + effect * place + rng.normal(0, sd))
        for benchmark, centres, effect, sd in (
            ("held-out-loss", (2.7, 3.1), 0.03, 0.02),
            ("blimp", (60.0, 62.0), 0.8, 1.0),
            ("embedded-pairs", (50.0, 50.0), 0.0, 0.5),
        )
        for family, centre in zip(FAMILIES, centres, strict=True)
        for place, variant in enumerate(VARIANTS)
        for seed in SEEDS
    ]
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def analysis(scores: Path) -> Analysis:
    """What a report says of them."""
    return read(scores)


def section_of(analysis: Analysis) -> str:
    """The part's details."""
    result = PART.of(analysis)
    assert result is not None
    section = PART.section(analysis, result, Page(alternative_texts={}))
    assert section is not None
    return section.body


def read(path: Path) -> Analysis:
    return analyse(read_source(path), Request())


def numbers(analysis: Analysis, name: str) -> pd.DataFrame:
    """A table of report.json, with the average over families as text."""
    return (
        pd.DataFrame(rendering.numbers(analysis)[name])
        .fillna({"family": "averaged"})
        .set_index(["benchmark", "family"])
        .sort_index()
    )


def frame(path: Path, benchmark: str, family: str) -> pd.DataFrame:
    """Variants down and seeds across."""
    table = pd.read_csv(path)
    table = table[table.benchmark == benchmark]
    if family != "averaged":
        return table[table.family == family].pivot(index="variant", columns="seed", values="score")
    return table.groupby(["variant", "seed"]).score.mean().unstack()


@pytest.mark.parametrize(
    ("benchmark", "family"),
    [("blimp", "averaged"), ("embedded-pairs", "gpt_neo"), ("held-out-loss", "roberta")],
)
def test_spreads_are_those_of_the_scores(scores: Path, analysis: Analysis, benchmark: str, family: str):
    found = numbers(analysis, "metrics").loc[(benchmark, family)]
    table = frame(scores, benchmark, family)
    means = table.mean(axis=1)
    signal = means.max() - means.min()
    # Families are independent: the variance of their average, arm by arm, not that of averaged scores.
    own = [frame(scores, benchmark, name) for name in (FAMILIES if family == "averaged" else (family,))]
    noise = np.sqrt(sum(x.var(axis=1).mean() for x in own)) / len(own)
    assert found.spread_between_variants == pytest.approx(signal)
    assert found.spread_between_seeds == pytest.approx(noise)
    assert found.signal_to_noise == pytest.approx(signal / noise)


def power(effect: float, error: float, df: float, level: float) -> float:
    """By the definition: over the spread that is seen, how often t lies beyond its critical value."""
    critical, shift = stats.t.ppf(1 - level / 2, df), effect / error
    quantiles = (np.arange(20_000) + 0.5) / 20_000
    reach = critical * np.sqrt(stats.chi2.ppf(quantiles, df) / df)
    return float((stats.norm.sf(reach - shift) + stats.norm.cdf(-reach - shift)).mean())


def test_what_is_found_and_how_many_seeds_that_takes(scores: Path, analysis: Analysis):
    own = numbers(analysis, "power").loc[("held-out-loss", "gpt_neo")].set_index("contrast")
    table = frame(scores, "held-out-loss", "gpt_neo")
    levels = {
        str(c.contrast): c.level_simultaneous or 0.0
        for c in analysis.comparisons
        if (str(c.benchmark), c.family) == ("held-out-loss", "gpt_neo")
    }
    for contrast, found in own.iterrows():
        level = levels[str(contrast)]
        assert level < LEVEL  # of all metrics and families together
        arms = table.loc[[str(contrast).split(" - ")[0], "gelu"]]
        variances, effect = arms.var(axis=1).to_numpy(), abs(arms.mean(axis=1).diff().iloc[1])
        assert found["sd"] == pytest.approx(np.sqrt(variances.mean()))
        seen = stats.ttest_ind(*arms.to_numpy(), equal_var=False)
        error = np.sqrt((variances / 5).sum())
        assert power(found["detectable_difference"], error, seen.df, level) == pytest.approx(0.8, abs=1e-3)

        def found_with(seeds: int, variances=variances, effect=effect, level=level) -> float:
            terms = variances / seeds
            df = terms.sum() ** 2 / (terms**2 / (seeds - 1)).sum()
            return float(power(effect, np.sqrt(terms.sum()), df, level))

        seeds = int(found["seeds_to_detect_estimate"])
        assert found_with(seeds) >= 0.799 > (found_with(seeds - 1) if seeds > 2 else 0.0)
    whole = numbers(analysis, "metrics").loc[("held-out-loss", "gpt_neo")]
    assert whole.detectable_difference == pytest.approx(median(own.detectable_difference))
    assert whole.seeds_for_half_of_the_verdicts == sorted(own.seeds_for_verdict)[1]  # two of three
    assert whole.seeds_for_every_verdict == max(own.seeds_for_verdict)


def test_an_outcome_at_chance_is_not_given_seeds(analysis: Analysis):
    found = numbers(analysis, "metrics")
    assert found.loc[("embedded-pairs", "averaged")].is_at_chance
    assert found.loc[("embedded-pairs", "averaged")].num_arms_above_chance == 0
    assert found.loc[("blimp", "averaged")].num_arms_above_chance == 8
    assert pd.isna(found.loc[("held-out-loss", "gpt_neo")].num_arms_above_chance)
    lines = reversed(section_of(analysis).split("\n\n")[0].splitlines())
    rows = {line.split(" | ")[0]: line for line in lines}  # the first of each
    assert rows["| embedded-pairs"].endswith("| - | 50: at chance |")
    assert rows["| blimp"].endswith("| 50: all above |")
    assert rows["| held-out loss, GPT-Neo"].endswith("| - |")
    assert "nats" in rows["| held-out loss, RoBERTa"]


def test_scores_better_than_chance_lie_below_it_where_lower_is_better(scores: Path, tmp_path: Path):
    table = pd.read_csv(scores)
    table = table[table.benchmark == "held-out-loss"]
    said = {"benchmark": "quality", "lower_is_better": True, "unit": "nats", "chance": 100.0}
    table.assign(**said).to_csv(tmp_path / "x.csv")
    assert "| 100: all below |" in section_of(read(tmp_path / "x.csv"))


def test_a_graded_metric_is_at_chance_by_its_own_scores(tmp_path: Path):
    """Log odds of one size above zero in all variants, beside right answers that are guessed."""
    rng = np.random.default_rng(4)
    rows = [
        ("gpt_neo", variant, seed, "blimp", metric, level + rng.normal(0, sd))
        for metric, level, sd in (("accuracy", 50.0, 0.3), ("log_odds", 0.5, 0.01))
        for variant in VARIANTS
        for seed in range(5)
    ]
    columns = ["family", "variant", "seed", "benchmark", "metric", "score"]
    table = pd.DataFrame(rows, columns=columns).assign(primary=lambda own: own.metric == "accuracy")
    table.to_csv(tmp_path / "graded.csv", index=False)
    analysis = read(tmp_path / "graded.csv")
    assert [row.is_at_chance for row in PART.of(analysis) or ()] == [True, False]
    assert section_of(analysis).count(": at chance |") == 1
    assert section_of(analysis).count(": all above |") == 1
    is_graded = {bool(c.benchmark.metric): c.is_at_chance for c in analysis.comparisons}
    assert is_graded == {False: True, True: False}


def test_single_runs_have_no_power(scores: Path, tmp_path: Path):
    table = pd.read_csv(scores)
    table[(table.benchmark == "blimp") & (table.seed == 1)].to_csv(tmp_path / "single.csv")
    assert PART.of(read(tmp_path / "single.csv")) is None
