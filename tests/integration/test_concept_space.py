"""``python -m eval.concept_space``: from a run to a figure, and what a user sees of mistakes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from base.errors import UsageError
from eval.classification.config import FinetuneConfig
from eval.classification.tasks.chosen import embedded_tasks
from eval.config import EvalConfig
from eval.interpretation.arguments import SPACE_HEAD, config_with_head
from eval.interpretation.concept_space import main
from eval.interpretation.concept_space_plot import concept_vectors
from eval.interpretation.kept_classifiers import finetuned

TASK = next(iter(embedded_tasks(EvalConfig())))
FLAGS = ["--finetune.num-train-epochs", "1", "--finetune.max-train-examples", "32"]
FLAGS += ["--finetune.max-validation-examples", "40"]


@pytest.fixture(scope="module", params=["gpt_neo", "roberta"])
def run(request, tmp_path_factory, write_run) -> Path:
    """A run of each family."""
    return write_run(tmp_path_factory.mktemp("runs"), request.param, num_hidden_layers=2)


def command(monkeypatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["eval.interpretation.concept_space", *map(str, arguments)])
    main()


def test_places_are_those_of_every_example_alone(run):
    settings = FinetuneConfig(
        head=("space num_dimensions=2",),
        num_train_epochs=1,
        max_train_examples=32,
        max_validation_examples=70,
    )
    found = finetuned(run, embedded_tasks(EvalConfig())[TASK], EvalConfig(finetune=settings))
    places = concept_vectors(found.classifier, found.validation)
    assert places.shape == (70, 2, 2)  # more than a batch
    body = found.classifier.encoder.body
    projections = found.classifier.head.projections.weight.detach().double().numpy().reshape(2, 2, -1)
    tokens = np.split(found.validation.tokens, np.cumsum(found.validation.lengths)[:-1])
    for place, ids in zip(places, tokens, strict=True):
        with torch.no_grad():
            hidden = body(torch.from_numpy(ids.astype(np.int64))[None]).last_hidden_state[0].double().numpy()
        for own, projection in zip(place, projections, strict=True):
            np.testing.assert_allclose(own, np.tanh(hidden @ projection.T).mean(0), atol=1e-5)


@pytest.mark.ci
def test_files_lie_in_the_run_and_come_out_the_same_from_the_kept_classifier(run, monkeypatch, capsys):
    command(monkeypatch, run, TASK, *FLAGS, "--max-examples", "30")
    first = capsys.readouterr()
    files = [Path(line) for line in first.out.splitlines()]
    assert [file.name for file in files] == [f"{TASK}-space{suffix}" for suffix in (".svg", ".png", ".txt")]
    assert all(file.parent == run / "eval" / "concept_space" for file in files)
    assert first.err  # it was fine-tuned
    alt = files[2].read_text()
    assert "30 examples" in alt
    for name in embedded_tasks(EvalConfig())[TASK].label_names:
        assert re.search(rf"\b{name} \d+%", alt)
    assert f"{TASK}, head space, {'/'.join(run.parts[-3:])}" in alt
    command(monkeypatch, run, TASK, *FLAGS, "--max-examples", "30", "--out", run / "again.svg")
    assert not capsys.readouterr().err
    for file in files:
        assert file.read_bytes() == (run / f"again{file.suffix}").read_bytes()


def test_the_study_says_how_and_flags_replace_it(run, monkeypatch, capsys):
    study = run.parents[2] / "study.yaml"
    study.write_text(
        "evaluation:\n  embedded_seed: 5\n  finetune:\n    num_train_epochs: 1\n    max_train_examples: 32\n"
        "    head: [linear, space num_dimensions=4 frozen]\n"
    )
    try:
        config = config_with_head([run], SPACE_HEAD)
        assert config.embedded_seed == 5
        assert config.finetune.head == ("space num_dimensions=4 frozen",)
        command(monkeypatch, run, TASK, "--finetune.max-validation-examples", "20")
        alt = Path(capsys.readouterr().out.splitlines()[2]).read_text()
        assert "head space num_dimensions=4 frozen" in alt
        assert "each class's 4 dimensions" in alt
    finally:
        study.unlink()
    assert config_with_head([run], SPACE_HEAD).finetune.head == ("space",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["RUN", TASK, "--head", "linear"],
            '--head linear: one head is drawn.*give --head space or --head "space',
        ),
        (
            ["RUN", TASK, "--head", "space", "space num_dimensions=2"],
            "--head space, space num_dimensions=2: one",
        ),
        (["RUN", TASK, "--head", "space dimensions=2"], "unknown option of head 'space': 'dimensions'"),
        (["RUN", TASK, "--max-examples", "1"], "--max-examples is 1; it must be 2 or more"),
        (["RUN", "sst3"], "unknown classification task.* 'sst3'; did you mean 'sst.'"),
        (["RUN"], "TASK is missing"),
        (["absent", TASK], "absent"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, run, monkeypatch):
    with pytest.raises(UsageError, match=message) as error:
        command(monkeypatch, *[run if argument == "RUN" else argument for argument in arguments])
    assert "\n" not in str(error.value)
