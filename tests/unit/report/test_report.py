"""The report from every kind of source: numbers, words, figures and the mistakes a user makes."""

from __future__ import annotations

import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from report.compute import analyse
from report.inputs.sources import read_source
from report.request import Request
from report.write import write_report
from scores.rows import ROW_COLUMNS, write_rows
from scores.store import write_baselines
from tests.cases import first_is_fast
from tests.processes import run_command
from tests.unit.report import rendering
from tests.unit.report.rendering import render

FAMILIES, VARIANTS, SEEDS = ("gpt_neo", "roberta"), ("gelu", "kan", "swish"), (1, 2, 3)
TASKS = {
    "embedded-pairs": [("agreement", "syntax", "accuracy"), ("order", "syntax", "accuracy")],
    "embedded-glue": [("acceptability", "GLUE", "accuracy")],
}
SHIFT = {"gelu": 0.0, "kan": -8.0, "swish": 0.2}


def text_of(source: Path, **request) -> str:
    """The words of a report, without drawing its figures."""
    return render(analyse(read_source(source), Request(**request)))


def numbers_of(source: Path, **request) -> dict:
    """Every number of a report, without drawing its figures."""
    return rendering.numbers(analyse(read_source(source), Request(**request)))


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


def written(source: Path, out: Path, **request) -> str:
    """Write a whole report; returns its words."""
    write_report(source, out, Request(**request))
    return (out / "report.md").read_text()


def write_run(study: Path, family: str, variant: str, seed: int, tag: str = "0a1b2c3d") -> Path:
    """One run folder as the pretraining and the evaluation leave it, with scores from a fixed generator."""
    run_id = f"{family}/{variant}/seed{seed}-{tag}"
    generator = np.random.default_rng([FAMILIES.index(family), VARIANTS.index(variant), seed])
    rows = [
        (run_id, family, variant, seed, benchmark, task, group, metric,
         round(70 + SHIFT[variant] + generator.normal(), 2), 200, "")
        for benchmark, tasks in TASKS.items()
        for task, group, metric in tasks
    ]  # fmt: skip
    run = study / run_id
    write_rows(pd.DataFrame(rows, columns=list(ROW_COLUMNS[:-1])), run / "eval" / "rows.parquet")
    parameters = {"total": 500_000 if variant != "kan" else 650_000, "ffn": 100_000}
    session = {"versions": {"torch": "2.13.0"}, "git": {"commit": "abcdef0123", "clean": True}}
    provenance = {"parameters": parameters, "device": "cpu", "sessions": [session]}
    (run / "provenance.json").write_text(json.dumps(provenance))
    lines = [{"step": step, "loss": 3.0, "learning_rate": 1e-3} for step in range(0, 40, 5)]
    own = 0.01 * generator.normal() - 0.2 * (variant == "kan" and family == "roberta")
    lines += [{"step": step, "eval_loss": 3 - step / 40 + own} for step in (10, 20, 30)]
    (run / "COMPLETED").write_text('{"results": {}}')
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 40, "eval_lo')
    return run


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of two families, three variants and three seeds whose last cell is not there."""
    folder = tmp_path / "tiny-study"
    cells = [(f, v, s) for f in FAMILIES for v in VARIANTS for s in SEEDS]
    for family, variant, seed in cells[:-1]:
        write_run(folder, family, variant, seed)
    content = {
        "families": list(FAMILIES),
        "variants": list(VARIANTS),
        "seeds": list(SEEDS),
        "evaluation": {"suites": list(TASKS)},
        "report": {"baseline": "gelu", "margin": 1.0},
        "cells": [f"{f}/{v}/seed{s}-0a1b2c3d" for f, v, s in cells],
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.mark.ci
def test_study_report_says_what_the_runs_say(study: Path, tmp_path: Path):
    text = written(study, tmp_path / "out")
    first = text.split("\n\n")[1]
    assert first.startswith("**Answer.** ")
    loss = losses(study)
    base, kan = loss["roberta", "gelu"].mean(), loss["roberta", "kan"].mean()
    spread = np.sqrt(np.mean([values.var(ddof=1) for (f, _), values in loss.items() if f == "roberta"]))
    digits = 1 - math.floor(math.log10(spread))
    better = f"On held-out loss, `kan` is better than `gelu` by {base - kan:.{digits}f} nats in RoBERTa"
    assert f"{better}; 3 of 4 comparisons are undecided" in first
    pairs = scores_of(study, "embedded-pairs").groupby(["family", "variant"]).mean()
    worse = np.mean([pairs[family, "gelu"] - pairs[family, "kan"] for family in FAMILIES])
    averaged = "On embedded-pairs, averaged over GPT-Neo and RoBERTa,"
    assert f"{averaged} `kan` is worse than `gelu` by {worse:.2f} points" in first
    assert "no effect" not in text
    # The last cell is missing, and named.
    assert "3 scores are missing" in text
    assert "| held-out loss | RoBERTa | `swish` | 3 |" in text
    assert "| embedded-glue | RoBERTa | `swish` | 3 |" in text
    # Facts of the runs.
    (cost,) = (
        line for line in text.splitlines() if line.startswith("| GPT-Neo | `kan` | 650,000 | 100,000 |")
    )
    assert "| +30.0% |" in cost
    shown = f"{kan:.{digits}f} ± {loss['roberta', 'kan'].std(ddof=1):.{digits}f} (3)"
    assert f"| RoBERTa | `kan` | {shown} |" in text
    assert "trained with torch 2.13.0, commit abcdef0, on cpu (runs: 17)" in text

    assert f"ffn-ablations report {study} --out {tmp_path / 'out'} --baseline gelu --margin" in text


def test_every_number_of_report_json_is_that_of_the_rows(study: Path):
    report = numbers_of(study)
    pairs = scores_of(study, "embedded-pairs")
    for cell in report["scores"]:
        if cell["benchmark"] == "embedded-pairs":
            expected = pairs[cell["family"], cell["variant"]]
            assert [cell["n"], cell["mean"], cell["sd"]] == pytest.approx(
                [len(expected), expected.mean(), expected.std()]
            )
    p_values, loss = {}, losses(study)
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


@pytest.mark.ci
def test_files_are_linked_well_formed_and_repeat_byte_for_byte(study: Path, tmp_path: Path):
    out = tmp_path / "out"
    text = written(study, out)
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
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    write_report(study, out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    tables = {path.name for path in (out / "tables").glob("*.csv")}
    assert {
        "scores.csv",
        "seeds.csv",
        "comparisons.csv",
        "tasks.csv",
        "training.csv",
        "missing.csv",
        "metrics.csv",
        "phenomena.csv",
        "sensitivity.csv",
    } <= tables


@pytest.mark.slow
def test_scores_stand_beside_constant_answers(study: Path):
    assert "constant answer" not in text_of(study).lower()
    folder = study / "gpt_neo" / "gelu" / "seed1-0a1b2c3d"
    write_baselines(folder, {"embedded-glue": {"acceptability": {"accuracy": 61.5}}})
    text = text_of(study)
    assert re.search(
        r"\| group \| task \|.*\| constant answer \|\n.*\n\| GLUE \| acceptability \|.*\| 61\.5 \|", text
    )
    assert numbers_of(study)["baselines"] == {"embedded-glue": {"acceptability": {"accuracy": 61.5}}}


@pytest.mark.ci
def test_rows_file_csv_and_study_agree(study: Path, tmp_path: Path):
    rows = read_source(study).rows
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.sample(frac=1, random_state=0).to_csv(tmp_path / "rows.csv", index=False)
    reports = [
        numbers_of(source)
        for i, source in enumerate([study, tmp_path / "rows.parquet", tmp_path / "rows.csv"])
    ]
    assert reports[1]["comparisons"] == reports[0]["comparisons"]
    assert reports[2]["comparisons"] == reports[0]["comparisons"]
    assert reports[1]["missing"] == reports[0]["missing"]  # judged by the seeds that occur, here the same


@pytest.mark.ci
def test_runs_of_another_configuration_are_left_out_and_named(study: Path, tmp_path: Path):
    before = numbers_of(study)
    write_run(study, "gpt_neo", "gelu", 1, tag="ffffffff")
    after = numbers_of(study)
    assert after["comparisons"] == before["comparisons"]
    assert any("gpt_neo/gelu/seed1-ffffffff" in note for note in after["warnings"])
    (study / "study.yaml").unlink()
    with pytest.raises(UsageError, match=r"gpt_neo gelu seed 1 has 2 runs .*move the others out"):
        write_report(study, tmp_path / "out")


def test_published_seeds(shared_data: Path):
    source = shared_data / "thesis" / "all_seeds.csv"
    text = text_of(source, contrast=("relu+silu - prelu+swish",))
    assert "On blimp, averaged over GPT-Neo and RoBERTa, no variant is shown to differ from `gelu`" in text
    assert "not estimable: `kan`" in text
    assert "| `none` | GPT-Neo | -2.6 | " in text
    assert "| blimp | RoBERTa | `gelu` | 1 |" in text
    assert "| glue: `relu+silu - prelu+swish` | averaged | +0.1 | [" in text
    assert "| GPT-Neo | `gelu` | 57.8 ± 1.1 (6) | 59.0 ± 1.0 (6) |" in text


def test_arms_with_one_run(shared_data: Path):
    text = text_of(shared_data / "thesis" / "table5.csv")
    assert "not estimable: one run only of gpt_neo kan, roberta kan" in text
    assert "| `learnable-gelu` | averaged | +0.1 | [-" in text
    assert "| GPT-Neo | `kan` | 63.4 (1) |" in text


def test_one_family_one_benchmark(tmp_path: Path):
    rows = [("f", v, s, "x|y", 50 + s + (v == "b")) for v in "ab" for s in range(4)]
    csv = tmp_path / "x.csv"
    pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(csv, index=False)
    text = written(csv, tmp_path / "out", baseline="a")
    assert "no variant is shown to differ from `a`; `b` is undecided (it may still differ by up to" in text
    assert "averaged |" not in text
    assert {x.name for x in (tmp_path / "out" / "figures").glob("*.svg")} == {
        "forest.svg",
        "seeds.svg",
    }


def test_what_a_variant_was_never_run_on_is_no_comparison(tmp_path: Path):
    rng = np.random.default_rng(0)
    table = [
        ("gpt_neo", variant, seed, benchmark, round(60 + rng.normal(), 3))
        for variant, benchmarks in (
            ("gelu", ("blimp", "glue")),
            ("kan", ("blimp",)),
            ("silu", ("blimp", "glue")),
        )
        for benchmark in benchmarks
        for seed in range(1, 6)
    ]
    pd.DataFrame(table, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(
        tmp_path / "x.csv", index=False
    )
    top = text_of(tmp_path / "x.csv").split("<details>")[0]
    assert "not run: `kan`" in top
    assert "not estimable" not in top
    assert "missing" not in top
    header, _, *rows = (line.strip("| ").split(" | ") for line in top.splitlines() if line.startswith("|"))
    (row,) = (row for row in rows if row[0] == "`kan`")
    assert [x for name, x in zip(header, row, strict=True) if name.startswith("glue")] == ["not run"]
    scored = [c for c in numbers_of(tmp_path / "x.csv")["comparisons"] if c["p"] is not None]
    p = sorted(c["p"] for c in scored)
    assert len(p) == 3
    independent = 1 - (1 - p[0]) ** 3  # two outcomes of one run, and two variants with one baseline
    assert p[0] < min(c["p_corrected"] for c in scored) < independent + 0.02


def test_runs_that_all_score_the_same_are_pointed_out(tmp_path: Path):
    rows = [("f", v, s, "x", 50.0 if v == "b" else 60.0 + s) for v in "abc" for s in range(3)]
    csv = tmp_path / "x.csv"
    pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(csv, index=False)
    text = text_of(csv, baseline="a")
    assert "x: all runs of f b score exactly 50," in text
    assert "On x, `b` is worse than `a` by 11.00 points" in text
    assert "`a` | 61.0 ± 1.0" in text


@pytest.mark.slow
def test_copied_runs_diverged_runs_and_outliers_are_on_the_first_screen(study: Path):
    copy = study / "gpt_neo" / "kan" / "seed2-0a1b2c3d"
    rows = pd.read_parquet(study / "gpt_neo" / "kan" / "seed1-0a1b2c3d" / "eval" / "rows.parquet")
    write_rows(rows.assign(run_id="gpt_neo/kan/seed2-0a1b2c3d", seed=2), copy / "eval" / "rows.parquet")
    failed = study / "roberta" / "swish" / "seed3-0a1b2c3d"
    failed.mkdir(parents=True)
    (failed / "FAILED").write_text(json.dumps({"step": 7, "problem": "the loss is nan"}))
    far = study / "gpt_neo" / "gelu" / "seed3-0a1b2c3d" / "eval" / "rows.parquet"
    write_rows(pd.read_parquet(far).assign(score=99.0), far)
    text = text_of(study)
    top = text[: text.index("<details>")]
    copied = "different runs with the same scores, which may be chance, kept: "
    assert copied + "gpt_neo kan seed 1 and gpt_neo kan seed 2" in top
    assert "diverged in pretraining: roberta/swish/seed3-0a1b2c3d (the loss is nan at step 7)" in top
    assert re.search(r"far from the other runs of their arm.*gpt_neo gelu seed 3 \(99, the others", top)


@pytest.mark.slow
def test_a_study_names_its_contrasts_and_pairing_beforehand(study: Path):
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["report"] |= {"contrasts": ["kan+swish - gelu"], "paired": True, "margin": 2.0}
    (study / "study.yaml").write_text(yaml.safe_dump(content))
    report = numbers_of(study)
    assert (report["paired"], report["outcome_definitions"]["embedded-glue"]["margin"]) == (True, 2.0)
    loss = losses(study)
    group = (loss["gpt_neo", "kan"] + loss["gpt_neo", "swish"]) / 2
    expected = stats.ttest_rel(group, loss["gpt_neo", "gelu"])
    (found,) = (
        c for c in report["contrasts"] if (c["benchmark"], c["family"]) == ("held-out-loss", "gpt_neo")
    )
    assert [found["p"], found["df"]] == pytest.approx([expected.pvalue, expected.df])
    # The last cell is missing, so its seed's partners are left out and named.
    text = text_of(study)
    assert "roberta gelu seed 3" in text[text.index("Without a partner of the same seed") :]


@pytest.mark.ci
def test_a_contrast_waits_for_levels_that_have_no_scores_yet(study: Path):
    """A report of a study at work answers what can be answered; a flag is a mistake as ever."""
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["variants"] += ["relu"]
    content["report"] |= {"contrasts": ["kan - swish", "relu+swish - gelu", "relu - kan"]}
    (study / "study.yaml").write_text(yaml.safe_dump(content))
    report = numbers_of(study)
    assert {c["contrast"] for c in report["contrasts"]} == {"kan - swish"}
    text = text_of(study)
    for contrast in ("relu+swish - gelu", "relu - kan"):
        assert f"contrast `{contrast}` is left out until all of it has scores" in text
    with pytest.raises(UsageError, match="unknown variant 'relu'"):
        text_of(study, contrast=("relu - kan",))
    content["report"] |= {"contrasts": ["rleu - kan"]}
    (study / "study.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match="unknown variant 'rleu'"):
        text_of(study)


def write_config(run: RunFolder) -> None:
    """What of a run's configuration says what it is."""
    family, variant, name = run.run_id.split("/")
    config = {"family": family, "model": {"ffn": variant}, "seed": int(name[4:].split("-")[0])}
    run.config_file.write_text(yaml.safe_dump(config))


def test_a_study_of_no_evaluation_has_a_report(study: Path):
    for run in StudyFolder(study).run_folders():
        shutil.rmtree(run.eval_dir)
        write_config(run)
        run.completion_marker.write_text('{"results": {"step": 10, "eval_loss": 3.5}}')
    analysis = analyse(read_source(study))  # whose file has a margin in percentage points, as all do
    assert [str(name) for name in analysis.benchmarks] == ["held-out-loss"]


@pytest.mark.parametrize(
    "content",
    first_is_fast([b'{"a": {"b": {"c": "d"}, "e": [1]}, "f": 3}', b"", 100 * b"\0", b"[1, 2]"]),
)
@pytest.mark.ci
def test_a_damaged_file_of_one_run_stops_no_other(study: Path, content: bytes):
    run = StudyFolder(study).run_folders()[0]
    whole = read_source(study)
    run.baselines_file.write_bytes(content)
    again = read_source(study)
    analyse(again)
    pd.testing.assert_frame_equal(again.rows, whole.rows)
    run.rows_file.write_bytes(content)
    unknown = read_source(study)
    assert run.run_id not in set(unknown.rows["run_id"])
    assert [note for note in unknown.notes if note.startswith("run left out: ") and run.run_id in note]
    write_config(run)
    damaged = read_source(study)
    rows = whole.rows[(whole.rows["run_id"] != run.run_id) | (whole.rows["benchmark"] == "held-out-loss")]
    assert set(damaged.rows["run_id"]) == set(rows["run_id"])
    assert len(damaged.rows) == len(rows)
    said = [
        note for note in damaged.notes if note.startswith(f"scores left out, evaluate {run.run_id} again")
    ]
    assert len(said) == 1
    assert "\n" not in said[0]


def test_command(study: Path):
    done = run_command("report", study)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(study / "report" / "report.md")
    assert done.stdout.startswith("**Answer.** On held-out loss, ")


def test_one_run_each_claims_nothing_and_points_to_items(tmp_path: Path):
    csv = tmp_path / "scores.csv"
    csv.write_text("variant,seed,benchmark,score\ngelu,1,blimp,50\nkan,1,blimp,60\n")
    assert "Every variant has one run, which tells nothing of another training" in text_of(csv)
    csv.write_text(csv.read_text() + "kan,2,blimp,61\n")
    assert "Every variant has one run" not in text_of(csv)
