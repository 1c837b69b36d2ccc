"""What tables and flags say of outcomes, and what is judged of results that others published."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import run_cli
from report.analysis import Analysis
from report.command import main
from report.inputs.sources import read_source
from report.page import answer
from report.significance import comparison
from scores.metrics import Metric
from tests.cases import listed
from tests.unit.report.studies import analysed, table

VARIANTS, SEEDS = ("gelu", "kan"), (1, 2, 3)
PERCENT, LOSSES, FRACTIONS = (50.0, 1.0), (3.0, 0.02), (0.6, 0.01)


def outcome(benchmark: str, scores: tuple[float, float] = PERCENT, **columns: object) -> pd.DataFrame:
    """Scores of a level and a spread, with further columns of one value, or of a list of six."""
    generator = np.random.default_rng(0)
    level, spread = scores
    runs = [("f", variant, seed, benchmark) for variant in VARIANTS for seed in SEEDS]
    rows = [(*run, round(level + spread * generator.normal(), 5)) for run in runs]
    names = ["family", "variant", "seed", "benchmark", "score"]
    return pd.DataFrame(rows, columns=names).assign(**columns)


def tasks(*metrics: tuple[str, float]) -> pd.DataFrame:
    """One benchmark whose tasks are scored in these metrics, at these levels."""
    return pd.concat([outcome("lm", (level, 0.01), task=metric, metric=metric) for metric, level in metrics])


def in_mixed_scales() -> pd.DataFrame:
    frame = outcome("blimp")
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


@pytest.mark.parametrize(("name", "flags", "message"), listed(__file__, "flags that do not fit"))
def test_flags_that_do_not_fit(refusal: Callable[..., str], name: str, flags: list[str], message: str):
    of_name = outcome(name, LOSSES if name == "val_bpb" else PERCENT)
    assert message in refusal(in_mixed_scales() if name == "in mixed scales" else of_name, *flags)


@pytest.mark.parametrize(("name", "scale", "columns", "message"), listed(__file__, "tables that do not fit"))
def test_columns_that_do_not_fit(refusal, name, scale, columns, message):
    scores = {"percent": PERCENT, "losses": LOSSES, "fractions": FRACTIONS}[scale]
    columns = {key: list(x) if isinstance(x, tuple) else x for key, x in columns.items()}
    assert message in refusal(outcome(name, scores, **columns))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (tasks(("accuracy", 50), ("perplexity", 20)), "lm mixes accuracy and perplexity, one"),
        (tasks(("bits_per_byte", 1), ("perplexity", 20)), "lm mixes bits_per_byte (bits per byte) and"),
        (in_mixed_scales(), "write all as percentages"),
        (tasks(("matthews_correlation", 0.35), ("accuracy", 90)), "no score of lm matthews_correlation is"),
    ],
)
def test_tables_that_do_not_fit(refusal: Callable[..., str], frame: pd.DataFrame, message: str):
    assert message in refusal(frame)


@pytest.mark.parametrize(("name", "note"), listed(__file__, "directions"))
def test_a_report_says_which_direction_it_took_for_want_of_a_word(tmp_path: Path, name: str, note: str):
    def notes(**columns: object) -> list[str]:
        scores = tuple(20 * number for number in LOSSES)  # from 10 to 100, as percentages are
        analysis = analysis_of(tmp_path, outcome(name, scores, **columns))
        return [x for x in (*answer(analysis), *analysis.warnings) if re.search("taken as (better|hi)", x)]

    (guess,) = notes()  # once on the page
    assert note in guess
    assert notes(lower_is_better=True) == []


def test_every_metric_of_a_benchmark_has_a_direction_of_its_own(tmp_path: Path):
    """A field of one metric is not about another."""
    said = {"accuracy": "false", "perplexity": "false", "raw_toxicity": "true", "raw_bleu": ""}
    frames = [
        outcome("lambada", (40.0, 0.1), task="openai", metric=metric, primary=metric == "accuracy").assign(
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
    return analysed(tmp_path / "scores.csv", **request)


def metric_of(tmp_path: Path, frame: pd.DataFrame, **request: object) -> Metric:
    (metric,) = analysis_of(tmp_path, frame, **request).metrics.values()
    return metric


def test_what_nobody_named_is_not_called_equivalent(tmp_path: Path):
    """A loss whose unit nobody said has no margin, whichever way is better."""
    for is_lower in (True, False):
        analysis = analysis_of(tmp_path, outcome("val_loss", LOSSES, lower_is_better=is_lower))
        (metric,), (own,) = analysis.metrics.values(), analysis.comparisons
        assert (metric.unit, metric.margin) == (None, None)
        assert metric.better == ("lower" if is_lower else "higher")
        assert own.verdict != comparison.EQUIVALENT


def test_columns_and_flags_say_the_same(tmp_path: Path):
    frame = outcome("val_loss", LOSSES).assign(unit="nats")
    by_columns = metric_of(tmp_path, frame.assign(lower_is_better="true", chance=9.2))
    by_flags = metric_of(tmp_path, frame, lower_is_better=("val_loss",), chance=("val_loss=9.2",))
    assert by_columns == by_flags
    assert (by_columns.better, by_columns.unit, by_columns.chance) == ("lower", "nats", 9.2)


def test_fractions_become_percentages(tmp_path: Path):
    """Only where they count as percentages: beside them a loss stays what it is."""
    frame = pd.concat([outcome("ewok", FRACTIONS), outcome("val_bpb", (0.9, 0.01))])
    analysis = analysis_of(tmp_path, frame, scale=("fraction",))
    means = analysis.arms.set_index(["benchmark", "variant"])["mean"]
    wanted = frame.groupby(["benchmark", "variant"])["score"].mean()
    found = {str(benchmark): means[benchmark] for benchmark in analysis.benchmarks}
    assert found["ewok"].to_numpy() == pytest.approx(100 * wanted["ewok"].to_numpy())
    assert found["val_bpb"].to_numpy() == pytest.approx(wanted["val_bpb"].to_numpy())
    as_written = analysis_of(tmp_path, outcome("ewok", FRACTIONS), scale=("percent",)).arms["mean"]
    assert as_written.max() < 1


def with_moments(mean: float, sd: float, num_runs: int = 10) -> np.ndarray:
    """Scores of exactly this mean and standard deviation, which alone Welch's test sees."""
    scores = np.linspace(-1, 1, num_runs)
    return mean + sd * scores / scores.std(ddof=1)


def write_table(path: Path, arms: Mapping[tuple[str, str, str], Any]) -> Path:
    """A CSV of scores by family, variant and benchmark, seeds counted from 1."""
    tables = [table({(f, v): scores}, benchmark) for (f, v, benchmark), scores in arms.items()]
    pd.concat(tables).to_csv(path, index=False)
    return path


def one(analysis: Analysis, benchmark: str, variant: str, family: str | None = None) -> comparison.Comparison:
    """The comparison of a variant with the baseline, in one family or the primary one."""
    place = next(name for name in analysis.benchmarks if name.name == benchmark)
    scope = analysis.scopes(place)[0] if family is None else family
    return next(c for c in analysis.of(place, scope) if c.contrast.compared == variant)


PEERS = listed(__file__, "peers")
PEER_REQUEST = {"baseline": "mlp", "chance": ("ewok=50", "blimp_supplement=50")}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    arms = {("babylm", variant, name): with_moments(mean, sd) for name, variant, mean, sd, *_ in PEERS}
    return analysed(write_table(tmp_path_factory.mktemp("peer") / "peer.csv", arms), **PEER_REQUEST)


@pytest.mark.parametrize(
    ("benchmark", "variant", "p", "p_equivalence"), [(*row[:2], *row[4:]) for row in PEERS if row[4]]
)
def test_the_p_values_of_a_peer_come_out(peer: Analysis, benchmark, variant, p, p_equivalence):
    found = one(peer, benchmark, variant)
    assert found.p == pytest.approx(p, rel=1e-5)
    assert found.metric.unit == "percent"
    assert found.margin == 1.0
    assert p_equivalence is None or found.p_equivalence == pytest.approx(p_equivalence, rel=1e-4)


def test_the_verdicts_on_a_peer(peer: Analysis):
    """The peer corrects by Bonferroni: of three variants one is different on BLiMP, and none elsewhere."""
    verdicts = {(b, v): one(peer, b, v).verdict for b, v, *_ in PEERS if v != "mlp"}
    assert verdicts["blimp", "grkan"] in comparison.DIFFERENT
    assert verdicts["blimp", "swiglu"] == comparison.UNDECIDED
    assert verdicts["blimp", "chebyshev"] == comparison.EQUIVALENT
    at_chance = {name for name, verdict in verdicts.items() if verdict == comparison.AT_CHANCE}
    assert at_chance == {name for name in verdicts if name[0] == "ewok"}


# Validation bits per byte of three seeds: records/track_10min_16mb of openai/parameter-golf (MIT), in
# 2026-03-23_LeakyReLU_LegalTTT_ParallelMuon without and with training at test time.
STACKS = {"without": (1.1218, 1.1224, 1.1218), "with": (1.1192, 1.1200, 1.1189)}


def test_a_leaderboard_of_bits_per_byte(tmp_path: Path):
    """The stack of the lower val_bpb is the better one, and shown to be, without a word from the user."""
    path = write_table(tmp_path / "stacks.csv", {("gpt", v, "val_bpb"): x for v, x in STACKS.items()})
    found = one(analysed(path, baseline="without"), "val_bpb", "with")
    expected = stats.ttest_ind(STACKS["with"], STACKS["without"], equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.metric.better, found.metric.unit) == ("lower", "bits per byte")
    assert found.is_better
    assert found.verdict in comparison.DIFFERENT
    wide = analysed(path, baseline="without", margin=("val_bpb=0.01",))
    assert one(wide, "val_bpb", "with").verdict in comparison.NEGLIGIBLE


def test_chance_is_the_mean_of_constant_answers_over_the_tasks_compared(tmp_path: Path):
    rows = [
        ("gpt_neo", variant, seed, "glue", task, metric, 60 + seed)
        for variant in ("gelu", "kan")
        for seed in (1, 2, 3)
        for task, metric in (("rte", "accuracy"), ("mrpc", "f1"), ("cola", "matthews_correlation"))
    ]
    columns = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]
    path = tmp_path / "glue.csv"
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    source = read_source(path)
    known = {"rte": {"accuracy": 53.0}, "mrpc": {"f1": 81.0, "accuracy": 68.0}}
    known |= {"cola": {"matthews_correlation": 0.0}, "sst2": {"accuracy": 51.0}}
    (benchmark,) = analysed(source).benchmarks
    assert analysed(source).metric(benchmark).chance is None
    found = analysed(replace(source, baselines={"glue": known}))
    assert found.metric(benchmark).chance == pytest.approx((53 + 81 + 0) / 3)
    asked = analysed(replace(source, baselines={"glue": known}), chance=("glue=40",))
    assert asked.metric(benchmark).chance == 40
    del known["cola"]
    assert analysed(replace(source, baselines={"glue": known})).metric(benchmark).chance is None
