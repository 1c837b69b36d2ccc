"""What a forecast says of a study's cost, against counts by hand."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from base.errors import UsageError
from base.printing import duration
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from pretrain.data.prepare import prepare_data
from pretrain.run.run_folder import write_config
from slurm.arguments import SubmitArgs
from slurm.cell_state import CellState, write_state
from slurm.launch import launch
from slurm.study.study import Study
from slurm.study_dry_run import _COSTS, _LETTERS, Cost, ForecastLine, Speed, forecast, num_tokens, render
from tests.cases import listed

RATE = "optim.learning_rate"
BESIDE_S = 90.0
SPEED = Speed(10.0, "GPU X", 2, 0.0)


@pytest.fixture
def study(load, tmp_path: Path, repository: Path) -> Callable[..., Study]:
    """Reads a study of one variant and three seeds, of the shipped sizes or those of another config."""

    def make(base: str = "gpt-neo", **changes: Any) -> Study:
        given = {"families": {"gpt_neo": str(repository / "configs" / f"{base}.yaml")}, "variants": ["gelu"]}
        given |= {"seeds": [1, 2, 3], "evaluation": {"suites": ["embedded-pairs"]}}
        return load(**given | {"report": {"primary": ["held-out-loss"]}} | changes)

    return make


def finish(cell: Any, tokens_per_s: float, device: str = "GPU X") -> None:
    """Leave a run folder as a finished pretraining does."""
    cell.run_dir.mkdir(parents=True)
    write_config(cell.run_dir, cell.config)
    record = {"device": device, "results": {"mean_tokens_per_s": tokens_per_s}}
    (cell.run_dir / "provenance.json").write_text(json.dumps(record))
    (cell.run_dir / "model").mkdir()
    (cell.run_dir / "model" / "config.json").write_text("{}")
    write_completion(RunFolder(cell.run_dir), {}, config_hash="")
    training_s = (num_tokens(cell.config) or 0) / tokens_per_s
    state = CellState(name="done", attempts=1, started_s=1.0, finished_s=1.0 + BESIDE_S + training_s)
    write_state(cell.study_dir, cell.run_id, state)


def lines_of(asked: Study) -> list[ForecastLine]:
    """The lines of the first stage."""
    lines = forecast(asked, asked.cells)
    return [line for line in lines if line.stage == lines[0].stage]


def counts(asked: Study) -> dict[str, int]:
    runs: Counter[str] = Counter()
    for line in forecast(asked, asked.cells):
        runs[line.stage] += line.runs
    return dict(runs)


def test_hours_come_from_finished_runs_of_the_same_shape(study, tmp_path: Path) -> None:
    asked = study(variants=["gelu", "kan"], seeds="1-4")
    assert [line.cost.hours for line in lines_of(asked)] == [None, None]
    gelu = [cell for cell in asked.cells if cell.variant == "gelu"]
    finish(gelu[0], 100_000.0)
    finish(gelu[1], 300_000.0)
    finish(gelu[2], 9e9, device="one that fewer runs were on")
    (gelu[2].run_dir / "model" / "config.json").unlink()  # so it is trained again
    shorter = {"data": {"block_size": 256}, "train": {"batch_size": 32}}
    shapes = ({"model": {"hidden_size": 64}}, {"train": {"batch_size": 2}}, shorter)
    for number, changed in enumerate((*shapes, {"optim": {"optimizer": "muon"}})):
        output = {"runs_dir": str(tmp_path / "runs")}  # of another study, of another shape
        other = study(name=f"other{number}", config={**changed, "output": output})
        finish(other.cells[0], 9e9)

    lines = forecast(asked, asked.cells)
    trained, kan, gelu_left = sorted(lines, key=lambda line: (line.cost.tokens or 0, line.runs * -1))
    assert (trained.variant, trained.runs, trained.cost.parameters) == ("gelu", 2, None)
    assert trained.cost.hours is None
    assert (kan.variant, kan.runs, kan.cost.hours) == ("kan", 4, None)
    assert (gelu_left.variant, gelu_left.runs) == ("gelu", 2)
    assert gelu_left.cost.tokens is not None
    assert 4.6e8 < gelu_left.cost.tokens < 4.7e8  # one epoch of the hub's TinyStories
    assert gelu_left.cost.hours == pytest.approx((gelu_left.cost.tokens / 200_000 + BESIDE_S) / 3600)
    text = render(lines)
    assert f"{duration(3600 * gelu_left.cost.hours)} (GPU X; by 2 runs)" in text
    assert "none: only scored" in text
    assert "hours of 4 runs are not known" in text


def test_flops_and_parameters_are_those_of_the_stock_model(study, tmp_path: Path) -> None:
    (line,) = lines_of(study())
    # By hand, a token: FFN and attention projections of two layers, the head, attention over 512 places.
    forward = 2 * (2 * (2 * 512 * 1024 + 4 * 512 * 512) + 512 * 10_000) + 2 * 2 * 2 * 512 * 512
    assert line.cost.flops == pytest.approx(3 * forward * line.cost.tokens, rel=0.02)
    sizes = {"vocab_size": 10_000, "hidden_size": 512, "intermediate_size": 1024, "num_heads": 4}
    sizes |= {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 512}
    stock = GPTNeoConfig(**sizes)
    assert line.cost.parameters == GPTNeoForCausalLM(stock).num_parameters()


def test_vocabularies_are_lines_of_their_own(study, tmp_path: Path) -> None:
    axes = {"data.vocab_size": [5_000, 10_000]}
    small, large = lines_of(study(axes=axes))
    assert (small.runs, small.place, large.runs, large.place) == (3, "5000", 3, "10000")
    assert large.cost.parameters - small.cost.parameters == 5_000 * 512  # one matrix, as the head is tied


def test_levels_of_like_cost_are_one_line(study, tmp_path: Path) -> None:
    levels = {"variants": ["gelu", "relu"], "tokens": ["1M", "4M"], "axes": {RATE: [1.0e-3, 3.0e-3]}}
    asked = study(**levels)
    assert counts(asked) == {"main": 24}
    lines = lines_of(asked)
    found = [(line.variant, line.place, line.runs) for line in lines]
    assert found == [(variant, place, 6) for place in ("1M", "4M") for variant in ("gelu", "relu")]
    assert lines[0].cost.tokens == pytest.approx(1e6, rel=0.12)


def test_text_is_counted_by_its_letters(study, tmp_path: Path) -> None:
    words = ["a short story", "and another one, a little longer"] * 50
    for name, texts in (("text", words), ("held-out", ["not trained on"])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    files = {f"{part}_files": [str(tmp_path / f"{name}.jsonl")] for part, name in
             (("train", "text"), ("validation", "held-out"))}  # fmt: skip
    output, data = {"runs_dir": str(tmp_path / "runs")}, {"source": "files", **files}
    config = {"output": output, "data": data, "optim": {"num_train_epochs": 3}}
    (line,) = lines_of(study(config=config))
    assert line.cost.tokens == pytest.approx(3 * sum(map(len, words)) / 4, abs=1)
    assert not (tmp_path / "runs").exists()


@pytest.mark.ci
def test_doubts_are_told_before_anything_is_trained(write_study, tmp_path, capsys):
    for name in ("text", "dev"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "a short story"}\n' * 20)
    data = {"source": "files", "train_files": [str(tmp_path / f"{name}.jsonl") for name in ("text", "dev")]}
    config = {"data": data, "output": {"runs_dir": str(tmp_path / "runs")}}
    (tmp_path / "mine.yaml").write_text(
        "hub: {path: nobody/nothing}\ntext: a\nlabels: [0, 1]\nbenchmark: own\n"
    )
    scored = {"suites": [], "classify": [str(tmp_path / "mine.yaml")]}
    for evaluation, told in (
        (scored, "own could not be scored as things are: "),
        ({"suites": []}, "held-out loss"),
    ):
        launch(SubmitArgs(study=write_study(config=config, evaluation=evaluation), dry_run=True))
        said = capsys.readouterr().out
        assert told in said
        assert f"note: {tmp_path}/dev.jsonl is trained on; if it is held out" in said
        assert "note: 1 of 1 held-out documents are also trained on" in said
    config["data"] = {
        "source": "files",
        "train_files": data["train_files"][:1],
        "validation_files": data["train_files"][1:],
    }
    with pytest.raises(UsageError, match="all 20 held-out documents are also trained on; give"):
        launch(SubmitArgs(study=write_study(config=config), dry_run=True))


def test_what_was_prepared_before_changes_no_forecast(study, tmp_path: Path) -> None:
    """Its tokenizer has fewer tokens than were asked for, as those of small texts have."""
    config = {
        "output": {"runs_dir": str(tmp_path / "runs")},
        "data": {"source": "embedded", "num_stories": 20, "vocab_size": 4000},
        "optim": {"max_steps": None, "num_train_epochs": 1},
    }
    asked = study(config=config)
    before = lines_of(asked)
    assert len(prepare_data(asked.cells[0].config).tokenizer) < 4000
    _LETTERS.clear()
    _COSTS.clear()
    assert lines_of(asked) == before


@pytest.mark.parametrize(("tune", "seeds", "runs"), listed(__file__, "main cells"))
def test_main_cells_follow_the_tuning(study, tune: dict, seeds: Any, runs: tuple[int, int]) -> None:
    asked = study("tiny", variants=["gelu", "relu"], seeds=seeds, tune=tune | {RATE: [1.0e-3, 3.0e-3]})
    assert counts(asked) == {"tuning": runs[0], "main, at each one's own best": runs[1]}


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
