"""What a plan says of a study's cost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from base.progress import duration
from eval.config import EvalConfig
from eval.suites.registry import SUITES
from pretrain.data.embedded import classification_tasks
from pretrain.data.prepare import prepare_data
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.run_dir import write_config
from slurm.plan.lines import Machines, PlanLine, PlanStage, StudyPlan
from slurm.plan.make import plan_study
from slurm.plan.shapes import _COUNTS, _LETTERS
from slurm.plan.text import render
from slurm.study.cells import RunCell
from slurm.study.study import Study, load_study


def study(tmp_path: Path, repository: Path, **changes: object) -> Study:
    content = {
        "name": "cost",
        "families": {"gpt_neo": str(repository / "configs" / "gpt-neo.yaml")},
        "variants": ["gelu", "kan"],
        "seeds": [1, 2, 3],
        "config": {"output": {"runs_dir": str(tmp_path / "runs")}},
        "evaluation": {"suites": ["embedded-pairs"]},
    } | changes
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_study(path)


def finish(run_dir: Path, config, tokens_per_s: float, time_s: float = 0.0) -> None:
    """A run folder as a finished pretraining leaves it."""
    run_dir.mkdir(parents=True)
    write_config(run_dir, config)
    record = {"device": "GPU X", "results": {"mean_tokens_per_s": tokens_per_s, "time_s": time_s}}
    (run_dir / "provenance.json").write_text(json.dumps(record))
    (run_dir / "COMPLETED").touch()


def plan_of(asked: Study, **how) -> StudyPlan:
    return plan_study(asked, asked.cells, Machines(2), **how)


def lines_of(plan: StudyPlan, work: str = "training", stage: int = 0) -> list[PlanLine]:
    return [line for line in plan.stages[stage].lines if line.work == work]


def test_hours_come_from_finished_runs_of_the_same_shape(tmp_path: Path, repository: Path) -> None:
    asked = study(tmp_path, repository)
    assert all(line.hours is None for line in lines_of(plan_of(asked)))
    gelu = [cell for cell in asked.cells if cell.config.model.ffn == "gelu"]
    finish(gelu[0].run_dir, gelu[0].config, 100_000.0)
    finish(gelu[1].run_dir, gelu[1].config, 300_000.0)
    # Another study's, of another shape: it says nothing about these cells.
    output = {"runs_dir": str(tmp_path / "runs")}
    small = study(tmp_path, repository, name="other", config={"model": {"hidden_size": 64}, "output": output})
    finish(small.cells[0].run_dir, small.cells[0].config, 9e9)

    plan = plan_of(asked)
    line, other = sorted(lines_of(plan), key=lambda each: each.variant)
    assert (line.variant, line.runs) == ("gelu", 1)  # the other two are trained
    assert (other.variant, other.runs, other.hours) == ("kan", 3, None)
    assert line.tokens is not None
    assert 4.6e8 < line.tokens < 4.7e8  # one epoch of the hub's TinyStories
    assert line.hours is not None
    assert line.hours.hours == pytest.approx(line.tokens / 200_000 / 3600)
    assert line.hours.source == "GPU X; runs measured: 2"
    text = render(plan)
    assert f"{duration(3600 * line.hours.hours)} (GPU X; runs measured: 2)" in text
    assert "hours of 3 runs are not known" in text


def test_flops_are_three_forward_passes_of_every_token(tmp_path: Path, repository: Path) -> None:
    (line,) = lines_of(plan_of(study(tmp_path, repository, variants=["gelu"])))
    # By hand, a token: FFN and attention projections of two layers, the head, attention over 512 places.
    forward = 2 * (2 * (2 * 512 * 1024 + 4 * 512 * 512) + 512 * 10_000) + 2 * 2 * 2 * 512 * 512
    assert line.flops == pytest.approx(3 * forward * line.tokens, rel=0.02)


def test_parameters_are_those_of_the_stock_model(tmp_path: Path, repository: Path) -> None:
    (line,) = lines_of(plan_of(study(tmp_path, repository, variants=["gelu"])))
    stock = GPTNeoConfig(
        vocab_size=10_000,
        hidden_size=512,
        intermediate_size=1024,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=512,
    )
    parameters = GPTNeoForCausalLM(stock).num_parameters()
    assert line.parameters == parameters
    assert f" {parameters:,} " in render(StudyPlan((PlanStage("main", (line,)),)))


def test_experts_are_all_counted_and_vocabularies_are_lines_of_their_own(
    tmp_path: Path, repository: Path
) -> None:
    axes = {"data.vocab_size": [5_000, 10_000]}
    lines = lines_of(plan_of(study(tmp_path, repository, variants=["gelu", "moe"], axes=axes)))
    parameters = {(line.variant, dict(line.places)["data.vocab_size"]): line.parameters for line in lines}
    assert [line.runs for line in lines] == [3] * 4
    for variant in ("gelu", "moe"):  # one matrix, as the head is tied
        assert parameters[variant, "10000"] - parameters[variant, "5000"] == 5_000 * 512
    # Eight experts of 1024 channels with biases, and a router, for two FFNs of one each.
    of_ffn = 2 * 512 * 1024 + 1024 + 512
    more = parameters["moe", "5000"] - parameters["gelu", "5000"]
    assert more == pytest.approx(2 * 7 * of_ffn, rel=0.01)


def test_nothing_to_run_costs_nothing(tmp_path: Path, repository: Path) -> None:
    asked = study(tmp_path, repository, variants=["gelu"])
    assert render(plan_study(asked, [], Machines())) == "nothing to run"
    for cell in asked.cells:
        finish(cell.run_dir, cell.config, 100_000.0)
    assert "no training: all of these cells are trained" in render(plan_of(asked))


def write_study_file(asked: Study) -> None:
    folder = StudyFolder(asked.folder)
    folder.study_file.write_text(
        yaml.safe_dump({"evaluation": asked.config.evaluation.model_dump(mode="json")})
    )


def write_state(run_dir: Path, **values: object) -> None:
    run = RunFolder(run_dir)
    file = run.study.cell_file(run.run_id)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"name": "done", "attempts": 1} | values))


def test_evaluations_that_were_timed_come_first(tmp_path: Path, repository: Path) -> None:
    asked = study(tmp_path, repository, variants=["gelu"])
    now = time.time()
    finish(asked.cells[0].run_dir, asked.cells[0].config, 1e5, time_s=3000.0)
    finish(asked.cells[1].run_dir, asked.cells[1].config, 1e5, time_s=3000.0)
    write_study_file(asked)
    # One of this version, one of a version that did not note when training had ended.
    write_state(asked.cells[0].run_dir, started_s=now - 9000, trained_s=now - 1800, finished_s=now)
    write_state(asked.cells[1].run_dir, started_s=now - 3900, finished_s=now)
    plan = plan_study(asked, asked.cells[2:], Machines())
    (line,) = lines_of(plan, "evaluation")
    assert line.hours is not None
    assert line.hours.hours == pytest.approx((1800 + 900) / 2 / 3600)
    assert line.hours.is_measured
    assert line.hours.source == "GPU X; evaluations measured: 2"


def test_another_evaluation_s_seconds_do_not_count(tmp_path: Path, repository: Path) -> None:
    other = study(tmp_path, repository, variants=["gelu"], evaluation={"suites": ["embedded-glue"]})
    now = time.time()
    finish(other.cells[0].run_dir, other.cells[0].config, 1e5, time_s=3000.0)
    write_study_file(other)
    write_state(other.cells[0].run_dir, started_s=now - 9000, trained_s=now - 1800, finished_s=now)
    asked = study(tmp_path, repository, variants=["gelu"])
    (line,) = lines_of(plan_study(asked, asked.cells[1:], Machines()), "evaluation")
    assert line.hours is not None
    assert not line.hours.is_measured
    assert line.hours.source.startswith("estimate, at the FLOP/s of training")
    trained = lines_of(plan_study(asked, asked.cells[1:], Machines()))[0]
    assert trained.hours is not None
    rate = trained.flops / (3600 * trained.hours.hours)
    assert line.hours.hours == pytest.approx(line.flops / rate / 3600)


def test_scoring_reads_every_text_and_fine_tuning_every_example_as_often_as_it_is_read(
    tmp_path: Path, repository: Path
) -> None:
    """By hand: 2 sentences of 60 pairs a paradigm; 4 letters a token."""
    asked = study(tmp_path, repository, variants=["gelu"])
    (line,) = lines_of(plan_of(asked), "evaluation")
    tasks = SUITES["embedded-pairs"].find(EvalConfig(suites=("embedded-pairs",)), None)
    letters = [
        len(row[key]) for task in tasks for row in task.read() for key in ("sentence_good", "sentence_bad")
    ]
    assert line.tokens == pytest.approx(sum(letters) / 4, rel=0.001)
    length = round(sum(letters) / 4 / len(letters))
    forward = 2 * (2 * (2 * 512 * 1024 + 4 * 512 * 512) + 512 * 10_000) + 2 * 2 * 2 * length * 512
    assert line.flops == pytest.approx(forward * line.tokens, rel=0.02)

    finetune = {"num_train_epochs": 2, "seeds": [1, 2], "select_on": "validation", "eval_steps": "epoch"}
    tuned = study(
        tmp_path,
        repository,
        variants=["gelu"],
        evaluation={"suites": ["embedded-glue"], "finetune": finetune},
    )
    (line,) = lines_of(plan_of(tuned), "evaluation")
    trained = evaluated = 0.0
    for splits in classification_tasks(2024).values():
        texts = {
            part: sum(min(128, len("".join(_texts(row))) / 4) for row in splits[part])
            for part in ("train", "validation")
        }
        trained += 2 * 2 * texts["train"]
        evaluated += 2 * (2 + 1) * texts["validation"]
    assert line.tokens == pytest.approx(trained + evaluated, rel=0.02)
    body = 2 * 2 * (2 * 512 * 1024 + 4 * 512 * 512)  # no vocabulary; attention over a few words is little
    assert line.flops == pytest.approx(body * (3 * trained + evaluated), rel=0.03)


def _texts(row: dict) -> list[str]:
    return [row[key] for key in ("sentence", "sentence1", "sentence2") if key in row]


def test_levels_of_like_cost_are_one_line_and_looks_are_at_most(tmp_path: Path, repository: Path) -> None:
    asked = study(
        tmp_path,
        repository,
        variants=["gelu", "relu"],
        tokens=["1M", "4M"],
        axes={"optim.learning_rate": [1.0e-3, 3.0e-3]},
        seeds={"first": 3, "most": 9, "until": "decided"},
        report={"primary": ["held-out-loss"]},
    )
    plan = plan_of(asked)
    assert [(stage.name, stage.is_certain) for stage in plan.stages] == [
        ("main", True),
        ("more seeds, if undecided", False),
    ]
    lines = lines_of(plan)
    assert [(line.variant, line.place, line.runs) for line in lines] == [
        ("gelu", "1M", 6),
        ("relu", "1M", 6),
        ("gelu", "4M", 6),
        ("relu", "4M", 6),
    ]
    assert lines[0].tokens == pytest.approx(1e6, rel=0.12)
    assert (plan.in_all().runs, plan.in_all(most=True).runs) == (24, 72)


def test_text_is_counted_by_its_letters(tmp_path: Path, repository: Path) -> None:
    words = ["a short story", "and another one, a little longer"] * 50
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": word}) + "\n" for word in words))
    held_out = tmp_path / "held-out.jsonl"
    held_out.write_text(json.dumps({"text": "not trained on"}) + "\n")
    data = {"source": "files", "train_files": [str(text)], "validation_files": [str(held_out)]}
    config = {"output": {"runs_dir": str(tmp_path / "runs")}, "data": data, "optim": {"num_train_epochs": 3}}
    asked = study(tmp_path, repository, variants=["gelu"], config=config)
    (line,) = lines_of(plan_of(asked))
    assert line.tokens == pytest.approx(3 * sum(map(len, words)) / 4, abs=1)
    assert "by the letters" in line.note
    assert not (tmp_path / "runs").exists()


def test_what_was_prepared_before_changes_no_plan(tmp_path: Path, repository: Path) -> None:
    """Its tokenizer has fewer tokens than were asked for, as those of small texts have."""
    config = {
        "output": {"runs_dir": str(tmp_path / "runs")},
        "data": {"source": "embedded", "num_stories": 20, "vocab_size": 4000},
        "optim": {"max_steps": None, "num_train_epochs": 1},
    }
    asked = study(tmp_path, repository, variants=["gelu"], config=config)
    before = lines_of(plan_of(asked))
    trained = next(cell.config for cell in asked.cells if isinstance(cell, RunCell))
    assert len(prepare_data(trained).tokenizer) < 4000
    _LETTERS.clear()
    _COUNTS.clear()
    assert lines_of(plan_of(asked)) == before
