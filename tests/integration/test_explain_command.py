"""``python -m eval.explain`` and ``python -m eval.sufficiency`` on a run, from the command line on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import eval.command as evaluation
from base.errors import UsageError
from eval.classification.config import FinetuneConfig
from eval.config import EvalConfig
from eval.interpretation import concept_space, explain, explainable_segments, sufficiency
from eval.interpretation.arguments import with_fewer_flags

NEUTRAL = ["a dog ran.", "it was late.", "the sun came up.", "they sat down.", "a bird sang.", "it rained."]
TOLD = {"happy": "she was very glad.", "sad": "he cried and cried."}
QUICK = ("--finetune.learning-rate", "0.02", "--finetune.num-train-epochs", "4", "--finetune.pooling", "mean")


@pytest.fixture
def mood(write_task: Callable[..., Path]) -> Path:
    """A task in whose documents one sentence of four decides."""
    generator = np.random.default_rng(0)

    def example(label: str) -> dict[str, str]:
        sentences = list(generator.choice(NEUTRAL, 3))
        sentences.insert(generator.integers(4), TOLD[label])
        return {"text": " ".join(sentences), "label": str(label)}

    rows = {
        split: [example(label) for label in generator.choice(list(TOLD), size)]
        for split, size in (("train", 400), ("validation", 60))
    }
    definition = (
        "text: text\nlabel: label\nlabels: [happy, sad]\nlabel_names: [in a good mood, in a bad mood]\n"
        "metrics: [accuracy]\n"
    )
    return write_task("mood", rows, definition)


@pytest.fixture
def moods(write_task: Callable[..., Path]) -> Path:
    """A task whose documents have any number of moods, of which their turns say one each."""
    generator = np.random.default_rng(0)

    def example() -> dict:
        told = [label for label in TOLD if generator.random() < 0.5]
        turns = [(str(text), []) for text in generator.choice(NEUTRAL, 4 - len(told))]
        turns += [(TOLD[label], [label]) for label in told]
        turns = [turns[place] for place in generator.permutation(4)]
        return {"turns": [text for text, _ in turns], "own": [own for _, own in turns], "label": told}

    rows = {"train": [example() for _ in range(400)], "validation": [example() for _ in range(60)]}
    definition = (
        "text: turns\nlabel: label\nlabels: [happy, sad]\nmulti_label: true\nsegment_labels: own\n"
        "metrics: [micro_f1]\n"
    )
    return write_task("moods", rows, definition)


@pytest.mark.ci
def test_the_deciding_sentence_is_found_and_suffices(
    make_run: Callable[..., Path], mood: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, page = make_run("roberta"), tmp_path / "page.html"
    given = [str(run), str(mood), "--head", "swipe segments=sentences", *QUICK]
    monkeypatch.setattr(sys, "argv", ["explain", *given, "--examples", "60", "--out", str(page)])
    assert explain.main() == 0
    examples = json.loads(page.with_suffix(".json").read_text())
    assert len(examples) == 60
    names = {"in a good mood", "in a bad mood"}
    assert {name for example in examples for name in example["probabilities"]} == names
    assert {example["shown"] for example in examples} == names
    assert "in a good mood has probability" in page.read_text()
    assert np.mean([example["is_right"] for example in examples]) > 0.9
    found = []
    for example in examples:
        rows = example["segments"]
        assert len(rows) == 4
        best = max(rows, key=lambda row: row["scores"][example["shown"]])
        found.append(best["text"] in TOLD.values())
    assert np.mean(found) > 0.6
    assert page.read_text().count('<section class="example">') == 60
    num_right = sum(example["is_right"] for example in examples)
    assert f"Of all 60, {run} classifies {num_right} correctly" in page.read_text()
    kept = sorted((run / "eval" / "classifiers").rglob("*.safetensors"))
    assert len(kept) == 1

    out = tmp_path / "sufficiency.json"
    monkeypatch.setattr(sys, "argv", ["sufficiency", *given, "--out", str(out), "--draws", "2"])
    assert sufficiency.main() == 0
    results = {row["selection"]: row for row in json.loads(out.read_text())["results"]}
    assert list(results) == ["highest", "attention", "LIME", "random", "all"]
    assert results["all"]["accuracy"] == 100
    for name in ("highest", "LIME"):
        assert results[name]["accuracy"] > results["random"]["accuracy"] + 10
    assert set(kept) < set((run / "eval" / "classifiers").rglob("*.safetensors"))  # attention's is kept too


@pytest.mark.slow
def test_lengths_are_swept(
    make_run: Callable[..., Path],
    mood: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "lengths.json"
    given = [str(make_run("roberta")), str(mood), "--head", "swipe stride=2", *QUICK, "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["sufficiency", *given, "--draws", "1", "--lengths", "32", "12"])
    assert sufficiency.main() == 0
    found = json.loads(out.read_text())
    assert [one["head"] for one in found["lengths"]] == [f"swipe stride=2 window={n}" for n in (12, 32)]
    assert found["results"] == found["lengths"][0]["results"]
    best = max(one["accuracy"] for one in found["lengths"])
    enough = [one["window"] for one in found["lengths"] if one["accuracy"] >= 0.97 * best]
    assert found["enough_from"] == min(enough)
    for one in found["lengths"]:
        assert len(one["held_out"]) == 4  # epochs
        assert one["train_seconds"] > one["predict_seconds"] > 0
        low, high = one["accuracy_interval"]
        assert low <= one["accuracy"] <= high
    picture = out.with_suffix(".svg").read_text()
    assert picture.startswith("<?xml")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[1:3]] == ["12", "32"]
    assert f"97% of the best accuracy is reached from {min(enough)} tokens on" in printed[3]


@pytest.mark.slow
def test_turns_are_judged_by_their_own_labels(
    make_run: Callable[..., Path], moods: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "f1.json"
    heads = ("swipe segments=turns", "swipe segments=turns pooling=gated-sum num_layers=1")
    given = [str(make_run("roberta")), str(moods), "--head", *heads, *QUICK, "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["explainable_segments", *given])
    assert explainable_segments.main() == 0
    found = {row["explained_by"]: row for row in json.loads(out.read_text())["results"]}
    named = "swipe num_layers=1 pooling=gated-sum positions=none segments=turns"
    assert list(found) == [
        "supervised", "swipe segments=turns", named, "segment-attention segments=turns", "LIME",
    ]  # fmt: skip
    assert found["supervised"]["micro_f1"] > 95
    assert found["swipe segments=turns"]["micro_f1"] > 80
    # One forest and one sentence a label: the sentence holds all keywords that there are.
    assert found["LIME"]["micro_f1"] > 90
    for row in found.values():
        low, high = row["micro_interval"]
        assert low <= row["micro_f1"] <= high


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("swipe", "head 'swipe' reads no segments of single turns"),
        ("segment-lstm segments=turns", "'segment-lstm segments=turns' says nothing of single segments"),
    ],
)
def test_what_cannot_be_judged_is_told(
    head: str, message: str, make_run: Callable[..., Path], moods: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [str(make_run()), str(moods), "--head", head]
    monkeypatch.setattr(sys, "argv", ["explainable_segments", *given])
    with pytest.raises(UsageError, match=message):
        explainable_segments.main()


@pytest.mark.slow
def test_each_head_has_a_file_of_its_own_in_the_run(
    make_run: Callable[..., Path],
    mood: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, beside_the_task = make_run(), set(mood.parent.iterdir())
    for head in ("swipe frozen", "swipe segments=sentences frozen"):
        given = [str(run), str(mood), "--head", head, "--finetune.num-train-epochs", "1"]
        for command in (explain, sufficiency):
            monkeypatch.setattr(sys, "argv", [command.__name__, *given])
            assert command.main() == 0
            # A window holds the whole text.
            is_noted = "has more than 1 segment(s), so there" in capsys.readouterr().err
            assert is_noted == (head == "swipe frozen")
    assert set(mood.parent.iterdir()) == beside_the_task
    names = ["mood-swipe-frozen", "mood-swipe-segments-sentences-frozen"]
    assert sorted(path.stem for path in (run / "eval" / "explanations").glob("*.html")) == names
    files = sorted((run / "eval" / "sufficiency").iterdir())
    assert [path.name for path in files] == [f"{name}.json" for name in names]
    assert {json.loads(path.read_text())["task"] for path in files} == {"mood"}


def flags_in_help(command: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> set:
    monkeypatch.setattr(sys, "argv", [command.__name__, "--help"])
    with pytest.raises(SystemExit):
        command.main()
    return set(re.findall(r"^\W? ?(--[a-z][a-z.-]+)", capsys.readouterr().out, re.MULTILINE))


def test_help_shows_only_what_a_classifier_depends_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {
        explain: {"--examples", "--out"},
        sufficiency: {"--segments-kept", "--draws", "--lengths", "--train-documents", "--seed", "--out"},
        explainable_segments: {"--seed", "--out"},
        concept_space: {"--max-examples", "--out"},
    }
    data = {"--glue-dir", "--classification-dir", "--embedded-seed", "--device", "--trust-remote-code"}
    every = flags_in_help(evaluation, monkeypatch, capsys)
    tuning = {flag for flag in every if flag.startswith("--finetune.")} | {"--head", "--freeze-backbone"}
    for command, flags in own.items():
        assert flags_in_help(command, monkeypatch, capsys) == flags | data | tuning - {"--finetune.tasks"}


@pytest.mark.parametrize(
    "flags", [("--suites", "blimp"), ("--finetune.tasks", "rte"), ("--protocol", "babylm23")]
)
def test_flags_without_an_effect_are_unknown(flags: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["explain", "RUN", "sst2", *flags])
    with pytest.raises(UsageError, match=f"unknown flag {flags[0]}"):
        explain.main()


def test_fewer_flags_are_the_same_settings() -> None:
    tuning = FinetuneConfig(tasks=("rte",), head=("swipe window=8",), seeds="run", freeze_backbone=True)
    config = EvalConfig(suites=("wug",), text_file=Path("a.txt"), device="cpu", finetune=tuning)
    assert with_fewer_flags(config).model_dump() == config.model_dump()


def test_numbers_out_of_range_are_told(
    make_run: Callable[..., Path], mood: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sufficiency", str(make_run()), str(mood), "--segments-kept", "0"])
    with pytest.raises(ValueError, match="--segments-kept is 0; it must be 1 or more"):
        sufficiency.main()
