"""``ffn-ablations try``: what it refuses, the file that it writes, and what it measures."""

import os
from pathlib import Path

import pytest
import yaml

from base.config_input import shipped
from base.errors import UsageError
from ffn_ablations.try_arguments import TryArgs
from ffn_ablations.try_command import main
from ffn_ablations.try_layer import RESERVE, STEPS, Plan, _planned_text, _study, _timed_text, choose
from ffn_variants import load_variant
from pretrain.training import device
from slurm.study.study import load_study
from tests.cases import listed

pytestmark = pytest.mark.usefixtures("own_variants")
SECONDS = {"mini-gpt-neo": 13.0, "small-gpt-neo": 135.0}
LAYER = """
import torch
from torch import nn

class Doubled(nn.Module):
    def forward(self, x):
        return 2 * torch.nn.functional.gelu(x)

class Endless(nn.Module):
    def forward(self, x):
        return torch.sqrt(x - 1e9)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LAYER)


@pytest.mark.ci
def test_a_layer_that_fails_a_check_is_not_run(capsys):
    assert main(["mine.py:Endless"]) == 1
    assert "FAILED  shapes" in capsys.readouterr().out
    assert [path.name for path in Path().iterdir()] == ["mine.py"]


@pytest.mark.parametrize(("texts", "trained", "held_out"), listed(__file__, "written studies"))
def test_what_it_writes_is_the_study_that_was_planned(texts, trained, held_out):
    Path("texts").mkdir()
    for name in ("a", "contest", "my-dev", "test", "valley"):
        Path(f"texts/{name}.txt").write_text("One.<|endoftext|>Two.")
    options = TryArgs(layer="mine.py:Doubled", texts=texts, name="mine")
    load_variant(options.layer)
    Path("mine.yaml").write_text(_planned_text(_study(options, "doubled"), Plan("mini-gpt-neo", 4, 1.0)))
    text = Path("mine.yaml").read_text()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert len(text.splitlines()) == len(comments) + len(yaml.safe_load(text))
    study = load_study(Path("mine.yaml"), trust_remote_code=True)
    assert [(cell.variant, cell.seed) for cell in study.planned] == [
        (variant, seed) for seed in (1, 2, 3, 4) for variant in ("gelu", "swiglu", "doubled")
    ]
    for cell in study.planned:
        assert (cell.config.optim.max_steps, cell.config.model.hidden_size) == (1000, 64)
        assert (cell.config.data.train_files, cell.config.data.validation_files) == (trained, held_out)
    assert study.config.report.contrasts == ("doubled - swiglu",)
    assert study.typed == "mine.yaml"


@pytest.mark.parametrize("size", STEPS)
def test_what_is_timed_has_the_precision_of_the_study(monkeypatch, size):
    monkeypatch.setattr(device, "multiplies_bf16", lambda: True)  # as of another CPU
    study = _study(TryArgs(layer="gelu", against=("relu",), name="timed"), "gelu")
    precisions = set()
    for text in (_planned_text(study, Plan(size, 1, 1.0)), _timed_text(study, size, STEPS[size] // 10)):
        Path("timed.yaml").write_text(text)
        config = load_study(Path("timed.yaml")).planned[0].config
        is_long = device.is_long(config, config.optim.max_steps)
        precisions.add(device.choose_precision(config.train.mixed_precision, is_long))
    assert len(precisions) == 1


@pytest.mark.ci
def test_of_a_study_that_is_there_only_what_was_typed_is_run():
    text = "name: try-doubled\nfamilies: {gpt_neo: tiny}\nvariants: [gelu, theirs/other.py:Mine]\n"
    Path("try-doubled.yaml").write_text(text)
    Path("theirs").mkdir()
    Path("theirs/other.py").write_text(LAYER)
    with pytest.raises(UsageError, match=r"variants name .*theirs/other.py:Mine, which is code"):
        main(["mine.py:Doubled"])


@pytest.mark.parametrize(("flags", "told"), listed(__file__, "mistakes of try"))
def test_a_mistake_is_told_before_the_layer_is_checked(capsys, monkeypatch, tmp_path, flags, told):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Path("ffn-try-killed").mkdir()
    os.utime("ffn-try-killed", (0, 0))
    Path("notes.txt").write_text("a line\n" * 200)
    with pytest.raises(UsageError, match=told):
        main(["mine.py:Doubled", *flags.split()])
    assert "shapes" not in capsys.readouterr().out
    assert not Path("ffn-try-killed").exists()


@pytest.mark.slow
def test_a_plan_is_of_what_was_measured_and_leaves_nothing(capsys):
    tiny = shipped("config")["tiny"].read_text()
    Path("tiny.yaml").write_text(tiny.replace("num_hidden_layers: 2", "num_hidden_layers: 1"))
    assert main(["mine.py:Doubled", "--against", "gelu", "--minutes", "600", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "gelu (99,840 parameters), doubled (99,840 parameters)" in said
    assert "20 of each" in said
    assert {path.name for path in Path().iterdir()} == {"mine.py", "tiny.yaml"}


@pytest.mark.parametrize(("minutes", "workers", "size", "seeds"), listed(__file__, "studies that fit"))
def test_the_largest_study_that_fits_is_chosen(minutes, workers, size, seeds):
    if seeds is None:
        with pytest.raises(UsageError, match=r"3 seeds of mini-gpt-neo, 9 runs, .* --minutes 3,"):
            choose(SECONDS, 3, minutes, workers)
        return
    plan = choose(SECONDS, 3, minutes, workers)
    assert (plan.size, plan.seeds) == (size, seeds)
    assert plan.seconds <= (1 - RESERVE) * 60 * minutes


def test_the_minutes_that_an_error_names_are_enough():
    spent = 100.0
    with pytest.raises(UsageError) as error:
        choose(SECONDS, 3, 1, 2, spent)
    named = int(str(error.value).split("--minutes ")[1].split(",")[0])
    assert choose(SECONDS, 3, named, 2, spent).seeds >= 3
    with pytest.raises(UsageError):
        choose(SECONDS, 3, named - 1, 2, spent)
