"""What a study could see, by its report and by a plan of it, recomputed from its scores."""

import re
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import UsageError, run_cli
from report.analysis import Analysis
from report.command import main
from report.part import Page
from report.parts.power import PART
from tests.cases import listed
from tests.unit.report import studies
from tests.unit.report.studies import analysed


@pytest.fixture
def planned(monkeypatch, capsys):
    """What the command prints."""

    def run(*flags: object) -> str:
        monkeypatch.setattr(sys, "argv", ["report", "--plan", *map(str, flags)])
        assert main() == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Two outcomes of three variants in two families, a loss among them; one arm has a single run."""
    rng = np.random.default_rng(3)
    rows = [
        (family, variant, seed, benchmark, rng.normal(centre, sd))
        for benchmark, centres, sd in (("held-out-loss", (2.7, 3.1), 0.02), ("blimp", (60, 62), 1.2))
        for family, centre in zip(("gpt_neo", "roberta"), centres, strict=True)
        for variant in ("gelu", "kan", "relu")
        for seed in (1, 2, 3, 4)
        if (variant, family) != ("relu", "roberta") or seed == 1
    ]
    path = tmp_path / "scores.csv"
    pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(path, index=False)
    return path


def block(printed: str, metric: str) -> str:
    """The part of one outcome."""
    return next(part for part in printed.split("## ") if part.startswith(f"{metric}\n"))


def spread_said(part: str) -> list[float]:
    """Standard deviation and both ends of its interval."""
    found = re.search(r"over seeds[a-z ]* ([\d.]+) \[([\d.]+), ([\d.]+)\]", part)
    assert found
    return [float(text) for text in found.groups()]


def test_a_spread_that_is_assumed_needs_no_scores(planned):
    printed = planned("--sd", 1.1, "--variants", 3)
    # Six seeds in two families, each of the four arms with its own variance: Welch's test, simulated here.
    rng = np.random.default_rng(0)
    detectable = float(re.search(r"\| 6 \| 36 \| ([\d.]+) \|", printed)[1])
    cells = rng.normal(0, 1.1, size=(100_000, 4, 6))
    difference = (cells[:, 0] - cells[:, 1] + cells[:, 2] - cells[:, 3]).mean(-1) / 2 + detectable
    terms = cells.var(-1, ddof=1) / 6 / 4
    df = terms.sum(-1) ** 2 / (terms**2 / 5).sum(-1)
    power = (np.abs(difference) / np.sqrt(terms.sum(-1)) > stats.t.ppf(0.975, df)).mean()
    assert power == pytest.approx(0.80, abs=0.015)
    assert "| within 1.00, by itself |" in printed


def test_an_assumed_spread_and_its_margin_may_be_of_any_unit(planned):
    points, nats = planned("--sd", 1.1, "--margin", 1), planned("--sd", 0.011, "--margin", 0.01)
    row = re.compile(r"\| (?:a difference of|within) [\d.]+(?:, by itself)? \| (\d+) \|")
    assert len(row.findall(points)) == 4
    assert row.findall(points) == row.findall(nats)


def pooled(table: pd.DataFrame, benchmark: str) -> tuple[pd.Series, float]:
    """Variances within the arms of each family, and the degrees of freedom of all of them."""
    arms = table[table.benchmark == benchmark].groupby(["family", "variant"]).score
    degrees = (arms.count() - 1).groupby("family").sum()
    squares = ((arms.count() - 1) * arms.var()).groupby("family").sum()
    return squares / degrees, float(degrees.sum())


def test_each_outcome_is_planned_in_its_own_unit_and_margin(planned, scores: Path):
    printed = planned(scores, "--margin", "held-out-loss=0.05")
    variances, df = pooled(pd.read_csv(scores), "blimp")
    sd, own = np.sqrt(variances.mean()), np.sqrt(variances)
    part = block(printed, "blimp")
    ends = sd * np.sqrt(df / stats.chi2.ppf([0.975, 0.025], df))
    assert spread_said(part) == pytest.approx([sd, *ends], abs=0.051)
    assert "margin 1.0, in points; 3 variants, families: 2" in part
    assert f"(GPT-Neo {own.gpt_neo:.1f}, RoBERTa {own.roberta:.1f})" in part

    variances, _ = pooled(pd.read_csv(scores), "held-out-loss")
    part = block(printed, "held-out-loss")
    assert spread_said(part)[0] == pytest.approx(np.sqrt(variances.mean()), abs=0.0051)
    assert "margin 0.050, in nats; 3 variants, families: 1" in part  # which have no average


def test_what_is_planned_may_differ_from_its_source(planned, scores: Path):
    for size in ("--variants", "--families"):
        with pytest.raises(UsageError, match="at most"):
            planned(scores, size, 10**9)
    part = block(planned(scores, "--variants", 5, "--families", 1), "blimp")
    assert "5 variants, families: 1" in part
    detectable, corrected = map(float, re.search(r"\| 10 \| 50 \| ([\d.]+) \| ([\d.]+) \|", part).groups())
    sd, df = spread_said(part)[0], 18

    def power(effect: float, level: float) -> float:
        return float(stats.nct.sf(stats.t.ppf(1 - level / 2, df), df, effect / (sd * np.sqrt(2 / 10))))

    assert power(detectable, 0.05) == pytest.approx(0.8, abs=0.05)  # what is printed is rounded
    # Four tests that share a baseline, whose spreads may differ: their level is near Bonferroni's.
    assert power(corrected, 0.05 / 4) < 0.9
    assert power(corrected, 0.05 / 2) > 0.8


def test_one_variant_tells_its_spread(planned, scores: Path, tmp_path: Path):
    table = pd.read_csv(scores)
    pilot = tmp_path / "pilot.csv"
    table[(table.variant == "gelu") & (table.family == "gpt_neo")].to_csv(pilot, index=False)
    part = block(planned(pilot), "held-out-loss")
    assert "in nats; 2 variants, families: 1" in part
    assert "margin 0.020" in part


def test_pairs_are_planned_by_the_spread_of_their_differences(planned, scores: Path):
    table = pd.read_csv(scores)
    blimp = table[table.benchmark == "blimp"]
    wide = blimp.pivot(index=["family", "seed"], columns="variant", values="score")
    differences = wide[["kan", "relu"]].sub(wide.gelu, axis=0)
    squares = ((differences - differences.groupby("family").transform("mean")) ** 2).groupby("family").sum()
    degrees = (differences.groupby("family").count() - 1).sum(axis=1)
    sd = np.sqrt((squares.sum(axis=1) / degrees).mean())
    assert spread_said(block(planned(scores, "--paired"), "blimp"))[0] == pytest.approx(sd, abs=0.051)


@pytest.mark.parametrize(("flags", "message"), listed(__file__, "mistakes of plans"))
def test_mistakes_are_told_in_one_line(flags: list[str], message: str, scores: Path, monkeypatch, capsys):
    flags = [str(scores) if flag == "SOURCE" else flag for flag in flags]
    monkeypatch.setattr(sys, "argv", ["report", "--plan", *flags])
    with pytest.raises(SystemExit) as exit_info:
        run_cli(main)
    assert exit_info.value.code == 2
    told = capsys.readouterr().err
    assert re.search(message, told)
    assert len(told.splitlines()) == 1


def test_a_source_of_single_runs_tells_no_spread(scores: Path, tmp_path: Path, monkeypatch):
    table = pd.read_csv(scores)
    table[table.seed == 1].to_csv(tmp_path / "single.csv", index=False)
    monkeypatch.setattr(sys, "argv", ["report", "--plan", str(tmp_path / "single.csv")])
    with pytest.raises(UsageError, match="no outcome has two runs of one family and variant"):
        main()


VARIANTS, FAMILIES, SEEDS = ("gelu", "kan", "relu", "swish"), ("gpt_neo", "roberta"), (1, 2, 3, 4, 5)
LEVEL = 0.05 / (len(VARIANTS) - 1)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def analysis(learnt: Path) -> Analysis:
    """What a report says of them."""
    return analysed(learnt)


def section_of(analysis: Analysis) -> str:
    """The part's details."""
    result = PART.of(analysis)
    section = PART.section(analysis, result, Page(alternative_texts={}))
    return section.body


def numbers(analysis: Analysis, name: str) -> pd.DataFrame:
    """A table of report.json, with the average over families as text."""
    table = pd.DataFrame(studies.numbers(analysis)[name]).fillna({"family": "averaged"})
    return table.set_index(["benchmark", "family"]).sort_index()


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
def test_spreads_are_those_of_the_scores(learnt: Path, analysis: Analysis, benchmark: str, family: str):
    found = numbers(analysis, "metrics").loc[(benchmark, family)]
    table = frame(learnt, benchmark, family)
    means = table.mean(axis=1)
    signal = means.max() - means.min()
    # Families are independent: the variance of their average, arm by arm, not that of averaged scores.
    own = [frame(learnt, benchmark, name) for name in (FAMILIES if family == "averaged" else (family,))]
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


def test_what_is_found_and_how_many_seeds_that_takes(learnt: Path, analysis: Analysis):
    own = numbers(analysis, "power").loc[("held-out-loss", "gpt_neo")].set_index("contrast")
    table = frame(learnt, "held-out-loss", "gpt_neo")
    in_family = [c for c in analysis.comparisons if c.family == "gpt_neo"]
    of_loss = [c for c in in_family if str(c.benchmark) == "held-out-loss"]
    levels = {str(c.contrast): c.level_simultaneous or 0.0 for c in of_loss}
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
    assert re.search(r"\d \| - \|$", rows["| held-out loss, GPT-Neo"])  # seeds, and no chance level
    assert "nats" in rows["| held-out loss, RoBERTa"]


def test_scores_better_than_chance_lie_below_it_where_lower_is_better(learnt: Path, tmp_path: Path):
    table = pd.read_csv(learnt)
    table = table[table.benchmark == "held-out-loss"]
    said = {"benchmark": "quality", "lower_is_better": True, "unit": "nats", "chance": 100.0}
    table.assign(**said).to_csv(tmp_path / "x.csv")
    assert "| 100: all below |" in section_of(analysed(tmp_path / "x.csv"))


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
    analysis = analysed(tmp_path / "graded.csv")
    assert [row.is_at_chance for row in PART.of(analysis) or ()] == [True, False]
    assert section_of(analysis).count(": at chance |") == 1
    assert section_of(analysis).count(": all above |") == 1
    is_graded = {bool(c.benchmark.metric): c.is_at_chance for c in analysis.comparisons}
    assert is_graded == {False: True, True: False}


def test_single_runs_have_no_power(learnt: Path, tmp_path: Path):
    table = pd.read_csv(learnt)
    table[(table.benchmark == "blimp") & (table.seed == 1)].to_csv(tmp_path / "single.csv")
    assert PART.of(analysed(tmp_path / "single.csv")) is None
