"""The Python API: training, scoring and studies, beside what the commands do."""

import functools
import html
import importlib
import inspect
import json
import linecache
import pickle
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from datasets import Dataset
from matplotlib import pyplot
from torch.nn.functional import leaky_relu
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP

import ffn_ablations as ffa
from ffn_variants import FFN_VARIANTS, FFNSpec
from tests.cases import FEW_TASKS
from tests.processes import run_command

CONFIG: dict[str, Any] = {
    "data": {"num_stories": 150, "vocab_size": 300, "block_size": 64},
    "model": {"hidden_size": 48, "intermediate_size": 64},
    "optim": {"max_steps": 30},
    "train": {"logging_steps": 5, "eval_steps": 10, "batch_size": 4, "torch_compile": False},
}
PAIRS = {"suites": "embedded-pairs", "pair_tasks": FEW_TASKS, "max_pairs": 5}


def weights(run: ffa.Run) -> bytes:
    return (run.folder / "model" / "model.safetensors").read_bytes()


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
    assert runs.frame["seed"].tolist() == [1, 2, 1, 2]
    assert runs._repr_html_().count("<tr") == 5


def test_a_folder_with_signs_of_html_is_escaped(runs: ffa.Runs, tmp_path: Path) -> None:
    place = tmp_path / "a<b>&'\"" / "gpt_neo" / "gelu"
    place.mkdir(parents=True)
    (place / "seed1").symlink_to(runs[0].folder.resolve())
    run = ffa.Run(place / "seed1")
    assert html.escape(str(run.folder), quote=False) in run._repr_html_()
    assert "<b>" not in run._repr_html_() + ffa.Runs([run])._repr_html_()


def test_the_model_comes_back_and_writes(runs: ffa.Runs, tmp_path: Path) -> None:
    model, tokenizer = runs[2].load()
    assert model.config.ffn == "swish"
    assert not model.training
    assert len(tokenizer) == 300
    runs[2].push_to_hub("me/swish", license="mit", dry_run=tmp_path / "pushed")
    pushed = AutoModelForCausalLM.from_pretrained(tmp_path / "pushed")
    assert torch.equal(pushed(torch.arange(9)[None]).logits, model(torch.arange(9)[None]).logits)
    first = runs[0].generate("Once", 5, seed=1)
    assert first.startswith("Once")
    assert [first] == runs[0].generate(["Once"], 5, seed=1)
    assert len(runs[0].generate("Once", 5, num=2)) == 2


@pytest.mark.ci
def test_runs_are_scored_once_and_compared(runs: ffa.Runs) -> None:
    scores = ffa.evaluate(runs, **PAIRS)
    losses = scores[scores.benchmark == "held-out-loss"]
    assert losses.score.tolist() == [run.loss for run in runs]
    kept = pd.concat([pd.read_parquet(run.folder / "eval" / "rows.parquet") for run in runs])
    assert sorted(scores[scores.benchmark == "embedded-pairs"].score) == sorted(kept.score)
    assert scores["held-out-loss"].equals(losses)
    turned = scores.pivot(index="seed", columns="ffn", values="held-out-loss")
    assert turned.stack().to_dict() == {(run.seed, run.variant): run.loss for run in runs}
    means = {variant: runs[variant].loss.mean() for variant in runs.variants}
    assert scores.groupby("ffn")["held-out-loss"].mean().to_dict() == pytest.approx(means)
    assert scores.pivot_table(index="ffn", values="held-out-loss")["score"].to_dict() == pytest.approx(means)
    assert scores.pivot_table("held-out-loss", "ffn")["score"].to_dict() == pytest.approx(means)
    assert scores[scores.seed == 1]["held-out-loss"].equals(losses[losses.seed == 1])
    assert scores.boxplot(column="held-out-loss", by="ffn").get_title() == "score"
    for guess in (lambda: scores.pivot(values="held-out"), lambda: scores.groupby("ffn")["held-out"]):
        with pytest.raises(KeyError, match="unknown column or row 'held-out'; did you mean 'held-out-loss'"):
            guess()
    with pytest.raises(KeyError, match="unknown column or row 'nope'; Available: family, variant"):
        runs.frame["nope"]
    with pytest.warns(match=r"these are scores of held-out-loss and embedded-pairs; take one, as groupby"):
        scores.groupby("ffn")["score"].mean()
    assert scores.groupby(["ffn", "benchmark"])["score"].mean().loc["gelu", "held-out-loss"] == means["gelu"]
    assert ffa.evaluate(runs, **PAIRS).equals(scores)  # nothing is scored twice
    assert runs[0].evaluate(**PAIRS).score.isin(scores.score).all()
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
    pairs = ffa.evaluate(run, **PAIRS | {"pair_tasks": ["wh_gap"]})
    assert pairs.benchmark.tolist() == ["held-out-loss", "embedded-pairs"]


class OwnGate(torch.nn.Module):
    """(A x) tanh(B x)"""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(hidden_size, 2 * intermediate_size)
        self.down = torch.nn.Linear(intermediate_size, hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up, gate = self.up(x).chunk(2, -1)
        return self.down(up * gate.tanh())


SHORT = {"optim": {"max_steps": 2}}


@pytest.mark.ci
def test_classes_and_specs_are_trained_beside_names(tmp_path, own_variants):
    spec = FFNSpec(
        name="own-soft", kind="activation", build=lambda intermediate_size: torch.nn.Softsign(),
        formula="x / (1 + |x|)", reference="none", multiply_adds=lambda d, f, **_: 2 * d * f,
    )  # fmt: skip
    ffns = ["gelu", OwnGate, torch.nn.Mish, spec]
    runs = ffa.train(CONFIG | SHORT, ffn=ffns, seeds=2, runs_dir=tmp_path)
    assert list(runs.loss.index) == [
        (name, seed) for name in ("gelu", "OwnGate", "Mish", "own-soft") for seed in (1, 2)
    ]
    assert runs.loss.tolist() == [run.loss for run in runs]
    assert runs == ffa.train(CONFIG | SHORT, ffn=ffns, seeds=[1, 2], runs_dir=tmp_path)
    width, inner = 48, 64
    more = 3 * width * inner + 2 * inner + width - (2 * width * inner + inner + width)
    parameters = runs.frame.set_index("variant")["parameters"].groupby("variant").first()
    assert parameters["OwnGate"] - parameters["gelu"] == 2 * more  # two layers
    model, _ = runs[OwnGate][0].load()
    assert sum(isinstance(each, OwnGate) for each in model.modules()) == 2
    assert ffa.check(OwnGate).passed.all()


def make_gate(d_model, d_ff):
    return OwnGate(d_model, d_ff)


@pytest.mark.ci
def test_what_makes_an_ffn_trains_as_its_class_and_a_function_of_a_tensor_as_an_activation(
    tmp_path, own_variants
):
    makers = [OwnGate, make_gate, lambda d_ff, d_model: make_gate(d_model, d_ff), functools.partial(OwnGate)]
    slopes = [functools.partial(leaky_relu, negative_slope=slope) for slope in (0.2, 0.3)]
    functions = [torch.sin, lambda x: x.sin(), lambda x: x.cos(), *slopes]
    runs = ffa.train(CONFIG | SHORT, ffn=[*makers, *functions], runs_dir=tmp_path)
    assert len({*runs.names}) == len(runs) == 8  # the partial is the class
    assert runs.frame.loss[:3].nunique() == 1
    assert runs.frame.loss[3] == runs.frame.loss[4]
    assert runs.frame.loss[3:].nunique() == 4
    assert runs["leaky_relu negative_slope=0.2"] == runs[functions[3]] == runs[6]


CELL = """
import torch
def bend(x):
    return x.tanh()
class OwnBend(torch.nn.Module):
    def forward(self, x):
        return bend(x)
"""


def run_cell(text: str, variables: dict[str, Any] | None = None) -> type:
    """Define a class as a notebook does: with no file, and its lines in ``linecache``."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "__main__"} if variables is None else variables
    exec(compile(text, name, "exec"), namespace)
    return namespace["OwnBend"]


def test_a_cell_that_defines_again_what_a_class_calls_makes_other_runs(tmp_path, own_variants):
    variables: dict[str, Any] = {"__name__": "__main__"}
    kind = run_cell(CELL, variables)
    first = ffa.train(CONFIG | SHORT, ffn=kind, runs_dir=tmp_path)
    assert run_cell("def bend(x):\n    return x.sin()\n", variables) is kind
    edited = ffa.train(CONFIG | SHORT, ffn=kind, runs_dir=tmp_path)
    whole = run_cell(CELL.replace("tanh", "sin"))
    assert first.loss != edited.loss == ffa.train(CONFIG | SHORT, ffn=whole, runs_dir=tmp_path).loss


def test_a_cell_that_was_edited_is_another_run_and_one_that_was_run_again_the_same(tmp_path, own_variants):
    texts = (CELL, CELL.replace("tanh", "sin"), f"# as before\n{CELL}")
    first, edited, again = (
        ffa.train(CONFIG | SHORT, ffn=run_cell(text), runs_dir=tmp_path) for text in texts
    )
    assert first == again != edited
    assert (first.load().model.config.ffn, edited.variant) == ("own-bend", "OwnBend")
    with pytest.raises(ffa.UsageError, match="trained through another 'own-bend'"):
        ffa.evaluate(edited, **PAIRS)
    del FFN_VARIANTS["own-bend"]  # as in another process
    with pytest.raises(ffa.UsageError, match=r"its cell and ffn_ablations.check\(CLASS\)"):
        first.load()
    more = ffa.train(CONFIG | SHORT, ffn=["gelu", run_cell(CELL)], seed=3, runs_dir=tmp_path)
    for compared in (first + edited + more, ffa.study(tmp_path / "default")):
        assert re.search("1 run of (OwnBend|own-bend) through source", repr(found := ffa.compare(compared)))
        assert set(found.analysis.runs.run_id) == {each.facts.run_id for each in first + more}
    assert edited.loss not in set(ffa.evaluate(first + edited + more).score)


@pytest.mark.ci
def test_texts_are_paths_or_the_documents_themselves(tmp_path: Path) -> None:
    stories = [f"There was a dog number {n}, and it slept for {n} days." for n in range(40)]
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for place, file in enumerate(files):
        file.write_text("\n".join(stories[place::2]))
    asked = {**SHORT, "validation_fraction": 0.1, "runs_dir": tmp_path}
    table = {"text": stories}
    written, other, *same = (
        ffa.train(CONFIG, texts=texts, **asked)
        for texts in (stories, stories[1:], tuple(stories), pd.DataFrame(table), Dataset.from_dict(table))
    )
    assert same == [written] * 3 != [other] * 3
    (kept,) = written.config["data"]["train_files"]
    assert [json.loads(line)["text"] for line in Path(kept).read_text().splitlines()] == stories
    parted = ffa.train(CONFIG, texts={"train": stories[5:], "validation": stories[:5]}, **asked)
    files_of = (parted.config["data"][f"{part}_files"] for part in ("train", "validation"))
    assert [len(Path(*each).read_text().splitlines()) for each in files_of] == [35, 5]
    assert ffa.train(CONFIG, train_dataset=stories[5:], eval_dataset=stories[:5], **asked) == parted
    for texts in (files[0], str(files[0]), list(map(str, files))):
        run = ffa.train(CONFIG, texts=texts, txt_split="lines", **asked)
        given = texts if isinstance(texts, list) else [str(texts)]
        assert list(run.config["data"]["train_files"]) == given


def test_runs_are_a_list_of_their_own(runs: ffa.Runs) -> None:
    assert [type(each) for each in (runs[0], runs[1:3], runs["swish"], runs + runs[0])] == [
        ffa.Run, ffa.Runs, ffa.Runs, ffa.Runs
    ]  # fmt: skip
    assert runs["swish"] == runs[2:] == runs.where(variant=["swish", "kan"]) == runs[runs.variant == "swish"]
    assert runs.curves.groupby(["variant", "seed"]).loss.last().equals(runs.loss)
    assert runs["swish", 1] == runs.where(variant="swish", seed=1)["swish"] == runs[2] == runs[2][0]
    assert runs[["swish", "gelu"]] == runs[2] + runs[3:] + runs[:2]
    assert runs.groupby("variant").loss.mean()["swish"] == runs["swish"].loss.mean()
    assert pickle.loads(pickle.dumps(runs)) == runs
    assert ffa.Runs(runs[0].folder) == [runs[0]]
    assert runs[["variant", "loss"]].equals(runs.frame[["variant", "loss"]])
    assert (ffa.compare([runs[:2], runs[2:]]).verdicts.estimate).equals(ffa.compare(runs).verdicts.estimate)
    for kind, call, said in (
        (KeyError, lambda: runs["swihs"], "did you mean 'swish'"),
        (AttributeError, lambda: runs.generate("a"), r"runs\[0\]\.generate"),
        (AttributeError, lambda: runs[0].perplexty, "did you mean perplexity"),
        (ImportError, lambda: exec("from ffn_ablations import list_tasks"), "list tasks, in a shell"),
        (AttributeError, lambda: getattr(ffa, "trainn"), "did you mean train"),  # noqa: B009
    ):
        with pytest.raises(kind, match=said):
            call()


@pytest.mark.parametrize(
    ("guess", "found"),
    [
        (lambda r: [(run.name, run.seed) for run in r[1:3]], [("gelu", 2), ("swish", 1)]),
        (lambda r: {name: len(group) for name, group in r.items()}, {"gelu": 2, "swish": 2}),
        (lambda r: ("gelu" in r, "kan" in r, r[0] in r, r.variants), (True, False, True, ["gelu", "swish"])),
        (lambda r: r.best.loss == min(run.loss for run in r) == r.loss.min(), True),
        (lambda r: r.summary().loc["gelu", "mean"] == r.mean()["gelu"] == r["gelu"].loss.mean(), True),
        (lambda r: r.filter(lambda run: run.seed == 1) == r.filter(seed=1) == r[::2], True),
        (lambda r: r.filter("gelu") == r["gelu"], True), (lambda r: r.to_pandas().equals(r.df), True),
        (lambda r: list(r[0]) == [r[0]] == [r[:1]["gelu"]], True), (lambda r: r.compare().baseline, "gelu"),
        (lambda r: r[0].losses[-1] == r[0].history["loss"].iloc[-1] == r[0].eval_loss, True),
        (lambda r: np.log(r[0].perplexity) == pytest.approx(r[0].loss), True),
        (lambda r: r[0].to_dict()["parameters"] == r[0].num_parameters == r[0].model.num_parameters(), True),
        (lambda r: r[0].model is r[0].model and len(r[0].tokenizer), 300),
        (lambda r: r[0].path == r[0].folder, True),
        (lambda r: r.filter(ffn="swish") == r.where(ffn=["swish", "kan"]) == r[2:], True),
        (lambda r: r["ffn"].tolist() == r.ffn.tolist() == [run.variant for run in r], True),
        (lambda r: AutoModelForCausalLM.from_pretrained(r[2].model_path).config.ffn, "swish"),
        (lambda r: r[0].checkpoint == r[0].model_path, True), (lambda r: ffa.load_runs is ffa.load, True),
        (lambda r: [repr(each).partition("\n")[0] for each in (r, r[:1])], ["4 runs", "1 run"]),
        (lambda r: ffa.load_config("tiny")["hidden_size"], 64), (lambda r: ffa.load_config("tiny").train, {}),
        (lambda r: r.to_dataframe().equals(r.df) and r[0].log_history.equals(r[0].curve), True),
        (lambda r: r[1:2].to_csv(index=False).count("gelu,2"), 1),
        (lambda r: ffa.load(r[0].folder) == r[0], True),
        (lambda r: set(ffa.load(r[0].folder.parents[2])) == set(r), True),
        (lambda r: set(ffa.evaluate(r, texts=["A dog ran."] * 5).benchmark) > {"held-out-loss"}, True),
        (lambda r: ffa.compare({"one": r["gelu"], "two": r["swish"]}, baseline="one").keys(), ["two"]),
        (lambda r: ffa.compare(r["gelu"], r["swish"]).keys(), ["swish"]),
        (lambda r: "kan" in ffa.variants() and ffa.variants()["kan"].options["grid_size"], 5),
        (lambda r: set(FFN_VARIANTS) <= set(ffa.variants()), True),
        (lambda r: [x for t in (ffa.variants(), r.frame) for x in t.columns if x not in repr(t)], []),
        (lambda r: ffa.list_variants is ffa.variants, True),
        (lambda r: ffa.ffn("swiglu", 8)(torch.zeros(2, 3, 8)).shape, (2, 3, 8)),
        (lambda r: ffa.ffn(OwnGate, 8, 4)(torch.zeros(2, 8)).shape, (2, 8)),
        (lambda r: ffa.swap(r[0].model, "relu").config.ffn, "relu"), (lambda r: ffa.FFNSpec is FFNSpec, True),
        (lambda r: ffa.swap_ffn(r[0], OwnGate, d_ff=8).config.intermediate_size, 8),
        (lambda r: (r.best() is r.best) and r.summary()["gelu"]["mean"] == r.mean()["gelu"], True),
        (lambda r: (r[0].config["hidden_size"], r[0].config["optim.max_steps"]), (48, 30)),
        (lambda r: r[0].metrics["loss"] == r[0].loss and r[0].metrics["perplexity"] == r[0].perplexity, True),
        (lambda r: pd.DataFrame(ffa.variants()).loc["kan"].equals(dict(ffa.variants())["kan"]), True),
        (lambda r: ffa.suites()["blimp"].kind, "minimal pairs"),
        (lambda r: r.frame.pivot(index="seed", columns="ffn", values="loss").shape, (2, 2)),
        (lambda r: type(r.plot()) is type(r.compare().plot()), True),
        (lambda r: {*ffa.variants("*kan*")} == {name for name in ffa.variants() if "kan" in name}, True),
        (lambda r: r.best("loss") is r.best, True),
        (lambda r: list(r.compare()[["difference", "ci_low", "ci_high"]]), ["estimate", "low", "high"]),
        (lambda r: r.plot_curves().lines[0].get_ydata().tolist() == r[0].losses, True),
        (lambda r: r.compare().plot("box").get_title() == r.compare().plot("seeds").get_title(), True),
        (lambda r: r.compare().outcomes[0] == r.compare()().outcomes[0], True),
        (lambda r: r.where(max_steps=30, **{"optim.max_steps": [30]}) == r, True),
        (lambda r: r.compare().to_latex(caption="Mine", label="x").count("{Mine}\n\\label{x}"), 1),
    ],
)  # fmt: skip
def test_what_is_guessed_of_runs_is_so(runs: ffa.Runs, guess: Callable, found: object, own_variants) -> None:
    assert guess(runs) == found


@pytest.mark.ci
def test_runs_have_names_of_their_own_and_are_saved(tmp_path: Path, own_variants) -> None:
    ffns = {"base": "gelu", "mine": OwnGate, "fine": ("kan", {"grid_size": 3})}
    runs = ffa.train(CONFIG | SHORT, ffn=ffns, runs_dir=tmp_path)
    assert runs.names == list(ffns)
    assert {*runs.compare(baseline="BASE").variants} == {*ffns}
    assert ffa.load(runs["mine"].folder).name == "mine"
    assert runs["mine"].loss == runs[1].loss
    assert set(ffa.evaluate(runs, **PAIRS).variant) == {*ffns}
    pairs = [("kan", {"grid_size": size}) for size in (3, 4)]
    several = ffa.train(CONFIG | SHORT, ffn=["gelu", *pairs], runs_dir=tmp_path)
    assert several.names == ["gelu", "kan grid_size=3", "kan grid_size=4"]
    assert ffa.train(CONFIG | SHORT, ffn=pairs[0], runs_dir=tmp_path) == several[1] == runs["fine"]
    several.save(tmp_path / "kept")
    opened = ffa.load(tmp_path / "kept")
    assert sorted(opened.loss) == sorted(several.loss)
    assert {*opened.names} == {*several.names}
    opened["gelu"].save_pretrained(tmp_path / "model")
    for model in (
        AutoModelForCausalLM.from_pretrained(tmp_path / "model"),
        ffa.load(tmp_path / "model").model,
    ):
        assert torch.equal(
            model(torch.arange(9)[None]).logits, several[0].model(torch.arange(9)[None]).logits
        )


def test_runs_of_other_training_are_told_of(runs: ffa.Runs, tmp_path: Path, capsys) -> None:
    other = ffa.train(CONFIG, ffn="relu", max_steps=1, runs_dir=tmp_path)
    assert "differ in optim.max_steps" in repr(ffa.compare(runs + other))
    assert "differ in" not in repr(ffa.compare(runs))
    kans = [
        ffa.train(
            CONFIG, ffn="kan", max_steps=1, runs_dir=tmp_path, seed=seed, ffn_options={"grid_size": size}
        )
        for seed, size in ((1, 3), (2, 4), (1, 5))
    ]
    assert "the runs of kan differ in ffn_options" in repr(ffa.compare(runs + kans[:2]))
    alike = kans[0] + kans[2]
    assert alike.frame["ffn_options"].tolist() == ["{'grid_size': 3}", "{'grid_size': 5}"]
    assert "ffn_options" not in kans[0] + kans[1]
    with pytest.raises(
        ffa.UsageError, match=r"kan seed 1 has 2 runs, of ffn_options .* runs\.where\(ffn_options="
    ):
        ffa.compare(runs + alike)
    capsys.readouterr()
    assert ffa.train(CONFIG, ffn=["relu", "kan grid_size=3"], max_steps=1, runs_dir=tmp_path)[0] == other
    assert "1 of 2 runs: finished before" in capsys.readouterr().err


def test_own_pairs_and_texts_are_scored_by_name(runs: ffa.Runs) -> None:
    pairs = {
        "verbs": [("He runs.", "He run."), ["She sits.", "She sit."]],
        "nouns": [("Two dogs.", "Two dog.")],
    }
    scores = ffa.evaluate(runs, pairs=pairs, texts={"dev": ["A dog ran."] * 5})
    assert scores["own-pairs"].groupby("task").n_items.first().to_dict() == {"nouns": 1, "verbs": 2}
    assert set(scores["perplexity"].task) == {"dev"}
    (model, tokenizer), scored = runs[0].load(), scores[(scores.seed == 1) & (scores.variant == "gelu")]
    ids = [tokenizer(f"<s>{text}", return_tensors="pt").input_ids for text in ("Two dogs.", "Two dog.")]
    losses = [len(each[0]) - 1 and model(each, labels=each).loss.item() * (len(each[0]) - 1) for each in ids]
    assert scored[scored.task == "nouns"].score.item() == 100 * (losses[0] < losses[1])
    table = scores.pivot_table(index="variant", columns="benchmark", values="value")
    headlines = scores[scores["primary"]]
    assert table["perplexity"]["gelu"] == headlines["perplexity"].groupby("variant").score.mean()["gelu"]
    assert (
        scores.groupby(["ffn", "benchmark"])["value"].mean()["gelu", "perplexity"]
        == table["perplexity"]["gelu"]
    )
    with pytest.raises(ffa.UsageError, match=r"pivot_table\(\.\.\.\) takes their mean"):
        scores.pivot(index="variant", columns="benchmark", values="score")
    assert scores.summary().equals(ffa.compare(scores).summary())


def test_a_class_without_source_is_told_from_its_former_self(tmp_path: Path, own_variants) -> None:
    found = []
    for text in (CELL, CELL.replace("tanh", "sin"), CELL):
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(text, namespace)  # as what is typed into a plain Python
        found.append(ffa.train(CONFIG | SHORT, ffn=namespace["OwnBend"], runs_dir=tmp_path))
    assert found[0] == found[2] != found[1]
    assert found[0].loss != found[1].loss
    assert ffa.train(CONFIG | SHORT, ffn="own-bend", runs_dir=tmp_path).name == "OwnBend"


def test_learning_curves_are_drawn_and_saved(runs: ffa.Runs, tmp_path: Path) -> None:
    axes = runs.plot()
    for line, run in zip(axes.lines, runs, strict=True):
        assert line.get_ydata().tolist() == run.curve["loss"].tolist()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["gelu", "swish"]
    for name, drawn in {"a.png": axes, "b.png": runs[0].plot(), "c.png": ffa.compare(runs).plot()}.items():
        drawn.savefig(tmp_path / name)
        assert pyplot.imread(tmp_path / name).min() < 0.5
    pyplot.close("all")


def test_the_table_of_variants_has_the_numbers_of_each() -> None:
    table = ffa.variants(hidden_size=8, intermediate_size=16)
    assert set(FFN_VARIANTS) <= set(table.index)
    assert table.parameters["gelu"] == 2 * 8 * 16 + 8 + 16
    assert table["FLOPs/token"]["gelu"] == 4 * 8 * 16


@pytest.mark.parametrize("name", ["train", "evaluate", "compare", "variants", "check", "study"])
def test_every_keyword_is_described_and_has_a_type(name: str) -> None:
    call = getattr(ffa, name)
    described = set(re.findall(r"^ {8}\*{0,2}(\w+): ", call.__doc__, flags=re.MULTILINE))
    parameters = inspect.signature(call).parameters
    assert set(parameters) <= described
    assert all(each.annotation is not each.empty for each in parameters.values())


def test_random_numbers_of_the_caller_go_on_as_if_nothing_was_trained(tmp_path: Path, capsys) -> None:
    def draw(before: Callable[[], object]) -> tuple[float, float, float]:
        random.seed(7)
        np.random.seed(7)
        torch.manual_seed(7)
        before()
        return random.random(), np.random.random(), torch.rand(()).item()

    ffa.train(CONFIG, ["kan", "gelu"], seeds=2, dry_run=True, runs_dir=tmp_path)
    described = capsys.readouterr().out
    assert (described.count("gpt_neo  kan"), described.count("gpt_neo  gelu")) == (2, 2)
    assert not any(tmp_path.iterdir())
    assert draw(lambda: ffa.train(CONFIG, max_steps=2, runs_dir=tmp_path)) == draw(lambda: None)
    told = capsys.readouterr()
    assert (told.out, told.err.count("seed 0: held-out loss")) == ("", 1)
    ffa.train(CONFIG, max_steps=2, runs_dir=tmp_path)
    assert capsys.readouterr().err == ""  # it was trained before


@pytest.mark.ci
def test_a_registered_class_is_trained_by_its_name_as_by_itself(tmp_path: Path, own_variants) -> None:
    assert ffa.register("own-sine", torch.sin) is torch.sin
    assert ffa.register("own-gate")(OwnGate) is OwnGate
    by_name = ffa.train(CONFIG | SHORT, ffn=["own-sine", "own-gate", "swiglu"], runs_dir=tmp_path)
    itself = ffa.train(CONFIG | SHORT, ffn=[OwnGate, LlamaMLP], runs_dir=tmp_path)
    assert by_name[1] == itself[0]
    assert by_name[0].config["ffn_source"]
    assert {"own-sine", "own-gate"} <= {*ffa.variants()}
    assert ffa.swap_ffn(by_name[2], "own-sine").config.ffn == "own-sine"
    assert itself["LlamaMLP"].loss == by_name["swiglu"].loss  # transformers' own, which takes a config


def test_settings_have_the_names_of_other_libraries(tmp_path: Path) -> None:
    first, second = (
        ffa.train(CONFIG | SHORT, runs_dir=tmp_path, **{layers: 1, heads: 2})
        for layers, heads in (("num_layers", "n_head"), ("num_hidden_layers", "num_attention_heads"))
    )
    assert first == second
    changed = ffa.load_config("tiny")
    changed.model.hidden_size = 32
    changed["model"]["ffn_options"] = {}
    assert (changed["model"]["hidden_size"], changed.ffn_options, "ffn_options" in changed) == (32, {}, False)
    changed["optim"]["max_steps"] = 2
    stories = [f"A dog ran {n} miles." for n in range(200)]
    run = ffa.train(changed, dataset=stories, runs_dir=tmp_path, torch_compile=False)
    assert (run.config["max_steps"], run.config["source"]) == (2, "files")


def test_a_class_of_a_module_is_a_variant_of_a_study_too(tmp_path: Path, monkeypatch, own_variants) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_module.py").write_text(f"import torch\n\n{CELL.lstrip()}")
    kind = importlib.import_module("own_module").OwnBend
    first = ffa.train(CONFIG | SHORT, ffn=kind, runs_dir=tmp_path)
    study = ffa.Study("mine", model="tiny", variants=["gelu", kind], seeds=2, max_steps=2)
    content = yaml.safe_load(Path("mine.yaml").read_text())
    assert content["variants"] == ["gelu", f"{tmp_path}/own_module.py:OwnBend"]
    assert (content["seeds"], content["families"]) == ([1, 2], {"gpt_neo": "tiny"})
    assert study.status().summary == "4 waiting"
    assert ffa.train(CONFIG | SHORT, ffn=kind, runs_dir=tmp_path).loss == first.loss
    model = ffa.build_model(CONFIG | SHORT, ffn=kind, seed=first.seed, vocab_size=300)
    assert model.num_parameters() == first.parameters
    with torch.random.fork_rng():
        torch.manual_seed(5)
        built = ffa.build_model(CONFIG, seed=3)
    assert all(map(torch.equal, built.parameters(), ffa.create_model(CONFIG, seed=3).parameters()))


class TakesTooMuch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__(1)


def test_a_type_error_inside_of_a_call_stays_one(own_variants) -> None:
    with pytest.raises(TypeError) as told:
        ffa.ffn(TakesTooMuch, 8)
    assert not isinstance(told.value, ffa.UsageError)


def test_a_study_is_asked_as_its_runs_are(runs: ffa.Runs) -> None:
    study = ffa.Study(runs[0].folder.parents[2])
    assert study.scores.equals(study.runs.scores)
    assert study.summary().equals(study.runs.summary())
    assert study.compare().verdicts.equals(study.report().verdicts)
    with pytest.raises(AttributeError, match="did you mean runs"):
        study.rans


def test_a_study_is_written_once_and_only_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = {
        "families": "tiny", "variants": ("gelu", "relu"), "seeds": range(1, 3), "max_steps": 2,
        "suites": "embedded-pairs",
    }  # fmt: skip
    with pytest.raises(ffa.UsageError, match="'geluu'"):
        ffa.study("mine", **content | {"variants": ["geluu"]})
    assert not any(tmp_path.iterdir())
    study = ffa.study("mine", **content)
    assert yaml.safe_load(Path("mine.yaml").read_text()) == {
        "name": "mine", "families": {"gpt_neo": "tiny"}, "variants": ["gelu", "relu"], "seeds": [1, 2],
        "config": {"optim": {"max_steps": 2}}, "evaluation": {"suites": ["embedded-pairs"]},
    }  # fmt: skip
    assert (
        study
        == ffa.study("mine", **content)
        == ffa.study("mine.yaml")
        == ffa.study({"name": "mine", **content})
        == ffa.Study("mine", **content)
        == ffa.Study(name="mine", base="tiny", **{k: v for k, v in content.items() if k != "families"})
    )
    assert study.status.summary == "4 waiting"
    with pytest.raises(ffa.UsageError, match=r"mine\.yaml has another content"):
        ffa.study("mine", **content | {"seeds": [1]})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda runs: ffa.train("tiny", model="llama"), "family='llama'"),
        (lambda runs: ffa.Runs(runs[0].folder.parent), "ffn_ablations.load opens all"),
        (pd.DataFrame, "runs.frame is the data frame"),
        (lambda runs: ffa.train(CONFIG, resume=True), "another max_steps is another run"),
        (lambda runs: ffa.train(CONFIG, config={}), "multiple values for argument 'config'; it takes config"),
        (lambda runs: ffa.train(CONFIG, n_layer=1, num_hidden_layers=1), "are the same setting"),
        (lambda runs: ffa.load(devise="cpu"), "it takes folder, trust_remote_code"),  # type: ignore
        (lambda runs: runs.save("kept", model=True), "'model'; it takes folder"),
        (lambda runs: ffa.Run(seed=1), "it takes folder, name"),  # type: ignore
        (lambda runs: ffa.register("gelu", OwnGate), "an FFN variant 'gelu' is there already"),
        (lambda runs: ffa.Study("quickstrat"), "did you mean quickstart"),
        (lambda runs: ffa.Study(), "name"),
        (lambda runs: ffa.study("quickstart", dry_run=True), "study('quickstart').run(dry_run=...)"),
        (lambda runs: ffa.study("mine", models="tiny"), "did you mean families?"),
        (lambda runs: ffa.study("mine", base="tiny", variants="gelu", seeds=2), "variants: must be a list"),
        (lambda runs: ffa.study("mine", variants=[run_cell(CELL)]), 'variants=["gelu", "mine.py:MyFFN"]'),
        (lambda runs: ffa.study(3), "3 names no study"),
        (lambda runs: ffa.train({"optm": {}}), "optm: unknown key, did you mean optim?"),
        (lambda runs: ffa.train(CONFIG, seed=[1, 2]), "seeds=[1, 2]"),
        (lambda runs: ffa.train(CONFIG, eval_texts=["a b"]), 'texts={"train"'),
        (lambda runs: ffa.train(CONFIG, texts="nowhere.txt"), "nowhere.txt"),
        (lambda runs: ffa.train(CONFIG, texts=pd.DataFrame({"story": ["a b"]})), "columns story"),
        (lambda runs: ffa.train(CONFIG, texts=["a story", "a.txt"]), "give one or the other"),
        (lambda runs: ffa.train(CONFIG, texts="a story"), "documents in a list: texts=[...]"),
        (lambda runs: ffa.train(CONFIG, texts={"train": ["a b"]}), "give train and validation"),
        (lambda runs: ffa.train(CONFIG, per_device_train_batch_size=8), "batch_size is the rows"),
        (lambda runs: ffa.train(CONFIG, output_dir="here"), "did you mean runs_dir?"),
        (lambda runs: ffa.evaluate(runs, n=8), "did you mean max_pairs?"),
        (lambda runs: ffa.evaluate(runs, pairs=["a", ("b", "c")]), "give (good, bad) of each pair"),
        (lambda runs: ffa.evaluate(runs, pairs=7), "pairs is 7; give"),
        (lambda runs: ffa.evaluate(runs, suites=[("a", "b")]), "unknown suite ['a', 'b']"),
        (lambda runs: ffa.train(CONFIG, tokenizer=runs[0].tokenizer), 'write .save_pretrained("mine")'),
        (lambda runs: ffa.train(CONFIG, grid_size=8), 'ffn=("kan", {"grid_size": 3})'),
        (lambda runs: ffa.train(CONFIG, texts=[3]), "give a path, paths, or a list of texts"),
        (lambda runs: ffa.train(CONFIG, ffn=torch.nn.GELU()), 'write ffn="gelu"'),
        (lambda runs: ffa.train(CONFIG, ffn=torch.relu), 'write ffn="relu"'),
        (lambda runs: ffa.check("geluu"), "did you mean 'gelu'?"),
        (lambda runs: ffa.variants(hidden_size=0), "hidden_size: must be at least 1"),
        (lambda runs: ffa.train(CONFIG, seeds=[1.5]), "give whole numbers"),
        (lambda runs: ffa.train(CONFIG, max_steps=1, warmup_steps=3), "warmup_steps"),
        (lambda runs: ffa.train(CONFIG, seed=1, seeds=[1]), "were both given"),
        (lambda runs: ffa.evaluate(runs, suites=["blip"]), "suites: unknown suite 'blip'; did you mean"),
        (lambda runs: ffa.evaluate(runs, workers=0), "workers is 0"),
        (lambda runs: ffa.evaluate([]), "names no run"),
        (lambda runs: runs[0].push_to_hub("me"), "repo 'me'"),
        (lambda runs: ffa.evaluate(["/"]), "/ is no run's folder"),
        (lambda runs: ffa.compare(runs[0]), "it is one run: give its study's folder"),
        (lambda runs: ffa.compare([]), "is no data frame: give one with columns"),
        (lambda runs: runs[0].generate("a " * 200), "shorten the prompt"),
        (lambda runs: ffa.evaluate(runs, texts=["a.txt", "b.txt"]), "texts are 2 files"),
        (lambda runs: ffa.study("quickstart").run(workers=0), "workers: must be at least 1"),
        (lambda runs: runs[0].generate(do_sample=True), "temperature=0"),
        (lambda runs: ffa.study({"name": "mine"}), "mine.yaml: seeds: is missing"),
        (lambda runs: ffa.study(runs[0].folder.parents[2]).run(), "is a folder; open the study by its name"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(runs: ffa.Runs, call: Any, said: str) -> None:
    with pytest.raises(ffa.UsageError) as told:
        call(runs)
    assert said in str(told.value)
    assert "\n" not in str(told.value)
