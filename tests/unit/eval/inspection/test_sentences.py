"""The sentences say what the findings show, whatever is planted in the runs."""

from __future__ import annotations

import numpy as np
import pytest

from eval.inspection.findings import DIFFERS, find_all
from eval.inspection.sentences import NAMED, three_sentences, written
from eval.results.inspection import EdgeLayer, PruningCurve, RunInspection

KINDS = ("trained", "random", "untrained", "untrained random")


def layer() -> EdgeLayer:
    return EdgeLayer(
        layer=1, place=1, kind="planted", num_edges=6, bound=9, measures={}, explained={}, forms={},
        points=[], shapes=[], density=[], places=[], atlas=[],
    )  # fmt: skip


def run(
    variant: str, seed: int, summaries: dict, family: str = "gpt_neo", is_kan: bool = False
) -> RunInspection:
    curve = PruningCurve(what="edges", order="activity", shares=[0, 1], loss=[1, 2], accuracy=[], log_odds=[])
    return RunInspection(
        key="", run_id=f"{family}/{variant}/seed{seed}", family=family, variant=variant, seed=seed,
        ffn_parameters=1000, num_edges=6 if is_kan else 0, num_tokens=100, loss=1.0, seconds=1.0, peak_mb=1.0,
        edges=[layer()] if is_kan else [], activations=[], moments=[], pruning=[curve], resets={},
        gradient_norms={}, pruned_model="", notes=[],
        summaries={k: v if isinstance(v, dict) else {"trained": v} for k, v in summaries.items()},
    )  # fmt: skip


def adaptive(variant: str, loss: float, seeds: int = 5, family: str = "gpt_neo") -> list[RunInspection]:
    """Runs whose reset and refit cost so many nats, but for noise."""
    rng = np.random.default_rng(len(variant))
    return [
        run(variant, k, {"reset refitted": loss + 0.001 * rng.normal(), "reset start": 1 + 0.1 * rng.normal(),
                         "activation moved": 20.0}, family)
        for k in range(seeds)
    ]  # fmt: skip


def pruned(half: float, variant: str = "kan") -> list[RunInspection]:
    """Runs that lose so many nats without half of their edges; a KAN has one shape fewer than chance."""
    rng, is_kan = np.random.default_rng(0), variant == "kan"
    shapes = {
        "edges dimension": {"random": 4.0, "untrained": 4.0, "untrained random": 4.0},
        "edges nonlinearity": dict.fromkeys(KINDS, 0.5),
        "edges named": dict.fromkeys(KINDS, 0.5),
    }
    found = []
    for seed in range(5):
        losses = {
            "pruning edges by activity, half": half + 0.001 * rng.normal(),
            "pruning edges by random, half": 2 + 0.1 * rng.normal(),
            "pruning neurons by activity, half": 0.5,
        }
        of_run = shapes["edges dimension"] | {"trained": 3 + 0.01 * rng.normal()}
        summaries = losses | (shapes | {"edges dimension": of_run} if is_kan else {})
        found.append(run(variant, seed, summaries, is_kan=is_kan))
    return found


def test_what_is_used_is_said_and_what_is_not_shown_is_not():
    runs = [*adaptive("swish", 0.3), *adaptive("prelu", 0.0)]
    findings = find_all(runs, "gelu")
    (first,) = three_sentences(runs, findings)
    assert first.startswith("What `swish` learned is used")
    assert first.endswith("; of `prelu` that is not shown.")
    told = next(x for x in findings if x.variant == "swish" and x.name.endswith("refitted"))
    assert told.verdict == DIFFERS
    assert written(told).strip("[]").split(", ")[0][:5] in first


def test_nothing_is_called_used_that_is_not_shown():
    runs = [*adaptive("swish", 0.0), *adaptive("prelu", 0.0)]
    (first,) = three_sentences(runs, find_all(runs, "gelu"))
    assert first.startswith("No learned activation is shown to be needed")


def test_a_change_that_lowers_the_loss_when_taken_back_is_not_called_used():
    runs = adaptive("swish", -0.3)
    (first,) = three_sentences(runs, find_all(runs, "gelu"))
    assert first.startswith("No learned activation is shown to be needed")


@pytest.mark.parametrize(
    ("half", "lead"), [(0.1, "is special to `kan`"), (0.9, "is not shown to be special")]
)
def test_pruning_is_special_only_where_kans_lose_less(half, lead):
    runs = [*pruned(0.5, "gelu"), *pruned(half)]
    edges, pruning = three_sentences(runs, find_all(runs, "gelu"))[:2]
    assert "by -1.00 [" in edges
    assert "(3.00 of the 9 that its basis allows)." in edges
    assert lead in pruning
    assert f"to `gelu` of as many parameters of {'-' if half < 0.5 else '+'}0.400 [" in pruning
    assert "which is not shown" not in pruning


def test_one_run_claims_nothing():
    runs = adaptive("swish", 0.3, seeds=1)
    (first,) = three_sentences(runs, find_all(runs, "gelu"))
    assert first.startswith("No learned activation is shown to be needed")
    assert "no interval: one run" in first


def test_many_variants_are_counted_and_families_are_named():
    many = [run for k in range(6) for run in adaptive(f"own-{'x' * k}", 0.1 * k)]
    (first,) = three_sentences(many, find_all(many, "gelu"))
    assert first.count(" nats in ") <= NAMED
    assert "more below" in first
    both = [*adaptive("swish", 0.3), *adaptive("swish", 0.3, family="roberta")]
    (first,) = three_sentences(both, find_all(both, "gelu"))
    assert "`swish` (GPT-Neo)" in first
    assert "`swish` (RoBERTa)" in first
