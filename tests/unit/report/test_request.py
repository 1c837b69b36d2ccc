"""What a table and flags say of its outcomes: directions, units, chance, margins and scale; and mistakes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from base.errors import run_cli
from report.analysis import Analysis
from report.command import main
from report.compute import analyse
from report.inputs.sources import read_source
from report.request import Request
from report.significance.comparison import EQUIVALENT
from scores.metrics import Metric

VARIANTS, SEEDS = ("gelu", "kan"), (1, 2, 3)
PERCENT, LOSSES, FRACTIONS = (50.0, 1.0), (3.0, 0.02), (0.6, 0.01)


def table(benchmark: str, scores: tuple[float, float] = PERCENT, **columns: object) -> pd.DataFrame:
    """Scores of a level and a spread, with further columns of one value, or of a list of six."""
    generator = np.random.default_rng(0)
    level, spread = scores
    rows = [
        ("f", variant, seed, benchmark, round(level + spread * generator.normal(), 5))
        for variant in VARIANTS
        for seed in SEEDS
    ]
    names = ["family", "variant", "seed", "benchmark", "score"]
    return pd.DataFrame(rows, columns=names).assign(**columns)


def tasks(*metrics: tuple[str, float]) -> pd.DataFrame:
    """One benchmark whose tasks are scored in these metrics, at these levels."""
    return pd.concat([table("lm", (level, 0.01), task=metric, metric=metric) for metric, level in metrics])


def in_mixed_scales() -> pd.DataFrame:
    frame = table("blimp")
    return frame.assign(score=frame.score.where(frame.variant == "gelu", frame.score / 100))


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Callable[..., str]:
    """Run the command on a table that it must refuse: one line, exit status 2, and nothing written."""

    def run(frame: pd.DataFrame, *flags: str) -> str:
        frame.to_csv(tmp_path / "scores.csv", index=False)
        out = tmp_path / "out"
        words = ["report", str(tmp_path / "scores.csv"), "--out", str(out), *flags]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as caught:
            run_cli(main)
        error = capsys.readouterr().err
        assert caught.value.code == 2
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert not out.exists()
        return error

    return run


@pytest.mark.parametrize(
    ("frame", "flags", "message"),
    [
        (table("blimp"), ["--margin", "blmp=1"], "unknown metric in --margin 'blmp'; did you mean 'blimp'"),
        (table("blimp"), ["--lower-is-better", "los"], "unknown metric in --lower-is-better 'los'"),
        (table("blimp"), ["--chance", "ewok=50"], "unknown metric in --chance 'ewok'; Available: blimp"),
        (table("val_bpb", LOSSES), ["--margin", "1"], "no metric is in percent; name that of "
         "each metric in bits per byte: --margin val_bpb=0.002"),
        (table("blimp"), ["--margin", "blimp=0.02nats"], "'0.02nats'; it must be a number, without a unit"),
        (table("val_bpb", LOSSES), ["--margin", "val_bpb=5"], "margin 5 of val_bpb is too wide"),
        (table("blimp"), ["--margin", "blimp=0"], "margin 0 of blimp is not a positive number"),
        (table("blimp"), ["--margin", "blimp=nan"], "--margin blimp is 'nan'; it must be a number"),
        (table("blimp"), ["--margin", "1", "2"], "--margin has 2 numbers without a name"),
        (table("blimp"), ["--margin", "blimp=1", "blimp=2"], "--margin names blimp twice"),
        (table("ewok"), ["--chance", "50"], "names no outcome; write --chance NAME=50"),
        (table("ewok"), ["--chance", "ewok=0.5"], "chance 0.5 of ewok is a fraction; write it in percent"),
        (table("blimp"), ["--lower-is-better", "blimp"], "blimp is in percent and better when higher"),
        (table("kl"), ["--lower-is-better", "kl", "--higher-is-better", "kl"], "kl stands behind --lower-is-"
         "better and --higher-is-better"),
        (table("blimp"), ["--scale", "fraction"], "which is no fraction"),
        (in_mixed_scales(), ["--scale", "fraction"], "which is no fraction"),
        (table("val_bpb", LOSSES), ["--scale", "fraction"], "no score is a percentage"),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit(
    refusal: Callable[..., str], frame: pd.DataFrame, flags: list[str], message: str
):
    assert message in refusal(frame, *flags)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (table("val_bpb", LOSSES, score=[1, 2, 3, 4, 5, np.inf]), "score 'inf' in row 7 is not"),
        (table("val_bpb", LOSSES, score=[1, 2, 3, 4, 5, "5 (6)"]), "score '5 (6)' in row 7 is not"),
        (tasks(("accuracy", 50), ("perplexity", 20)), "lm mixes accuracy and perplexity, one"),
        (tasks(("bits_per_byte", 1), ("perplexity", 20)), "lm mixes bits_per_byte (bits per byte) and"),
        (table("x", LOSSES, lower_is_better=[True] * 5 + [False]), "lower_is_better of x is both True"),
        (table("x", LOSSES, lower_is_better="maybe"), "is 'maybe'; it must be true or false"),
        (table("x", LOSSES, unit="bits"), "unknown unit of x"),
        (table("x", chance="half"), "is 'half'; it must be a number"),
        (table("x", chance=[50] * 5 + [25]), "chance of x is both 50.0 and 25.0"),
        (table("blimp", lower_is_better="true"), "blimp is in percent and better when higher"),
        (table("blimp", unit="nats"), "blimp is in percent and better when higher"),
        (table("blimp", FRACTIONS), "are these fractions? Scores are percentages: add --scale fraction"),
        (in_mixed_scales(), "no score of blimp f kan is above 1; are these fractions?"),
        (table("KL Divergence", LOSSES), "--lower-is-better 'KL Divergence' or"),
        (tasks(("matthews_correlation", 0.35), ("accuracy", 90)), "no score of lm matthews_correlation is"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit(refusal: Callable[..., str], frame: pd.DataFrame, message: str):
    assert message in refusal(frame)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("val_loss", "lower scores are taken as better, by the name: val_loss; where that is wrong"),
        ("mine", "higher scores are taken as better, as nothing says which are: mine; where"),
    ],
)
def test_a_report_says_which_direction_it_took_for_want_of_a_word(tmp_path: Path, name: str, note: str):
    def notes(**columns: object) -> list[str]:
        warnings = analysis_of(tmp_path, table(name, LOSSES, **columns)).warnings
        return [x for x in warnings if "scores are taken as better" in x]

    (guess,) = notes()
    assert guess.startswith(note)
    assert notes(lower_is_better=True) == []


def test_every_metric_of_a_benchmark_has_a_direction_of_its_own(tmp_path: Path):
    """A field of one metric is not about another."""
    said = {"accuracy": "false", "perplexity": "false", "raw_toxicity": "true", "raw_bleu": ""}
    frames = [
        table("lambada", (40.0, 0.1), task="openai", metric=metric, primary=metric == "accuracy").assign(
            lower_is_better=is_lower
        )
        for metric, is_lower in said.items()
    ]
    analysis = analysis_of(tmp_path, pd.concat(frames))
    (benchmark,) = analysis.benchmarks
    assert {metric: analysis.direction(benchmark, metric) for metric in said} == {
        "accuracy": "higher", "perplexity": "higher", "raw_toxicity": "lower", "raw_bleu": "higher"
    }  # fmt: skip


def test_a_flag_may_name_a_metric_that_stands_beside_the_compared_one(tmp_path: Path):
    frame = tasks(("accuracy", 40), ("toxicity", 30)).assign(task="t", primary=[True] * 6 + [False] * 6)
    analysis = analysis_of(tmp_path, frame, lower_is_better=("toxicity",))
    (benchmark,) = analysis.benchmarks
    assert analysis.direction(benchmark, "toxicity") == "lower"
    assert analysis.direction(benchmark, "accuracy") == "higher"


def analysis_of(tmp_path: Path, frame: pd.DataFrame, **request: object) -> Analysis:
    frame.to_csv(tmp_path / "scores.csv", index=False)
    return analyse(read_source(tmp_path / "scores.csv"), Request(**request))


def metric_of(tmp_path: Path, frame: pd.DataFrame, **request: object) -> Metric:
    (metric,) = analysis_of(tmp_path, frame, **request).metrics.values()
    return metric


def test_what_nobody_named_is_not_called_equivalent(tmp_path: Path):
    """A loss whose unit nobody said has no margin, whichever way is better."""
    for is_lower in (True, False):
        analysis = analysis_of(tmp_path, table("val_loss", LOSSES, lower_is_better=is_lower))
        (metric,), (comparison,) = analysis.metrics.values(), analysis.comparisons
        assert (metric.unit, metric.margin) == (None, None)
        assert metric.better == ("lower" if is_lower else "higher")
        assert comparison.verdict != EQUIVALENT


def test_columns_and_flags_say_the_same(tmp_path: Path):
    frame = table("val_loss", LOSSES).assign(unit="nats")
    by_columns = metric_of(tmp_path, frame.assign(lower_is_better="true", chance=9.2))
    by_flags = metric_of(tmp_path, frame, lower_is_better=("val_loss",), chance=("val_loss=9.2",))
    assert by_columns == by_flags
    assert (by_columns.better, by_columns.unit, by_columns.chance) == ("lower", "nats", 9.2)


def test_fractions_become_percentages(tmp_path: Path):
    """Only where they count as percentages: beside them a loss stays what it is."""
    frame = pd.concat([table("ewok", FRACTIONS), table("val_bpb", (0.9, 0.01))])
    analysis = analysis_of(tmp_path, frame, scale="fraction")
    means = analysis.arms.set_index(["benchmark", "variant"])["mean"]
    wanted = frame.groupby(["benchmark", "variant"])["score"].mean()
    found = {str(benchmark): means[benchmark] for benchmark in analysis.benchmarks}
    assert found["ewok"].to_numpy() == pytest.approx(100 * wanted["ewok"].to_numpy())
    assert found["val_bpb"].to_numpy() == pytest.approx(wanted["val_bpb"].to_numpy())
    as_written = analysis_of(tmp_path, table("ewok", FRACTIONS), scale="percent").arms["mean"]
    assert as_written.max() < 1
