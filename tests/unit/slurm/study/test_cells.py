"""Cells of a study against an enumeration by hand, their configurations and names, and variants in files."""

import hashlib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import slurm.study.cells
from base.errors import UsageError, WorldError
from base.run.folder_names import StudyFolder
from ffn_variants import FFN_VARIANTS
from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.run.code_version import is_as_copied
from pretrain.run.run_folder import run_dir
from slurm.arguments import SubmitArgs, overrides
from slurm.commands import study_run as submit
from slurm.snapshot import take_snapshot
from slurm.study.cells import RunCell, contents
from slurm.study.cells import own_variants as own_of
from slurm.study.study import Changes, folder_of, load_study
from tests.cases import forget_variants, listed

pytestmark = pytest.mark.usefixtures("own_variants")

CONFIGS = Path(__file__).parents[4] / "configs"
RUN_IDS = dict(listed(__file__, "ids of runs"))
"""SHA-256 over the ids of all runs of each shipped study, as they were before studies had axes."""
ON_FILES = {"fr-kan-heads", "fr-kan-recipe", "real-small", "space", "swipe"}
"""Those that named the texts of the tests then, as ``--texts`` does now."""
SIZES: Mapping[str, Any] = {
    name: {
        "model": {"hidden_size": size, "intermediate_size": 2 * size},
        "variants": {"kan": {"model": {"intermediate_size": size // 2}}},
    }
    for name, size in (("small", 32), ("large", 64))
}


def config_of(cell: object) -> ResolvedConfig:
    assert isinstance(cell, RunCell)
    return cell.config


@pytest.mark.parametrize("name", RUN_IDS)
def test_studies_without_axes_keep_their_run_folders(name: str) -> None:
    texts, held_out = (f"../shared/data/tinystories/{part}.jsonl.gz" for part in ("train", "validation"))
    flags = {"texts": [texts], "validation_texts": [held_out]} if name in ON_FILES else {}
    study = load_study(Path(name), overrides(SubmitArgs(study=Path(name), **flags)))
    ids = "\n".join(cell.run_id for cell in study.cells)
    assert hashlib.sha256(ids.encode()).hexdigest()[:12] == RUN_IDS[name]
    assert all(not cell.places and cell.stage == "main" for cell in study.cells)


def test_cells_are_those_of_an_enumeration_by_hand(load) -> None:
    rates = {"0.001": 1e-3, "0.0003": 3e-4}
    axes = {"sizes": SIZES, "tokens": ["64k", 128_000], "axes": {"optim.learning_rate": [1e-3, "3e-4"]}}
    study = load(variants=["gelu", "kan grid_size=3"], **axes)
    by_hand = [
        (variant, seed, (("size", size), ("tokens", tokens), ("optim.learning_rate", rate)))
        for seed in (1, 2)
        for size, tokens, rate in product(SIZES, ("64k", "128k"), rates)
        for variant in ("gelu", "kan grid_size=3")
    ]
    assert [(cell.variant, cell.seed, cell.places) for cell in study.cells] == by_hand
    assert len({cell.run_id for cell in study.cells}) == 32
    places = "size small, tokens 64k, optim.learning_rate 0.001"
    assert study.cells[1].label == f"gpt_neo/kan grid_size=3/seed1 ({places})"
    for cell in study.cells:
        config, places = config_of(cell), dict(cell.places)
        is_kan, size = cell.variant != "gelu", SIZES[places["size"]]
        width = (size["variants"]["kan"] if is_kan else size)["model"]["intermediate_size"]
        assert config.model.hidden_size == size["model"]["hidden_size"]
        assert config.model.intermediate_size == width
        assert config.model.ffn_options == ({"grid_size": 3} if is_kan else None)
        assert config.optim.learning_rate == rates[places["optim.learning_rate"]]
        step = config.train.batch_size * config.data.block_size
        tokens = int(places["tokens"].removesuffix("k")) * 1000
        assert config.optim.max_steps == tokens // step


@pytest.mark.parametrize(("level", "flags"), listed(__file__, "levels"))
def test_a_level_is_the_run_that_its_options_train_by_themselves(level, flags, load, tmp_path) -> None:
    """Against the training command's configuration."""
    cell = load(variants=["gelu", level]).cells[1]
    where = ["--study", "test", "--runs-dir", str(tmp_path / "runs")]
    alone = load_config(CONFIGS / "tiny.yaml", ["--seed", "1", "--ffn", "kan", *flags, *where])
    assert run_dir(alone).name == cell.run_dir.name


def test_the_studys_folder_tells_what_its_runs_do_not(load) -> None:
    study = load(variants=["gelu", "kan", "kan grid_size=3"])
    study.write()
    written = yaml.safe_load(StudyFolder(study.folder).study_file.read_text())
    assert written["variants"] == ["gelu", "kan", "kan grid_size=3"]
    named = [cell.run_id for cell in study.cells if " " in cell.variant]
    assert written["levels"] == {run_id: {"variant": "kan grid_size=3"} for run_id in named}
    assert not {"axes", "stages"} & written.keys()
    study = load(sizes=SIZES, name="sized")
    study.write()
    written = yaml.safe_load(StudyFolder(study.folder).study_file.read_text())
    assert written["axes"] == {"size": ["small", "large"]}
    assert written["levels"][study.cells[0].run_id] == {"variant": "gelu", "size": "small"}
    assert len(written["levels"]) == len(written["cells"]) == 8


def test_an_axis_wins_over_what_a_base_config_has_for_a_variant(load, tmp_path: Path) -> None:
    base = yaml.safe_load((CONFIGS / "tiny.yaml").read_text())
    base["variants"] = {"kan": {"optim": {"learning_rate": 0.5, "max_steps": 3}}}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    study = load(families={"gpt_neo": "base.yaml"}, axes={"optim.learning_rate": [0.1, 0.2]}, tokens=["64k"])
    assert [config_of(cell).optim.learning_rate for cell in study.cells[:4]] == [0.1, 0.1, 0.2, 0.2]
    assert len({config_of(cell).optim.max_steps for cell in study.cells}) == 1


def test_the_report_compares_the_levels_of_an_axis(load) -> None:
    report = {"factor": "optim.learning_rate", "baseline": 1.0e-3, "contrasts": ["0.003 - 0.001"]}
    config = load(axes={"optim.learning_rate": [1e-3, 3e-3]}, report=report).config
    assert config.report.baseline == "0.001"
    assert config.compared == ("0.001", "0.003")
    contrast = "kan grid_size=3.0 activation=gelu - kan grid_size=5"
    levels = ["gelu", "kan", "kan activation=gelu grid_size=3"]
    config = load(variants=levels, report={"contrasts": [contrast], "baseline": "kan grid_size=5"}).config
    assert config.report.contrasts == ("kan activation=gelu grid_size=3 - kan",)
    assert config.report.baseline == "kan"


def test_a_dry_run_names_axes_and_cells_and_writes_nothing(write_study, tmp_path: Path, capsys) -> None:
    report = {"factor": "tokens", "baseline": "64k"}
    path = write_study(variants=["gelu", "kan grid_size=3"], tokens=["64k", "128k"], report=report)
    assert submit([str(path), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "8 cells, " in said
    assert "variants  gelu, kan grid_size=3 (baseline tokens 64k)" in said
    assert "tokens    64k, 128k\n" in said
    lines = [line for line in said.splitlines() if line.endswith("  kan grid_size=3, tokens 128k")]
    assert len(lines) == 2
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def study_file(tmp_path: Path, repository: Path) -> Path:
    """A study in one folder, whose variant is a file in another."""
    (tmp_path / "my").mkdir()
    mark = f"\n\nfrom pathlib import Path\nPath({str(tmp_path / 'mark')!r}).touch()\n"
    (tmp_path / "my/mine.py").write_text((repository / "examples/xielu.py").read_text() + mark)
    content = {
        "name": "own",
        "families": {"gpt_neo": str(repository / "configs/tiny.yaml")},
        "variants": ["gelu", "../my/mine.py:XIELU"],
        "seeds": [1, 2],
        "config": {
            "output": {"runs_dir": str(tmp_path / "runs")},
            "variants": {"my-xielu": {"model": {"intermediate_size": 24, "ffn_options": {"init": 1.0}}}},
        },
        "report": {"baseline": "my-xielu"},
    }
    (tmp_path / "studies").mkdir()
    path = tmp_path / "studies/own.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_nothing_is_run_without_consent(study_file, tmp_path):
    with pytest.raises(UsageError) as refused:
        load_study(study_file)
    assert str(refused.value) == (
        f"{study_file}: its variants name {tmp_path}/my/mine.py:XIELU, which is code; read that file, then "
        "consent to run it: --trust-remote-code, in Python trust_remote_code=True"
    )
    assert folder_of(study_file) == tmp_path / "runs/own"
    (tmp_path / "my/mine.py").unlink()
    assert folder_of(study_file, {"output": {"runs_dir": "elsewhere"}}) == Path("elsewhere/own")
    assert not (tmp_path / "mark").exists()
    assert "my-xielu" not in FFN_VARIANTS


@pytest.mark.parametrize("how", ["beside the study", "typed"])
def test_a_file_beside_the_study_or_one_that_is_typed_needs_no_flag(study_file, tmp_path, how):
    content = yaml.safe_load(study_file.read_text())
    changes = Changes(variants=("gelu", f"{tmp_path}/my/mine.py:XIELU")) if how == "typed" else None
    if changes is None:
        (tmp_path / "my/mine.py").rename(tmp_path / "studies/mine.py")
        study_file.write_text(yaml.safe_dump(content | {"variants": ["gelu", "mine.py:XIELU"]}))
    study = load_study(study_file, changes=changes)
    assert study.config.models == ("gelu", "my-xielu")
    assert study.typed.endswith("--trust-remote-code") == (how == "typed")


def test_with_consent_the_spec_s_name_stands_everywhere(study_file, tmp_path):
    content = yaml.safe_load(study_file.read_text())
    levels = [*content["variants"], f"{content['variants'][1]} init=0.5"]
    study_file.write_text(yaml.safe_dump(content | {"variants": levels}))
    study = load_study(study_file, trust_remote_code=True)
    assert (tmp_path / "mark").exists()
    assert study.config.models == ("gelu", "my-xielu", "my-xielu init=0.5")
    of_gelu, of_own, at_half = study.cells[:3]
    assert of_own.run_dir.parent == tmp_path / "runs/own/gpt_neo/my-xielu"
    model = of_own.config.model
    assert (model.ffn, model.ffn_file) == ("my-xielu", f"{tmp_path}/my/mine.py:XIELU")
    assert (model.intermediate_size, model.ffn_options["init"]) == (24, 1.0)
    assert at_half.config.model.ffn_options == {"init": 0.5}
    assert (of_gelu.variant_file, of_gelu.config.model.ffn_file) == (None, None)
    assert of_own.variant_file == at_half.variant_file
    assert [one.name for one in own_of(study.planned)] == ["my-xielu"]
    assert folder_of(study_file) == study.folder


def test_jobs_run_the_copy_that_was_read_and_no_other(study_file, tmp_path, monkeypatch):
    study = load_study(study_file, trust_remote_code=True)
    text = (tmp_path / "my/mine.py").read_bytes()
    (own,) = own_of(study.planned)
    (tmp_path / "my/mine.py").write_text("raise SystemExit('edited after it was submitted')\n")
    copy = take_snapshot(study.folder, contents([own]))
    assert (copy / "own_variants/my-xielu.py").read_bytes() == text
    assert is_as_copied(copy)
    assert take_snapshot(study.folder, contents([own])) == copy
    assert take_snapshot(study.folder) != copy

    monkeypatch.setattr(slurm.study.cells, "CODE_ROOT", copy)
    forget_variants("my-xielu")
    own.load()
    assert FFN_VARIANTS["my-xielu"].reference == "Huang and Schlag 2024, arXiv:2411.13010"

    forget_variants("my-xielu")
    (tmp_path / "mark").unlink()
    (copy / "own_variants/my-xielu.py").write_bytes(text + b"# a stranger's\n")
    assert not is_as_copied(copy)
    with pytest.raises(WorldError, match=r"my-xielu\.py is not the file of the variant 'my-xielu'"):
        own.load()
    assert not (tmp_path / "mark").exists()
