"""Variants of a study in files: consent, names and places, and the copies that jobs run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

import slurm.study.cells
from base.errors import UsageError, WorldError
from ffn_variants import FFN_VARIANTS
from ffn_variants import variant_files as files
from pretrain.run.provenance import is_as_copied
from slurm.snapshot import take_snapshot
from slurm.study.cells import contents
from slurm.study.cells import own_variants as own_of
from slurm.study.study import folder_of, load_study

pytestmark = pytest.mark.usefixtures("own_variants")


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


def forget() -> None:
    """Be a process that has not loaded the file."""
    files._FILES.clear()
    FFN_VARIANTS.pop("my-xielu", None)
    for name in [name for name in sys.modules if name.startswith(files.MODULE)]:
        del sys.modules[name]


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
    forget()
    own.load()
    assert FFN_VARIANTS["my-xielu"].reference == "Huang and Schlag 2024, arXiv:2411.13010"

    forget()
    (tmp_path / "mark").unlink()
    (copy / "own_variants/my-xielu.py").write_bytes(text + b"# a stranger's\n")
    assert not is_as_copied(copy)
    with pytest.raises(WorldError, match=r"my-xielu\.py is not the file of the variant 'my-xielu'"):
        own.load()
    assert not (tmp_path / "mark").exists()
