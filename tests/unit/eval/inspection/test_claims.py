"""What the first screen and the count of runs may not claim."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eval.inspection.findings import DIFFERS, EXCESSES, NOT_SHOWN, RESETS
from eval.inspection.learned_activations import ROWS_A_WEIGHT, look_at_resets
from eval.inspection.probe import Probe
from eval.inspection.sentences import OF_ITS_EDGES, three_sentences, written
from eval.inspection.settings import each_once
from eval.results.inspection import EdgeLayer, Finding, PruningCurve, RunInspection
from ffn_variants import build_model


def layer() -> EdgeLayer:
    return EdgeLayer(
        layer=1, place=1, kind="planted", num_edges=6, bound=9, measures={}, explained={}, forms={},
        points=[], shapes=[], density=[], places=[], atlas=[],
    )  # fmt: skip


def run(variant: str, seed: int = 1, key: str = "") -> RunInspection:
    return RunInspection(
        key=key, run_id=f"gpt_neo/{variant}/seed{seed}", family="gpt_neo", variant=variant, seed=seed,
        ffn_parameters=1000, num_edges=6, num_tokens=100, loss=1.0, seconds=1.0, peak_mb=1.0,
        edges=[layer()], activations=[], moments=[], pruning=[], resets={}, gradient_norms={},
        pruned_model="", notes=[], summaries={"edges dimension": {"trained": 3.0}},
    )  # fmt: skip


def finding(variant: str, verdict: str, estimate: float, low: float, high: float, part: str) -> Finding:
    name = EXCESSES["dimension"][0] if part == "edges" else RESETS["refitted"]
    return Finding(
        question=part, family="gpt_neo", variant=variant, name=name, unit="nats", control="", runs=5,
        mean=3.0, control_mean=3.0, estimate=estimate, low=low, high=high,
        p=0.01 if verdict == DIFFERS else 0.9, verdict=verdict, repeats=5,
    )  # fmt: skip


def test_training_is_not_said_to_change_shapes_where_no_change_is_shown():
    found = [finding("kan", NOT_SHOWN, 0.2, -1.0, 1.4, "edges")]
    (said,) = three_sentences([run("kan")], found)
    assert said.startswith("Training is not shown to have changed how many shapes the edges have")


def test_a_large_change_that_is_not_shown_does_not_hide_one_that_is():
    wide = [finding(f"wide-{k}", NOT_SHOWN, 2.0 + k, -1.0, 9.0, "edges") for k in range(3)]
    found = [*wide, finding("kan", DIFFERS, 0.5, 0.4, 0.6, "edges")]
    (said,) = three_sentences([run(x.variant) for x in found], found)
    assert "changed how many shapes the edges have by +0.50 [+0.40, +0.60] nats in `kan`" in said
    assert said.endswith("; of `wide-0`, `wide-1` and `wide-2` that is not shown.")


@pytest.mark.parametrize("sign", [1, -1])
def test_no_interval_is_rounded_onto_the_zero_that_it_leaves_out(sign):
    low, high = sorted((sign * 3e-5, sign * 5e-5))
    found = finding("swish", DIFFERS, sign * 4e-5, low, high, "activations")
    assert all(float(end) * sign > 0 for end in written(found).strip("[]").split(", "))
    (said,) = three_sentences([run("swish")], [found])
    assert "[0.0" not in said
    assert ", 0.0" not in said


def test_a_training_counts_once():
    """Named twice, copied under another seed, or its seed trained once more."""
    one, other = run("kan", 1, "a"), run("kan", 2, "b")
    kept, notes = each_once(
        [one, other, one, replace(one, seed=3), replace(other, key="c"), run("gelu", 1, "d")]
    )
    assert [(x.variant, x.seed) for x in kept] == [("kan", 1), ("kan", 2), ("gelu", 1)]
    assert len(notes) == 3
    assert all("the same training is there already" in note for note in notes)


@pytest.mark.parametrize(("worth", "is_special"), [(0.2, False), (2.0, True)])
def test_an_ffn_that_does_nothing_is_not_pruned_gracefully(worth, is_special):
    """0.12 of 0.2 nats is more than half of the 2 nats that the baseline's edges are worth."""

    def with_edges_worth(variant: str, nats: float) -> RunInspection:
        curve = PruningCurve(
            what="edges", order="activity", shares=[0, 1], loss=[3, 3 + nats], accuracy=[], log_odds=[]
        )
        return replace(run(variant), pruning=[curve])

    told = finding("kan", DIFFERS, -0.9, -1.0, -0.8, "edges")
    told = replace(told, question="pruning", control="gelu" + OF_ITS_EDGES, mean=0.12, control_mean=1.0)
    runs = [with_edges_worth("gelu", 2.0), with_edges_worth("kan", worth)]
    (said,) = three_sentences(runs, [told])
    assert ("is special to `kan`" in said) == is_special
    assert f"0.120 of the {worth:.2f} nats that all are worth" in said


class RowsOf(Probe):
    """A model whose activations read so many rows of noise, and whose loss is the size of its weights."""

    def __init__(self, model, rows: int) -> None:
        self.model, self.rows = model, rows

    def inputs(self, modules, num_tokens):
        return [torch.randn(self.rows, 8) for _ in modules]

    def loss(self) -> float:
        return sum(float(parameter.detach().square().sum()) for parameter in self.model.parameters())


@pytest.mark.parametrize("rows", [8, ROWS_A_WEIGHT * 9 - 1, ROWS_A_WEIGHT * 9])
def test_a_layer_is_not_refitted_on_too_few_tokens(rows):
    """Fitted on as many tokens as it has weights, it repeats them, and the change would seem to be unused."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1}
    trained, start = (
        build_model("gpt_neo", "prelu", intermediate_size=8, max_position_embeddings=32, **sizes)
        for _ in range(2)
    )
    found = look_at_resets(RowsOf(trained, rows), start, 10**6, 0)
    assert ("refitted" in found) == (rows >= ROWS_A_WEIGHT * 9)
    assert "start" in found
