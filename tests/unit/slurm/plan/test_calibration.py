"""Speeds that are measured for a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pretrain.training.loop import Timing
from slurm.plan import calibration
from slurm.plan.calibration import Calibration
from slurm.plan.lines import Machines
from slurm.plan.make import plan_study
from slurm.study.cells import trained_cells
from slurm.study.study import load_study


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """Stands in for timing: a run of hidden_size H takes H seconds for 1000 tokens."""
    asked = []

    def fake(config, folder: Path) -> tuple[Timing, str]:
        asked.append((config.model.ffn, config.model.hidden_size))
        folder.joinpath("left").touch()
        return Timing(config.model.hidden_size, 1000, 25, 0.0), "a device"

    monkeypatch.setattr(calibration, "calibrate", fake)
    return asked


def test_every_size_and_variant_is_timed_once_and_leaves_nothing(
    tmp_path: Path, repository: Path, measured: list, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(calibration.tempfile, "tempdir", str(tmp_path))
    content = {
        "name": "cost",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu", "relu"],
        "sizes": {"small": {"model": {"hidden_size": 32}}, "large": {"model": {"hidden_size": 64}}},
        "tokens": ["1M", "2M"],
        "seeds": [1, 2],
        "config": {"output": {"runs_dir": str(tmp_path / "runs")}},
        "evaluation": {"suites": []},
    }
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    study = load_study(path)
    known = Calibration(trained_cells(study.cells), 2)
    assert sorted(measured) == [("gelu", 32), ("gelu", 64), ("relu", 32), ("relu", 64)]
    assert not list(tmp_path.glob("calibrate-*"))
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("calibrated gpt_neo, gelu, size small, tokens 1M: 31 tokens/s, 1,280.0 ms an")
    plan = plan_study(study, study.cells, Machines(), [known])
    lines = plan.stages[0].lines
    assert [(line.variant, line.place, line.runs) for line in lines[:4]] == [
        ("gelu", "small, 1M", 2),
        ("relu", "small, 1M", 2),
        ("gelu", "small, 2M", 2),
        ("relu", "small, 2M", 2),
    ]
    for line in lines:
        assert line.hours is not None
        seconds_a_token = {"small": 32, "large": 64}[line.places[0][1]] / 1000
        assert line.hours.hours == pytest.approx(line.tokens * seconds_a_token / 3600)
        assert line.hours.is_measured
        assert line.hours.source == "calibrated: 25 updates on a device"
