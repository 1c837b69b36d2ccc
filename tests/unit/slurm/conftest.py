"""Studies of the tests of this folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slurm.study.study import Study, load_study


@pytest.fixture
def write_study(tmp_path: Path, repository: Path) -> Callable[..., Path]:
    """Write a study of two variants and two seeds, with changes at its top level; None leaves a key out."""

    def write(**changes: Any) -> Path:
        content = {
            "name": "test",
            "families": {"gpt_neo": str(repository / "configs/tiny.yaml")},
            "variants": ["gelu", "kan"],
            "seeds": [1, 2],
            "config": {"output": {"runs_dir": str(tmp_path / "runs")}},
            "evaluation": {"suites": []},
        } | changes
        given = {name: value for name, value in content.items() if value is not None}
        file = tmp_path / "study.yaml"
        file.write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
        return file

    return write


@pytest.fixture
def load(write_study: Callable[..., Path]) -> Callable[..., Study]:
    """Read such a study."""
    return lambda **changes: load_study(write_study(**changes))
