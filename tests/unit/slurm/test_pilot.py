"""The pilot of a study: which cells it has, what it refuses, and that its table follows from its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from base.errors import UsageError
from pretrain.run.folders import RunFolder, StudyFolder
from slurm.pilot.study import load_pilot
from slurm.run.report import write_study_report
from slurm.study.study import Study, load_study

BASE = {
    "family": "gpt_neo",
    "model": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    "data": {"num_stories": 60, "vocab_size": 300, "block_size": 64},
    "optim": {"max_steps": 2},
}
PILOT: dict[str, Any] = {"tokens": ["20k", "40k"], "optim.learning_rate": [1e-3, 3e-3], "batch": [4, 8]}
STUDY: dict[str, Any] = {
    "name": "study",
    "families": {"gpt_neo": "base.yaml"},
    "variants": ["gelu", "relu"],
    "seeds": [1, 2, 3],
    "config": {"optim": {"learning_rate": 2e-3, "weight_decay": 0.1}},
    "pilot": PILOT,
}


def _file(place: Path, **values: Any) -> Path:
    (place / "base.yaml").write_text(yaml.safe_dump(BASE))
    content = {name: value for name, value in {**STUDY, **values}.items() if value is not None}
    (place / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return place / "study.yaml"


def _load(place: Path, **values: Any) -> Study:
    return load_pilot(_file(place, **values), {"output": {"runs_dir": str(place / "runs")}})


def test_a_pilot_is_a_study_of_all_its_recipes(tmp_path: Path) -> None:
    study = _load(tmp_path)
    assert study.folder == tmp_path / "runs" / "study-pilot"
    assert len(study.cells) == 2 * 2 * 2 * 2 * 3
    assert {cell.variant for cell in study.cells} == {"gelu", "none"}
    assert {cell.seed for cell in study.cells} == {901, 902, 903}
    found = {
        (
            dict(cell.places)["tokens"],
            cell.config.optim.learning_rate,
            cell.config.train.batch_size,
            cell.config.optim.max_steps,
        )
        for cell in study.cells
    }
    expected = {
        (tokens, rate, batch, number // (64 * batch))
        for tokens, number in (("20k", 20_000), ("40k", 40_000))
        for rate in (1e-3, 3e-3)
        for batch in (4, 8)
    }
    assert found == expected
    assert {cell.config.optim.weight_decay for cell in study.cells} == {0.1}


def test_a_recipe_that_was_put_into_the_study_does_not_change_its_pilot(tmp_path: Path) -> None:
    before = [cell.run_id for cell in _load(tmp_path).cells]
    config = {"optim": {"learning_rate": 3e-3, "weight_decay": 0.1}, "train": {"batch_size": 8}}
    after = _load(tmp_path, config=config, tokens=["40k"])
    assert [cell.run_id for cell in after.cells] == before


def test_the_smallest_size_is_taken_unless_one_is_named(tmp_path: Path) -> None:
    sizes = {"2M": {"model": {"hidden_size": 32}}, "0.5M": {"model": {"hidden_size": 8}}}
    assert {cell.config.model.hidden_size for cell in _load(tmp_path, sizes=sizes).cells} == {8}
    named = _load(tmp_path, sizes=sizes, pilot=PILOT | {"size": "2M"})
    assert {cell.config.model.hidden_size for cell in named.cells} == {32}


def test_seeds_are_none_of_the_studys(tmp_path: Path) -> None:
    study = _load(tmp_path, seeds=[900, 901, 903])
    assert {cell.seed for cell in study.cells} == {902, 904, 905}
    tune = {"optim.weight_decay": [0.0, 0.1], "seeds": [901, 902]}
    study = _load(tmp_path, tune=tune, config={"optim": {"learning_rate": 2e-3}})
    assert {cell.seed for cell in study.cells} == {903, 904, 905}


def test_the_study_itself_stays_as_it_was(tmp_path: Path) -> None:
    with_pilot = [cell.run_id for cell in load_study(_file(tmp_path)).cells]
    assert [cell.run_id for cell in load_study(_file(tmp_path, pilot=None)).cells] == with_pilot


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"pilot": None}, "pilot is not there; write pilot: "),
        ({"pilot": {"tokens": ["20k"], "batch": [8]}}, "pilot: it varies nothing; name two or more levels"),
        ({"pilot": PILOT | {"seeds": [901, 2]}}, "pilot.seeds 2 are among the study's own"),
        ({"pilot": PILOT | {"seeds": [901]}}, "a spread is to be seen"),
        ({"pilot": PILOT | {"seeds": 1}}, "pilot.seeds"),
        ({"pilot": PILOT | {"batch": [0, 8]}}, "pilot.batch"),
        ({"pilot": PILOT | {"batch": [4, 4096]}}, "tokens 20k are fewer than the 262,144 of one step"),
        ({"pilot": PILOT | {"tokens": ["1", "20k"]}}, "tokens 1 are fewer than the 256 of one step"),
        ({"pilot": PILOT | {"rate": [1e-3]}}, "pilot.rate: unknown key"),
        ({"pilot": PILOT | {"optim.rate": [1e-3, 2e-3]}}, "optim.rate"),
        ({"pilot": PILOT | {"variants": ["gelu"]}}, "variants are gelu; name two"),
        ({"pilot": PILOT | {"variants": ["gelu", "kann"]}}, "kann"),
        ({"pilot": PILOT | {"size": "2M"}}, "size in pilot.size"),
        ({"pilot": PILOT | {"train.batch_size": [4, 8]}}, "batch and train.batch_size are the same"),
    ],
)
def test_a_pilot_that_cannot_be_is_refused_in_one_line(tmp_path: Path, values: Any, said: str) -> None:
    with pytest.raises(UsageError) as error:
        _load(tmp_path, **values)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.ci
def test_the_table_follows_from_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = _load(tmp_path, pilot={"tokens": ["20k", "40k"], "optim.learning_rate": [1e-3, 3e-3]})
    study.write()
    for cell in study.cells:
        level = dict(cell.places)
        spread = 0.1 if level["optim.learning_rate"] == "0.003" else 0.01
        loss = 3.0 + 0.5 * (cell.variant == "none") + spread * (cell.seed - 902)
        hours = {"20k": 0.01, "40k": 0.03}[level["tokens"]]
        _finish(cell.run_dir, cell.variant, cell.seed, loss, hours)
    write_study_report(study)
    printed = capsys.readouterr().out
    assert "20k tokens, learning rate 0.001" in printed
    assert "**20k tokens, learning rate 0.001** sees most per hour" in printed
    record = json.loads(StudyFolder(study.folder).pilot_record.read_text())
    assert record["chosen"]["recipe"] == {"tokens": "20k", "optim.learning_rate": "0.001"}
    assert [one["families"]["gpt_neo"]["finished"] for one in record["recipes"]] == [6] * 4


def _finish(place: Path, variant: str, seed: int, loss: float, hours: float) -> None:
    run = RunFolder(place)
    run.path.mkdir(parents=True)
    values = {"family": "gpt_neo", "model": {"ffn": variant}, "seed": seed}
    run.config_file.write_text(yaml.safe_dump(values))
    curve = [
        {"step": 1, "eval_loss": 4.5, "tokens": 10_000},
        {"step": 2, "eval_loss": loss, "tokens": 20_000},
    ]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in curve))
    results = {"step": 2, "eval_loss": loss, "time_s": 3600 * hours}
    run.provenance_file.write_text(json.dumps({"results": results, "word_frequency_loss": 5.8}))
    run.completion_marker.write_text("{}")
