"""Reports of studies and tables with axes: settings are what families are, and stand in columns."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from base.errors import UsageError
from base.run.folder_names import RunFolder
from report.analysis import Analysis
from report.compute import analyse
from report.document.markdown import family_label
from report.inputs.sources import read_source, source_of_frame
from report.inputs.study_design import design_from
from report.page import answer
from report.request import Request
from report.significance.axes import Benchmark, Setting, in_order
from report.write import number_tables
from scores.rows import ROW_COLUMNS, write_rows
from scores.stages import Decisions, Look
from slurm.cell_state import CellState, write_state
from tests.unit.report.rendering import numbers, render
from tests.unit.report.significance.comparing import compare

FAMILIES, SIZES, SEEDS = ("gpt_neo", "roberta"), ("0.1M", "0.5M", "2M"), (1, 2, 3)
SMALL, LARGE = "kan grid_size=3", "kan grid_size=5"
LEVELS = ("gelu", SMALL, LARGE)
LEAD = {"gelu": 0.0, SMALL: 0.3, LARGE: 0.02}
"""Nats below gelu's loss at the smallest size, halved at the next and gone at the largest."""
LOSS, PAIRS = Benchmark("held-out-loss"), Benchmark("embedded-pairs")
TAGS = {
    (level, size): f"{i:04x}{j:04x}" for (i, level), (j, size) in product(enumerate(LEVELS), enumerate(SIZES))
}


def run_id_of(family: str, level: str, size: str, seed: int) -> str:
    return f"{family}/{level.split()[0]}/seed{seed}-{TAGS[level, size]}"


def loss_of(family: str, level: str, size: str, seed: int) -> float:
    rng = np.random.default_rng([FAMILIES.index(family), LEVELS.index(level), SIZES.index(size), seed])
    lead = LEAD[level] * (1, 0.5, 0)[SIZES.index(size)]
    return 3.0 - 0.4 * SIZES.index(size) + 0.5 * FAMILIES.index(family) - lead + 0.01 * rng.normal()


def write_run(study: Path, run_id: str, loss: float, size: str = "0.1M", has_scores: bool = True) -> None:
    run = RunFolder(study / run_id)
    family, variant, name = run_id.split("/")
    seed = int(name[4:].split("-")[0])
    rng = np.random.default_rng(int(1e6 * loss))
    names = (run_id, family, variant, seed, PAIRS.name)
    rows = [
        (*names, task, "syntax", "accuracy", 70 - 5 * loss + rng.normal(), 50, "")
        for task in ("agreement", "order")
    ]
    run.path.mkdir(parents=True)
    if has_scores:
        write_rows(pd.DataFrame(rows, columns=list(ROW_COLUMNS[:-1])), run.rows_file)
    parameters = {"0.1M": 100_000, "0.5M": 500_000, "2M": 2_000_000}[size] * (1 + 0.2 * (variant == "kan"))
    record = {"parameters": {"total": int(parameters)}, "results": {"time_s": 60.0 + 1e-4 * parameters}}
    run.provenance_file.write_text(json.dumps(record))
    run.config_file.write_text(yaml.safe_dump({"family": family, "model": {"ffn": variant}, "seed": seed}))
    lines = [
        {"step": step, "tokens": 100 * step, "eval_loss": loss + above, "grad_norm": 1 / step, "time_s": step}
        for step, above in [(step, 2 * np.exp(-step / 30)) for step in range(10, 100, 10)] + [(100, 0.0)]
    ]
    run.metrics_file.write_text("\n".join(map(json.dumps, lines)))
    run.completion_marker.write_text(json.dumps({"results": {"step": 100, "eval_loss": loss}}))


def plan() -> dict[str, Any]:
    cells = list(product(FAMILIES, LEVELS, SIZES, SEEDS))
    return {
        "families": list(FAMILIES),
        "variants": list(LEVELS),
        "axes": {"size": list(SIZES)},
        "seeds": list(SEEDS),
        "benchmarks": [PAIRS.name],
        "report": {"margins": {"held-out-loss": 0.05}},
        "cells": [run_id_of(*cell) for cell in cells],
        "levels": {run_id_of(f, v, size, seed): {"variant": v, "size": size} for f, v, size, seed in cells},
    }


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 2 families, 3 sizes, 3 variants and 3 seeds, which no test changes."""
    folder = tmp_path_factory.mktemp("settings") / "ladder"
    for cell in product(FAMILIES, LEVELS, SIZES, SEEDS):
        write_run(folder, run_id_of(*cell), loss_of(*cell), cell[2])
    (folder / "study.yaml").write_text(yaml.safe_dump(plan(), sort_keys=False))
    return folder


@lru_cache
def kept(source: Path, **request) -> Analysis:
    return analyse(read_source(source), Request(**request))


def settings() -> list[Setting]:
    return [Setting(family, (("size", size),)) for family, size in product(FAMILIES, SIZES)]


def losses(family: str, level: str, size: str) -> np.ndarray:
    return np.array([loss_of(family, level, size, seed) for seed in SEEDS])


@pytest.mark.ci
def test_losses_are_compared_in_each_setting(made: Path):
    found = kept(made)
    assert found.families == tuple(settings())
    assert found.variants == LEVELS
    assert found.missing.empty
    for level, setting in product(LEVELS[1:], settings()):
        own, base = (losses(setting.family, v, setting.places[0][1]) for v in (level, "gelu"))
        (c,) = (c for c in found.of(LOSS, setting) if c.contrast.compared == level)
        expected = stats.ttest_ind(own, base, equal_var=False)
        assert [c.p, c.df] == pytest.approx([expected.pvalue, expected.df])
        assert c.estimate == pytest.approx(own.mean() - base.mean())


@pytest.mark.ci
def test_the_levels_of_an_axis_are_compared_within_family_and_variant(made: Path):
    found = kept(made, factor="size", baseline="0.5M")
    assert found.variants == ("0.5M", "0.1M", "2M")
    strata = [Setting(family, (), level) for family, level in product(FAMILIES, LEVELS)]
    assert found.families == tuple(strata)
    assert found.missing.empty
    assert not found.inference.paired
    for stratum in strata:
        (c,) = (c for c in found.of(LOSS, stratum) if c.contrast.compared == "2M")
        arms = [losses(stratum.family, stratum.variant, size) for size in ("2M", "0.5M")]
        expected = stats.ttest_ind(*arms, equal_var=False)
        assert [c.estimate, c.p] == pytest.approx([arms[0].mean() - arms[1].mean(), expected.pvalue])
    assert {facts.variant for facts in found.facts} == set(SIZES)
    assert found.noun == "size"


@pytest.mark.ci
def test_tables_have_a_column_for_each_axis(made: Path):
    tables = number_tables(kept(made))
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
    report = numbers(kept(made))
    assert report["axes"] == {"size": list(SIZES)}
    assert report["families"] == [f"{family} {size}" for family, size in product(FAMILIES, SIZES)]
    as_levels = number_tables(kept(made, factor="size"))["scores"]
    assert "size" not in as_levels.columns
    assert set(as_levels.variant) == set(SIZES)


@pytest.mark.ci
def test_runs_of_other_stages_are_told_apart(made: Path, tmp_path: Path):
    study, content = tmp_path / "tuned", plan()
    study.mkdir()
    for child in made.iterdir():
        (study / child.name).symlink_to(child, target_is_directory=child.is_dir())
    tuned, shared = "gpt_neo/swish/seed101-aaaaaaaa", "gpt_neo/swish/seed1-bbbbbbbb"
    both = run_id_of("gpt_neo", SMALL, "0.5M", 1)
    write_run(study / "own", tuned, 4.0, has_scores=False)
    write_run(study / "own", shared, 5.0)
    (study / "gpt_neo").unlink()
    (study / "gpt_neo").mkdir()
    for place in (made / "gpt_neo", study / "own" / "gpt_neo"):
        for child in place.iterdir():
            (study / "gpt_neo" / child.name).symlink_to(child, target_is_directory=True)
    content["cells"] += [tuned, shared]
    content["levels"] |= {
        tuned: {"variant": "swish", "size": "0.1M", "optim.learning_rate": "0.01"},
        shared: {"variant": "swish", "size": "0.1M"},
    }
    content["stages"] = {"tune": [tuned], "shared": [shared, both], "main": [both]}
    (study / "study.yaml").unlink()
    (study / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    source = read_source(study)
    assert not [note for note in source.notes if "left out" in note]
    (tune,) = source.stages["tune"]
    assert (tune.family, tune.variant, tune.seed) == ("gpt_neo", "swish", 101)
    assert tune.places == (("size", "0.1M"), ("optim.learning_rate", "0.01"))
    assert tune.eval_loss == 4.0
    assert [run.run_id for run in source.stages["shared"]] == [shared, both]
    assert source.stages["shared"][1].eval_loss == loss_of("gpt_neo", SMALL, "0.5M", 1)
    plain = read_source(made)
    pd.testing.assert_frame_equal(source.rows, plain.rows)
    assert source.facts == plain.facts
    assert plain.stages == {}


@pytest.mark.ci
def test_failed_runs_count_in_their_setting(made: Path, tmp_path: Path):
    lost = run_id_of("roberta", LARGE, "2M", 4)
    content = plan()
    content["cells"].append(lost)
    content["levels"][lost] = {"variant": LARGE, "size": "2M"}
    study = tmp_path / "ladder"
    study.mkdir()
    for name in FAMILIES:
        (study / name).symlink_to(made / name, target_is_directory=True)
    (study / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    write_state(study, lost, CellState(name="failed", error="out of memory"))
    found = analyse(read_source(study))
    own = [c for c in found.failures if c.num_failed and c.family is not None]
    assert [(c.family, c.variant, c.num_runs) for c in own] == [
        (Setting("roberta", (("size", "2M"),)), LARGE, 4)
    ]
    lost_in = {
        c.family: c.num_failed for c in found.comparisons if c.contrast.compared == LARGE and c.num_failed
    }
    assert lost_in.get(Setting("roberta", (("size", "2M"),))) == 1


def frame() -> pd.DataFrame:
    cells = list(product(FAMILIES, LEVELS, SIZES, SEEDS))
    table = pd.DataFrame(cells, columns=["family", "variant", "size", "seed"])
    return table.assign(benchmark="loss", metric="eval_loss", score=[loss_of(*cell) for cell in cells])


@pytest.mark.ci
def test_columns_of_a_table_are_axes_where_that_is_asked_for(made: Path, tmp_path: Path):
    frame().to_csv(tmp_path / "scores.csv", index=False)
    of_study, request = kept(made), Request(axis=("size",))
    for source in (read_source(tmp_path / "scores.csv", request), source_of_frame(frame(), request)):
        found = analyse(source, request)
        assert found.families == tuple(settings())
        own = [(str(c.contrast), c.family, c.estimate) for c in found.comparisons]
        theirs = [
            (str(c.contrast), c.family, c.estimate) for c in of_study.comparisons if c.benchmark == LOSS
        ]
        assert own == [(*names, pytest.approx(estimate)) for *names, estimate in theirs]
    with pytest.raises(UsageError, match=r"no score of \S+ is left to compare; duplicates .* --axis COLUMN"):
        analyse(read_source(tmp_path / "scores.csv"))


def test_losses_of_two_families_have_no_average_and_one_sentence(made: Path):
    found = kept(made)
    assert found.scopes(LOSS) == list(settings())
    (first, *_) = [c for c in found.of(LOSS, settings()[0]) if c.contrast.compared == SMALL]
    assert first.is_primary
    (sentence,) = (text for text in answer(found) if text.startswith("On held-out loss"))
    shown = [c for c in found.comparisons if c.contrast.compared == SMALL and c.benchmark == LOSS]
    shown = [c for c in shown if c.is_different and c.is_better]
    least = min(shown, key=lambda c: abs(c.estimate))
    size = f"{abs(least.estimate):.{least.digits}f} nats"
    where = f" or more in {len(shown)} of 6 settings" if len(shown) > 1 else " in "
    assert f"`{SMALL}` is better than `gelu` by {size}{where}" in sentence
    assert "A setting is one family at one level of size" in render(found)


def test_sizes_of_one_family_are_averaged_in_nats():
    table = frame()
    found = analyse(source_of_frame(table[table.family == "gpt_neo"], Request(axis=("size",))))
    (c,) = (c for c in found.overall(Benchmark("loss")) if c.contrast.compared == SMALL)
    of_each = [
        losses("gpt_neo", SMALL, size).mean() - losses("gpt_neo", "gelu", size).mean() for size in SIZES
    ]
    assert c.estimate == pytest.approx(np.mean(of_each))
    assert c.unit == "nats"
    assert "averaged over 3 sizes" in " ".join(answer(found))
    assert [family_label(family) for family in found.families] == list(SIZES)


def test_seeds_of_a_setting_are_those_that_looks_gave_its_variant():
    looks = (Look(seeds=3, made="2026-11-23", claims=(), go_on=(SMALL,)),)
    decisions = Decisions(plan={"looks": [3, 6], "variants": list(LEVELS)}, looks=looks)
    rows = source_of_frame(frame(), Request(axis=("size",))).rows
    design = replace(design_from(rows), seeds=tuple(range(1, 7)))
    design = replace(design, decisions=decisions)
    setting = settings()[0]
    assert len(design.seeds_of(setting, SMALL)) == 6
    assert len(design.seeds_of(setting, "gelu")) == 3
    assert len(design.seeds_of(replace(setting, places=(), variant=SMALL), "0.1M")) == 6  # sizes are compared
    assert len(design.seeds_of(replace(setting, variant=LARGE), "linear")) == 3


def test_compare_takes_axes():
    one = compare(frame(), f"{SMALL} - gelu", axes=["size"])
    assert one.families == tuple(settings())
    by_size = compare(frame(), "2M - 0.1M", axes=["size"], factor="size")
    assert len(by_size.families) == 6
    with pytest.raises(UsageError, match="unknown factor"):
        compare(frame(), "2M - 0.1M", factor="size")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"axes": {"size": "0.1M"}}, "axes.size: must be a list"),
        ({"levels": []}, "levels: must be a mapping"),
        ({"stages": {"tune": "x"}}, "stages.tune: must be a list"),
        ({"report": {"factor": "tokens"}}, "report.factor"),
    ],
)
def test_a_plan_that_cannot_be_is_one_line(tmp_path: Path, change: dict[str, Any], said: str):
    write_run(tmp_path, run_id_of("gpt_neo", "gelu", "0.1M", 1), 3.0)
    content = yaml.safe_dump(plan() | change, sort_keys=False)
    (tmp_path / "study.yaml").write_text(content)
    with pytest.raises(UsageError, match=said) as raised:
        read_source(tmp_path)
    assert "\n" not in str(raised.value)


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
