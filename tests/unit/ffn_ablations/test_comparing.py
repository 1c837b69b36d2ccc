"""``ffn_ablations.compare`` and the pictures that it draws."""

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy import stats

import ffn_ablations as ffa
from ffn_ablations.cli import main
from ffn_ablations.runs import Runs
from ffn_ablations.wording import as_keywords
from tests.cases import listed

LOSS = "held-out-loss"


def made_scores(variants=("gelu", "kan", "none"), seeds: int = 5) -> pd.DataFrame:
    """Held-out losses and a benchmark of two tasks in one family."""
    generator, rows = np.random.default_rng(3), []
    for place, variant in enumerate(variants):
        for seed in range(seeds):
            loss = 2.5 + 0.05 * place + 0.01 * generator.normal()
            rows.append(("gpt_neo", variant, seed, LOSS, "all", loss))
            for task in ("agreement", "order"):
                score = 70 - 2 * place + generator.normal()
                rows.append(("gpt_neo", variant, seed, "accuracy", task, score))
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "task", "score"])


@pytest.fixture(scope="module")
def comparison() -> ffa.Comparison:
    return ffa.compare(made_scores(), margins={LOSS: 0.02})


def test_estimates_are_differences_of_means_and_intervals_leave_out_zero_where_a_difference_is_claimed(
    comparison: ffa.Comparison,
):
    scores, table = made_scores(), comparison.verdicts
    losses = scores[scores.benchmark == LOSS].groupby("variant").score.apply(np.array)
    row = table[(table.benchmark == LOSS) & (table.contrast == "none - gelu")].iloc[0]
    assert row.estimate == pytest.approx(losses["none"].mean() - losses["gelu"].mean())
    assert row.unit == "nats"
    assert row.p >= stats.ttest_ind(losses["none"], losses["gelu"], equal_var=False).pvalue  # corrected
    assert table.verdict.isin(["better", "worse"]).equals((table.low > 0) | (table.high < 0))
    assert len(table) == 4


@pytest.mark.ci
def test_numbers_are_those_of_the_command(tmp_path: Path):
    table = tmp_path / "scores.csv"
    made_scores().to_csv(table, index=False)
    flags = ["--margin", f"{LOSS}=0.02", "--primary", LOSS, "--contrast", "none - kan"]
    main(["report", str(table), *flags, "--out", str(tmp_path / "a")])
    asked = {"margins": {LOSS: 0.02}, "primary": LOSS, "contrasts": "none - kan"}
    ffa.compare(table, **asked).save(tmp_path / "b")
    ffa.compare(pd.read_csv(table), **asked).save(tmp_path / "c")
    numbers = [json.loads((tmp_path / name / "report.json").read_text()) for name in "abc"]
    own = [{name: each.pop(name) for name in ("command", "source")} for each in numbers]
    assert numbers[0] == numbers[1] == numbers[2]
    assert own[2]["command"].split()[2] == own[2]["source"] == str(tmp_path / "c" / "scores.csv")
    names = [sorted(x.relative_to(tmp_path / each) for x in (tmp_path / each).rglob("*")) for each in "ab"]
    assert names[0] == names[1]


def test_names_are_escaped_where_they_are_shown():
    name = "<img src=x onerror='alert(1)'>\"&"
    shown = ffa.compare(made_scores(("gelu", name, "none")))._repr_html_()
    assert "<img" not in shown
    assert "&lt;img src=x onerror=" in shown
    known = "p code div table thead tbody tr th td strong em br span blockquote ul li"
    assert {tag.strip("/") for tag in re.findall(r"<(/?[a-z]*)", shown)} <= set(known.split())


def test_it_shows_its_claims_its_verdicts_and_its_warnings():
    comparison = ffa.compare(made_scores().replace("accuracy", "pairs"), margins={LOSS: 0.02})
    shown = repr(comparison)
    assert shown.startswith("**Answer.** On held-out loss, 2 variants are worse than `gelu`: `none` ")
    assert 'On pairs, taken as higher is better (else say lower_is_better="pairs"), ' in shown
    html = comparison._repr_html_()
    assert "<table" in html
    assert "<strong>worse</strong>" in html


def in_columns(index: bool = False, variant: str = "variant") -> pd.DataFrame:
    """The same held-out losses and one task, a row a run, beside numbers that are no scores."""
    scores = made_scores()
    scores = scores[scores.task != "order"]
    wide = scores.pivot(index=["variant", "seed"], columns="benchmark", values="score")
    wide = wide.assign(lr=[0.1] * 5 + [0.2] * 10, step=range(15)).rename_axis(index={"variant": variant})
    return wide if index else wide.reset_index()


@pytest.mark.parametrize(
    ("table", "asked", "outcomes"),
    [
        (in_columns(), {}, {LOSS, "accuracy"}),
        (in_columns(index=True), {}, {LOSS, "accuracy"}),
        (in_columns(variant="model"), {}, {LOSS, "accuracy"}),
        (
            in_columns().pivot_table(index="variant", columns="seed", values=[LOSS, "accuracy"]),
            {},
            {LOSS, "accuracy"},
        ),
        (
            in_columns().astype({"accuracy": str}).replace({"accuracy": {r"\.": ","}}, regex=True),
            {"scores": "accuracy"},
            {"accuracy"},
        ),
        (in_columns(variant="Layer"), {"columns": {"variant": "Layer"}}, {LOSS, "accuracy"}),
        (in_columns(), {"scores": ["accuracy", LOSS]}, {LOSS, "accuracy"}),
        (in_columns(), {"scores": "accuracy"}, {"accuracy"}),
    ],
)
def test_columns_of_a_wide_frame_are_outcomes(
    table: pd.DataFrame, asked: dict, outcomes: set, tmp_path: Path
):
    scores = made_scores()
    rows = scores[(scores.task != "order") & scores.benchmark.isin(outcomes)]
    wide, long = ffa.compare(table, **asked), ffa.compare(rows)
    assert set(wide.verdicts.benchmark) == outcomes
    keys = ["benchmark", "contrast"]
    estimates = [each.verdicts.sort_values(keys).estimate.tolist() for each in (wide, long)]
    assert estimates[0] == pytest.approx(estimates[1])


@pytest.mark.ci
def test_the_report_of_a_wide_frame_names_a_command_that_reads_it(tmp_path: Path):
    ffa.compare(in_columns(index=True)).save(tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    main([*report["command"].split()[1:], "--out", str(tmp_path / "again")])
    again = json.loads((tmp_path / "again" / "report.json").read_text())
    assert again["variants"] == report["variants"] == ["gelu", "kan", "none"]


def test_a_comparison_is_a_table_of_verdicts(comparison: ffa.Comparison, tmp_path: Path):
    table = comparison.verdicts
    assert len(comparison) == len(table) == 4
    assert [row.estimate for row in comparison] == table.estimate.tolist()
    assert comparison[:2].equals(table.iloc[:2])
    assert comparison[-1].equals(table.iloc[-1])
    assert set(comparison["kan"].contrast) == set(comparison["kan - gelu"].contrast) == {"kan - gelu"}
    assert set(comparison[LOSS].contrast) == {"kan - gelu", "none - gelu"}
    cells = [line.split(" | ") for line in comparison.to_markdown().splitlines()]
    assert {len(line) for line in cells} == {1 + len(table.columns)}
    assert [float(line[4]) for line in cells[2:]] == pytest.approx(table.estimate.tolist(), rel=1e-3)
    assert comparison.to_latex(tmp_path / "t.tex") == (tmp_path / "t.tex").read_text()
    assert comparison.to_latex().count("\\\\") >= 4
    with pytest.raises(KeyError, match="did you mean 'none'"):
        comparison["nonee"]
    with pytest.raises(TypeError, match="did you mean 'baseline'"):
        ffa.compare(made_scores(), base_line="gelu")


POINTS = {"gelu": [60, 61.5, 60.7], "swiglu": [66.1, 65, 65.2], "kan": [61, 60.2, 60.9]}
WIDE = pd.DataFrame(POINTS)
LONG = WIDE.rename_axis("seed").reset_index().melt("seed", var_name="ffn", value_name="accuracy")
GAIN = WIDE["swiglu"].mean() - WIDE["gelu"].mean()


@pytest.mark.parametrize(
    "scores",
    [
        (WIDE,), (POINTS,), (LONG,), (LONG[:5], LONG[5:]), (LONG.to_dict("records"),), (WIDE / 100,),
        (LONG.set_index(["ffn", "seed"]).accuracy,), (WIDE.rename_axis("seed").reset_index(),),
        (LONG.rename(columns={"accuracy": "score"}),), ([LONG[:5], LONG[5:]],),
    ],
)  # fmt: skip
def test_scores_come_in_any_usual_shape(scores: tuple, tmp_path: Path):
    assert ffa.compare(*scores).effects["swiglu"] == pytest.approx(GAIN)
    losses = {"a": [3.1, 3.2, 3.0], "b": np.array([2.1, 2.2])}
    found = [ffa.compare(losses, higher_is_better=is_so) for is_so in (True, False)]
    assert [(each.baseline, each.best) for each in found] == [("a", "a"), ("a", "b")]
    assert 'say lower_is_better="score"' in ffa.compare(losses).answer
    tables = [tmp_path / "1.csv", tmp_path / "2.csv"]
    for place, table in enumerate(tables):
        (LONG[5 * place : 5 + 9 * place] if place else LONG[:5]).to_csv(table, index=False)
    assert ffa.compare(*tables).effects["swiglu"] == pytest.approx(GAIN)


@pytest.mark.parametrize(
    ("told", "in_python"),
    [
        ("or write --scale pairs=fraction", 'or write scale={"pairs": "fraction"}'),
        ("such as --columns seed=3: yes", 'such as columns={"seed": 3}: yes'),
        ("add --margin 'a b' or --paired", 'add margins="a b" or paired'),
        ("name in --scale what is; give --seeds 3", "name in scale what is; give seeds=3"),
        ("say ffn-ablations report --scale 3", "say ffn-ablations report --scale 3"),
    ],
)
def test_flags_of_a_message_are_keywords(told: str, in_python: str):
    assert as_keywords(told, {"margin": "margins"}) == in_python


def test_fractions_are_told_of_and_may_be_percentages():
    shares = WIDE / 100
    assert "taken times 100; scale='fraction' confirms it" in repr(ffa.compare(shares))
    found = ffa.compare(shares, scale="percent")
    assert found.effects["swiglu"] == pytest.approx(GAIN / 100)
    assert found.analysis.warnings[0].startswith("scores of score are at most 0.66 percent, as ")


@pytest.mark.parametrize(
    ("guess", "found"),
    [
        (lambda c: c.best, "swiglu"), (lambda c: c.baseline, "gelu"),
        (lambda c: c.p_values["swiglu"] < 0.05, True),
        (lambda c: c["swiglu"].p == c.loc["swiglu", "p"] == c["p"]["swiglu"] == c.p["swiglu"], True),
        (lambda c: dict(c).keys(), {"swiglu": 0, "kan": 0}.keys()),
        (lambda c: c.verdicts["SwiGLU"].equals(c["swiglu"]) and c["swiglu - gelu"].equals(c["swiglu"]), True),
        (lambda c: c.summary().loc["gelu", "n"], 3),
        (lambda c: c.significant().to_dict(), {"swiglu": True, "kan": False}), (lambda c: "gelu" in c, True),
        (lambda c: c.verdicts[c.significant].index.to_list(), ["swiglu"]),
        (lambda c: c["swiglu"].p_value == c["swiglu"].p and c["swiglu"].difference, pytest.approx(GAIN)),
        (lambda c: c.summary().columns.intersection(["family", "contrast", "is_primary"]).to_list(), []),
        (lambda c: "estimate" in repr(c.frame) and len(repr(c.summary()).splitlines()[0]) < 100, True),
        (lambda c: c.groupby("ffn").p.first().equals(c.p.sort_index()), True),
        (lambda c: c.data["ffn"].nunique(), 3),
        (lambda c: list(c.to_frame()[["variant", "difference"]].variant) == list(c.verdicts.index), True),
        (lambda c: c.table().head(1)["p_value"].item() == c.verdicts["p"].iloc[0], True),
        (lambda c: c.plot(figsize=(3, 2)).figure.get_figwidth(), 3),
        (lambda c: c.plot(ax=pyplot.subplots(figsize=(2.5, 2))[1]).get_legend(), None),
        (lambda c: c.ci["swiglu"][0] == c.conf_int().low["swiglu"] == c["swiglu"].low, True),
        (lambda c: [name for name, row in c.items() if row.verdict == "better"], ["swiglu"]),
        (lambda c: min(c, key=lambda row: row.p).variant, "swiglu"),
        (lambda c: c.mean["kan"], pytest.approx(60.7)),
        (lambda c: c.sort_values("p").index[0], "swiglu"),
        (lambda c: c.query("p < 0.05").index.to_list(), ["swiglu"]),
        (lambda c: c.to_frame().equals(c.df) and c.table.equals(c.frame), True),
        (lambda c: len(c.filter("kan")), 1),
        (lambda c: c.to_csv().split(",")[0], "variant"), (lambda c: "<table" in c.to_html(), True),
        (lambda c: list(c.to_dict("index")), ["swiglu", "kan"]),
        (lambda c: sorted(c.variants), sorted(POINTS)),
    ],
)  # fmt: skip
def test_what_is_guessed_of_a_comparison_is_so(guess: Callable, found: object):
    assert guess(ffa.compare(LONG)) == found


@pytest.mark.parametrize(
    ("data", "asked", "outcome"),
    [
        (WIDE / 100, {"metric": "accuracy"}, "accuracy"),
        (WIDE, {"metric": "loss"}, "loss"), (POINTS, {"benchmark": "loss", "margins": 0.02}, "loss"),
        (WIDE.rename_axis("seed").T, {"metric": "loss"}, "loss"),
        (LONG.assign(loss=LONG.accuracy), {"metric": "loss"}, "loss"),
        (LONG.assign(loss=0.5), {"metric": "accuracy"}, "accuracy"),
        (LONG.rename(columns={"accuracy": "score"}), {"metric": "loss"}, "loss"),
        (LONG.rename(columns={"accuracy": "score"}).assign(task="sst2"), {"metric": "sst2"}, "sst2"),
        (LONG.rename(columns={"accuracy": LOSS}), {"metric": "loss"}, LOSS),
    ],
)  # fmt: skip
def test_a_metric_is_chosen_or_names_the_scores(data: object, asked: dict, outcome: str):
    found = ffa.compare(data, **asked)
    assert set(found.verdicts.benchmark) == {outcome}
    assert found.effects["swiglu"] == pytest.approx(GAIN)
    assert found["swiglu"].verdict == ("worse" if "loss" in outcome else "better")


def test_pairs_are_counted_where_seeds_differ():
    scores = made_scores(("gelu", "kan"))
    shifted = scores.assign(seed=scores.seed + 2 * (scores.variant == "kan"))
    assert "Each variant has 5 seeds, of which 3 have a pair." in repr(ffa.compare(shifted, paired=True))
    assert "Each variant has 5 seeds. " in repr(ffa.compare(scores, paired=True))


def test_runs_of_two_configurations_are_told_apart():
    twice = pd.concat([made_scores().assign(run_id=name + made_scores().variant) for name in "ab"])
    with pytest.raises(
        ffa.UsageError, match=r"seed 0 has 2 runs .*; .* keep one, as scores\[scores.run_id != 'bgelu0'\]"
    ):
        ffa.compare(twice.assign(run_id=twice.run_id + twice.seed.astype(str)))


def test_of_two_outcomes_one_is_compared_and_read_from_a_file(tmp_path: Path):
    scores = made_scores()
    scores.to_csv(tmp_path / "scores.csv", index=False)
    alone = ffa.compare(scores[scores.benchmark == LOSS], margins={LOSS: 0.02})
    assert ffa.compare(scores, metric="loss", margins=0.02).frame.equals(alone.frame)
    found = ffa.compare(tmp_path / "scores.csv", metric=LOSS)
    claimed = found.verdicts[found.verdicts.is_primary.to_numpy()]
    assert (claimed.index.to_list(), claimed.p.to_list()) == (
        alone.verdicts.index.to_list(),
        alone.p.to_list(),
    )
    assert sorted(found.data.score) == pytest.approx(sorted(scores.score))


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("c.json", b"{"), ("report.md", b"# Report"), ("fig.png", b"\x89PNG"), ("fig.pdf", b"%PDF"),
        ("fig.svg", b"<?xml"), ("c.csv", b"variant,"), ("c.tex", b""), ("page.html", b"<!doctype html>"),
    ],
)  # fmt: skip
def test_one_file_can_be_saved(comparison: ffa.Comparison, tmp_path: Path, name: str, first: bytes):
    written = comparison.report(tmp_path / "new" / name)
    assert [written] == [*(tmp_path / "new").iterdir()]
    assert written.read_bytes().lower().startswith(first.lower())
    assert b"](figures/" not in written.read_bytes()


@pytest.mark.ci
def test_a_report_is_that_of_the_comparison(tmp_path: Path) -> None:
    written = ffa.report(made_scores(), tmp_path / "a", baseline="gelu")
    other = ffa.compare(made_scores(), baseline="gelu").save(tmp_path / "b")
    assert written.read_text().replace(str(tmp_path / "a"), str(tmp_path / "b")) == other.read_text()


def test_a_paper_is_saved_into_a_folder_alone(comparison: ffa.Comparison, tmp_path: Path):
    assert (comparison.save(tmp_path / "a", paper=True).parent / "paper").is_dir()
    for name in ("c.xlsx", "c.html"):
        with pytest.raises(ffa.UsageError, match="give a folder's name"):
            comparison.save(tmp_path / name, paper=True)


def test_seeds_are_planned_as_the_command_plans_them(capsys: pytest.CaptureFixture[str]):
    main(["report", "--plan", "--sd", "1.1", "--variants", "8", "--families", "1", "--margin", "1"])
    rows = re.findall(r"a difference of ([\d.]+) \| (\d+) \| (\d+)", capsys.readouterr().out)
    found = ffa.plan(1.1, [float(row[0]) for row in rows], variants=8)
    told = found[["seeds", "seeds_corrected"]].to_numpy().tolist()
    assert told == [[int(each) for each in row[1:]] for row in rows]
    assert ffa.n_seeds(sd=1, difference=0.01).seeds.isna().all()
    for wrong in ({"sd": 0}, {"sd": 1, "difference": 0}, {"sd": 1, "variants": 1}, {"sd": 1, "families": 0}):
        with pytest.raises(ffa.UsageError, match="must be"):
            ffa.plan(**wrong)


def test_of_one_comparison_nothing_is_corrected() -> None:
    gelu, kan = [3.1, 3.2, 3.15, 3.12], [3.3, 3.35, 3.2, 3.31]
    found = ffa.compare({"gelu": gelu, "kan": kan}, lower_is_better=True)
    welch = stats.ttest_ind(kan, gelu, equal_var=False)
    assert found.p["kan"] == pytest.approx(welch.pvalue)
    assert found.ci["kan"] == pytest.approx(tuple(welch.confidence_interval()))
    pooled = np.sqrt((np.var(gelu, ddof=1) + np.var(kan, ddof=1)) / 2)
    g = (np.mean(kan) - np.mean(gelu)) / pooled * (1 - 3 / (4 * 6 - 1))  # Hedges 1981, approximately
    assert found.effect_sizes["kan"] == pytest.approx(g, rel=0.01)


def test_a_contrast_is_a_row_and_a_comparison_may_be_pickled() -> None:
    found = ffa.compare(made_scores(), contrasts=["kan+none - gelu", "kan - gelu"])
    means = made_scores()[lambda x: x.benchmark == LOSS].groupby("variant").score.mean()
    row = found["kan+none - gelu"].set_index("benchmark").loc[LOSS]
    assert row.estimate == pytest.approx(means[["kan", "none"]].mean() - means["gelu"])
    assert len(found) == 6  # two outcomes of kan, none, and the first contrast
    again = pickle.loads(pickle.dumps(found))
    pd.testing.assert_frame_equal(again.verdicts, found.verdicts)


@pytest.mark.parametrize("kind", ["forest", "seeds"])
def test_a_figure_goes_into_given_axes_and_leaves_pyplot_alone(comparison: ffa.Comparison, kind: str):
    def state() -> tuple:
        return dict(matplotlib.rcParams), matplotlib.get_backend(auto_select=False), pyplot.get_fignums()

    figure = Figure()
    axes = figure.subplots()
    with matplotlib.rc_context({"font.size": 23.0, "axes.titlesize": 31.0}):
        before = state()
        assert comparison.plot(kind, outcome="accuracy", ax=axes) is axes
        figure.draw_without_rendering()
        assert state() == before
    assert axes.title.get_fontsize() < 23
    if kind == "forest":  # whose numbers stand beside the axes
        ends = [text.get_window_extent().x1 for text in axes.texts]
        assert max(ends) <= figure.bbox.x1
    assert axes.has_data()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda scores: scores[["family"]], "missing column(s) variant, seed, benchmark, score"),
        (lambda scores: scores.iloc[:0], "the data frame: holds no rows"),
        (
            lambda scores: scores.assign(score=float("nan")),
            "no cell of a column of scores holds a number: row 1 (empty)",
        ),
        (lambda scores: scores.assign(seed="one"), "seed 'one' in data row 1 is not a number"),
        (lambda scores: scores.assign(variant="gelu"), "no score of gelu is left; duplicates"),
        (lambda scores: pd.concat([scores] * 2, axis=1), "has the column 'family' twice"),
        (lambda _: 3, "3 is no data frame: give one"),
        (lambda _: "nowhere.csv", "nowhere.csv does not exist"),
    ],
)
def test_what_holds_no_scores_is_one_line(change, said: str):
    with pytest.raises(ffa.UsageError) as told:
        ffa.compare(change(made_scores()))
    assert said in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value._render_traceback_() == [f"UsageError: {told.value}"]


@pytest.mark.parametrize(("settings", "said"), listed(__file__, "settings that cannot be"))
def test_a_setting_that_cannot_be_is_one_line(settings: dict, said: str):
    with pytest.raises(ffa.UsageError, match=re.escape(said)):
        ffa.compare(made_scores(), **settings)


def test_a_figure_that_there_is_not_is_one_line(comparison: ffa.Comparison):
    calls = {
        "unknown kind of figure 'bars'": lambda: comparison.plot("bars"),
        "unknown outcome 'blimp'": lambda: comparison.plot(outcome="blimp"),
        "unknown family 't5'": lambda: comparison.plot(family="t5"),
        "nothing to draw as learning-curves": lambda: comparison.plot("learning-curves"),
        "unknown figure 'cost'": lambda: comparison.figure("cost"),
    }
    for said, call in calls.items():
        with pytest.raises(ffa.UsageError, match=said):
            call()


WITHOUT_TORCH = """
import sys, time
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "datasets", "accelerate", "submitit"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refused())
before = time.process_time()
import ffn_ablations as ffa
assert time.process_time() - before < 1
assert not {"pandas", "matplotlib", "scipy"} & set(sys.modules)
import pandas as pd
rows = [("f", v, s, "blimp", 50 + s + 9 * i) for i, v in enumerate(["gelu", "kan"]) for s in range(3)]
print(ffa.compare(pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])).answer)
assert set(dir(ffa)) == {*ffa.__all__, "__version__"} > {"train", "evaluate", "check"}
"""


@pytest.mark.ci
def test_comparing_needs_no_torch_and_importing_takes_no_time():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("On blimp, `kan` is better than `gelu` by 9.0 points")


def test_axes_of_runs_are_those_that_all_of_them_have():
    runs = [SimpleNamespace(places={"size": "1M", "depth": "2"}), SimpleNamespace(places={"size": "2M"})]
    assert Runs(runs).axes == ("size",)  # type: ignore[arg-type]


def test_of_two_runs_none_is_left_out() -> None:
    losses = {"gelu": 3.0, "swish": 3.5, "relu": 3.0}
    rows = [(name, seed, loss + 0.01 * seed) for name, loss in losses.items() for seed in (1, 2)]
    card = repr(ffa.compare(pd.DataFrame(rows, columns=["variant", "seed", "val_loss"])))
    assert all(
        name in card.partition("whether one decides is not known: ")[2] for name in ("`swish`", "`relu`")
    )
    assert "robust" not in card


def test_scores_come_by_benchmark_by_seed_and_by_random_state() -> None:
    of_gelu, of_kan = [80.0, 81.0, 80.5], [82.0, 83.0, 81.0]
    nested = {"mnli": {"gelu": of_gelu, "kan": of_kan}, "qnli": {"gelu": of_kan, "kan": of_gelu}}
    assert ffa.compare(nested).estimate["kan"].droplevel(-1).to_dict() == {
        "mnli": pytest.approx(1.5), "qnli": pytest.approx(-1.5)
    }  # fmt: skip
    by_seed = pd.DataFrame([of_gelu, of_kan], ["gelu", "kan"], ["seed0", "seed1", "seed2"])
    assert ffa.compare(by_seed, metric="perplexity")["kan"].verdict != "better"
    assert ffa.compare(by_seed, metric="perplexity").estimate["kan"] == pytest.approx(1.5)
    long = by_seed.T.reset_index().melt("index", var_name="method", value_name="accuracy")
    long = long.assign(random_state=long["index"].str[-1].astype(int)).drop(columns="index")
    assert ffa.compare(long, baseline="gelu").estimate["kan"] == pytest.approx(1.5)


def test_keywords_may_name_columns_and_the_outcome_a_mean_of_tasks() -> None:
    rows = [
        {"model": model, "rs": seed, "task": task, "value": value + seed / 3 + seed % 2 * (task == "cola")}
        for model, value in (("gelu", 60.0), ("kan", 63.0))
        for seed in (1, 2, 3)
        for task in ("cola", "rte")
    ]
    frame = pd.DataFrame(rows)
    by_task = ffa.compare(frame, variant="model", seed="rs", metric="task", value="value")
    assert by_task.outcomes == ["cola", "rte"]
    accuracies = frame.rename(columns={"value": "accuracy"})
    mean = ffa.compare(accuracies, variant="model", seed="rs", paired=True)
    assert mean.estimate["kan"] == pytest.approx(3.0)
    assert "Each accuracy is the mean of 2 tasks." in repr(mean)
    assert "Runs of one seed are compared with each other." in repr(mean)
    with pytest.raises(ffa.UsageError, match=r'the wrong way; write columns=\{"score": "value"\}'):
        ffa.compare(frame, variant="model", columns={"value": "score"})
