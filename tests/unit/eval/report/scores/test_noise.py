"""What a study's items tell: reading, what is left out, and the section that says where the noise is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eval.report.inputs.sources import read_source
from eval.report.scores.noise import SPREAD_OVER_SEEDS, ItemAnalysis, analyse_items
from eval.report.sections.noise import noise_section
from eval.results.rows import ROW_COLUMNS, origin_of, write_table
from eval.results.run_scores import comparable_scores, mean_scores, run_scores
from eval.results.store import ResultStore
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark
from eval.significance.compare import compare_with_baseline
from eval.significance.comparison import Comparison, Inference
from eval.significance.contrasts import Contrast
from eval.significance.factor import Relabelling

FAMILIES, VARIANTS, SEEDS = ("gpt_neo", "roberta"), ("gelu", "kan"), (1, 2, 3, 4, 5)
TASKS = {"agreement": ("syntax", 40), "order": ("syntax", 25), "number": ("morphology", 30)}
HARDNESS = {
    task: np.random.default_rng(len(task)).uniform(0.3, 0.9, size) for task, (_, size) in TASKS.items()
}
SHIFT = {"gelu": 0.0, "kan": -0.15}


def record(
    study: Path,
    identity: tuple[str, str, int],
    benchmark: str,
    task: str,
    items: pd.DataFrame,
    score: float,
    metric: str = "accuracy",
    group: str = "",
) -> None:
    """Store one task of a run as the evaluation does."""
    family, variant, seed = identity
    run_id = f"{family}/{variant}/seed{seed}-0a1b2c3d"
    row = (run_id, family, variant, seed, benchmark, task, group, metric, score, len(items), "")
    (study / run_id / "eval").mkdir(parents=True, exist_ok=True)
    items = items.assign(suite=benchmark, task=task)
    store = ResultStore(study / run_id, "weights")
    store.record(
        benchmark, task, {"name": "native"}, pd.DataFrame([row], columns=list(ROW_COLUMNS[:-1])), items
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose pairs have outcomes, and whose fine-tuned tasks have none."""
    study = tmp_path_factory.mktemp("made") / "study"
    for place, identity in enumerate((f, v, s) for f in FAMILIES for v in VARIANTS for s in SEEDS):
        generator = np.random.default_rng(place)
        for task, (group, size) in TASKS.items():
            luck = generator.normal(0, 0.04)
            right = (generator.random(size) < HARDNESS[task] + SHIFT[identity[1]] + luck).astype(float)
            right[0] = 0.5
            ids = [str(number) for number in range(size)]
            items = pd.DataFrame({"pair_id": ids, "margin": right - 0.5, "correct": right})
            record(study, identity, "pairs", task, items, 100 * right.mean(), group=group)
        labels = pd.DataFrame({"idx": ["0", "1"], "label": [0, 1], "prediction": [1, 1]})
        record(study, identity, "glue", "cola", labels, 10.0 + place, "matthews_correlation")
        unscored = pd.DataFrame({"item_id": ["0", "1"], "correct": [0.0, 1.0]})
        record(study, identity, "operations", "boxes", unscored, 40.0 + place, "weighted_accuracy")
    return study


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change, from before there were checksums."""
    folder = tmp_path / "study"
    for path in made.rglob("done.json"):
        copy, ledger = folder / path.relative_to(made), json.loads(path.read_text())
        copy.parent.mkdir(parents=True)
        copy.write_text(json.dumps({"weights": ledger["weights"], "tasks": ledger["tasks"]}))
    for path in made.rglob("*.parquet"):
        copy = folder / path.relative_to(made)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return folder


CONTRASTS = (Contrast(("kan",), ("gelu",)),)


def analysed(folder: Path) -> ItemAnalysis:
    return of_rows(folder, read_source(folder).rows)


def of_rows(folder: Path, rows: pd.DataFrame) -> ItemAnalysis:
    tasks = comparable_scores(Relabelling.of_rows(rows, "ffn").rows(rows))
    scores = mean_scores(tasks)[0]
    benchmarks = sorted(scores.benchmark.unique())
    return analyse_items(folder, tasks, scores, CONTRASTS, benchmarks, Inference())


def compared(folder: Path) -> list[Comparison]:
    """What the report says of the same scores over seeds alone."""
    scores = run_scores(read_source(folder).rows)[0]
    cells = ArmTable.of_scores(scores[scores.benchmark == "pairs"], Benchmark("pairs"))
    return compare_with_baseline(cells, "gelu", ["kan"], Inference())


def items_file(folder: Path, run: str = "roberta/kan/seed3-0a1b2c3d") -> Path:
    return folder / run / "eval" / "items" / "pairs.parquet"


def change_items(path: Path, change) -> None:
    write_table(change(pd.read_parquet(path)), path, origin_of(path) or {})


@pytest.mark.slow
def test_only_benchmarks_that_are_means_over_items_are_analysed(made: Path):
    found = analysed(made)
    assert found.benchmarks == (Benchmark("pairs"),)
    assert found.notes == ()
    assert {c.num_items for c in found.comparisons} == {95}


@pytest.mark.ci
def test_estimates_and_standard_errors_over_seeds_are_those_of_the_scores(made: Path):
    found = analysed(made)
    assert [c.family for c in found.comparisons] == [None, "gpt_neo", "roberta"]
    for item, seeds in zip(found.comparisons, compared(made), strict=True):
        assert (item.contrast, item.family, item.families) == (seeds.contrast, seeds.family, seeds.families)
        assert [item.estimate, item.standard_error_seeds] == pytest.approx(
            [seeds.estimate, seeds.standard_error]
        )
        assert item.low < item.estimate < item.high < 0
    spread = next(c.sd_of_score for c in found.components if c.source == SPREAD_OVER_SEEDS)
    scores = run_scores(read_source(made).rows)[0]
    cells = scores[scores.benchmark == "pairs"].groupby(["family", "variant"]).score
    assert spread == pytest.approx(np.sqrt(cells.var().mean()))


def test_standard_error_over_items_is_that_of_the_files(made: Path):
    differences = {}
    for task, (_, size) in TASKS.items():
        of_item = np.zeros(size)
        for variant, sign in (("kan", 1), ("gelu", -1)):
            for seed in SEEDS:
                items = pd.read_parquet(items_file(made, f"gpt_neo/{variant}/seed{seed}-0a1b2c3d"))
                of_item += sign * 100 * items[items.task == task].correct.to_numpy() / len(SEEDS)
        differences[task] = of_item.var() / size
    found = next(c for c in analysed(made).comparisons if c.family == "gpt_neo")
    assert found.standard_error_items == pytest.approx(np.sqrt(sum(differences.values())) / 3, rel=0.08)


def test_order_of_items_is_irrelevant(made: Path, study: Path):
    for path in sorted(study.glob("*/*/*/eval/items/pairs.parquet"))[::3]:
        change_items(path, lambda items: items.sample(frac=1, random_state=1))
    assert analysed(study) == analysed(made)


def test_order_of_runs_is_irrelevant(made: Path):
    rows = read_source(made).rows
    tasks = comparable_scores(Relabelling.of_rows(rows, "ffn").rows(rows)).sample(frac=1, random_state=2)
    scores = mean_scores(tasks)[0].sample(frac=1, random_state=3)
    found = analyse_items(made, tasks, scores, CONTRASTS, [Benchmark("pairs")], Inference())
    assert found == analysed(made)


def test_repeated_ids_pair_up_in_the_order_of_the_file(made: Path, study: Path):
    for path in study.glob("*/*/*/eval/items/pairs.parquet"):
        change_items(path, lambda items: items.assign(pair_id="0"))
    found, expected = (
        [value for c in analysed(folder).components for value in (c.sd, c.sd_of_score) if value is not None]
        for folder in (study, made)
    )
    assert found == pytest.approx(expected)


def test_other_items_leave_the_benchmark_out_and_are_named(study: Path):
    change_items(items_file(study), lambda items: items.assign(pair_id=items.pair_id + "x"))
    found = analysed(study)
    assert found.benchmarks == ()
    assert found.notes == (
        "pairs: gpt_neo/gelu/seed1-0a1b2c3d and roberta/kan/seed3-0a1b2c3d were scored on different items, "
        "so where its noise is was not analysed",
    )
    assert noise_section(found, ()) == ""


@pytest.mark.parametrize("content", [None, b"PAR1 cut off"])
def test_unreadable_items_are_named(study: Path, content: bytes | None):
    path = items_file(study)
    path.unlink() if content is None else path.write_bytes(content)
    (note,) = analysed(study).notes
    assert note.startswith("pairs: no readable items of roberta/kan/seed3-0a1b2c3d,")


def test_runs_without_a_score_are_not_needed(study: Path):
    rows = study / "roberta/kan/seed3-0a1b2c3d/eval/rows.parquet"
    change_items(rows, lambda table: table[table.task != "order"])
    items_file(study).unlink()
    found = analysed(study)
    assert found.notes == ()
    assert found.benchmarks == (Benchmark("pairs"),)


def test_tasks_outside_the_score_are_left_out(made: Path, study: Path):
    extra = pd.DataFrame({"pair_id": ["0", "1"], "correct": [1.0, 1.0]})
    record(study, ("gpt_neo", "gelu", 1), "pairs", "rare", extra, 100.0)
    assert analysed(study) == analysed(made)


def test_a_table_has_no_items(tmp_path: Path):
    path = tmp_path / "scores.csv"
    lines = [f"gpt_neo,{v},{s},blimp,{70 + s}" for v in VARIANTS for s in SEEDS]
    path.write_text("family,variant,seed,benchmark,score\n" + "\n".join(lines))
    found = analysed(path)
    assert found == ItemAnalysis()
    assert noise_section(found, ()) == ""


def test_scopes_without_a_run_are_left_out(study: Path):
    for seed in SEEDS:
        folder = study / f"roberta/kan/seed{seed}-0a1b2c3d/eval"
        change_items(folder / "rows.parquet", lambda table: table[table.benchmark != "pairs"])
    assert [c.family for c in analysed(study).comparisons] == ["gpt_neo"]


def test_section_says_where_the_noise_is(made: Path):
    found = analysed(made)
    comparisons = compared(made)
    text = noise_section(found, comparisons)
    assert text.startswith("## Where the noise is\n\n")
    sources = {c.source: c for c in found.components}
    item, spread = sources["items"], sources[SPREAD_OVER_SEEDS]
    assert f"| items | {item.sd:.1f} → {item.sd_of_score:.2f} |" in text
    assert f"| {SPREAD_OVER_SEEDS} | **{spread.sd_of_score:.2f}** |" in text
    assert f"| phenomena | {sources['phenomena'].sd:.1f} |" in text
    both = next(c for c in found.comparisons if c.family is None)
    seeds = next(c for c in comparisons if c.family is None)
    assert seeds.digits == 1  # the spread over seeds is above one point
    assert (
        f"| `kan - gelu` | averaged | {both.estimate:+.1f} | [{seeds.low:+.1f}, {seeds.high:+.1f}] "
        f"| [{both.low:+.1f}, {both.high:+.1f}] "
        f"| {both.standard_error_seeds:.1f} | {both.standard_error_items:.1f} |"
    ) in text
    assert "pairs: seeds and items (95 items)" in text
    assert "no effect" not in text


def test_one_run_gives_no_interval_over_items(study: Path):
    for path in study.glob("*/*/seed[2-9]-*/eval/rows.parquet"):
        path.unlink()
    found = analysed(study)
    assert {c.low for c in found.comparisons} == {None}
    assert all(c.standard_error_items > 0 for c in found.comparisons)
    kan = next(line for line in noise_section(found, ()).splitlines() if line.startswith("| `kan - gelu`"))
    assert kan.split(" | ")[3:5] == ["-", "-"]
