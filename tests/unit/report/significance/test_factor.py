"""Reports of one factor: FFN variants, classification heads, or both, from scores that heads have part in."""

import shutil
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import UsageError
from report.analysis import Analysis
from report.inputs.sources import read_source
from report.significance.axes import Benchmark, Combination, Setting
from report.significance.factor import Relabelling, levels, listed_heads, parse_contrast
from scores.rows import ROW_COLUMNS, with_primary, write_rows
from scores.store import write_baselines
from tests.cases import listed
from tests.unit.report.studies import analysed, change_plan, render, write_plan, write_run

FAMILIES, FFNS, SEEDS = ("gpt_neo", "roberta"), ("gelu", "kan"), (1, 2, 3)
FOURIER = "fourier-kan grid_size=10 frozen"
HEADS = ("linear", "mlp", FOURIER)
SHIFT = {"linear": 0.0, "mlp": 0.1, FOURIER: -9.0}
STRATA = [Setting(family, variant=ffn) for family, ffn in product(FAMILIES, FFNS)]
GLUE = Benchmark("glue")


def scores() -> pd.DataFrame:
    """Rows of every run under every head: the scores of one run share what its pretraining came to."""
    rng = np.random.default_rng(8)
    rows = []
    for family, ffn, seed in product(FAMILIES, FFNS, SEEDS):
        run_id, model = f"{family}/{ffn}/seed{seed}-0a1b2c3d", rng.normal(0, 3)
        names = (run_id, family, ffn, seed)
        rows += [
            (*names, "blimp", f"paradigm {i}", "syntax", "accuracy", 60 + model + rng.normal(), 100, "")
            for i in range(2)
        ]
        rows += [
            (*names, "glue", task, "GLUE", metric, 70 + model + SHIFT[head] + rng.normal(0, 0.5), 50, head)
            for head, (task, metric) in product(
                HEADS, [("cola", "matthews_correlation"), ("rte", "accuracy")]
            )
        ]
    return pd.DataFrame(rows, columns=list(ROW_COLUMNS[:-1]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that varies both, which no test changes."""
    folder = tmp_path_factory.mktemp("made") / "heads"
    run_ids = []
    for run_id, rows in scores().groupby("run_id"):
        run_ids.append(str(run_id))
        run = write_run(folder, run_ids[-1], record={"parameters": {"total": 10_000_000}})
        write_rows(rows, run.rows_file)
    write_baselines(run.path, {"glue": {"rte": {"accuracy": 52.7}}})
    asked = {"heads": list(HEADS), "benchmarks": ["blimp", "glue"]}
    write_plan(folder, run_ids, report={"margin": 1.0}, **asked)
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "heads"))


@lru_cache
def kept(source: Path, **request) -> Analysis:
    """The analysis of a folder that no test changes, made once."""
    return analysed(source, **request)


def means(rows: pd.DataFrame, family: str, ffn: str, head: str, benchmark: str = "glue") -> np.ndarray:
    """The mean over tasks of each seed, from the rows as they were made."""
    chosen = rows[(rows.family == family) & (rows.variant == ffn) & (rows.benchmark == benchmark)]
    return chosen[chosen["head"] == head].groupby("seed").score.mean().to_numpy()


def test_heads_are_compared_on_the_same_models(made: Path):
    found, rows = kept(made, factor="head"), scores()
    assert found.baseline == "linear"  # the usual one, as the plan names none
    assert found.variants == HEADS
    assert found.families == tuple(STRATA)
    assert found.benchmarks == (GLUE,)
    assert found.inference.paired
    for head in HEADS[1:]:
        differences = {}
        for (family, ffn), stratum in zip(product(FAMILIES, FFNS), STRATA, strict=True):
            pair = means(rows, family, ffn, head), means(rows, family, ffn, "linear")
            expected = stats.ttest_rel(*pair)
            (c,) = (c for c in found.of(GLUE, stratum) if str(c.contrast) == f"{head} - linear")
            wanted = [expected.pvalue, expected.df, *expected.confidence_interval()]
            assert [c.p, c.df, c.low, c.high] == pytest.approx(wanted)
            differences[stratum] = pair[0] - pair[1]
        # Averaged with equal weights: the sum of four independent means of three differences.
        (c,) = (c for c in found.overall(GLUE) if str(c.contrast) == f"{head} - linear")
        variances = np.array([d.var(ddof=1) / 3 for d in differences.values()]) / 16
        error, df = np.sqrt(variances.sum()), variances.sum() ** 2 / (variances**2 / 2).sum()
        estimate = np.mean([d.mean() for d in differences.values()])
        assert [c.estimate, c.standard_error, c.df] == pytest.approx([estimate, error, df])
        assert c.p == pytest.approx(2 * stats.t.sf(abs(estimate / error), df))
    assert found.missing.empty


def test_with_one_ffn_a_family_is_a_family(tmp_path: Path):
    rows = scores()
    path = tmp_path / "gelu.parquet"
    rows[rows.variant == "gelu"].to_parquet(path)
    found = analysed(path, factor="head")
    assert found.families == FAMILIES
    (c,) = (c for c in found.of(GLUE, "roberta") if str(c.contrast) == "mlp - linear")
    pair = means(rows, "roberta", "gelu", "mlp"), means(rows, "roberta", "gelu", "linear")
    assert c.p == pytest.approx(stats.ttest_rel(*pair).pvalue)


def test_with_the_ffn_as_factor_every_head_is_a_benchmark(made: Path):
    found, rows = kept(made), scores()
    assert found.benchmarks == (Benchmark("blimp"), *(Benchmark("glue", head) for head in HEADS))  # as listed
    assert not found.inference.paired
    assert found.missing.empty
    named = [("blimp", ""), *product(["glue"], HEADS)]
    for benchmark, (of, head) in zip(found.benchmarks, named, strict=True):
        (c,) = found.of(benchmark, "gpt_neo")
        arms = [means(rows, "gpt_neo", ffn, head, of) for ffn in ("kan", "gelu")]
        assert c.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue)
    assert "*glue (linear)* is glue under the head `linear`" in render(found)


def test_one_head_may_be_kept_of_several(made: Path):
    found = kept(made, head="mlp")
    assert found.benchmarks == (Benchmark("blimp"), GLUE)
    (c,) = found.of(GLUE, "roberta")
    arms = [means(scores(), "roberta", ffn, "mlp") for ffn in ("kan", "gelu")]
    assert c.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue)


def test_both_are_compared_within_a_seed(made: Path):
    contrasts = (f"kan/{FOURIER} - kan/linear", f"kan/linear+kan/{FOURIER} - gelu/linear+gelu/{FOURIER}")
    found, rows = kept(made, factor="both", contrast=contrasts), scores()
    assert str(found.variants[0]) == "gelu/linear"
    assert set(found.variants) == {Combination(ffn, head) for ffn, head in product(FFNS, HEADS)}
    assert found.families == FAMILIES
    arms = {(ffn, head): means(rows, "gpt_neo", ffn, head) for ffn, head in product(FFNS, HEADS)}
    one, group = (c for c in found.contrasts if c.family == "gpt_neo")
    expected = stats.ttest_rel(arms["kan", FOURIER], arms["kan", "linear"])
    assert [one.p, one.df] == pytest.approx([expected.pvalue, 2])
    # Two scores of one model are one replicate: the test is over three seeds, not six scores.
    expected = stats.ttest_rel(*((arms[ffn, "linear"] + arms[ffn, FOURIER]) / 2 for ffn in ("kan", "gelu")))
    assert [group.p, group.df] == pytest.approx([expected.pvalue, 2])


def test_words_say_what_is_compared(made: Path):
    text = render(kept(made, factor="head"))
    first = text.split("\n\n")[0]
    assert f"averaged over 4 families, `{FOURIER}` is worse than `linear` by " in first
    assert "| head | verdict | difference (points) |" in text
    assert f"| `{FOURIER}` | **worse** | -" in text
    assert "Left out, as no head has part in it: blimp." in text
    assert "<summary>Cost: " not in text
    assert "compared with each other, as heads share a model" in text


def test_the_study_names_the_factor(study: Path):
    change_plan(study, report={"factor": "head", "baseline": "mlp", "contrasts": [f"{FOURIER} - linear"]})
    found = analysed(study)
    assert (found.source.factor, found.baseline, len(found.contrasts)) == ("head", "mlp", 5)
    change_plan(study, report={"factor": "heads"})
    with pytest.raises(UsageError, match=r"report\.factor .* 'heads'; did you mean 'head'"):
        read_source(study)


@pytest.mark.parametrize(("request_", "message"), listed(__file__, "mistakes of factors"))
def test_mistakes_are_one_line(made: Path, request_: dict, message: str):
    with pytest.raises(UsageError, match=message):
        analysed(made, **request_)


def test_without_heads_nothing_can_be_compared(tmp_path: Path):
    path = tmp_path / "scores.csv"
    head = "family,variant,seed,benchmark,head,score\n"
    path.write_text("family,variant,seed,benchmark,score\nf,gelu,1,blimp,50\nf,kan,1,blimp,52\n")
    with pytest.raises(UsageError, match=r"no score names its classification head.*ffn-ablations eval RUN"):
        analysed(path, factor="head")
    path.write_text(f"{head}f,gelu,1,glue,linear,50\nf,kan,1,glue,linear,52\n")
    with pytest.raises(UsageError, match=r"scores of one head only \(linear\)"):
        analysed(path, factor="head")
    path.write_text(f"{head}f,kan,1,glue,linear,50\nf,kan,1,glue,mlp,52\n")
    with pytest.raises(UsageError, match=r"one variant only \(kan\).*; --factor head compares its 2 heads"):
        analysed(path)


def test_rows_without_heads_stay_as_they_are():
    rows = scores()
    rows = with_primary(rows[rows["head"] == ""].reset_index(drop=True))
    found = Relabelling.of_rows(rows, "ffn").rows(rows)
    assert set(found.benchmark) == {Benchmark("blimp")}
    pd.testing.assert_frame_equal(found.assign(benchmark="blimp").astype({"benchmark": "str"}), rows)


def test_scores_of_before_there_was_a_choice_are_not_averaged_with_others(tmp_path: Path):
    """They name no head: a benchmark of their own, whatever its other scores name."""
    rows = scores()
    rows = rows[rows["head"].isin(["linear", "mlp"])]
    rows.loc[rows["head"] == "mlp", "head"] = ""
    rows.to_parquet(tmp_path / "rows.parquet")
    found = analysed(tmp_path / "rows.parquet")
    assert set(found.benchmarks) == {GLUE, Benchmark("glue", "linear")}
    assert found.missing.empty
    (c,) = found.of(GLUE, "roberta")
    arms = [means(rows, "roberta", ffn, "") for ffn in ("kan", "gelu")]
    assert c.estimate == pytest.approx(arms[0].mean() - arms[1].mean())


def test_the_heads_of_a_study_are_written_as_in_rows():
    assert listed_heads({}) == ("default",)
    assert listed_heads({"head": ["fourier-kan frozen grid_size=10", "linear"]}) == (FOURIER, "linear")
    assert listed_heads({"head": ["mlp width=128 frozen", "mlp frozen"]}) == ("mlp frozen",)
    assert listed_heads({"head": "linear", "freeze_backbone": True}) == ("linear frozen",)
    assert levels("both", FFNS, ["linear"]) == (Combination("gelu", "linear"), Combination("kan", "linear"))


def test_contrast_groups_weigh_their_variants_equally():
    contrast = parse_contrast("relu+silu  -  learnable-gelu", ["relu", "silu", "learnable-gelu"])
    assert contrast.weights() == {"relu": 0.5, "silu": 0.5, "learnable-gelu": -1.0}
    assert str(parse_contrast("kan", ["kan", "gelu"], baseline="gelu")) == "kan - gelu"


@pytest.mark.parametrize(("text", "message"), listed(__file__, "mistakes of contrasts"))
def test_contrast_mistakes(text: str, message: str):
    with pytest.raises(UsageError, match=message):
        parse_contrast(text, ["kan", "gelu", "relu"])
