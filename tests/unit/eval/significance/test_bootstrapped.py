"""Verdicts that rest on the studentized bootstrap, against a plain loop."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eval.results.outcome import Declared
from eval.significance.comparison import NOT_ESTIMABLE, Inference
from tests.unit.eval.significance.comparing import compare

BY_BOOTSTRAP = Inference(method="bootstrap")


def scores(sizes: dict[tuple[str, str], int], seed: int = 0, shift: float = 0.0) -> pd.DataFrame:
    """Scores of so many runs of every family and variant; those of relu are higher by ``shift``."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"family": f, "variant": v, "seed": s, "benchmark": "blimp", "score": score}
        for (f, v), n in sizes.items()
        for s, score in enumerate(rng.normal(60 + shift * (v == "relu"), 1.0, n))
    )


def loop(arms: list[np.ndarray], weights: list[float]) -> tuple[float, float, np.ndarray]:
    """The estimate, its error, and sizes of Welch's t of resamples."""
    rng = np.random.default_rng(99)

    def parts(of: list[np.ndarray]) -> tuple[float, float]:
        estimate = sum(w * x.mean() for w, x in zip(weights, of, strict=True))
        return estimate, np.sqrt(sum(w**2 * x.var(ddof=1) / len(x) for w, x in zip(weights, of, strict=True)))

    estimate, error = parts(arms)
    sizes = []
    for _ in range(10_000):
        again, of_again = parts([rng.choice(x, len(x)) for x in arms])
        sizes.append(abs(again - estimate) / of_again)
    return estimate, error, np.array(sizes)


def arms_of(rows: pd.DataFrame, keys: list[tuple[str, str]]) -> list[np.ndarray]:
    return [rows.score[(rows.family == f) & (rows.variant == v)].to_numpy() for f, v in keys]


@pytest.mark.ci
def test_average_over_families_is_judged_as_a_loop_does():
    keys = [("a", "relu"), ("a", "gelu"), ("b", "relu"), ("b", "gelu")]
    rows = scores(dict(zip(keys, (5, 6, 7, 5), strict=True)), shift=1.1)
    found = compare(rows, "relu - gelu", inference=BY_BOOTSTRAP, declared=Declared(margin=3.0))
    estimate, error, sizes = loop(arms_of(rows, keys), [0.5, -0.5, 0.5, -0.5])
    assert found.estimate == pytest.approx(estimate)
    assert found.p == pytest.approx((sizes >= abs(estimate) / error).mean(), abs=0.01)
    half = np.quantile(sizes, 0.95) * error
    assert (found.low, found.high) == pytest.approx((estimate - half, estimate + half), abs=0.05 * half)
    one_sided = [(sizes >= (3 - abs(estimate)) / error).mean() / 2]
    assert found.p_equivalence == pytest.approx(one_sided[0], abs=0.005)
    for family in ("a", "b"):
        of_family, own_error, own = loop(arms_of(rows, [(family, "relu"), (family, "gelu")]), [1.0, -1.0])
        one_sided.append((own >= (3 - abs(of_family)) / own_error).mean() / 2)
    assert found.p_equivalence_everywhere == pytest.approx(max(one_sided), abs=0.005)
    assert found.smallest_margin == pytest.approx(abs(estimate) + np.quantile(sizes, 0.9) * error, rel=0.05)


def test_welch_stands_beside_and_is_what_it_was():
    rows = scores({("a", "relu"): 6, ("a", "gelu"): 6}, shift=2.0)
    usual, found = compare(rows, "relu - gelu"), compare(rows, "relu - gelu", inference=BY_BOOTSTRAP)
    assert (found.p_welch, found.low_welch, found.high_welch) == (usual.p, usual.low, usual.high)
    assert found.p != usual.p
    assert usual.p_welch is None


def test_pairs_are_resampled_as_pairs():
    rows = scores({("a", "relu"): 8, ("a", "gelu"): 8}, shift=1.0)
    found = compare(rows, "relu - gelu", inference=Inference(method="bootstrap", paired=True))
    first, second = arms_of(rows, [("a", "relu"), ("a", "gelu")])
    estimate, error, sizes = loop([first - second], [1.0])
    assert found.p == pytest.approx((sizes >= abs(estimate) / error).mean(), abs=0.01)


def test_fewer_than_five_runs_are_no_ground_for_a_verdict():
    rows = scores({("a", "relu"): 4, ("a", "gelu"): 6})
    found = compare(rows, "relu - gelu", inference=BY_BOOTSTRAP)
    assert found.verdict == NOT_ESTIMABLE
    assert found.reason == "the bootstrap needs 5 runs in every arm, and has 4 in a relu"
    assert (found.p, found.low, found.p_equivalence) == (None, None, None)
    assert found.p_welch == compare(rows, "relu - gelu").p
    assert compare(rows, "relu - gelu", inference=Inference(method="bootstrap", fewest=4)).p is not None


def test_ratios_of_losses_are_judged_in_their_logarithms():
    keys = [("a", "relu"), ("a", "gelu"), ("b", "relu"), ("b", "gelu")]
    rows = scores(dict.fromkeys(keys, 6)).assign(benchmark="held-out-loss")
    rows["score"] /= np.where(rows.family == "a", 20, 40)
    found = compare(rows, "relu - gelu", inference=BY_BOOTSTRAP)
    logarithms = [100 * np.log(arm) for arm in arms_of(rows, keys)]
    estimate, error, sizes = loop(logarithms, [0.5, -0.5, 0.5, -0.5])
    assert found.is_relative
    assert found.p == pytest.approx((sizes >= abs(estimate) / error).mean(), abs=0.015)
    high = estimate + np.quantile(sizes, 0.95) * error
    assert found.high == pytest.approx(100 * np.expm1(high / 100), abs=0.1)
