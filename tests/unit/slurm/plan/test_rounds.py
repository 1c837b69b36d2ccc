"""Tuning in a plan: rounds that follow, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slurm.plan.lines import Machines, StudyPlan
from slurm.plan.make import plan_study, stages_of
from slurm.study.study import Study, load_study


def study(tmp_path: Path, repository: Path, tune: dict, **changes: object) -> Study:
    content = {
        "name": "tuned",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu", "relu"],
        "tokens": ["1M"],
        "seeds": "1-4",
        "tune": {"seeds": [101, 102, 103], **tune},
        "config": {"output": {"runs_dir": str(tmp_path / "runs")}},
        "evaluation": {"suites": ["embedded-pairs"]},
        "report": {"primary": ["held-out-loss"]},
    } | changes
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return load_study(path)


def counts(asked: Study) -> dict[str, tuple[int, bool]]:
    stages = stages_of(asked, asked.cells)
    return {stage.name: (len(stage.cells), stage.is_certain) for stage in stages}


def plan(asked: Study) -> StudyPlan:
    return plan_study(asked, asked.cells, Machines(2))


def test_a_grid_may_grow_at_both_ends_and_main_cells_follow(tmp_path: Path, repository: Path) -> None:
    asked = study(tmp_path, repository, {"optim.learning_rate": [1.0e-3, 3.0e-3, 9.0e-3], "widen": 2})
    assert counts(asked) == {
        "tuning": (2 * 3 * 3, True),  # variants x rates x seeds
        "tuning, where the grid grows": (2 * 4 * 3, False),  # two rates more at each end
        "main, at each one's own best": (2 * 4, True),
        "shared rate": (4, False),  # relu's; gelu's own is the shared one
    }
    assert plan(asked).in_all().runs == 18 + 8
    assert plan(asked).in_all(most=True).runs == 18 + 24 + 8 + 4


def test_tuning_runs_are_not_evaluated(tmp_path: Path, repository: Path) -> None:
    found = plan(study(tmp_path, repository, {"optim.learning_rate": [1.0e-3, 3.0e-3], "widen": 0}))
    assert {stage.name: {line.work for line in stage.lines} for stage in found.stages} == {
        "tuning": {"training"},
        "main, at each one's own best": {"training", "evaluation"},
        "shared rate": {"training", "evaluation"},
    }


def test_a_grid_of_two_fields_grows_in_both(tmp_path: Path, repository: Path) -> None:
    tune = {"optim.learning_rate": [1.0e-3, 3.0e-3], "optim.weight_decay": [0.01, 0.1], "widen": 1}
    asked = study(tmp_path, repository, tune)
    assert counts(asked)["tuning"][0] == 2 * 4 * 3
    assert counts(asked)["tuning, where the grid grows"][0] == 2 * (16 - 4) * 3


def test_runs_of_later_rungs_are_fewer_and_longer(tmp_path: Path, repository: Path) -> None:
    rates = [1.0e-4, 3.0e-4, 1.0e-3, 3.0e-3, 1.0e-2]
    asked = study(tmp_path, repository, {"optim.learning_rate": rates, "method": "successive-halving"})
    found = counts(asked)
    assert found["tuning"] == (2 * 5 * 3, True)
    assert found["tuning, later rungs"] == (2 * (2 + 1) * 3, True)
    assert "tuning, where the grid grows" not in found
    by_name = {stage.name: stage for stage in plan(asked).stages}
    of_first = by_name["tuning"].lines[0].tokens
    later = {line.tokens: line.runs for line in by_name["tuning, later rungs"].lines[:2]}
    assert of_first is not None
    assert [round(tokens / of_first, 2) for tokens in later if tokens] == pytest.approx([2, 4], abs=0.02)
    assert list(later.values()) == [6, 3]


def test_looks_come_on_top_of_a_tuned_study(tmp_path: Path, repository: Path) -> None:
    asked = study(
        tmp_path,
        repository,
        {"optim.learning_rate": [1.0e-3, 3.0e-3], "widen": 0},
        seeds={"first": 3, "most": 9, "until": "decided"},
    )
    found = counts(asked)
    assert found["main, at each one's own best"] == (2 * 3, True)
    assert found["more seeds, if undecided"] == (2 * 6, False)


def test_what_follows_is_said_in_the_study_s_folder(tmp_path: Path, repository: Path) -> None:
    asked = study(tmp_path, repository, {"optim.learning_rate": [1.0e-3, 3.0e-3], "widen": 0})
    assert asked.to_come == {"main": 8, "shared": 4}
