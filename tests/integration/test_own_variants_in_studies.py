"""A study with a variant in its user's file: cells, scores and report, also where the file is gone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import yaml

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


@pytest.fixture
def study_file(tmp_path: Path, repository: Path) -> Path:
    shutil.copy(repository / "examples/xielu.py", tmp_path / "mine.py")
    content = {
        "name": "own",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu", "mine.py:XIELU"],
        "seeds": [1, 2],
        "config": {
            "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2},
            "data": {"num_stories": 200, "vocab_size": 400},
            "optim": {"max_steps": 4},
            "train": {"torch_compile": False, "save_steps": 2},
            "output": {"runs_dir": str(tmp_path / "runs")},
        },
        "evaluation": {"suites": ["embedded-pairs"], "max_pairs": 1},
    }
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def forget() -> None:
    """Be a process that has not loaded the file."""
    files._FILES.clear()
    FFN_VARIANTS.pop("my-xielu", None)
    for name in [name for name in sys.modules if name.startswith(files.MODULE)]:
        del sys.modules[name]


@pytest.mark.usefixtures("own_variants")
@pytest.mark.ci
def test_cells_run_the_copy_and_what_reads_runs_nothing(study_file, tmp_path, monkeypatch, capsys):
    study = load_study(study_file, trust_remote_code=True)
    copy = take_snapshot(study.folder, contents(own_of(study.planned)))
    study.write()
    monkeypatch.setattr(slurm.study.cells, "CODE_ROOT", copy)
    (tmp_path / "mine.py").unlink()
    forget()

    text = (copy / "own_variants/my-xielu.py").read_bytes()
    (copy / "own_variants/my-xielu.py").write_bytes(text + b"\n")
    run_cells(study.cells[1:2])
    state = read_state(study.folder, study.cells[1].run_id)
    assert state.name == "missing"  # so that the same command tries it again
    assert "is not the file of the variant 'my-xielu' that was submitted, and was not run" in state.error
    (copy / "own_variants/my-xielu.py").write_bytes(text)

    run_cells(study.cells[:2])
    assert [read_state(study.folder, cell.run_id).name for cell in study.cells[:2]] == ["done"] * 2
    run = study.cells[1].run_dir
    assert (run / "variant.py").read_bytes() == text

    forget()
    facts = read_facts(RunFolder(run), "of the run")
    assert (facts.formula, facts.reference) == (FORMULA, "Huang and Schlag 2024, arXiv:2411.13010")

    gelu, more = study.cells[0].run_dir, EvalConfig(suites=("embedded-pairs",), max_pairs=2)
    outcome = evaluate_runs([run, gelu], more, num_workers=1, progress=False)
    (failure,) = outcome.failures
    assert str(failure.error) == (
        f"{run}/model brings its FFN variant 'my-xielu' in ffn_my-xielu.py, which is code; read that file, "
        "then consent to run it: --trust-remote-code, in Python trust_remote_code=True"
    )
    assert set(outcome.requested) == {gelu}
    assert "my-xielu" not in FFN_VARIANTS
    outcome = evaluate_runs([run], more, num_workers=1, progress=False, trust_remote_code=True)
    assert not outcome.failures
    assert len(outcome.requested[run])

    forget()
    (run / "model/ffn_my-xielu.py").write_bytes(text + b"# a stranger's\n")
    most = EvalConfig(suites=("embedded-pairs",), max_pairs=3)
    (failure,) = evaluate_runs([run], most, 1, progress=False, trust_remote_code=True).failures
    assert f"{run}/model/ffn_my-xielu.py has " in str(failure.error)
    assert "my-xielu" not in FFN_VARIANTS
