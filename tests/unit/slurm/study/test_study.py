"""Expanding a study into cells, its error messages, and the study that repeats the source study."""

import hashlib
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
from pretrain.data.step_batches import cut_step
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from pretrain.training.dry_run import describe_run
from slurm.cell_state import held_cell, peek_listing, read_listing, start_state, survey
from slurm.commands import render
from slurm.study.study import Study, load_study

CONFIGS = Path(__file__).parents[4] / "configs"
STUDIES = sorted((CONFIGS / "studies").glob("*.yaml"))
TINY = str(CONFIGS / "tiny.yaml")
TWO = {"gpt_neo": TINY, "roberta": TINY}


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
@pytest.mark.ci
def test_shipped_studies_expand(path: Path) -> None:
    """Into the cells that come first: of tuning, where there is one."""
    study = load_study(path)
    named, file = study.config, read_yaml(path)
    arms = len(named.backbones) or len(named.families) * len(named.variants)
    places = [named.sizes, named.recipes, named.tokens, *named.axes.values()]
    num_places = math.prod(len(levels) for levels in places if levels)
    if tune := file.get("tune"):
        grids = [values for field, values in tune.items() if "." in field]
        cells_an_arm = math.prod(map(len, grids)) * len(tune["seeds"])
    else:
        cells_an_arm = len(named.seeds)
    assert len(study.cells) == arms * num_places * cells_an_arm
    assert study.folder.name == path.stem


def test_a_named_run_is_a_cell_under_its_name(load, tmp_path: Path) -> None:
    named = {"output": {"run_name": "my-own", "runs_dir": str(tmp_path / "runs")}}
    study = load(families=TWO, config=named, seeds=[1])
    study.write()
    folder, run_ids = study.folder, list(read_listing(study.folder).run_ids)
    assert run_ids == [f"{f}/{v}/my-own" for f in TWO for v in ("gelu", "kan")]
    assert [cell.label for cell in study.cells] == run_ids
    file, whole = StudyFolder(folder).study_file, StudyFolder(folder).study_file.read_text()
    for end in range(whole.index("\ncells:"), len(whole) - 1):
        file.write_text(whole[:end])
        assert not peek_listing(folder).run_ids, f"cut to {end} of {len(whole)} bytes"
    first = study.cells[0]
    start_state(folder, run_ids[0], "log")
    RunFolder(first.run_dir).path.mkdir(parents=True)
    RunFolder(first.run_dir).metrics_file.write_text('{"step": 3, "max_steps": 9, "loss": 2.5}\n')
    with held_cell(folder, run_ids[0], 0):
        shown = render(folder, survey(folder, run_ids)).splitlines()
    assert shown[0].startswith("gpt_neo/gelu/my-own  running  step 3/9, loss 2.500")
    assert shown[-1] == "4 cells: 1 running, 3 waiting"


def test_cells_of_one_folder_or_of_two_studies_are_refused(load, tmp_path: Path) -> None:
    def base(name: str, **output: str) -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(read_yaml(Path(TINY)) | {"output": output}))
        return str(path)

    named, elsewhere = base("named", run_name="mine"), base("other", runs_dir=str(tmp_path / "other"))
    for changes, words in [
        ({"families": {"roberta": named}}, "roberta/gelu/mine and roberta/gelu/mine are one run"),
        ({"families": TWO | {"roberta": elsewhere}, "config": {}}, "seed1 would lie in runs/test and robe"),
        ({"config": {"variants": {"kan": {"seed": 7}}}}, "kan.seed has no effect: the study's `seeds`"),
    ]:
        with pytest.raises(UsageError, match=words):
            load(**changes)


def test_a_studys_file_is_what_its_report_reads(load) -> None:
    """The factor, contrasts of heads, margins and looks."""
    finetune = {"head": ["fourier-kan grid_size=5", "linear", "mlp frozen"]}
    heads = {"suites": ["blimp", "perplexity"], "finetune": finetune}
    contrasts = ["kan/mlp frozen - kan/fourier-kan", "kan/mlp frozen - kan/fourier-kan grid_size=5"]
    margins = {"held-out-loss": 0.02, "blimp": 1.0, "blimp log odds": 0.1, "perplexity": 0.01}
    report = {"factor": "both", "baseline": "kan/linear", "contrasts": contrasts, "margins": margins}
    study = load(evaluation=heads, report=report)
    study.write()
    written = yaml.safe_load((study.folder / "study.yaml").read_text())
    assert written["heads"] == ["fourier-kan", "linear", "mlp frozen"]  # 5 is the default
    assert (written["report"]["factor"], written["report"]["baseline"]) == ("both", "kan/linear")
    assert written["report"]["margins"] == margins


@pytest.mark.parametrize(
    "budget", ["params", *(pytest.param(name, marks=pytest.mark.slow) for name in ("width", "flops"))]
)
def test_what_is_kept_from_cell_to_cell_changes_nothing(budget: str, write_study, monkeypatch) -> None:
    """Every cell against the same study read with all caches off and PyYAML's own parser."""
    kan = {"kan": {"model": {"ffn_options": {"grid_size": 3}}}}
    path = write_study(
        families={name: str(CONFIGS / f"{name.replace('_', '-')}.yaml") for name in ("gpt_neo", "roberta")},
        variants=["gelu", "prelu", "kan", "fourier-kan"],
        config={"model": {"ffn_budget": budget}, "variants": kan},
    )
    load_study(path)  # fills the caches
    kept = load_study(path)
    monkeypatch.setattr(config_input, "_parse", yaml.safe_load)
    monkeypatch.setattr(resolution, "_matching_width", resolution._matching_width.__wrapped__)
    alone = load_study(path)
    assert kept == alone
    assert [cell.run_id for cell in kept.cells] == [cell.run_id for cell in alone.cells]


def test_a_changed_file_is_read_again_and_nobody_changes_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: {ffn_options: {grid_size: 3}}\n", encoding="utf-8")
    read_yaml(path)["model"]["ffn_options"]["grid_size"] = 7
    assert read_yaml(path) == {"model": {"ffn_options": {"grid_size": 3}}}
    path.write_text("seed: 2\n", encoding="utf-8")
    assert read_yaml(path) == {"seed": 2}


@pytest.mark.parametrize(
    ("written", "seeds"), [("1-3", (1, 2, 3)), ("1, 2,7", (1, 2, 7)), (["1-2", 5], (1, 2, 5)), ([4], (4,))]
)
def test_seeds_are_a_list_or_a_range(load, written: Any, seeds: tuple) -> None:
    study = load(seeds=written)
    assert study.config.seeds == seeds
    assert {cell.config.seed for cell in study.cells} == set(seeds)


@pytest.mark.parametrize("written", [3, "one", "1,,2", [1, "3-1"], [], "", [-1], [2**32]])
def test_other_seeds_are_told_how_to_be_written(load, written: Any) -> None:
    with pytest.raises(UsageError, match=r"seeds: .*(give whole numbers|write \[3\] for one seed).* 1-3$"):
        load(seeds=written)


HUB = ["google-bert/bert-base-uncased", "distilbert/distilbert-base-uncased"]
PUBLISHED: dict[str, Any] = {
    "families": None,
    "variants": None,
    "backbones": HUB,
    "seeds": "1-3",
    "evaluation": {"suites": ["glue"], "finetune": {"head": ["linear frozen", "space frozen"]}},
    "report": {"factor": "head", "baseline": "linear frozen"},
    "config": None,
}


def test_each_backbone_is_a_cell_at_each_seed_of_fine_tuning_and_nothing_is_looked_up(write_study, tmp_path):
    study = load_study(write_study(**PUBLISHED), {"output": {"runs_dir": str(tmp_path / "runs")}})
    digests = [hashlib.sha256(name.encode()).hexdigest()[:8] for name in HUB]
    assert [cell.run_id for cell in study.cells] == [
        f"pretrained/{name.split('/')[1]}/seed{seed}-{digest}"
        for seed in (1, 2, 3)
        for name, digest in zip(HUB, digests, strict=True)
    ]
    assert study.folder == tmp_path / "runs" / "test"
    assert study.cells[0].label == "pretrained/bert-base-uncased/seed1"
    study.write()
    written = yaml.safe_load((study.folder / "study.yaml").read_text())
    assert (written["families"], written["variants"]) == (
        ["pretrained"],
        [name.split("/")[1] for name in HUB],
    )


def test_backbones_are_called_after_their_names_without_revisions_or_after_their_runs(load) -> None:
    runs = [f"runs/space/{family}/gelu/seed3-0123abcd" for family in ("gpt_neo", "roberta")]
    named = ["microsoft/deberta-base@refs/pr/4", runs[0], f"{runs[1]}/model"]
    study = load(**PUBLISHED | {"backbones": named})
    assert study.config.models == ("deberta-base", "gpt_neo-gelu-seed3", "roberta-gelu-seed3")
    assert study.cells[0].backbone.locate() == "hub, to be downloaded"


def test_a_backbone_may_have_tasks_and_a_pooling_of_its_own(load) -> None:
    narrow = {"model": HUB[0], "classify": ["sst5"], "pooling": "last"}
    asked = PUBLISHED | {
        "evaluation": PUBLISHED["evaluation"] | {"suites": [], "classify": ("sst5", "trec-50")}
    }
    cells = load(**asked | {"backbones": [HUB[0], narrow], "seeds": [1]}).cells
    of_cells = [(cell.variant, cell.evaluation.classify, cell.evaluation.finetune.pooling) for cell in cells]
    assert of_cells[0] == ("bert-base-uncased", ("sst5", "trec-50"), None)
    assert of_cells[1] == ("bert-base-uncased-last", ("sst5",), "last")
    for changes, message in (
        ({"classify": ["imdb"]}, "scored on imdb"),
        ({"pooling": None}, "two backbones"),
    ):
        with pytest.raises(UsageError, match=message):
            load(**asked | {"backbones": [HUB[0], narrow | changes]})


THESIS = CONFIGS / "studies" / "thesis.yaml"
# Its Table 2 prints 9.0M, 11.0M for a KAN, and 2,048 more for an activation with learned parameters.
PARAMETERS = {
    ("gpt_neo", "gelu"): "9,585,664",
    ("gpt_neo", "prelu"): "9,587,712",
    ("gpt_neo", "thesis-kan"): "11,679,744",
    ("roberta", "thesis-kan"): "11,303,696",
    ("roberta", "kan"): "13,006,608",
}


@pytest.fixture(scope="module")
def thesis() -> Study:
    return load_study(THESIS)


@pytest.mark.parametrize("arm", PARAMETERS, ids="-".join)
def test_its_models_have_the_source_studys_sizes(thesis: Study, arm: tuple[str, str]) -> None:
    cell = next(x for x in thesis.cells if (x.config.family, x.config.model.ffn) == arm)
    assert f"parameters       {PARAMETERS[arm]} (" in describe_run(cell.config)


def test_a_step_is_one_forward_pass_of_the_run_that_its_base_config_trains(thesis: Study) -> None:
    config = thesis.cells[0].config
    assert cut_step(config.train, num_processes=1, on_gpu=True) == (112, 112)
    alone = load_config(CONFIGS / "gpt-neo.yaml", ["--seed", str(config.seed)])
    assert cut_step(alone.train, num_processes=1) == (112, 16)
    assert run_dir(config).name == run_dir(alone).name
