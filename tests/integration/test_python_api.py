"""The Python API: training, scoring and studies, beside what the commands do."""

import html
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from matplotlib import pyplot

import ffn_ablations as ffa
from tests.processes import run_command

CONFIG: dict[str, Any] = {
    "data": {"num_stories": 150, "vocab_size": 300, "block_size": 64},
    "model": {"hidden_size": 48, "intermediate_size": 64},
    "optim": {"max_steps": 30},
    "train": {"logging_steps": 5, "eval_steps": 10, "batch_size": 4, "torch_compile": False},
}
PAIRS = {"suites": "embedded-pairs", "max_pairs": 5}


def weights(run: ffa.Run) -> bytes:
    return (run.folder / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(runs_dir: Path) -> ffa.Runs:
    """Two variants at two seeds."""
    found = ffa.Runs()
    for ffn in ("gelu", "swish"):
        found += ffa.train(CONFIG, ffn=ffn, seeds=[1, 2], runs_dir=runs_dir)
    return found


@pytest.mark.ci
def test_weights_are_those_of_the_command_to_the_byte(runs: ffa.Runs, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    flags = ("--ffn", "swish", "--seed", "2", "--runs-dir", str(tmp_path))
    assert run_command("pretrain.train", file, *flags).returncode == 0
    (own,) = tmp_path.glob("default/gpt_neo/swish/seed2-*")
    assert own.name == runs[3].folder.name
    assert weights(ffa.Run(own)) == weights(runs[3])


@pytest.mark.ci
def test_a_run_tells_what_its_folder_does(runs: ffa.Runs) -> None:
    run = runs[0]
    logged = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    losses = [line["eval_loss"] for line in logged if "eval_loss" in line]
    assert run.curve["loss"].tolist() == losses
    assert run.loss == losses[-1]
    assert (run.family, run.variant, run.seed) == ("gpt_neo", "gelu", 1)
    assert run.config["optim"]["max_steps"] == 30
    assert f"{run.loss:.4f}" in repr(run)
    assert f"{run.loss:.4f}" in run._repr_html_()
    assert runs.frame["seed"].tolist() == [1, 2, 1, 2]
    assert runs._repr_html_().count("<tr") == 5


def test_a_folder_with_signs_of_html_is_escaped(runs: ffa.Runs, tmp_path: Path) -> None:
    place = tmp_path / "a<b>&'\"" / "gpt_neo" / "gelu"
    place.mkdir(parents=True)
    (place / "seed1").symlink_to(runs[0].folder.resolve())
    run = ffa.Run(place / "seed1")
    assert html.escape(str(run.folder), quote=False) in run._repr_html_()
    assert "<b>" not in run._repr_html_() + ffa.Runs([run])._repr_html_()


def test_the_model_comes_back_and_writes(runs: ffa.Runs) -> None:
    model, tokenizer = runs[2].load()
    assert model.config.ffn == "swish"
    assert not model.training
    assert len(tokenizer) == 300
    first, second = runs[0].generate("Once", 5, num=2, seed=1)
    assert first.startswith("Once")
    assert [first, second] == runs[0].generate("Once", 5, num=2, seed=1)


@pytest.mark.ci
def test_runs_are_scored_once_and_compared(runs: ffa.Runs) -> None:
    scores = ffa.evaluate(runs, **PAIRS)
    losses = scores[scores.benchmark == "held-out-loss"]
    assert losses.score.tolist() == [run.loss for run in runs]
    kept = pd.concat([pd.read_parquet(run.folder / "eval" / "rows.parquet") for run in runs])
    assert sorted(scores[scores.benchmark == "embedded-pairs"].score) == sorted(kept.score)
    assert ffa.evaluate(runs, **PAIRS).equals(scores)  # nothing is scored twice
    asked, study = {"primary": ["held-out-loss"]}, ffa.study(runs[0].folder.parents[2])
    means = losses.groupby("variant").score.mean()
    for compared in (scores, runs, list(runs), study):
        verdicts = ffa.compare(compared, **asked).verdicts
        row = verdicts[verdicts.benchmark == "held-out-loss"].iloc[0]
        assert row.estimate == pytest.approx(means["swish"] - means["gelu"])
    axes = ffa.compare(runs, **asked).plot("learning-curves")
    assert axes.lines
    pyplot.close(axes.figure)
    assert study.runs == runs


OWN = """
import torch
from ffn_variants import FFNSpec

SPEC = FFNSpec(
    name="own-squash", kind="activation", build=lambda intermediate_size: torch.nn.Softsign(),
    formula="x / (1 + |x|)", reference="none", multiply_adds=lambda d, f, **_: 2 * d * f,
)
"""


def test_a_variant_of_ones_own_file_is_run_where_it_is_named_and_nowhere_else(tmp_path, own_variants):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    place = f"{file}:SPEC"
    with pytest.raises(ffa.UsageError, match="which is code"):
        ffa.train(CONFIG | {"model": {"ffn": place}}, runs_dir=tmp_path)
    run = ffa.train(CONFIG, ffn=place, runs_dir=tmp_path, optim={"max_steps": 2})
    assert run.variant == "own-squash"
    assert run.load()[0].config.ffn == "own-squash"
    pairs = ffa.evaluate(run, **PAIRS, pair_tasks=["wh_gap"])
    assert pairs.benchmark.tolist() == ["held-out-loss", "embedded-pairs"]


def test_random_numbers_of_the_caller_go_on_as_if_nothing_was_trained(tmp_path: Path, capsys) -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), np.random.random(), torch.rand(()).item()

    def seed() -> None:
        random.seed(7)
        np.random.seed(7)
        torch.manual_seed(7)

    seed()
    expected = draw()
    seed()
    ffa.train(CONFIG, optim={"max_steps": 2}, runs_dir=tmp_path)
    assert draw() == expected
    assert str(tmp_path) in capsys.readouterr().out  # only in a notebook nothing is printed


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda runs: ffa.train("nowhere"), "nowhere"),
        (lambda runs: ffa.train({"optm": {}}), "optm: unknown key, did you mean optim?"),
        (lambda runs: ffa.train(CONFIG, fnn="kan"), "unknown setting 'fnn', did you mean ffn?"),
        (lambda runs: ffa.train(CONFIG, ffn="geluu"), "did you mean 'gelu'?"),
        (lambda runs: ffa.train(CONFIG, seed=-1), "seed: must be at least 0"),
        (lambda runs: ffa.train(CONFIG, seeds=[]), "give whole numbers"),
        (lambda runs: ffa.train(CONFIG, seeds=[1.5]), "give whole numbers"),
        (lambda runs: ffa.train(CONFIG, seed=1, seeds=[1]), "were both given"),
        (lambda runs: ffa.evaluate(runs, suites=["blip"]), "suites: 'blip'; did you mean 'blimp'?"),
        (lambda runs: ffa.evaluate(runs, sutes=["blimp"]), "unknown setting 'sutes', did you mean suites?"),
        (lambda runs: ffa.evaluate(runs, workers=0), "workers is 0"),
        (lambda runs: ffa.evaluate([]), "names no run"),
        (lambda runs: ffa.evaluate(pd.DataFrame()), "names no run"),
        (lambda runs: ffa.evaluate(["/"]), "/ is no run's folder"),
        (lambda runs: ffa.compare(runs[0]), "it is one run: give its study's folder"),
        (lambda runs: ffa.compare([]), "holds no scores"),
        (lambda runs: runs[0].generate("a " * 200), "shorten the prompt"),
        (lambda runs: ffa.study("nowhere"), "nowhere"),
        (lambda runs: ffa.study("quickstart").run(workers=0), "workers: must be at least 1"),
        (lambda runs: ffa.study("quickstart").run(worker=2), "did you mean workers?"),
        (lambda runs: runs[0].generate(temperature=-1), "temperature: must be at least 0"),
        (lambda runs: ffa.study(runs[0].folder.parents[2]).run(), "is a folder; open the study by its name"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(runs: ffa.Runs, call: Any, said: str) -> None:
    with pytest.raises(ffa.UsageError) as told:
        call(runs)
    assert said in str(told.value)
    assert "\n" not in str(told.value)
