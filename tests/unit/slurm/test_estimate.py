"""What a plan says of a study's cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from pretrain.run.run_dir import write_config
from slurm.estimate import describe_cost, measured_speed
from slurm.study import Study, load_study


def study(tmp_path: Path, repository: Path, **changes: object) -> Study:
    content = {
        "name": "cost",
        "families": {"gpt_neo": str(repository / "configs" / "gpt-neo.yaml")},
        "variants": ["gelu", "kan"],
        "seeds": [1, 2, 3],
        "config": {"output": {"runs_dir": str(tmp_path / "runs")}},
        "evaluation": {"suites": ["embedded-pairs"]},
    } | changes
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_study(path)


def finish(run_dir: Path, config, tokens_per_s: float) -> None:
    """A run folder as a finished pretraining leaves it."""
    run_dir.mkdir(parents=True)
    write_config(run_dir, config)
    record = {"device": "GPU X", "results": {"mean_tokens_per_s": tokens_per_s}}
    (run_dir / "provenance.json").write_text(json.dumps(record))
    (run_dir / "COMPLETED").touch()


def test_hours_come_from_finished_runs_of_the_same_shape(tmp_path: Path, repository: Path) -> None:
    plan = study(tmp_path, repository)
    assert measured_speed(plan.cells[0]) is None
    gelu = [cell for cell in plan.cells if cell.config.model.ffn == "gelu"]
    finish(gelu[0].run_dir, gelu[0].config, 100_000.0)
    finish(gelu[1].run_dir, gelu[1].config, 300_000.0)
    # Another study's, of another shape: it says nothing about these cells.
    output = {"runs_dir": str(tmp_path / "runs")}
    small = study(tmp_path, repository, name="other", config={"model": {"hidden_size": 64}, "output": output})
    finish(small.cells[0].run_dir, small.cells[0].config, 9e9)

    text = describe_cost(plan.cells)
    line = next(x for x in text.splitlines() if " gelu " in x)
    tokens = int(line.split()[3].replace(",", ""))
    assert 4.6e8 < tokens < 4.7e8  # one epoch of the hub's TinyStories
    hours = tokens / 200_000 / 3600
    assert f"{hours:.2f} (GPU X; runs measured: 2)" in line
    assert line.split()[2] == "1"  # the other two are trained
    assert "cost of training 4 of these 6 cells" in text
    assert f"{hours:.1f} hours of training" in text
    assert "3 cells of sizes that no finished run" in text  # kan


def test_flops_are_three_forward_passes_of_every_token(tmp_path: Path, repository: Path) -> None:
    text = describe_cost(study(tmp_path, repository, variants=["gelu"]).cells)
    line = next(x for x in text.splitlines() if " gelu " in x)
    tokens, petaflops = (float(x.replace(",", "")) for x in line.split()[3:5])
    # By hand, a token: FFN and attention projections of two layers, the head, attention over 512 places.
    forward = 2 * (2 * (2 * 512 * 1024 + 4 * 512 * 512) + 512 * 10_000) + 2 * 2 * 2 * 512 * 512
    assert petaflops * 1e15 == pytest.approx(3 * forward * tokens, rel=0.02)
    assert re.search(r"[\d,.]+ PFLOP of training in all", text)


def test_nothing_to_run_costs_nothing(tmp_path: Path, repository: Path) -> None:
    assert describe_cost([]) == "nothing to run"
    plan = study(tmp_path, repository, variants=["gelu"])
    for cell in plan.cells:
        finish(cell.run_dir, cell.config, 100_000.0)
    assert "no training: all of these cells are trained" in describe_cost(plan.cells)
