"""What a forecast says of a study's cost, against counts by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from base.printing import duration
from pretrain.data.prepare import prepare_data
from pretrain.run.run_folder import write_config
from slurm.study.study import Study, load_study
from slurm.study_dry_run import _COSTS, _LETTERS, Cost, ForecastLine, Speed, forecast, render

RATE = "optim.learning_rate"
SPEED = Speed(10.0, "GPU X", 2)


def study(tmp_path: Path, repository: Path, base: str = "gpt-neo", **changes: Any) -> Study:
    content = {
        "name": "cost",
        "families": {"gpt_neo": str(repository / "configs" / f"{base}.yaml")},
        "variants": ["gelu"],
        "seeds": [1, 2, 3],
        "config": {"output": {"runs_dir": str(tmp_path / "runs")}},
        "evaluation": {"suites": ["embedded-pairs"]},
        "report": {"primary": ["held-out-loss"]},
    } | changes
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return load_study(path)


def finish(cell: Any, tokens_per_s: float, device: str = "GPU X") -> None:
    """Leave a run folder as a finished pretraining does."""
    cell.run_dir.mkdir(parents=True)
    write_config(cell.run_dir, cell.config)
    record = {"device": device, "results": {"mean_tokens_per_s": tokens_per_s}}
    (cell.run_dir / "provenance.json").write_text(json.dumps(record))
    (cell.run_dir / "COMPLETED").touch()


def lines_of(asked: Study) -> list[ForecastLine]:
    """The lines of the first stage."""
    lines = forecast(asked, asked.cells)
    return [line for line in lines if line.stage == lines[0].stage]


def counts(asked: Study) -> dict[str, int]:
    runs: Counter[str] = Counter()
    for line in forecast(asked, asked.cells):
        runs[line.stage] += line.runs
    return dict(runs)


def test_hours_come_from_finished_runs_of_the_same_shape(tmp_path: Path, repository: Path) -> None:
    asked = study(tmp_path, repository, variants=["gelu", "kan"], seeds="1-4")
    assert [line.cost.hours for line in lines_of(asked)] == [None, None]
    gelu = [cell for cell in asked.cells if cell.variant == "gelu"]
    finish(gelu[0], 100_000.0)
    finish(gelu[1], 300_000.0)
    finish(gelu[2], 9e9, device="one that fewer runs were on")
    for number, changed in enumerate(({"model": {"hidden_size": 64}}, {"train": {"batch_size": 2}})):
        output = {"runs_dir": str(tmp_path / "runs")}  # of another study, of another shape
        other = study(tmp_path, repository, name=f"other{number}", config={**changed, "output": output})
        finish(other.cells[0], 9e9)

    lines = forecast(asked, asked.cells)
    trained, kan, gelu_left = sorted(lines, key=lambda line: (line.cost.tokens or 0, line.runs * -1))
    assert (trained.variant, trained.runs, trained.cost.parameters, trained.cost.hours) == (
        "gelu",
        3,
        None,
        None,
    )
    assert (kan.variant, kan.runs, kan.cost.hours) == ("kan", 4, None)
    assert (gelu_left.variant, gelu_left.runs) == ("gelu", 1)
    assert gelu_left.cost.tokens is not None
    assert 4.6e8 < gelu_left.cost.tokens < 4.7e8  # one epoch of the hub's TinyStories
    assert gelu_left.cost.hours == pytest.approx(gelu_left.cost.tokens / 200_000 / 3600)
    text = render(lines)
    assert f"{duration(3600 * gelu_left.cost.hours)} (GPU X; by 2 runs)" in text
    assert "none: only scored" in text
    assert "hours of 4 runs are not known" in text


def test_flops_and_parameters_are_those_of_the_stock_model(tmp_path: Path, repository: Path) -> None:
    (line,) = lines_of(study(tmp_path, repository))
    # By hand, a token: FFN and attention projections of two layers, the head, attention over 512 places.
    forward = 2 * (2 * (2 * 512 * 1024 + 4 * 512 * 512) + 512 * 10_000) + 2 * 2 * 2 * 512 * 512
    assert line.cost.flops == pytest.approx(3 * forward * line.cost.tokens, rel=0.02)
    stock = GPTNeoConfig(
        vocab_size=10_000,
        hidden_size=512,
        intermediate_size=1024,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=512,
    )
    assert line.cost.parameters == GPTNeoForCausalLM(stock).num_parameters()


def test_vocabularies_are_lines_of_their_own(tmp_path: Path, repository: Path) -> None:
    axes = {"data.vocab_size": [5_000, 10_000]}
    small, large = lines_of(study(tmp_path, repository, axes=axes))
    assert (small.runs, small.place, large.runs, large.place) == (3, "5000", 3, "10000")
    assert large.cost.parameters - small.cost.parameters == 5_000 * 512  # one matrix, as the head is tied


def test_levels_of_like_cost_are_one_line(tmp_path: Path, repository: Path) -> None:
    asked = study(
        tmp_path,
        repository,
        variants=["gelu", "relu"],
        tokens=["1M", "4M"],
        axes={RATE: [1.0e-3, 3.0e-3]},
        seeds={"first": 3, "most": 9, "until": "decided"},
    )
    assert counts(asked) == {"main": 24}  # of the first look
    lines = lines_of(asked)
    assert [(line.variant, line.place, line.runs) for line in lines] == [
        ("gelu", "1M", 6),
        ("relu", "1M", 6),
        ("gelu", "4M", 6),
        ("relu", "4M", 6),
    ]
    assert lines[0].cost.tokens == pytest.approx(1e6, rel=0.12)


def test_text_is_counted_by_its_letters(tmp_path: Path, repository: Path) -> None:
    words = ["a short story", "and another one, a little longer"] * 50
    for name, texts in (("text", words), ("held-out", ["not trained on"])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    files = {f"{part}_files": [str(tmp_path / f"{name}.jsonl")] for part, name in
             (("train", "text"), ("validation", "held-out"))}  # fmt: skip
    output, data = {"runs_dir": str(tmp_path / "runs")}, {"source": "files", **files}
    config = {"output": output, "data": data, "optim": {"num_train_epochs": 3}}
    (line,) = lines_of(study(tmp_path, repository, config=config))
    assert line.cost.tokens == pytest.approx(3 * sum(map(len, words)) / 4, abs=1)
    assert not (tmp_path / "runs").exists()


def test_what_was_prepared_before_changes_no_forecast(tmp_path: Path, repository: Path) -> None:
    """Its tokenizer has fewer tokens than were asked for, as those of small texts have."""
    config = {
        "output": {"runs_dir": str(tmp_path / "runs")},
        "data": {"source": "embedded", "num_stories": 20, "vocab_size": 4000},
        "optim": {"max_steps": None, "num_train_epochs": 1},
    }
    asked = study(tmp_path, repository, config=config)
    before = lines_of(asked)
    assert len(prepare_data(asked.cells[0].config).tokenizer) < 4000
    _LETTERS.clear()
    _COSTS.clear()
    assert lines_of(asked) == before


def test_main_cells_follow_the_tuning(tmp_path: Path, repository: Path) -> None:
    tune = {"seeds": [101, 102, 103], RATE: [1.0e-3, 3.0e-3], "optim.weight_decay": [0.01, 0.1]}
    asked = study(tmp_path, repository, "tiny", variants=["gelu", "relu"], seeds="1-4", tune=tune)
    # variants x points x seeds, then variants x seeds
    assert counts(asked) == {"tuning": 2 * 4 * 3, "main, at each one's own best": 2 * 4}


def test_of_a_tuned_study_with_looks_the_first_look_follows(tmp_path: Path, repository: Path) -> None:
    tune, seeds = {RATE: [1.0e-3, 3.0e-3], "widen": 0, "seeds": [101]}, {"first": 3, "most": 9}
    runs = counts(study(tmp_path, repository, "tiny", variants=["gelu", "relu"], tune=tune, seeds=seeds))
    assert runs["main, at each one's own best"] == 2 * 3


def test_totals_add_up_and_name_what_is_not_known() -> None:
    a_gelu, a_kan = Cost(1000, 36_000, 2e15, SPEED), Cost(1000, 36_000, 5e14)
    gelu = ForecastLine("main", "gpt_neo", "gelu", "0.5M", 3, a_gelu)
    kan = ForecastLine("main", "gpt_neo", "kan", "", 2, a_kan)
    rows = [line.split() for line in render([gelu, kan]).splitlines()]
    of_gelu = ["1,000", "36,000", "1", "h", "00", "min", "(GPU", "X;", "by", "2", "runs)", "3", "6", "3"]
    assert ["main", "gpt_neo", "gelu", "0.5M", *of_gelu] in rows
    assert ["main", "gpt_neo", "kan", "-", "1,000", "36,000", "not", "known", "2", "1", "-"] in rows
    assert ["in", "all", "5", "7", "3+"] in rows
    assert render([]) == "nothing to run"
