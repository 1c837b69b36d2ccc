"""Expanding a study into cells, and its error messages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from base import config_input
from base.config_input import read_yaml
from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from pretrain import resolution
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from slurm.cell_state import held_cell, start_state
from slurm.commands import render
from slurm.study.study import load_study
from slurm.survey import read_listing, survey

CONFIGS = Path(__file__).parents[4] / "configs"
STUDIES = sorted((CONFIGS / "studies").glob("*.yaml"))


def write(path: Path, repository: Path, **changes: object) -> Path:
    base = str(repository / "configs" / "tiny.yaml")
    content = {
        "name": "test",
        "families": {"gpt_neo": base, "roberta": base},
        "variants": ["gelu", "kan"],
        "seeds": [1, 2, 3],
        "config": {"output": {"runs_dir": str(path / "runs")}},
        "evaluation": {"suites": ["embedded-pairs"]},
    } | changes
    file = path / "study.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
@pytest.mark.ci
def test_shipped_studies_expand(path: Path) -> None:
    """Into the cells that come first: of tuning, where there is one, and of the first seeds named."""
    study = load_study(path)
    named, file = study.config, read_yaml(path)
    arms = len(named.backbones) or len(named.families) * len(named.variants)
    places = [named.sizes, named.tokens, *named.axes.values()]
    num_places = math.prod(len(levels) for levels in places if levels)
    if tune := file.get("tune"):
        grids = [values for field, values in tune.items() if "." in field]
        cells_an_arm = math.prod(map(len, grids)) * len(tune["seeds"])
    else:
        seeds = file["seeds"]
        cells_an_arm = seeds["first"] if isinstance(seeds, dict) else len(named.all_seeds)
    assert len(study.cells) == arms * num_places * cells_an_arm
    assert study.folder.name == path.stem


def test_cells_are_distinct_runs_with_the_studys_names(tmp_path: Path, repository: Path) -> None:
    study = load_study(write(tmp_path, repository))
    assert len({cell.run_id for cell in study.cells}) == 12
    first, second, third = study.cells[:3]
    assert first.label == "gpt_neo/gelu/seed1"
    assert second.label == "gpt_neo/kan/seed1"
    assert third.label == "roberta/gelu/seed1"
    assert study.cells[-1].config.seed == 3
    assert first.study_dir == tmp_path / "runs" / "test"


def test_a_named_run_is_a_cell_under_its_name(tmp_path: Path, repository: Path) -> None:
    named = {"output": {"run_name": "my-own", "runs_dir": str(tmp_path / "runs")}}
    study = load_study(write(tmp_path, repository, config=named, seeds=[1]))
    study.write()
    folder, run_ids = study.folder, list(read_listing(study.folder).run_ids)
    assert run_ids == [f"{f}/{v}/my-own" for f in ("gpt_neo", "roberta") for v in ("gelu", "kan")]
    assert [cell.label for cell in study.cells] == run_ids
    first = study.cells[0]
    start_state(folder, run_ids[0], "log")
    RunFolder(first.run_dir).path.mkdir(parents=True)
    RunFolder(first.run_dir).metrics_file.write_text('{"step": 3, "max_steps": 9, "loss": 2.5}\n')
    with held_cell(folder, run_ids[0], 0):
        shown = render(folder, survey(folder, run_ids)).splitlines()
    assert shown[0].startswith("gpt_neo/gelu/my-own  running   step 3/9, loss 2.500")
    assert shown[-1] == "4 cells: 1 running, 3 waiting"
    with pytest.raises(UsageError, match=r"config.output.run_name has no effect: it would give all"):
        load_study(write(tmp_path, repository, config=named, seeds=[1, 2]))


def test_seeds_are_cells_that_differ_in_nothing_else(tmp_path: Path, repository: Path) -> None:
    """Each cell against its configuration read by itself."""
    study = load_study(write(tmp_path, repository))
    for cell in study.cells:
        config = cell.config
        alone = load_config(
            repository / "configs" / "tiny.yaml",
            overrides={
                "family": config.family,
                "seed": config.seed,
                "model": {"ffn": config.model.ffn},
                "output": {"runs_dir": str(tmp_path / "runs"), "study": "test"},
            },
        )
        assert (config, cell.run_dir) == (alone, run_dir(alone))


def test_cells_of_one_folder_or_of_two_studies_are_refused(tmp_path: Path, repository: Path) -> None:
    tiny = read_yaml(repository / "configs" / "tiny.yaml")
    named, elsewhere = tmp_path / "named.yaml", tmp_path / "elsewhere.yaml"
    named.write_text(yaml.safe_dump(tiny | {"output": {"run_name": "mine"}}))
    elsewhere.write_text(yaml.safe_dump(tiny | {"output": {"runs_dir": str(tmp_path / "other")}}))
    with pytest.raises(UsageError, match=r"roberta/gelu/mine and roberta/gelu/mine are one run"):
        load_study(write(tmp_path, repository, families={"roberta": str(named)}))
    families = {"gpt_neo": str(repository / "configs" / "tiny.yaml"), "roberta": str(elsewhere)}
    with pytest.raises(UsageError, match=r"gpt_neo/gelu/seed1 would lie in runs/test and roberta/gelu/seed1"):
        load_study(write(tmp_path, repository, families=families, config={}))
    same = {"variants": {"kan": {"seed": 7}}}
    with pytest.raises(UsageError, match=r"config.variants.kan.seed has no effect: the study's `seeds`"):
        load_study(write(tmp_path, repository, config=same))


def test_a_changed_hyperparameter_changes_every_run_id(tmp_path: Path, repository: Path) -> None:
    before = load_study(write(tmp_path, repository))
    after = load_study(write(tmp_path, repository), overrides={"optim": {"learning_rate": 0.123}})
    assert not {cell.run_id for cell in before.cells} & {cell.run_id for cell in after.cells}


def test_a_study_is_reported_by_the_factor_that_it_names(tmp_path: Path, repository: Path) -> None:
    heads = {"finetune": {"head": ["fourier-kan grid_size=5", "linear", "mlp frozen"]}}
    contrasts = ["kan/mlp frozen - kan/fourier-kan", "kan/mlp frozen - kan/fourier-kan grid_size=5"]
    report = {"factor": "both", "baseline": "kan/linear", "contrasts": contrasts}
    study = load_study(write(tmp_path, repository, evaluation=heads, report=report))
    study.write()
    written = yaml.safe_load((study.folder / "study.yaml").read_text())
    assert written["heads"] == ["fourier-kan", "linear", "mlp frozen"]  # 5 is the default
    assert (written["report"]["factor"], written["report"]["baseline"]) == ("both", "kan/linear")


def test_a_study_names_a_margin_for_each_outcome(tmp_path: Path, repository: Path) -> None:
    suites = {"suites": ["blimp", "perplexity"]}
    margins = {"held-out-loss": 0.02, "blimp": 1.0, "blimp log odds": 0.1, "perplexity": 0.01}
    study = load_study(write(tmp_path, repository, evaluation=suites, report={"margins": margins}))
    study.write()
    assert yaml.safe_load((study.folder / "study.yaml").read_text())["report"]["margins"] == margins


@pytest.mark.parametrize(("written", "read"), [([3, 6, 10], (3, 6, 10)), (None, None), ([6], (6,))])
def test_a_study_names_its_looks(tmp_path: Path, repository: Path, written: Any, read: Any) -> None:
    study = load_study(write(tmp_path, repository, report={"looks": written}))
    assert study.config.report.looks == read
    study.write()
    assert yaml.safe_load(StudyFolder(study.folder).study_file.read_text())["report"]["looks"] == written


def test_looks_at_any_time_are_refused(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(UsageError, match=r"looks: 'any' is no plan; write .* numbers of runs .*\[3, 6, 10\]"):
        load_study(write(tmp_path, repository, report={"looks": "any"}))


@pytest.mark.parametrize("budget", ["width", "params", "flops"])
def test_what_is_kept_from_cell_to_cell_changes_nothing(
    budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell against the same study read with all caches off and PyYAML's own parser."""
    content = {
        "name": "kept",
        "families": {
            name: str(CONFIGS / f"{name.replace('_', '-')}.yaml") for name in ("gpt_neo", "roberta")
        },
        "variants": ["gelu", "prelu", "kan", "fourier-kan"],
        "seeds": [1, 2],
        "config": {
            "model": {"ffn_budget": budget},
            "variants": {"kan": {"model": {"ffn_options": {"grid_size": 3}}}},
        },
    }
    path = tmp_path / "kept.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    load_study(path)  # fills the caches
    kept = load_study(path)
    monkeypatch.setattr(config_input, "_parse", yaml.safe_load)
    monkeypatch.setattr(resolution, "_matching_width", resolution._matching_width.__wrapped__)
    alone = load_study(path)
    assert kept == alone
    assert [cell.config.model_dump_json() for cell in kept.cells] == [
        cell.config.model_dump_json() for cell in alone.cells
    ]
    assert [cell.run_id for cell in kept.cells] == [cell.run_id for cell in alone.cells]


def test_a_changed_file_is_read_again_and_nobody_changes_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: {ffn_options: {grid_size: 3}}\n", encoding="utf-8")
    read_yaml(path)["model"]["ffn_options"]["grid_size"] = 7
    assert read_yaml(path) == {"model": {"ffn_options": {"grid_size": 3}}}
    path.write_text("seed: 2\n", encoding="utf-8")
    assert read_yaml(path) == {"seed": 2}


@pytest.mark.parametrize(
    ("written", "seeds"),
    [("1-3", (1, 2, 3)), ("1, 2,7", (1, 2, 7)), (["1-2", 5], (1, 2, 5)), ([4], (4,))],
)
def test_seeds_are_a_list_or_a_range(tmp_path: Path, repository: Path, written: Any, seeds: tuple) -> None:
    study = load_study(write(tmp_path, repository, seeds=written))
    assert study.config.seeds == seeds
    assert {cell.config.seed for cell in study.cells} == set(seeds)


@pytest.mark.parametrize("written", [3, "one", [1, "3-1"], [], "", [-1], [2**32]])
def test_other_seeds_are_told_how_to_be_written(tmp_path: Path, repository: Path, written: Any) -> None:
    with pytest.raises(UsageError, match=r"seeds: .*(give whole numbers|write \[3\] for one seed).* 1-3$"):
        load_study(write(tmp_path, repository, seeds=written))
