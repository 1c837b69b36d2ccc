"""Which cells a study has, whatever became of the file that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import UsageError
from slurm import commands
from slurm.cell_state import start_state
from slurm.survey import read_listing

CELLS = ("gpt_neo/gelu/seed1-abc", "gpt_neo/kan/seed1-abd")
LIST = "cells:\n- gpt_neo/gelu/seed1-abc\n- gpt_neo/kan/seed1-abd\n- gpt_neo/relu/seed1-abe\n"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    start_state(tmp_path, CELLS[0], log="")
    run = tmp_path / CELLS[1]
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    (tmp_path / "report" / "figures" / "x").mkdir(parents=True)
    return tmp_path


def test_cells_are_those_that_were_submitted(study: Path) -> None:
    (study / "study.yaml").write_text(f"name: x\nuntil: null\n{LIST}")
    listing = read_listing(study)
    assert listing.run_ids == (*CELLS, "gpt_neo/relu/seed1-abe")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"name: x\n",
        b"num_cells: 2\ncells: [gpt_neo/gelu/seed1-abc]\n",
        b"cells: 3\n",
        b"cells: []\n",
        b"cells: [1, 2]\n",
        b"- x\n",
        b"\0" * 50,
        b"\xff\xfe",
        b"cells: [",
        b"a: *b",
    ],
)
def test_a_damaged_list_is_refused_in_a_line(study: Path, content: bytes) -> None:
    (study / "study.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=r"study\.yaml is damaged.*study run writes it again"):
        commands.study_status([str(study)])


def test_a_folder_without_anything_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no study\.yaml"):
        read_listing(tmp_path)


def test_damaged_decisions_stop_no_status(study: Path, capsys) -> None:
    (study / "study.yaml").write_text(LIST)
    (study / "decisions.json").write_text("{")
    commands.study_status([str(study)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("3 cells:")
    assert any("decisions.json is damaged" in line for line in lines)
