"""Results that others published: does the report judge them right?

Expected values are the published ones, or scipy's on the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import read_source
from report.request import Request
from report.significance.comparison import (
    AT_CHANCE,
    DIFFERENT,
    EQUIVALENT,
    INCONCLUSIVE,
    NEGLIGIBLE,
    Comparison,
)
from tests.unit.report.significance.comparing import table

# Mean and standard deviation of ten seeds, in percent: experiments/results/babylm_seed_stats/summary.json of
# ACS-USP/kan-lm-study at 4bc7384 (MIT).
PEER_VARIANTS = ("mlp", "swiglu", "chebyshev", "grkan")
PEER = {
    "blimp": ((62.444, 0.5512249), (63.027, 0.6014806), (62.765, 0.5111914), (63.131, 0.3866221)),
    "blimp_supplement": ((54.42, 0.4577238), (54.107, 0.7084106), (53.948, 0.5057843), (54.025, 0.5313557)),
    "ewok": ((49.773, 0.7642869), (50.21, 0.7177589), (49.735, 0.6611480), (50.363, 0.7288812)),
}
# The Welch p that stand beside them, before any correction, and p of two one-sided tests at one point.
PEER_P = {
    ("blimp", "swiglu"): 0.0365767,
    ("blimp", "chebyshev"): 0.1937607,
    ("blimp", "grkan"): 0.0052297,
    ("blimp_supplement", "swiglu"): 0.2584084,
    ("blimp_supplement", "chebyshev"): 0.0422346,
    ("blimp_supplement", "grkan"): 0.0921535,
}
PEER_EQUIVALENCE = {"swiglu": 0.0617761, "chebyshev": 0.0052669, "grkan": 0.0803892}


def with_moments(mean: float, sd: float, num_runs: int = 10) -> np.ndarray:
    """Scores of exactly this mean and standard deviation, which alone Welch's test sees."""
    scores = np.linspace(-1, 1, num_runs)
    return mean + sd * scores / scores.std(ddof=1)


def write_table(path: Path, arms: Mapping[tuple[str, str, str], Any]) -> Path:
    """A CSV of scores by family, variant and benchmark, seeds counted from 1."""
    tables = [table({(f, v): scores}, benchmark) for (f, v, benchmark), scores in arms.items()]
    pd.concat(tables).to_csv(path, index=False)
    return path


def analysis_of(path: Path, **request: Any) -> Analysis:
    return analyse(read_source(path), Request(**request))


def one(analysis: Analysis, benchmark: str, variant: str, family: str | None = None) -> Comparison:
    """The comparison of a variant with the baseline, in one family or the primary one."""
    place = next(name for name in analysis.benchmarks if name.name == benchmark)
    scope = analysis.scopes(place)[0] if family is None else family
    return next(c for c in analysis.of(place, scope) if c.contrast.compared == variant)


PEER_REQUEST = {"baseline": "mlp", "chance": ("ewok=50", "blimp_supplement=50")}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    arms = {
        ("babylm", v, b): with_moments(*m)
        for b, arms in PEER.items()
        for v, m in zip(PEER_VARIANTS, arms, strict=True)
    }
    return analysis_of(write_table(tmp_path_factory.mktemp("peer") / "peer.csv", arms), **PEER_REQUEST)


@pytest.mark.parametrize(("benchmark", "variant"), PEER_P)
def test_the_p_values_of_a_peer_come_out(peer: Analysis, benchmark: str, variant: str):
    found = one(peer, benchmark, variant)
    assert found.p == pytest.approx(PEER_P[benchmark, variant], rel=1e-5)
    assert found.metric.unit == "percent"
    assert found.margin == 1.0
    if benchmark == "blimp":
        assert found.p_equivalence == pytest.approx(PEER_EQUIVALENCE[variant], rel=1e-4)


def test_the_verdicts_on_a_peer(peer: Analysis):
    """The peer corrects by Bonferroni: of three variants one is different on BLiMP, and none elsewhere."""
    verdicts = {(b, v): one(peer, b, v).verdict for b in PEER for v in PEER_VARIANTS[1:]}
    assert verdicts["blimp", "grkan"] == DIFFERENT
    assert verdicts["blimp", "swiglu"] == INCONCLUSIVE
    assert verdicts["blimp", "chebyshev"] == EQUIVALENT
    assert AT_CHANCE not in {verdicts[b, v] for b, v in verdicts if b != "ewok"}
    assert {verdicts["ewok", v] for v in PEER_VARIANTS[1:]} == {AT_CHANCE}


# Validation bits per byte of three seeds: records/track_10min_16mb of openai/parameter-golf (MIT), in
# 2026-03-23_LeakyReLU_LegalTTT_ParallelMuon without and with training at test time.
STACKS = {"without": (1.1218, 1.1224, 1.1218), "with": (1.1192, 1.1200, 1.1189)}


def test_a_leaderboard_of_bits_per_byte(tmp_path: Path):
    """The stack of the lower val_bpb is the better one, and shown to be, without a word from the user."""
    path = write_table(tmp_path / "stacks.csv", {("gpt", v, "val_bpb"): x for v, x in STACKS.items()})
    found = one(analysis_of(path, baseline="without"), "val_bpb", "with")
    expected = stats.ttest_ind(STACKS["with"], STACKS["without"], equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.metric.better, found.metric.unit) == ("lower", "bits per byte")
    assert found.is_better
    assert found.verdict == DIFFERENT
    wide = analysis_of(path, baseline="without", margin=("val_bpb=0.01",))
    assert one(wide, "val_bpb", "with").verdict == NEGLIGIBLE


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
    known = {
        "rte": {"accuracy": 53.0},
        "mrpc": {"f1": 81.0, "accuracy": 68.0},
        "cola": {"matthews_correlation": 0.0},
        "sst2": {"accuracy": 51.0},
    }
    (benchmark,) = analyse(source).benchmarks
    assert analyse(source).metric(benchmark).chance is None
    found = analyse(replace(source, baselines={"glue": known}))
    assert found.metric(benchmark).chance == pytest.approx((53 + 81 + 0) / 3)
    said = Request(chance=("glue=40",))
    assert analyse(replace(source, baselines={"glue": known}), said).metric(benchmark).chance == 40
    del known["cola"]
    assert analyse(replace(source, baselines={"glue": known})).metric(benchmark).chance is None
