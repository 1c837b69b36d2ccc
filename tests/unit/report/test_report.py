"""The report from every kind of source: numbers, words, figures and the mistakes a user makes."""

from __future__ import annotations

import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from report.analysis import Analysis
from report.command import main
from report.compute import analyse
from report.inputs.sources import read_source, source_of_frame
from report.request import Request
from report.write import draw_all
from scores.rows import write_rows
from scores.store import write_baselines
from tests.unit.report.rendering import numbers, render
from tests.unit.report.run_folders import change_plan, write_plan
from tests.unit.report.run_folders import write_run as write_run_folder
from tests.unit.report.significance.comparing import table

FAMILIES, VARIANTS, SEEDS = ("gpt_neo", "roberta"), ("gelu", "kan", "swish"), (1, 2, 3)
TASKS = {
    "embedded-pairs": [("agreement", "syntax", "accuracy"), ("order", "syntax", "accuracy")],
    "embedded-glue": [("acceptability", "GLUE", "accuracy")],
}
SHIFT = {"gelu": 0.0, "kan": -8.0, "swish": 0.2}


def write_run(study: Path, family: str, variant: str, seed: int, tag: str = "0a1b2c3d") -> None:
    """One run folder with scores from a fixed generator; the end of its log is torn."""
    generator = np.random.default_rng([FAMILIES.index(family), VARIANTS.index(variant), seed])
    scores = [
        (benchmark, *task, round(70 + SHIFT[variant] + generator.normal(), 2))
        for benchmark, tasks in TASKS.items()
        for task in tasks
    ]
    own = 0.01 * generator.normal() - 0.2 * (variant == "kan" and family == "roberta")
    log = [{"step": step, "loss": 3.0, "learning_rate": 1e-3} for step in range(0, 40, 5)]
    log += [{"step": step, "eval_loss": 3 - step / 40 + own} for step in (10, 20, 30)]
    record = {
        "parameters": {"total": 500_000 if variant != "kan" else 650_000, "ffn": 100_000},
        "device": "cpu",
        "sessions": [{"versions": {"torch": "2.13.0"}, "git": {"commit": "abcdef0123", "clean": True}}],
    }
    run = write_run_folder(study, f"{family}/{variant}/seed{seed}-{tag}", log, record, scores)
    with run.metrics_file.open("a") as file:
        file.write('{"step": 40, "eval_lo')


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two families, three variants and three seeds whose last cell is not there."""
    folder = tmp_path_factory.mktemp("made") / "tiny-study"
    cells = [(f, v, s) for f in FAMILIES for v in VARIANTS for s in SEEDS]
    for family, variant, seed in cells[:-1]:
        write_run(folder, family, variant, seed)
    run_ids = [f"{f}/{v}/seed{s}-0a1b2c3d" for f, v, s in cells]
    asked = {"baseline": "gelu", "margin": 1.0}
    return write_plan(folder, run_ids, evaluation={"suites": list(TASKS)}, report=asked)


@pytest.fixture(scope="module")
def analysis(made: Path) -> Analysis:
    return analyse(read_source(made))


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return shutil.copytree(made, tmp_path / "tiny-study")


def analysed(source: Path, **request: Any) -> Analysis:
    return analyse(read_source(source), Request(**request))


def run_of(study: Path, family: str, variant: str, seed: int) -> RunFolder:
    return RunFolder(study / family / variant / f"seed{seed}-0a1b2c3d")


def scores_of(study: Path, benchmark: str) -> pd.Series:
    """Mean score of every run over the tasks of one benchmark, from the run folders."""
    rows = pd.concat(map(pd.read_parquet, sorted(study.glob("*/*/*/eval/rows.parquet"))))
    return rows[rows.benchmark == benchmark].groupby(["family", "variant", "seed"]).score.mean()


def losses(study: Path) -> dict[tuple[str, str], np.ndarray]:
    """Held-out losses at the end of every training by family and variant, from the run folders."""
    found: dict[tuple[str, str], list[float]] = {}
    for file in sorted(study.glob("*/*/*/metrics.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()[:-1]]
        family, variant = file.parts[-4:-2]
        ends = [line["eval_loss"] for line in lines if "eval_loss" in line]
        found.setdefault((family, variant), []).append(ends[-1])
    return {arm: np.array(values) for arm, values in found.items()}


def test_study_report_says_what_the_runs_say(made: Path, analysis: Analysis):
    text = render(analysis)
    first = text.split("\n\n")[0]
    assert first.startswith("**Answer.** ")
    loss = losses(made)
    base, kan = loss["roberta", "gelu"].mean(), loss["roberta", "kan"].mean()
    spread = np.sqrt(np.mean([values.var(ddof=1) for (f, _), values in loss.items() if f == "roberta"]))
    digits = 1 - math.floor(math.log10(spread))
    better = f"On held-out loss, `kan` is better than `gelu` by {base - kan:.{digits}f} nats in RoBERTa"
    assert f"{better}; 3 of 4 comparisons are undecided" in first
    pairs = scores_of(made, "embedded-pairs").groupby(["family", "variant"]).mean()
    worse = np.mean([pairs[family, "gelu"] - pairs[family, "kan"] for family in FAMILIES])
    averaged = "On embedded-pairs, averaged over GPT-Neo and RoBERTa,"
    assert f"{averaged} `kan` is worse than `gelu` by {worse:.2f} points" in first
    assert "no effect" not in text
    # The last cell is missing, and named.
    assert "3 scores are missing" in text
    assert "| held-out loss | RoBERTa | `swish` | 3 |" in text
    assert "| embedded-glue | RoBERTa | `swish` | 3 |" in text
    # Facts of the runs.
    (cost,) = (x for x in text.splitlines() if x.startswith("| GPT-Neo | `kan` | 650,000 | 100,000 |"))
    assert "| +30.0% |" in cost
    shown = f"{kan:.{digits}f} ± {loss['roberta', 'kan'].std(ddof=1):.{digits}f} (3)"
    assert f"| RoBERTa | `kan` | {shown} |" in text
    assert "trained with torch 2.13.0, commit abcdef0, on cpu (runs: 17)" in text


def test_every_number_of_report_json_is_that_of_the_rows(made: Path, analysis: Analysis):
    report = numbers(analysis)
    pairs = scores_of(made, "embedded-pairs")
    for cell in report["scores"]:
        if cell["benchmark"] == "embedded-pairs":
            expected = pairs[cell["family"], cell["variant"]]
            assert [cell["n"], cell["mean"], cell["sd"]] == pytest.approx(
                [len(expected), expected.mean(), expected.std()]
            )
    p_values, loss = {}, losses(made)
    for c in report["comparisons"]:
        variant, family = c["contrast"].split(" - ")[0], c["family"]
        if c["benchmark"] == "embedded-pairs" and family is not None:  # exploratory: a size and its error
            difference = pairs[family, variant].mean() - pairs[family, "gelu"].mean()
            assert [c["estimate"], c["p"], c["low"]] == [pytest.approx(difference), None, None]
        if c["benchmark"] == "held-out-loss" and family == "roberta":
            test = stats.ttest_ind(loss[family, variant], loss[family, "gelu"], equal_var=False)
            expected = [test.pvalue, test.df, test.confidence_interval().low]
            assert [c["p"], c["df"], c["low"]] == pytest.approx(expected, rel=1e-6)
            p_values[variant] = (c["p"], c["p_corrected"])
    (kan, corrected), (swish, last) = p_values["kan"], p_values["swish"]
    assert kan < corrected < 20 * kan + 1e-3  # of all metrics and families together
    assert swish <= last
    margins = {name: metric["margin"] for name, metric in report["outcome_definitions"].items()}
    assert margins == {"held-out-loss": 0.02, "embedded-pairs": 1.0, "embedded-glue": 1.0}
    assert len(report["seeds"]) == 17 * 3


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.ci
def test_files_are_linked_well_formed_and_repeat_byte_for_byte(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture
):
    out = tmp_path / "out"
    main([str(made), "--out", str(out)])
    printed = capsys.readouterr().out
    assert printed.startswith("**Answer.** On held-out loss, ")
    assert printed.splitlines()[-1] == str(out / "report.md")
    text = (out / "report.md").read_text()
    assert f"ffn-ablations report {made} --out {out} --baseline gelu --margin" in text
    links = re.findall(r"!\[([^\]]+)\]\((figures/[^)]+\.svg)\)", text)
    drawn = {Path(link).stem for _, link in links}
    assert drawn >= {"forest", "seeds", "cost", "heat-map-embedded-pairs"}
    assert not [name for name in drawn if name.startswith("forest-")]  # all three are in the first one
    for suffix in (".svg", ".png"):
        assert {path.stem for path in (out / "figures").glob(f"*{suffix}")} == drawn
    assert all((out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in drawn)
    for alt, link in links:
        assert len(alt) > 30
        ElementTree.parse(out / link)
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    tables = {path.stem for path in (out / "tables").glob("*.csv")}
    assert tables >= {"scores", "seeds", "comparisons", "tasks", "training", "missing", "metrics"}
    assert tables >= {"phenomena", "sensitivity"}
    before = contents(out)
    main([str(made), "--out", str(out)])
    assert contents(out) == before


@pytest.mark.slow
def test_scores_stand_beside_constant_answers(study: Path, analysis: Analysis):
    assert "constant answer" not in render(analysis).lower()
    constant = {"embedded-glue": {"acceptability": {"accuracy": 61.5}}}
    write_baselines(run_of(study, "gpt_neo", "gelu", 1).path, constant)
    found = analysed(study)
    assert re.search(
        r"\| group \| task \|.*\| constant answer \|\n.*\n\| GLUE \| acceptability \|.*\| 61\.5 \|",
        render(found),
    )
    assert numbers(found)["baselines"] == constant


@pytest.mark.ci
def test_rows_file_csv_and_study_agree(made: Path, analysis: Analysis, tmp_path: Path):
    rows = read_source(made).rows
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.sample(frac=1, random_state=0).to_csv(tmp_path / "rows.csv", index=False)
    of_study = numbers(analysis)
    of_rows, of_csv = (numbers(analysed(tmp_path / name)) for name in ("rows.parquet", "rows.csv"))
    assert of_rows["comparisons"] == of_csv["comparisons"] == of_study["comparisons"]
    assert of_rows["missing"] == of_study["missing"]  # judged by the seeds that occur, here the same


def test_runs_of_another_configuration_are_left_out_and_named(study: Path, analysis: Analysis):
    write_run(study, "gpt_neo", "gelu", 1, tag="ffffffff")
    found = analysed(study)
    assert numbers(found)["comparisons"] == numbers(analysis)["comparisons"]
    assert any("gpt_neo/gelu/seed1-ffffffff" in note for note in found.warnings)
    (study / "study.yaml").unlink()
    with pytest.raises(UsageError, match=r"gpt_neo gelu seed 1 has 2 runs .*move the others out"):
        read_source(study)


def test_an_arm_of_one_run_has_a_mean_and_nothing_inferred():
    arms = {("f", "gelu"): [60.0, 61.0, 62.0], ("f", "relu"): [61.0, 62.0, 63.0], ("f", "kan"): [63.4]}
    text = render(analyse(source_of_frame(table(arms))))
    assert "not estimable: one run only of f kan" in text
    assert "| f | `kan` | 63.4 (1) |" in text


def test_one_family_one_benchmark():
    arms = {("f", "a"): [50.0, 51, 52, 53], ("f", "b"): [51.0, 52, 53, 54]}
    found = analyse(source_of_frame(table(arms, "x|y")), Request(baseline="a"))
    text = render(found)
    assert "no variant is shown to differ from `a`; `b` is undecided (it may still differ by up to" in text
    assert "averaged |" not in text
    assert set(draw_all(found)) == {"forest", "seeds"}


def test_what_a_variant_was_never_run_on_is_no_comparison():
    rng = np.random.default_rng(0)
    names = {"blimp": ("gelu", "kan", "silu"), "glue": ("gelu", "silu")}
    scores = [
        table({("gpt_neo", name): rng.normal(60, 1, 5).tolist() for name in variants}, benchmark)
        for benchmark, variants in names.items()
    ]
    found = analyse(source_of_frame(pd.concat(scores)))
    top = render(found).split("<details>")[0]
    assert "not run: `kan`" in top
    assert "not estimable" not in top
    assert "missing" not in top
    header, _, *rows = (line.strip("| ").split(" | ") for line in top.splitlines() if line.startswith("|"))
    (row,) = (row for row in rows if row[0] == "`kan`")
    assert [x for name, x in zip(header, row, strict=True) if name.startswith("glue")] == ["not run"]
    p, corrected = zip(*((c.p, c.p_corrected) for c in found.claims if c.p is not None), strict=True)
    assert len(p) == 3
    independent = 1 - (1 - min(p)) ** 3  # two outcomes of one run, and two variants with one baseline
    assert min(p) < min(corrected) < independent + 0.02


def test_runs_that_all_score_the_same_are_pointed_out():
    arms = {("f", v): [50.0] * 3 if v == "b" else [60.0, 61.0, 62.0] for v in "abc"}
    text = render(analyse(source_of_frame(table(arms, "x")), Request(baseline="a")))
    assert "x: all runs of f b score exactly 50," in text
    assert "On x, `b` is worse than `a` by 11.00 points" in text
    assert "`a` | 61.0 ± 1.0" in text


@pytest.mark.slow
def test_copied_runs_diverged_runs_and_outliers_are_on_the_first_screen(study: Path):
    one, copy = (run_of(study, "gpt_neo", "kan", seed) for seed in (1, 2))
    write_rows(pd.read_parquet(one.rows_file).assign(run_id=copy.run_id, seed=2), copy.rows_file)
    failed = run_of(study, "roberta", "swish", 3)
    failed.path.mkdir(parents=True)
    failed.failure_marker.write_text(json.dumps({"step": 7, "problem": "the loss is nan"}))
    far = run_of(study, "gpt_neo", "gelu", 3).rows_file
    write_rows(pd.read_parquet(far).assign(score=99.0), far)
    top = render(analysed(study)).split("<details>")[0]
    copied = "different runs with the same scores, which may be chance, kept: "
    assert copied + "gpt_neo kan seed 1 and gpt_neo kan seed 2" in top
    assert "diverged in pretraining: roberta/swish/seed3-0a1b2c3d (the loss is nan at step 7)" in top
    assert re.search(r"far from the other runs of their arm.*gpt_neo gelu seed 3 \(99, the others", top)


@pytest.mark.slow
def test_a_study_names_its_contrasts_and_pairing_beforehand(study: Path):
    change_plan(study, report={"contrasts": ["kan+swish - gelu"], "paired": True, "margin": 2.0})
    found = analysed(study)
    report = numbers(found)
    assert (report["paired"], report["outcome_definitions"]["embedded-glue"]["margin"]) == (True, 2.0)
    loss = losses(study)
    group = (loss["gpt_neo", "kan"] + loss["gpt_neo", "swish"]) / 2
    expected = stats.ttest_rel(group, loss["gpt_neo", "gelu"])
    (c,) = (c for c in report["contrasts"] if (c["benchmark"], c["family"]) == ("held-out-loss", "gpt_neo"))
    assert [c["p"], c["df"]] == pytest.approx([expected.pvalue, expected.df])
    # The last cell is missing, so its seed's partners are left out and named.
    assert "roberta gelu seed 3" in render(found).split("Without a partner of the same seed")[1]


@pytest.mark.ci
def test_a_contrast_waits_for_levels_that_have_no_scores_yet(study: Path):
    """A report of a study at work answers what can be answered; a flag is a mistake as ever."""
    contrasts = ["kan - swish", "relu+swish - gelu", "relu - kan"]
    change_plan(study, variants=[*VARIANTS, "relu"], report={"contrasts": contrasts})
    found = analysed(study)
    assert {str(c.contrast) for c in found.contrasts} == {"kan - swish"}
    for contrast in contrasts[1:]:
        assert f"contrast `{contrast}` is left out until all of it has scores" in found.warnings
    with pytest.raises(UsageError, match="unknown variant 'relu'"):
        analysed(study, contrast=("relu - kan",))
    change_plan(study, report={"contrasts": ["rleu - kan"]})
    with pytest.raises(UsageError, match="unknown variant 'rleu'"):
        analysed(study)


def test_a_study_of_no_evaluation_has_a_report(study: Path):
    for run in StudyFolder(study).run_folders():
        shutil.rmtree(run.eval_dir)
    found = analysed(study)  # whose file has a margin in percentage points, as all do
    assert [str(name) for name in found.benchmarks] == ["held-out-loss"]


def test_one_run_each_claims_nothing_and_points_to_items():
    said = "Every variant has one run, which tells nothing of another training"
    arms = {("f", "gelu"): [50.0], ("f", "kan"): [60.0]}
    assert said in render(analyse(source_of_frame(table(arms))))
    arms["f", "kan"].append(61.0)
    assert said not in render(analyse(source_of_frame(table(arms))))
