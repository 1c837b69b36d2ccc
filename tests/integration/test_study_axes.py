"""A study of two sizes and of two levels of one variant, from its file to its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import ffn_ablations as ffa
from base.run.folder_names import StudyFolder
from slurm.commands import study_status as status
from slurm.next_stage import write_study_report
from slurm.study.study import load_study
from slurm.worker import run_cells

CONTENT: dict[str, Any] = {
    "name": "axes",
    "variants": ["gelu", "kan", "kan grid_size=3"],
    "sizes": {
        "small": {"model": {"hidden_size": 16}, "variants": {"kan": {"model": {"intermediate_size": 8}}}},
        "large": {"model": {"hidden_size": 32}, "variants": {"kan": {"model": {"intermediate_size": 16}}}},
    },
    "seeds": [1, 2],
    "config": {
        "model": {"num_hidden_layers": 1, "intermediate_size": 32},
        "data": {"num_stories": 100, "vocab_size": 300},
        "optim": {"max_steps": 4},
        "train": {"torch_compile": False, "save_steps": None, "save_minutes": None},
    },
    "evaluation": {"suites": []},
}


@pytest.mark.slow
def test_levels_and_sizes_are_told_apart_to_the_report(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "axes.yaml"
    families = {"families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")}}
    path.write_text(yaml.safe_dump(CONTENT | families, sort_keys=False))
    study = load_study(path, {"output": {"runs_dir": str(tmp_path / "runs")}})
    study.write()
    run_cells(study.cells)
    write_study_report(study)
    assert "12 of 12 cells done" in capsys.readouterr().out

    runs = ffa.study(study.folder).runs
    losses = {(run.variant, run.places["size"], run.seed): run.loss for run in runs}
    assert len(losses) == 12  # every run has a place of its own
    report = json.loads((StudyFolder(study.folder).report_dir / "report.json").read_text())
    found = {(each["contrast"], each["size"]): each["estimate"] for each in report["comparisons"]}
    means = {
        (level, size): np.mean([losses[level, size, seed] for seed in (1, 2)])
        for level in CONTENT["variants"]
        for size in CONTENT["sizes"]
    }
    for level in ("kan", "kan grid_size=3"):
        for size in ("small", "large"):
            by_hand = means[level, size] - means["gelu", size]
            assert found[f"{level} - gelu", size] == pytest.approx(by_hand)
        ratios = [
            np.log(losses[level, size, seed] / losses["gelu", size, seed])
            for size in ("small", "large")
            for seed in (1, 2)
        ]
        assert found[f"{level} - gelu", None] == pytest.approx(100 * np.expm1(np.mean(ratios)))

    kept = runs.where(variant="kan grid_size=3", size="large")
    assert [(run.config["model"]["ffn_options"], run.config["model"]["hidden_size"]) for run in kept] == [
        ({"grid_size": 3}, 32)
    ] * 2
    with pytest.raises(ffa.UsageError, match="did you mean 'size'"):
        runs.where(sizes="large")
    again = ffa.compare(runs).verdicts
    assert sorted(again.estimate) == pytest.approx(sorted(found.values()))
    status([str(study.folder)])
    lines = capsys.readouterr().out.splitlines()
    assert sum("  kan grid_size=3, size large" in line and "  done" in line for line in lines) == 2
