"""Studies over pretrained models: their cells, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from slurm.study.study import load_study

HUB = ["google-bert/bert-base-uncased", "distilbert/distilbert-base-uncased"]


def write(folder: Path, **changes: Any) -> Path:
    content: dict[str, Any] = {
        "name": "published",
        "backbones": HUB,
        "seeds": "1-3",
        "evaluation": {"suites": ["glue"], "finetune": {"head": ["linear frozen", "space frozen"]}},
        "report": {"factor": "head", "baseline": "linear frozen"},
    } | changes
    path = folder / "published.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return path


def test_each_backbone_is_a_cell_at_each_seed_of_fine_tuning_and_nothing_is_looked_up(tmp_path: Path) -> None:
    study = load_study(write(tmp_path), {"output": {"runs_dir": str(tmp_path / "runs")}})
    digests = [hashlib.sha256(name.encode()).hexdigest()[:8] for name in HUB]
    assert [cell.run_id for cell in study.cells] == [
        f"pretrained/{name.split('/')[1]}/seed{seed}-{digest}"
        for seed in (1, 2, 3)
        for name, digest in zip(HUB, digests, strict=True)
    ]
    assert study.folder == tmp_path / "runs" / "published"
    assert study.cells[0].label == "pretrained/bert-base-uncased/seed1"
    assert study.plan["variants"] == ["bert-base-uncased", "distilbert-base-uncased"]
    study.write()
    written = yaml.safe_load((study.folder / "study.yaml").read_text())
    assert (written["families"], written["variants"]) == (["pretrained"], study.plan["variants"])


def test_a_name_on_the_hub_may_have_a_revision(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, backbones=["microsoft/deberta-base@refs/pr/4", *HUB]))
    assert study.config.models[0] == "deberta-base"
    assert study.cells[0].backbone.locate() == "hub, to be downloaded"


def test_a_run_of_this_project_is_called_after_its_family_variant_and_seed(tmp_path: Path) -> None:
    runs = [f"runs/space/{family}/gelu/seed3-0123abcd" for family in ("gpt_neo", "roberta")]
    study = load_study(write(tmp_path, backbones=[runs[0], f"{runs[1]}/model"]))
    assert study.config.models == ("gpt_neo-gelu-seed3", "roberta-gelu-seed3")
