"""Studies and tables with axes, whose settings are what families are; and studies that grow."""

import shutil
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from base.errors import UsageError
from report.analysis import Analysis
from report.document.markdown import family_label
from report.inputs.sources import read_source
from report.page import answer
from report.parts.methods import methods_text
from report.significance.axes import Benchmark, Setting, in_order
from report.significance.comparison import Comparison
from report.statistics.looks import nominal_levels
from report.write import number_tables
from slurm.cell_state import CellState, write_state
from tests.cases import listed
from tests.unit.report.studies import analysed, change_plan, numbers, render, write_plan, write_run

FAMILIES, SIZES, SEEDS = ("gpt_neo", "roberta"), ("0.1M", "0.5M", "2M"), (1, 2, 3)
SMALL, LARGE = "kan grid_size=3", "kan grid_size=5"
LEVELS = ("gelu", SMALL, LARGE)
LEAD = {"gelu": 0.0, SMALL: 0.3, LARGE: 0.02}
"""Nats below gelu's loss at the smallest size, halved at the next and gone at the largest."""
LOSS, PAIRS = Benchmark("held-out-loss"), Benchmark("embedded-pairs")
SETTINGS = tuple(Setting(family, (("size", size),)) for family, size in product(FAMILIES, SIZES))


def run_id_of(family: str, level: str, size: str, seed: int) -> str:
    return f"{family}/{level.split()[0]}/seed{seed}-{LEVELS.index(level):04x}{SIZES.index(size):04x}"


def loss_of(family: str, level: str, size: str, seed: int) -> float:
    rng = np.random.default_rng([FAMILIES.index(family), LEVELS.index(level), SIZES.index(size), seed])
    lead = LEAD[level] * (1, 0.5, 0)[SIZES.index(size)]
    return 3.0 - 0.4 * SIZES.index(size) + 0.5 * FAMILIES.index(family) - lead + 0.01 * rng.normal()


def write_cell(study: Path, run_id: str, loss: float, num_parameters: int = 100_000) -> None:
    """A run of some loss, whose scores are the better the lower it is."""
    rng = np.random.default_rng(int(1e6 * loss))
    tasks = ("one", "other")
    scores = [(PAIRS.name, task, "syntax", "accuracy", 70 - 5 * loss + rng.normal()) for task in tasks]
    log = [
        {"step": step, "tokens": 100 * step, "eval_loss": loss + above, "grad_norm": 1 / step, "time_s": step}
        for step, above in ((50, 0.4), (100, 0.0))
    ]
    record = {"parameters": {"total": num_parameters}, "results": {"time_s": 66, "compile_s": 6}}
    write_run(study, run_id, log, record, scores)


Cell = tuple[str, str, str, int]


def plan_of(cells: Mapping[str, Cell]) -> dict[str, Any]:
    """What a study's file says of its cells and their levels."""
    levels = {run_id: {"variant": level, "size": size} for run_id, (_, level, size, _) in cells.items()}
    sizes = list(dict.fromkeys(size for _, _, size, _ in cells.values()))
    variants = list(dict.fromkeys(level for _, level, _, _ in cells.values()))
    return {"variants": variants, "axes": {"size": sizes}, "levels": levels}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 2 families, 3 sizes, 3 variants and 3 seeds, which no test changes."""
    folder = tmp_path_factory.mktemp("settings") / "ladder"
    cells = {run_id_of(*cell): cell for cell in product(FAMILIES, LEVELS, SIZES, SEEDS)}
    for run_id, cell in cells.items():
        write_cell(folder, run_id, loss_of(*cell), int(1e6 * float(cell[2][:-1])))
    margins = {"margins": {"held-out-loss": 0.05}}
    return write_plan(folder, cells, benchmarks=[PAIRS.name], report=margins, **plan_of(cells))


SMALL_CELLS = {run_id_of(*cell): cell for cell in product(("gpt_neo",), LEVELS[:2], SIZES[:2], SEEDS)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A study of 2 sizes and 2 variants without scores, which a test may change."""
    for run_id, cell in SMALL_CELLS.items():
        write_run(tmp_path / "small", run_id, [{"step": 100, "eval_loss": loss_of(*cell)}])
    return write_plan(tmp_path / "small", SMALL_CELLS, **plan_of(SMALL_CELLS))


@pytest.fixture(scope="module")
def found(made: Path) -> Analysis:
    return analysed(made)


@pytest.fixture(scope="module")
def by_size(made: Path) -> Analysis:
    return analysed(made, factor="size", baseline="0.5M")


def losses(family: str, level: str, size: str) -> np.ndarray:
    return np.array([loss_of(family, level, size, seed) for seed in SEEDS])


def compared(comparisons: Sequence[Comparison], level: str) -> Comparison:
    (c,) = (c for c in comparisons if c.contrast.compared == level)
    return c


def test_losses_are_compared_in_each_setting(found: Analysis):
    assert found.families == SETTINGS
    assert found.variants == LEVELS
    assert found.missing.empty
    for level, setting in product(LEVELS[1:], SETTINGS):
        own, base = (losses(setting.family, v, setting.places[0][1]) for v in (level, "gelu"))
        c = compared(found.of(LOSS, setting), level)
        expected = stats.ttest_ind(own, base, equal_var=False)
        assert [c.p, c.df] == pytest.approx([expected.pvalue, expected.df])
        assert c.estimate == pytest.approx(own.mean() - base.mean())


def test_the_levels_of_an_axis_are_compared_within_family_and_variant(by_size: Analysis):
    assert by_size.variants == ("0.5M", "0.1M", "2M")
    strata = [Setting(family, (), level) for family, level in product(FAMILIES, LEVELS)]
    assert by_size.families == tuple(strata)
    assert by_size.missing.empty
    assert not by_size.inference.paired
    for stratum in strata:
        c = compared(by_size.of(LOSS, stratum), "2M")
        arms = [losses(stratum.family, stratum.variant, size) for size in ("2M", "0.5M")]
        expected = stats.ttest_ind(*arms, equal_var=False)
        assert [c.estimate, c.p] == pytest.approx([arms[0].mean() - arms[1].mean(), expected.pvalue])
    assert {facts.variant for facts in by_size.facts} == set(SIZES)
    assert {facts.train_hours for facts in by_size.facts} == {60 / 3600}  # compiling left out
    assert by_size.noun == "size"


def test_tables_have_a_column_for_each_axis(found: Analysis, by_size: Analysis):
    tables = number_tables(found)
    for name in ("scores", "seeds", "comparisons", "training", "learning_curves", "cost"):
        columns = list(tables[name].columns)
        assert columns[columns.index("family") + 1] == "size", name
    seeds = tables["seeds"]
    assert len(seeds[seeds.benchmark == str(LOSS)]) == 54
    for row in seeds[seeds.benchmark == str(LOSS)].itertuples():
        assert row.run_id == run_id_of(row.family, row.variant, row.size, row.seed)
        assert row.score == pytest.approx(loss_of(row.family, row.variant, row.size, row.seed))
    over = tables["comparisons"]
    assert set(over["size"].dropna()) == set(SIZES)
    assert over[over.family.isna()]["size"].isna().all()
    report = numbers(found)
    assert report["axes"] == {"size": list(SIZES)}
    assert report["families"] == [f"{family} {size}" for family, size in product(FAMILIES, SIZES)]
    as_levels = number_tables(by_size)["scores"]
    assert "size" not in as_levels.columns
    assert set(as_levels.variant) == set(SIZES)


def test_runs_of_other_stages_are_told_apart(small: Path):
    tuned, shared = "gpt_neo/swish/seed101-aaaaaaaa", "gpt_neo/swish/seed1-bbbbbbbb"
    both = run_id_of("gpt_neo", SMALL, "0.5M", 1)
    plain = read_source(small)
    assert plain.stages == {}
    write_run(small, tuned, [{"step": 100, "eval_loss": 4.0}])
    write_run(small, shared, [{"step": 100, "eval_loss": 5.0}])
    swish = {"variant": "swish", "size": "0.1M"}
    of_both = {tuned: {**swish, "optim.learning_rate": "0.01"}, shared: swish}
    levels = plan_of(SMALL_CELLS)["levels"] | of_both
    stages = {"tune": [tuned], "shared": [shared, both], "main": [both]}
    change_plan(small, cells=list(levels), levels=levels, stages=stages)
    source = read_source(small)
    assert not [note for note in source.notes if "left out" in note]
    (tune,) = source.stages["tune"]
    assert (tune.family, tune.variant, tune.seed) == ("gpt_neo", "swish", 101)
    assert tune.places == (("size", "0.1M"), ("optim.learning_rate", "0.01"))
    assert tune.eval_loss == 4.0
    assert [run.run_id for run in source.stages["shared"]] == [shared, both]
    assert source.stages["shared"][1].eval_loss == loss_of("gpt_neo", SMALL, "0.5M", 1)
    pd.testing.assert_frame_equal(source.rows, plain.rows)
    assert source.facts == plain.facts


def test_failed_runs_count_in_their_setting(small: Path):
    lost = run_id_of("gpt_neo", SMALL, "0.5M", 3)
    shutil.rmtree(small / lost)
    write_state(small, lost, CellState(name="failed", error="out of memory"))
    found = analysed(small)
    assert [family_label(family) for family in found.families] == ["0.1M", "0.5M"]
    at_tenth, at_half = found.families
    own = [(c.family, c.variant, c.num_runs) for c in found.failures if c.num_failed and c.family is not None]
    assert own == [(at_half, SMALL, 3)]
    failed = {c.family: c.num_failed for c in found.comparisons if c.family is not None}
    assert failed == {at_tenth: 0, at_half: 1}


def frame() -> pd.DataFrame:
    cells = list(product(FAMILIES, LEVELS, SIZES, SEEDS))
    table = pd.DataFrame(cells, columns=["family", "variant", "size", "seed"])
    return table.assign(benchmark="loss", metric="eval_loss", score=[loss_of(*cell) for cell in cells])


def test_columns_of_a_table_are_axes_where_that_is_asked_for(found: Analysis, tmp_path: Path):
    frame().to_csv(tmp_path / "scores.csv", index=False)
    of_table = analysed(tmp_path / "scores.csv", axis=("size",))
    assert of_table.families == SETTINGS
    own = {(str(c.contrast), c.family): c.estimate for c in of_table.comparisons}
    of_losses = [c for c in found.comparisons if c.benchmark == LOSS]
    assert own == pytest.approx({(str(c.contrast), c.family): c.estimate for c in of_losses})
    with pytest.raises(UsageError, match=r"rows of one run differ in size, .* --columns task=size"):
        analysed(tmp_path / "scores.csv")


def test_losses_of_two_families_have_no_average_and_one_sentence(found: Analysis):
    assert found.scopes(LOSS) == list(SETTINGS)
    of_small = [compared(found.of(LOSS, setting), SMALL) for setting in SETTINGS]
    assert of_small[0].is_primary
    (sentence,) = (text for text in answer(found) if text.startswith("On held-out loss"))
    shown = [c for c in of_small if c.is_different and c.is_better]
    assert len(shown) > 1
    least = min(shown, key=lambda c: abs(c.estimate or 0.0))
    size = f"{abs(least.estimate or 0.0):.{least.digits}f} nats or more in {len(shown)} of 6 settings"
    assert f"`{SMALL}` is better than `gelu` by {size}" in sentence
    assert "A setting is one family at one level of size" in render(found)


def test_sizes_of_one_family_are_averaged_in_nats():
    table = frame()
    found = analysed(table[table.family == "gpt_neo"], axis=("size",))
    c = compared(found.overall(Benchmark("loss")), SMALL)
    small, gelu = ([losses("gpt_neo", level, size).mean() for size in SIZES] for level in (SMALL, "gelu"))
    assert c.estimate == pytest.approx(np.mean(small) - np.mean(gelu))
    assert c.unit == "nats"
    assert "averaged over 3 sizes" in " ".join(answer(found))
    assert [family_label(family) for family in found.families] == list(SIZES)


@pytest.mark.parametrize(("change", "said"), listed(__file__, "plans that cannot be"))
def test_a_plan_that_cannot_be_is_one_line(tmp_path: Path, change: dict[str, Any], said: str):
    run_id = run_id_of("gpt_neo", "gelu", "0.1M", 1)
    write_run(tmp_path, run_id)
    write_plan(tmp_path, [run_id], **{"axes": {"size": list(SIZES)}, **change})
    with pytest.raises(UsageError, match=said):
        read_source(tmp_path)


def test_settings_are_named_for_readers():
    places = (("size", "0.5M"), ("tokens", "4M"), ("optim.learning_rate", "0.003"))
    setting = Setting("gpt_neo", places)
    assert str(setting) == "gpt_neo 0.5M, 4M tokens, learning_rate 0.003"
    assert family_label(setting) == "GPT-Neo 0.5M, 4M tokens, learning_rate 0.003"
    alone = Setting("gpt_neo", places[:1], is_of_only_family=True)
    assert family_label(alone) == "0.5M"
    assert family_label(Setting("gpt_neo", (), "kan")) == "GPT-Neo / kan"
    alike = (("a.x", "1"), ("b.x", "2"))
    assert str(Setting("gpt_neo", alike)) == "gpt_neo a.x 1, b.x 2"


def test_levels_that_nobody_sorted_are_in_order_of_size():
    assert in_order(["2M", "10M", "500K", "1B"]) == ("500K", "2M", "10M", "1B")
    assert in_order(["0.003", "1e-4"]) == ("1e-4", "0.003")
    assert in_order(["small", "10M", "large"]) == ("10M", "large", "small")


SHIFTS = {"gelu": 0.0, "kan": -4.0, "relu": 0.0}


def study_of(folder: Path, num_seeds: int, **report: Any) -> Path:
    """A study of one family and one benchmark that has come to so many seeds."""
    generator, run_ids = np.random.default_rng(7), []
    for seed in range(1, num_seeds + 1):
        for variant, shift in SHIFTS.items():
            run_ids.append(f"gpt_neo/{variant}/seed{seed}-0a1b2c3d")
            score = ("blimp", "agreement", "a", "accuracy", 70 + shift + generator.normal())
            write_run(folder, run_ids[-1], scores=[score])
    return write_plan(folder, run_ids, report={"baseline": "gelu", "margin": 1.0, **report})


def kan(analysis: Analysis) -> Comparison:
    return next(c for c in analysis.comparisons if str(c.contrast) == "kan - gelu")


@pytest.mark.ci
@pytest.mark.parametrize(("num_seeds", "path"), [(3, (3,)), (4, (3, 4)), (6, (3, 6))])
def test_planned_looks_are_tested_at_their_own_levels(tmp_path: Path, num_seeds: int, path: tuple[int, ...]):
    found = analysed(study_of(tmp_path / "s", num_seeds, looks=[3, 6]))
    one = kan(found)
    arms = [found.runs[found.runs.variant == v].score for v in ("kan", "gelu")]
    assert one.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue)
    nominal = nominal_levels(path, 6, 0.05)[-1]
    assert one.look.nominal(0.05) == pytest.approx(nominal, rel=1e-4)
    # The first of two by Holm: half of the level, spent over the looks.
    half = nominal_levels(path, 6, 0.025)[-1]
    assert one.is_different == (one.p < half)


def test_methods_say_how_looks_are_counted(tmp_path: Path):
    planned, at_once = study_of(tmp_path / "planned", 3, looks=[3, 6]), study_of(tmp_path / "at-once", 3)
    assert "looked at with 3, 6 runs in every arm" in methods_text(analysed(planned))
    assert "looked at with 6, 12 runs" in methods_text(analysed(planned, looks=("6", "12")))
    assert "looked at" not in methods_text(analysed(at_once))
