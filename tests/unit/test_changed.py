"""Which tests ``make test CHANGED=1`` runs, on a small repository of its own and on this one."""

import subprocess
from pathlib import Path

import pytest

from tests.cases import listed
from tests.changed import changed_files, concerned_tests

FILES = dict(listed(__file__, "a small repository"))


SEES_ALL = {"test_repository": 2}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], commit):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("pack/outer.py", {"pack/test_outer": 1, "test_repository": 2, "pack/test_by_name": 2}),
        # through the package that passes it on, which is no step
        ("pack/inner.py", {"pack/test_inner": 1, **SEES_ALL, "pack/test_outer": 2, "pack/test_by_name": 3}),
        ("pack/page.css", {**SEES_ALL, "pack/test_by_name": 2}),
        ("configs/studies/two-seeds.yaml", {"pack/test_configs": 1, "test_repository": 2}),
        ("tests/unit/pack/test_outer.py", {"pack/test_outer": 0, "test_repository": 2}),
    ],
)
def test_who_imports_it_runs_the_nearest_first(small: Path, changed: str, expected: dict[str, int]) -> None:
    steps = concerned_tests([changed], small)
    assert list(steps.items()) == [(f"tests/unit/{name}.py", step) for name, step in expected.items()]


def test_a_fixture_concerns_all_tests_below_it(small: Path) -> None:
    assert len(concerned_tests(["tests/conftest.py"], small)) == 5


def test_what_changed_is_what_git_sees(small: Path) -> None:
    assert changed_files(small) == []
    (small / "pack/inner.py").write_text("value = 2\n")
    (small / "pack/new.py").write_text("")
    assert changed_files(small) == ["pack/inner.py", "pack/new.py"]


def test_a_module_of_this_project_is_tested_by_the_tests_of_its_name_first() -> None:
    first, *_ = concerned_tests(["ffn_variants/splines/b_splines.py"])
    assert first == "tests/unit/ffn_variants/splines/test_b_splines.py"
