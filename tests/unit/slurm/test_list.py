"""The list of studies in a folder of runs."""

from __future__ import annotations

from pathlib import Path

from slurm.cell_state import CellState, write_state
from slurm.survey import studies_table


def test_each_study_has_a_line_with_its_states(tmp_path: Path) -> None:
    ids = [f"gpt_neo/gelu/seed{seed}-abc" for seed in (1, 2, 3)]
    for name, cells in (("b", ids), ("a", ids[:1])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.yaml").write_text(f"name: {name}\ncells: [{', '.join(cells)}]\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.yaml").write_text("cells: 3\n")
    (tmp_path / "no-study").mkdir()
    (tmp_path / "file").touch()
    for run_id, name in zip(ids, ("done", "failed", "done"), strict=True):
        write_state(tmp_path / "b", run_id, CellState(name=name))
    header, *rows = [line.split(None, 2) for line in studies_table(tmp_path).splitlines()]
    assert header == ["study", "cells", "state"]
    assert rows[0] == [str(tmp_path / "a"), "1", "1 waiting"]
    assert rows[1] == [str(tmp_path / "b"), "3", "2 done, 1 failed"]
    assert rows[2][:2] == [str(tmp_path / "broken"), "-"]
    assert "names no cells" in rows[2][2]
    assert len(rows) == 3
