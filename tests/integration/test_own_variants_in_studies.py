"""A study with a variant in its user's file: cells, scores and report, also where the file is gone."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import slurm.study.cells
from base.run.folder_names import RunFolder
from eval.config import EvalConfig
from eval.evaluate import evaluate_runs
from ffn_variants import FFN_VARIANTS
from ffn_variants import variant_files as files
from report.inputs.run_facts import read_facts
from slurm.cell_state import read_state
from slurm.snapshot import take_snapshot
from slurm.study.cells import contents
from slurm.study.cells import own_variants as own_of
from slurm.study.study import load_study
from slurm.worker import run_cells

FORMULA = "a_p x^2 + b x for x > 0, a_n (e^x - 1 - x) + b x elsewhere"


def forget() -> None:
    """Be a process that has not loaded the file."""
    files._FILES.clear()
    FFN_VARIANTS.pop("my-xielu", None)
    for name in [name for name in sys.modules if name.startswith(files.MODULE)]:
        del sys.modules[name]


def pairs(number: int) -> EvalConfig:
    return EvalConfig(suites=("embedded-pairs",), max_pairs=number)


@pytest.mark.usefixtures("own_variants")
@pytest.mark.ci
def test_cells_run_the_copy_and_what_reads_runs_nothing(
    tmp_path: Path, repository: Path, write_study: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(repository / "examples/xielu.py", tmp_path / "mine.py")
    file = write_study(tmp_path, variants=["gelu", "mine.py:XIELU"], seeds=[1])
    study = load_study(file, trust_remote_code=True)
    copy = take_snapshot(study.folder, contents(own_of(study.planned)))
    study.write()
    monkeypatch.setattr(slurm.study.cells, "CODE_ROOT", copy)
    (tmp_path / "mine.py").unlink()
    forget()

    text = (copy / "own_variants/my-xielu.py").read_bytes()
    (copy / "own_variants/my-xielu.py").write_bytes(text + b"\n")
    run_cells(study.cells[1:])
    state = read_state(study.folder, study.cells[1].run_id)
    assert state.name == "missing"  # so that the same command tries it again
    assert "is not the file of the variant 'my-xielu' that was submitted, and was not run" in state.error
    (copy / "own_variants/my-xielu.py").write_bytes(text)

    run_cells(study.cells)
    assert [read_state(study.folder, cell.run_id).name for cell in study.cells] == ["done"] * 2
    gelu, run = (cell.run_dir for cell in study.cells)
    assert (run / "variant.py").read_bytes() == text

    forget()
    facts = read_facts(RunFolder(run), "of the run")
    assert (facts.formula, facts.reference) == (FORMULA, "Huang and Schlag 2024, arXiv:2411.13010")

    outcome = evaluate_runs([run, gelu], pairs(5), num_workers=1, progress=False)
    (failure,) = outcome.failures
    assert f"{run}/model brings its FFN variant 'my-xielu' in ffn_my-xielu.py, which is code; read" in str(
        failure.error
    )
    assert "--trust-remote-code" in str(failure.error)
    assert set(outcome.requested) == {gelu}
    assert "my-xielu" not in FFN_VARIANTS
    outcome = evaluate_runs([run], pairs(5), num_workers=1, progress=False, trust_remote_code=True)
    assert not outcome.failures
    assert len(outcome.requested[run])

    forget()
    (run / "model/ffn_my-xielu.py").write_bytes(text + b"# a stranger's\n")
    (failure,) = evaluate_runs([run], pairs(6), 1, progress=False, trust_remote_code=True).failures
    assert f"{run}/model/ffn_my-xielu.py has " in str(failure.error)
    assert "my-xielu" not in FFN_VARIANTS
