"""``ffn-ablations explain`` on a run, from the command line on."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from base.errors import UsageError
from eval.classification.find_tasks import embedded_tasks
from eval.config import EvalConfig
from eval.finetuning import FinetuneConfig
from inside.classifier.classifiers import Subject
from inside.classifier.explain import main
from inside.classifier.page import concept_vectors
from tests.cases import listed

NEUTRAL = ["a dog ran.", "it was late.", "the sun came up.", "they sat down.", "a bird sang.", "it rained."]
DECISIVE = {"happy": "she was very glad.", "sad": "he cried and cried."}
QUICK = ("--learning-rate", "0.02", "--num-train-epochs", "4", "--pooling", "mean")
EMBEDDED = next(iter(embedded_tasks(EvalConfig())))


def explain(run: Path, task: Path | str, *flags: str) -> dict:
    """Call the command; returns what its JSON file holds."""
    before = set((run / "eval" / "explanations").glob("*/explanation.json"))
    assert main([str(run), str(task), *flags]) == 0
    (path,) = set((run / "eval" / "explanations").glob("*/explanation.json")) - before
    return json.loads(path.read_text())


@pytest.fixture
def mood(write_task: Callable[..., Path]) -> Path:
    """A task in whose documents one sentence of four decides."""
    generator = np.random.default_rng(0)

    def example(label: str) -> dict[str, str]:
        sentences = list(generator.choice(NEUTRAL, 3))
        sentences.insert(generator.integers(4), DECISIVE[label])
        return {"text": " ".join(sentences), "label": str(label)}

    rows = {
        split: [example(label) for label in generator.choice(list(DECISIVE), size)]
        for split, size in (("train", 400), ("validation", 60))
    }
    names = "label_names: [in a good mood, in a bad mood]\n"
    definition = f"text: text\nlabel: label\nlabels: [happy, sad]\n{names}metrics: [accuracy]\n"
    return write_task("mood", rows, definition)


@pytest.fixture
def moods(write_task: Callable[..., Path]) -> Path:
    """A task whose documents have any number of moods, of which their turns say one each."""
    generator = np.random.default_rng(0)

    def example() -> dict:
        labels = [label for label in DECISIVE if generator.random() < 0.5]
        turns = [(str(text), []) for text in generator.choice(NEUTRAL, 4 - len(labels))]
        turns += [(DECISIVE[label], [label]) for label in labels]
        turns = [turns[place] for place in generator.permutation(4)]
        return {"turns": [text for text, _ in turns], "own": [own for _, own in turns], "label": labels}

    rows = {"train": [example() for _ in range(400)], "validation": [example() for _ in range(60)]}
    labels = "label: label\nlabels: [happy, sad]\nmulti_label: true\nsegment_labels: own\n"
    return write_task("moods", rows, f"text: turns\n{labels}metrics: [micro_f1]\n")


@pytest.mark.ci
def test_the_deciding_sentence_is_shown_and_suffices(make_run: Callable[..., Path], mood: Path) -> None:
    run, flags = make_run("roberta"), ("--head", "swipe segments=sentences", *QUICK)
    for measure in ((), ("--measure", "lime")):
        content = explain(run, mood, *flags, *measure, "--examples", "60")
        rows = pd.DataFrame(content["segments"])
        assert rows["example"].nunique() == 60
        assert set(rows["likeliest"]) == {"in a good mood", "in a bad mood"}
        first = rows.drop_duplicates("example")
        assert (first["labels"] == first["predictions"]).sum() > 54
        best = rows.loc[rows.groupby("example")["score"].idxmax(), "text"]
        assert best.isin(DECISIVE.values()).mean() > 0.6
    page = (run / "eval/explanations/mood-swipe-segments-sentences/explanation.html").read_text()
    assert len(re.findall(r"<h2>.*: (?:right|wrong)</h2>", page)) == 60
    assert "in a good mood has probability" in page
    kept = sorted((run / "eval" / "classifiers").rglob("*.safetensors"))
    assert len(kept) == 1

    content = explain(run, mood, "--measure", "sufficiency", *flags)
    results = {row["selection"]: row for row in content["results"]}
    assert list(results) == ["highest", "attention", "LIME", "random", "all"]
    assert results["all"]["accuracy"] == 100
    for name in ("highest", "LIME"):
        assert results[name]["accuracy"] > results["random"]["accuracy"] + 10
    assert set(kept) < set((run / "eval" / "classifiers").rglob("*.safetensors"))  # attention's is kept too


@pytest.mark.slow
def test_segments_are_judged_by_the_labels_of_their_turns(make_run: Callable[..., Path], moods: Path) -> None:
    run, head = make_run("roberta"), "swipe segments=turns"
    content = explain(run, moods, "--measure", "segments", "--head", head, *QUICK)
    rows = {row["head"]: row for row in content["results"]}
    assert list(rows) == [head, "segment-attention segments=turns"]
    assert rows[head]["micro_f1"] > 80
    assert rows[head]["micro_f1"] > rows["segment-attention segments=turns"]["micro_f1"]
    assert rows[head]["documents_micro_f1"] > 80


@pytest.mark.parametrize(("flags", "message"), listed(__file__, "heads that serve not"))
def test_heads_that_serve_not_are_told(flags, message, make_run, moods):
    run = make_run()
    with pytest.raises(UsageError, match=message):
        main([str(run), str(moods), *flags])
    assert not (run / "eval").exists()


# The plot of concept spaces.


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_places_are_those_of_every_example_alone(family: str, make_run: Callable[..., Path]) -> None:
    settings = FinetuneConfig(
        head=("space num_dimensions=2",), num_train_epochs=1, max_train_examples=32,
        max_validation_examples=70,
    )  # fmt: skip
    run = make_run(family, num_hidden_layers=2)
    task = embedded_tasks(EvalConfig())[EMBEDDED]
    classifier = Subject(run, task, EvalConfig(finetune=settings)).load()
    validation = classifier.documents.data
    places = concept_vectors(classifier.classifier, validation)
    assert places.shape == (70, 2, 2)  # more than a batch
    body = classifier.classifier.encoder.body
    projections = classifier.classifier.head.projections.weight.detach().double().numpy().reshape(2, 2, -1)
    tokens = np.split(validation.tokens, np.cumsum(validation.lengths)[:-1])
    for place, ids in zip(places, tokens, strict=True):
        with torch.no_grad():
            hidden = body(torch.from_numpy(ids.astype(np.int64))[None]).last_hidden_state[0].double().numpy()
        for own, projection in zip(place, projections, strict=True):
            np.testing.assert_allclose(own, np.tanh(hidden @ projection.T).mean(0), atol=1e-5)


def test_texts_that_are_longer_than_the_positions_are_cut(make_run, write_task):
    rows = [{"text": f"{text} " * 40, "label": label} for label, text in DECISIVE.items()] * 4
    definition = "text: text\nlabel: label\nlabels: [happy, sad]\nmetrics: [accuracy]\n"
    task = write_task("long", {"train": rows, "validation": rows}, definition)
    content = explain(make_run(), task, "--plot", "spaces", "--num-train-epochs", "1")
    assert len(content["places"]) == len(rows)


@pytest.mark.ci
def test_a_plot_comes_out_the_same_from_the_kept_classifier(make_run, capsys):
    run = make_run(num_hidden_layers=2)
    flags = ["--plot", "spaces", "--num-train-epochs", "1", "--max-train-examples", "32"]
    flags += ["--max-validation-examples", "40"]
    content = explain(run, EMBEDDED, *flags)
    first = capsys.readouterr()
    assert first.err  # it was fine-tuned
    picture = run / f"eval/explanations/{EMBEDDED}-space-spaces/figures/spaces.svg"
    before = picture.read_bytes()
    names = embedded_tasks(EvalConfig())[EMBEDDED].label_names
    assert {row["label"] for row in content["places"]} <= set(names)
    assert len(content["places"]) == 40
    assert f"{EMBEDDED}, head space, {'/'.join(run.parts[-3:])}" in picture.read_text()
    assert main([str(run), EMBEDDED, *flags]) == 0
    assert not capsys.readouterr().err
    assert picture.read_bytes() == before
