"""Reading JSON and YAML that anybody may have written: one function each, and one line for what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import PACKAGES
from base.model_folders import refuse_code
from base.options import Option, like, read_value
from base.records import parse_json, read_json
from tests.bad_inputs import NO_JSON, UNREADABLE

OWN_ROUND_TRIPS = {"report/document/document.py"}
"""Where what this project wrote just before is read, without a file."""


def test_every_file_goes_through_one_reader_of_its_format(repository: Path) -> None:
    found = {
        path.relative_to(repository).as_posix()
        for package in PACKAGES
        for path in (repository / package).rglob("*.py")
        if re.search(r"\bjson\.loads?\(|\byaml\.\w*load\w*\(|\bJSONDecoder\(", path.read_text())
    }
    assert found == {"base/records.py", "base/config_input.py"} | OWN_ROUND_TRIPS


@pytest.mark.parametrize("name", [name for name in UNREADABLE if name not in ("empty.bin", "loop.yaml")])
def test_what_is_no_yaml_mapping_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(UNREADABLE[name])
    with pytest.raises(UsageError) as told:
        read_yaml(tmp_path / name)
    assert name in str(told.value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_no_json_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_json(NO_JSON[name])
    (tmp_path / "config.json").write_bytes(NO_JSON[name])
    for read in (read_json, lambda path: refuse_code(path.parent)):
        with pytest.raises(UsageError, match=r"config\.json is not JSON \([^\n]+$"):
            read(tmp_path / "config.json")


@pytest.mark.parametrize("digits", [309, 4000, 100_000])
def test_a_number_that_no_float_has_room_for_is_no_option(digits: int) -> None:
    value = like(3, read_value("9" * digits))
    with pytest.raises(UsageError, match="grid_size must be a finite number"):
        Option(default=3, help="").check("grid_size", value)
