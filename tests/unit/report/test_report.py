"""The report of every kind of source: its numbers, words and files, and parts of one's own."""

import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import report.parts
from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from report.analysis import Analysis
from report.command import main
from report.compute import analyse
from report.inputs.sources import read_source, source_of_frame
from report.page import answer, next_steps
from report.part import NextStep, Part
from report.parts import PARTS
from report.request import Request
from report.verdicts.findings import by_standing
from report.write import write_report
from scores.store import write_baselines
from tests.cases import listed
from tests.unit.report.studies import analysed, change_plan, numbers, render, table, write_plan
from tests.unit.report.studies import write_run as write_run_folder
from tests.unit.report.tuned_study import tune, write_study

FAMILIES, VARIANTS, SEEDS = ("gpt_neo", "roberta"), ("gelu", "kan", "swish"), (1, 2, 3)
TASKS = {"embedded-pairs": [(task, "syntax", "accuracy") for task in ("agreement", "order")]}
TASKS["embedded-glue"] = [("acceptability", "GLUE", "accuracy")]
SHIFT = {"gelu": 0.0, "kan": -8.0, "swish": 0.2}


def write_run(study: Path, family: str, variant: str, seed: int, tag: str = "0a1b2c3d") -> None:
    """One run folder with scores from a fixed generator; the end of its log is torn."""
    generator = np.random.default_rng([FAMILIES.index(family), VARIANTS.index(variant), seed])
    tasks = [(benchmark, *task) for benchmark, own in TASKS.items() for task in own]
    scores = [(*task, round(70 + SHIFT[variant] + generator.normal(), 2)) for task in tasks]
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
    return analysed(made)


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return shutil.copytree(made, tmp_path / "tiny-study")


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
    assert f"{better}; 1 of 4 comparisons is within margin (" in first
    assert "; 2 of 4 comparisons are undecided (" in first
    pairs = scores_of(made, "embedded-pairs").groupby(["family", "variant"]).mean()
    worse = np.mean([pairs[family, "gelu"] - pairs[family, "kan"] for family in FAMILIES])
    averaged = "On embedded-pairs, averaged over GPT-Neo and RoBERTa,"
    assert f"{averaged} `kan` is worse than `gelu` by {worse:.2f} points" in first
    assert "no effect" not in text
    # The last cell is missing, and named.
    assert "3 scores are missing" in text
    assert re.search(r"\b0\.02 nats on held-out loss; 1 points on embedded-pairs and", text)
    assert "| held-out loss | RoBERTa | `swish` | 3 |" in text
    assert "| embedded-glue | RoBERTa | `swish` | 3 |" in text
    # Facts of the runs.
    (cost,) = (x for x in text.splitlines() if x.startswith("| GPT-Neo | `kan` | 650,000 | 100,000 |"))
    assert "| +30.0% |" in cost
    shown = f"{kan:.{digits}f} ± {loss['roberta', 'kan'].std(ddof=1):.{digits}f} (3)"
    assert f"| RoBERTa | `kan` | {shown} |" in text
    assert "trained with torch 2.13.0, commit abcdef0, on cpu (runs: 17)" in text


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.ci
def test_files_are_linked_well_formed_and_repeat_byte_for_byte(made, tmp_path, capsys):
    out = tmp_path / "out"
    main([str(made), "--out", str(out)])
    printed = capsys.readouterr().out
    assert printed.startswith("**Answer.** On held-out loss, ")
    assert printed.splitlines()[-1] == str(out / "report.md")
    text = (out / "report.md").read_text()
    assert f"ffn-ablations report {made} --out {out} --baseline gelu --margin" in text
    links = re.findall(r"!\[([^\]]+)\]\((figures/[^)]+\.svg)\)", text)
    drawn = {Path(link).stem for _, link in links}
    assert drawn >= {"forest", "seeds", "cost"}
    assert not [name for name in drawn if name.startswith("forest-")]  # all three are in the first one
    assert {path.stem for path in (out / "figures").glob("*.svg")} == drawn
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
    row = r"\| group \| task \|.*\| constant answer \|\n.*\n\| GLUE \| acceptability \|.*\| 61\.5 \|"
    assert re.search(row, render(found))
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
    assert re.search(r"\*\*Data checks\*\*[^#]*gelu/seed1-ffffffff", render(found))
    (study / "study.yaml").unlink()
    with pytest.raises(UsageError, match=r"gpt_neo gelu seed 1 has 2 runs .*move the others out"):
        read_source(study)


def test_an_arm_of_one_run_has_a_mean_and_nothing_inferred():
    arms = {("f", "gelu"): [60.0, 61.0, 62.0], ("f", "relu"): [61.0, 62.0, 63.0], ("f", "kan"): [63.4]}
    text = render(analysed(table(arms)))
    assert "not estimable: one run only of f kan" in text
    assert "| f | `kan` | 63.4 (1) |" in text


def test_what_a_variant_was_never_run_on_is_no_comparison():
    rng = np.random.default_rng(0)
    names = {"blimp": ("gelu", "kan", "silu"), "glue": ("gelu", "silu")}
    arms = {x: {("gpt_neo", name): rng.normal(60, 1, 5) for name in own} for x, own in names.items()}
    found = analysed(pd.concat(table(cells, benchmark) for benchmark, cells in arms.items()))
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
    text = render(analysed(table(arms, "x"), baseline="a"))
    assert "x: all runs of f b score exactly 50," in text
    assert "`b` is worse than `a` by 11.00 points" in text
    assert "`a` | 61.0 ± 1.0" in text


@pytest.mark.ci
def test_a_contrast_waits_for_levels_that_have_no_scores_yet(study: Path):
    """A report of a study at work answers what can be answered; a flag is a mistake as ever."""
    contrasts = ["kan - swish", "relu+swish - gelu", "relu - kan"]
    report = {"contrasts": contrasts, "paired": True, "margin": 2.0}
    change_plan(study, variants=[*VARIANTS, "relu"], report=report)
    found = analysed(study)
    assert found.inference.paired
    assert numbers(found)["outcome_definitions"]["embedded-glue"]["margin"] == 2.0
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
    assert said in render(analysed(table(arms)))
    arms["f", "kan"].append(61.0)
    assert said not in render(analysed(table(arms)))


MOST_WORDS = 1_000
PAGE_FAMILIES, PAGE_VARIANTS = ("gpt_neo", "roberta"), ("gelu", "kan", "relu", "silu")


def frame(seed: int, runs: int = 4, shift: float = 0.0) -> pd.DataFrame:
    """Two families and three metrics; relu's scores are off by a shift."""
    rng = np.random.default_rng(seed)
    rows = [
        (family, variant, run, metric, 60 + (variant == "relu") * shift + rng.normal())
        for family in PAGE_FAMILIES
        for variant in PAGE_VARIANTS
        for run in range(runs)
        for metric in ("blimp", "glue", "ewok")
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


def named(source: str, folder: Path) -> Analysis:
    if source == "tuned study":
        return analysed(write_study(folder, tune()))
    if source == "study over sizes":
        return analysed(write_study(folder, tune(sizes=("0.1M", "0.5M"))))
    if source == "contrasts":
        return with_contrasts()
    primary = ("blimp",) if source == "exploratory metrics" else ()
    return analysed(frame(0, shift=3.0), primary=primary)


@cache
def with_contrasts() -> Analysis:
    asked = Request(contrast=("relu - kan+silu", "kan - silu"))
    return analyse(source_of_frame(frame(0, shift=3.0)), asked)


MADE = ("tuned study", "study over sizes", "two families", "exploratory metrics", "contrasts")
PUBLISHED = ("table5", "all_seeds")


@pytest.fixture(scope="module", params=(*MADE, *PUBLISHED))
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    if request.param in PUBLISHED:
        shared = request.getfixturevalue("shared_data")
        return analysed(shared / "thesis" / f"{request.param}.csv")
    return named(request.param, tmp_path_factory.mktemp("page") / "study")


def before_folds(text: str) -> str:
    """What is read without opening anything: of each fold its line."""
    depth, kept = 0, []
    for piece in re.split(r"(<details>|</details>)", text):
        if piece == "<details>":
            depth += 1
        elif piece == "</details>":
            depth -= 1
        elif depth == 0:
            kept.append(piece)
        elif depth == 1 and (line := re.match(r"<summary>(.*?)</summary>", piece)):
            kept.append(line[1])
    return "\n".join(kept)


def test_a_page_is_short_and_has_one_answer(page: Analysis):
    text = before_folds(render(page, {"forest": "Forest plot."}))
    assert len(text.split()) <= MOST_WORDS
    assert text.count("**Answer.**") == 1
    assert text.index("**Answer.**") < text.index("| --- |") < text.index("figures/forest.svg")


def test_the_best_of_many_variants_are_on_the_page_and_the_others_are_folded():
    variants, rng = ["gelu", *(f"v{n}" for n in range(49))], np.random.default_rng(0)
    rows = [("f", v, s, m, rng.normal(60)) for v in variants for s in (1, 2) for m in ("blimp", "glue")]
    scores = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    page = analysed(scores)
    text = render(page, {"forest": "Forest plot."})
    assert len(before_folds(text).split()) <= MOST_WORDS
    means = scores[scores.benchmark == str(by_standing(page)[0])].groupby("variant").score.mean()
    listed = re.findall(r"^\| `(\w+)` \|", text[: text.index("figures/forest.svg")], re.MULTILINE)
    assert listed == ["gelu", *means.drop("gelu").sort_values(ascending=False).index]
    seen = re.findall(r"^\| `(\w+)` \|", before_folds(text), re.MULTILINE)
    assert 20 < len(seen) < 50
    assert seen == listed[: len(seen)]


def test_nothing_is_bold_but_what_is_shown_and_corrected(page: Analysis):
    """Bold words in tables are verdicts, as many as comparisons that have them."""
    tables = [line for line in render(page).splitlines() if line.startswith("| ")]
    bold = [word for line in tables for word in re.findall(r"\*\*([^*]+)\*\*", line)]
    shown = {"better", "worse", "equivalent", "better (negligible)", "worse (negligible)"}
    assert set(bold) <= shown
    if not any(c.is_different for c in (*page.comparisons, *page.contrasts) if c.is_primary):
        assert not {word for word in bold if word.startswith(("better", "worse"))}


def test_a_pair_has_one_interval_and_one_verdict_on_the_page(page: Analysis):
    """Every interval of differences is one of a comparison, and none stands beside another of its pair."""
    text = render(page)
    corrected = [*page.comparisons, *page.contrasts]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    for variant in page.others:
        own = {c.verdict for c in corrected if c.is_primary and str(c.contrast.compared) == str(variant)}
        words = {cell.strip("*| ") for row in rows if row[0] == f"| `{variant}`" for cell in row}
        said = words & {"better", "worse", "undecided", "equivalent", "within margin"}
        assert said <= own, variant


def test_whoever_a_sentence_names_has_the_size_that_it_says(page: Analysis):
    sizes = {
        (str(c.contrast.compared), f"{value:.{c.digits}f}")
        for c in (*page.comparisons, *page.contrasts)
        for value in (abs(c.estimate or 0.0), c.largest_remaining or 0.0)
    }
    pattern = re.compile(
        r"`([^`]+)`(?: \(of surviving runs\))?"
        r"(?: is (?:better|worse) than `[^`]+` by| by| may still differ by up to"
        r"| is undecided \(it may still differ by up to) ([\d.]+)"
    )
    for sentence in answer(page):
        pairs = set(pattern.findall(sentence))
        assert pairs <= sizes, sentence
        assert pairs or " by " not in sentence


def test_contrasts_asked_for_are_in_the_answer():
    found = with_contrasts()
    sentences = [x for x in answer(found) if x.startswith("Of the other contrasts, ")]
    assert len(sentences) == len(found.primary)
    for sentence, benchmark in zip(sentences, found.primary, strict=True):
        first, second = (c for c in found.contrasts if c.benchmark == benchmark and c.is_primary)
        assert (first.verdict, second.verdict) == ("better", "undecided")
        assert f"`relu` is better than `kan+silu` by {first.estimate:.{first.digits}f} points" in sentence
        assert "undecided: `kan - silu`" in sentence


@pytest.mark.parametrize(
    ("shift", "said"),
    [(2.75, "is opposite: -2.75 in x and +2.75 in y"), (-0.5, "is not the same"), (-2.75, "")],
)
def test_families_that_differ_are_told_and_no_seeds_are_proposed_where_they_cancel(shift: float, said: str):
    noise = 0.3 * stats.zscore(np.arange(5.0), ddof=1)
    shifts = {("x", "gelu"): 0, ("x", "a"): -2.75, ("y", "gelu"): 1, ("y", "a"): 1 + shift}
    analysis = analysed(table({arm: 60 + level + noise for arm, level in shifts.items()}))
    sentences = answer(analysis)
    assert said in " ".join(sentences)
    assert len(sentences) == 1 + bool(said)
    assert not next_steps(analysis)


def test_only_steps_that_decide_are_proposed_the_most_for_each_run_first():
    def step(name: str, power: float, num_runs: int) -> NextStep:
        return NextStep(text=name, compared="`kan`", command="--seeds 1-9", power=power, num_runs=num_runs)

    steps = (step("many runs", 0.8, 40), step("hardly ever", 0.4, 1), step("few runs", 0.6, 10))
    part = Part(name="mine", compute=bool, section=lambda *_: None, steps=lambda *_: steps)
    found = replace(analysed(frame(0)), parts=(part,), results={"mine": True})
    first, second, *care = next_steps(found)
    assert first.startswith("few runs (10 runs) would show a difference of `kan` in at least 60% of studies")
    assert second.startswith("many runs (40 runs)")
    assert care == ["Added runs are a second reading (docs/statistics.md)."]
    design = replace(found.source.design, written=True, typed="my.yaml --trust-remote-code")
    first, *_ = next_steps(replace(found, source=replace(found.source, design=design)))
    assert first.endswith(": `ffn-ablations study run my.yaml --trust-remote-code --seeds 1-9`.")


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    arms = {("f", name): rng.normal(60, 1, 4).tolist() for name in ("gelu", "kan")}
    table(arms, "b").to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv"


@pytest.fixture
def part(tmp_path: Path, repository: Path) -> Path:
    """The page's example."""
    page = (repository / "docs" / "adding-a-part.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "steadiness.py"
    file.write_text(code)
    return file


def test_the_example_of_the_page_is_in_every_file_of_the_report(scores: Path, part: Path, tmp_path: Path):
    out = tmp_path / "out"
    write_report(scores, out, Request(part=(f"{part}:PART",)))
    expected = pd.read_csv(scores).groupby("variant").score.std()
    written = pd.read_csv(out / "tables" / "steadiness.csv").set_index("variant").sd
    assert written.to_dict() == pytest.approx(expected.to_dict())
    rows = json.loads((out / "report.json").read_text())["steadiness"]
    assert [row["sd"] for row in rows] == pytest.approx([expected["gelu"], expected["kan"]])
    text = (out / "report.md").read_text()
    assert f"<summary>Steadiness: smallest for <code>{expected.idxmin()}</code></summary>" in text
    assert "(figures/steadiness.svg)" in text
    assert f"--part {part}:PART" in text
    assert (out / "figures" / "steadiness.svg").exists()
    assert "Steadiness" in (out / "report.html").read_text()


@pytest.mark.parametrize(("content", "place", "message"), listed(__file__, "files without a part"))
def test_a_file_that_holds_no_part_is_told_in_one_line(scores, tmp_path, content, place, message):
    if content is not None:
        (tmp_path / place.split(":")[0]).write_text(content)
    with pytest.raises(UsageError, match=message):
        analysed(scores, part=(f"{tmp_path / place}",))


@pytest.mark.parametrize(("made", "message"), listed(__file__, "parts that forget"))
def test_what_a_part_forgets_or_takes_from_another_is_named_and_nothing_written(
    scores: Path, tmp_path: Path, made: str, message: str
):
    (tmp_path / "mine.py").write_text(
        "from matplotlib.figure import Figure\n"
        "from report.part import Part, Section\n"
        "def section(analysis, result, page):\n"
        "    return Section(title='Mine', summary='', body='')\n"
        f"PART = Part(name='mine', compute=lambda a: True, section=section, {made})\n"
    )
    with pytest.raises(UsageError, match=message):
        write_report(scores, tmp_path / "out", Request(part=(f"{tmp_path / 'mine.py'}:PART",)))
    assert not (tmp_path / "out").exists()


def test_every_file_of_parts_is_in_the_list():
    files = [import_module(f"report.parts.{found.name}") for found in iter_modules(report.parts.__path__)]
    forgotten = [file.__name__ for file in files if getattr(file, "PART", None) not in PARTS]
    assert not forgotten, f"not in PARTS of report/parts/__init__.py: {forgotten}"
    assert len({part.name for part in PARTS}) == len(PARTS)
