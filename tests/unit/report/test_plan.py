"""Plans of studies: at a spread that is assumed, and at that of a table, recomputed from its scores."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import UsageError, run_cli
from report.command import main


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
    part = block(planned(scores, "--variants", 5, "--families", 1), "blimp")
    assert "5 variants, families: 1" in part
    detectable, corrected = map(float, re.search(r"\| 10 \| 50 \| ([\d.]+) \| ([\d.]+) \|", part).groups())
    sd, df = spread_said(part)[0], 18

    def power(effect: float, level: float) -> float:
        return stats.nct.sf(stats.t.ppf(1 - level / 2, df), df, effect / (sd * np.sqrt(2 / 10)))

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
    wide = table[table.benchmark == "blimp"].pivot(
        index=["family", "seed"], columns="variant", values="score"
    )
    differences = wide[["kan", "relu"]].sub(wide.gelu, axis=0)
    squares = ((differences - differences.groupby("family").transform("mean")) ** 2).groupby("family").sum()
    degrees = (differences.groupby("family").count() - 1).sum(axis=1)
    sd = np.sqrt((squares.sum(axis=1) / degrees).mean())
    assert spread_said(block(planned(scores, "--paired"), "blimp"))[0] == pytest.approx(sd, abs=0.051)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--plan needs a table or a study .* or --sd"),
        (["--sd", "1", "--families", "0"], "--families of at least 1"),
        (["--sd", "1", "--margin", "blimp=1"], "without a name: --margin 1"),
        (["SOURCE", "--sd", "1"], "from SOURCE or from --sd"),
        (["SOURCE", "--variants", "1"], "--variants of at least 2"),
        (["SOURCE", "--looks", "3", "6"], "leave out --looks"),
        (["--sd", "1", "--looks", "3", "6"], "read once; leave out --looks"),
        (["SOURCE", "--margin", "ewok=1"], "ewok"),
        (["SOURCE", "--paper"], "which --paper is about"),
        (["--sd", "1", "--out", "plan"], "which --out is about"),
        (["SOURCE", "--part", "mine.py:PART"], "which --part is about"),
    ],
)
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
