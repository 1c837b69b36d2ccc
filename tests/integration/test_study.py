"""Small studies from one command to their report: of trainings, tuned, and of pretrained models."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from transformers import BertConfig, BertForMaskedLM

from eval.backbones import backbone_runs
from eval.config import EvalConfig
from eval.evaluate import evaluate_run
from slurm.cell_state import read_state
from slurm.commands import study_status as status
from slurm.study.study import load_study
from slurm.worker import run_cells

COMMAND = [sys.executable, "-m", "ffn_ablations", "study"]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=280)


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def start(study: Path, *words: object, in_background: bool = False) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; returns when a cell of its study trains."""
    called = [*COMMAND, *map(str, words)]
    if in_background:  # of a script: its shell lets it ignore SIGINT
        called = ["sh", "-c", f"trap '' INT; exec {shlex.join(called)}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(called, start_new_session=True, **quiet)
    wait_until(lambda: process.poll() is not None or list(study.glob("*/*/seed*/metrics.jsonl")))
    return process


def members(session: int) -> list[str]:
    """The processes of a session that are left, by their numbers."""
    found = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True)
    return found.stdout.split()


@pytest.mark.ci
def test_a_study_arrives_at_its_report_and_repeats_nothing(tmp_path, write_study, run_study, capsys):
    file, study = write_study(tmp_path), tmp_path / "runs" / "study"
    assert run_study(file, "--dry-run") == 0
    assert "4 cells" in capsys.readouterr().out
    assert not study.exists()

    assert run_study(file) == 0
    report = Path(capsys.readouterr().out.splitlines()[-1])
    assert report == study / "report" / "report.md"
    tables = sorted(study.glob("*/*/seed*/eval/rows.parquet"))
    assert len(tables) == 4
    rows = pd.concat(map(pd.read_parquet, tables))
    assert not rows.duplicated(["run_id", "benchmark", "task", "metric"]).any()
    # Every verdict is about the difference of the means of what the runs keep.
    means = rows.groupby(["variant", "run_id"])["score"].mean().groupby("variant").mean()
    numbers = json.loads((study / "report" / "report.json").read_text())
    (pairs,) = (each for each in numbers["comparisons"] if each["benchmark"] == "embedded-pairs")
    assert pairs["contrast"] == "relu - gelu"
    assert pairs["estimate"] == pytest.approx(means["relu"] - means["gelu"])
    assert pairs["verdict"] in report.read_text()
    written = {path: path.stat().st_mtime_ns for path in study.glob("*/*/seed*/**/*") if path.is_file()}

    assert run_study(file, "--no-report") == 0
    assert "4 done" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in written} == written
    status([str(study)])
    assert capsys.readouterr().out.splitlines()[-1] == "4 cells: 4 done"
    shutil.rmtree(tables[0].parent)
    status([str(study)])
    assert "its scores were removed" in (shown := capsys.readouterr().out)
    assert "3 done" in shown


@pytest.mark.slow
@pytest.mark.parametrize("in_background", [False, True])
def test_a_cancelled_study_saves_and_continues(tmp_path, write_study, in_background):
    long_enough = {"optim": {"max_steps": 300}, "train": {"save_steps": 100}}
    file, study = write_study(tmp_path, config=long_enough), tmp_path / "runs" / "study"
    args = ("run", file, "--workers", 1, "--no-report")
    process = start(study, *args, in_background=in_background)
    second = run(*args)
    assert second.returncode == 2
    assert "so nothing was submitted" in second.stderr
    cancelled = run("cancel", file)
    assert cancelled.stdout.strip() == f"cancelled: process {process.pid}"
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    wait_until(lambda: not members(process.pid), 60)
    assert "nothing of this study" in run("cancel", file).stdout
    again = run("run", file)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 of 4 cells done" in again.stdout


def test_a_diverged_cell_is_failed_and_not_trained_again(tmp_path, write_study, capfd):
    diverging = {"optim": {"max_steps": 20, "learning_rate": 50.0}}
    study = load_study(write_study(tmp_path, seeds=[1], config=diverging))
    (cell,) = (cell for cell in study.cells if "/gelu/" in cell.run_id)
    for attempt in (1, 2):
        run_cells([cell])
        state = read_state(study.folder, cell.run_id)
        assert (state.name, state.attempts) == ("failed", attempt)
        assert re.search(r"the loss is \S+ and had to stay below 2\d\..* at step \d+; lower", state.error)
    assert (cell.run_dir / "FAILED").is_file()
    assert "or remove" in state.error
    assert capfd.readouterr().out.count("device  ") == 1
    study.write()
    status([str(study.folder)])
    assert "failed" in (shown := capfd.readouterr().out)
    assert "had to stay below" in shown


FEW = {"num_train_epochs": 2, "max_train_examples": 64, "max_validation_examples": 24, "learning_rate": 0.01}
HEADS = {"head": ["linear frozen", "fourier-kan frozen"]}
EVALUATION = {"suites": ["embedded-glue"], "finetune": HEADS | FEW}


@pytest.fixture
def bert(tmp_path: Path, tokenizer) -> Path:
    """A model that is none of this project's."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, pad_token_id=0, **sizes)
    folder = tmp_path / "models/tiny-bert"
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def study(tmp_path: Path, bert: Path, write_run) -> Path:
    own = write_run(tmp_path / "other", study="own")
    content = {"name": "published", "backbones": [str(bert), str(own)], "seeds": [1, 2]}
    content |= {"evaluation": EVALUATION, "report": {"factor": "head", "baseline": "linear frozen"}}
    path = tmp_path / "published.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.mark.ci
def test_heads_on_pretrained_models_arrive_at_a_report(study, bert, tmp_path, run_study, evaluate, capsys):
    runs = tmp_path / "runs"
    assert run_study(study, "--runs-dir", runs, "--dry-run") == 0
    plan = capsys.readouterr().out
    assert f"  backbone  {bert} (folder)" in plan
    assert "4 cells" in plan
    assert "no training" in plan
    assert not runs.exists()

    assert run_study(study, "--runs-dir", runs) == 0
    assert "4 of 4 cells done" in capsys.readouterr().out
    names = ["tiny-bert", "gpt_neo-swish-seed3"]
    found = sorted(path.parts[-4] for path in (runs / "published/pretrained").glob("*/seed*/eval/rows.csv"))
    assert found == sorted(names * 2)
    report = json.loads((runs / "published/report/report.json").read_text())
    assert {c["contrast"] for c in report["comparisons"]} == {"fourier-kan frozen - linear frozen"}
    page = (runs / "published/report/report.md").read_text()
    assert "are seeds of fine-tuning" in page
    assert "| tiny-bert |" in page
    assert "without a score" not in page.lower()

    # The same model, named to the evaluation by hand: the same scores at the same seed.
    (by_hand,) = backbone_runs(bert, (2,), tmp_path / "hand")
    expected = evaluate_run(by_hand, EvalConfig.model_validate(EVALUATION), progress=False)
    (own,) = (runs / "published/pretrained/tiny-bert").glob("seed2-*")
    rows = pd.read_parquet(own / "eval/rows.parquet")
    keys = ["task", "metric", "head"]
    pd.testing.assert_series_equal(rows.set_index(keys)["score"], expected.set_index(keys)["score"])
    assert set(rows["family"]) == {"pretrained"}
    assert set(rows["variant"]) == {"tiny-bert"}

    assert run_study(study, "--runs-dir", runs, "--no-report") == 0
    assert "0 cells run" in capsys.readouterr().out

    bert.rename(bert.with_name("elsewhere"))
    assert evaluate(runs / "published", "--workers", 1) == 2
    told = f"{bert}, which {runs}/published/pretrained/tiny-bert/seed1-"
    assert told in capsys.readouterr().err
