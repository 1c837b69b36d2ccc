"""What a study's file may have evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import UsageError
from eval.command import study_config
from eval.config import EvalConfig


def test_task_files_of_a_study_need_the_flag_of_whoever_runs_them(tmp_path):
    (tmp_path / "study.yaml").write_text("evaluation: {tasks: [mine], include_path: [tasks]}")
    with pytest.raises(UsageError, match=r"may run code; if you trust them, add --include-path tasks"):
        study_config([tmp_path])
    assert study_config([tmp_path], [Path("tasks")]).include_path == (Path("tasks"),)


def test_what_older_studies_asked_beside_scores_is_passed_over(tmp_path):
    (tmp_path / "study.yaml").write_text("evaluation: {suites: [blimp], check_contamination: true}")
    assert study_config([tmp_path]) == EvalConfig(suites=("blimp",))
