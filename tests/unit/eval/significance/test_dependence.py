"""Corrections that use dependence, and Holm's: how often they are wrong, and what they find.

docs/statistics.md has the table whose rows ``pytest -s -m slow`` prints here. A study has one family, a
baseline and so many variants with n runs each; the outcomes of a run correlate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special

from eval.significance.statistics.joint_null import (
    Cells,
    Draws,
    cells_of_arms,
    p_of_ranks,
    p_of_t,
    resampled,
    simulated,
)
from eval.significance.statistics.max_t import MaxT

LEVEL = 0.05
DIFFERENCE = 5.0
"""Of what differs in truth, in standard errors of a difference."""
SHAPES = [(1, 6), (9, 2), (9, 6)]
CORRELATIONS = [0.0, 0.5, 0.9]
Sampler = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.gamma(2.0, size=shape) - 2.0) / np.sqrt(2)


class Scores(NamedTuple):
    """How scores spread over seeds: of what form, and how far those of variants."""

    sampler: Sampler
    spread: float


SCORES = {
    "normal": Scores(normal, 1.0),
    "standard deviations 1 and 3": Scores(normal, 3.0),
    "skewed (gamma, shape 2)": Scores(skewed, 1.0),
}


class Study(NamedTuple):
    """A simulated study: its cells, its own t and p, and which comparisons differ in truth."""

    cells: Cells
    t: np.ndarray
    p: np.ndarray
    differs: np.ndarray


def simulate(
    rng: np.random.Generator, shape: tuple[int, int], scores: Scores, runs: int, rho: float, partial: bool
) -> Study:
    """Draw a study in which nothing differs, or the first half of its variants (of one: its outcomes)."""
    num_variants, num_outcomes = shape
    size = (num_variants + 1, runs)
    own = scores.sampler(rng, (*size, num_outcomes))
    found = np.sqrt(rho) * scores.sampler(rng, (*size, 1)) + np.sqrt(1 - rho) * own
    found[1:] *= scores.spread
    variants, outcomes = (x.ravel() for x in np.indices(shape))
    differs = partial & (2 * variants < num_variants if num_variants > 1 else 2 * outcomes < num_outcomes)
    error = np.sqrt((1 + scores.spread**2) / runs)
    found[1 + variants, :, outcomes] += DIFFERENCE * error * differs[:, None]
    weights = np.zeros((len(variants), num_variants + 1))
    weights[:, 0], weights[np.arange(len(variants)), 1 + variants] = -1.0, 1.0
    cells = cells_of_arms(found, weights, outcomes)
    errors = cells.weights**2 * cells.values.var(0, ddof=1) / runs
    t = cells.weights @ cells.values.mean(0) / np.sqrt(errors.sum(1))
    df = errors.sum(1) ** 2 / (errors**2 / (runs - 1)).sum(1)
    return Study(cells, t, 2 * special.stdtr(df, -np.abs(t)), differs)


def by_welch(study: Study, rng: np.random.Generator, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Its p-values, and those of draws; of draws only where they can be below the level."""
    found = simulated(study.cells, draws, rng)
    p, far = np.ones_like(found.t), np.abs(found.t) > 1.9  # Student's t is never narrower than the normal
    p[far] = p_of_t(Draws(found.t[far], found.df[far]))
    return study.p, p


def by_bootstrap(study: Study, rng: np.random.Generator, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """The same from resampled runs."""
    found = resampled(study.cells, draws, rng)
    size = np.nan_to_num(np.abs(found.t), nan=-1.0)
    num_usable = (size >= 0).sum(0)
    most = int(LEVEL * (draws + 1)) + 1
    far = np.argpartition(-size, most, axis=0)[:most]
    p = np.ones_like(size)
    np.put_along_axis(p, far, p_of_ranks(Draws(np.take_along_axis(size, far, 0), far)), 0)
    p[p < 1] *= (1 + most) / (1 + draws)  # ranks among all draws
    return (1 + (size >= np.abs(study.t)).sum(0)) / (1 + num_usable), p


def holm(p: np.ndarray) -> np.ndarray:
    """Written anew, for speed."""
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return corrected


METHODS = {"Welch": (by_welch, 400, 400), "bootstrap": (by_bootstrap, 3_999, 200)}
"""Draws in each study, and studies for each correlation."""
NUM_RUNS = {"Welch": (3, 5, 6, 10), "bootstrap": (5, 6, 10)}


class Rates(NamedTuple):
    """In percent: studies with a false claim, and true differences found; each by Holm and by max-t."""

    false: np.ndarray
    found: np.ndarray


def rates(
    method: str, shape: tuple[int, int], scores: str, runs: int, rho: float, partial: bool, share: float = 1.0
) -> Rates:
    """Simulate one number of runs and one correlation."""
    judge, draws, studies = METHODS[method]
    rng = np.random.default_rng([*shape, runs, round(10 * rho), partial, sorted(SCORES).index(scores)])
    false, found = [], []
    for _ in range(int(share * studies)):
        study = simulate(rng, shape, SCORES[scores], runs, rho, partial)
        p_values, null_p = judge(study, rng, draws)
        max_t = np.array(MaxT(null_p).adjust(p_values.tolist()), dtype=float)
        shown = np.array([holm(p_values), max_t]) < LEVEL
        false.append(shown[:, ~study.differs].any(1))
        found.append(shown[:, study.differs].mean(1) if partial else np.zeros(2))
    return Rates(100 * np.mean(false, axis=0), 100 * np.mean(found, axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", METHODS)
def test_any_false_claim_is_as_rare_as_the_level_says(method: str, shape: tuple[int, int], scores: str):
    """Pooled over correlations, where nothing differs and where half does; no less is found than by Holm."""
    label = f"{method} | {shape[0]} x {shape[1]} | {scores}"
    found: dict[str, list[np.ndarray]] = {}
    for runs in NUM_RUNS[method]:
        null, half = (
            [rates(method, shape, scores, runs, rho, partial) for rho in CORRELATIONS]
            for partial in (False, True)
        )
        for name, of_all in (("wrong, nothing differs", null), ("wrong, half differs", half)):
            found.setdefault(name, []).append(np.mean([x.false for x in of_all], axis=0))
        for rho, of_rho in zip(CORRELATIONS, half, strict=True):
            found.setdefault(f"found, correlation {rho:g}", []).append(of_rho.found)
    for name, values in found.items():
        print(f"| {label} | {name} |", " | ".join(f"{h:.1f} / {m:.1f}" for h, m in values), "|", flush=True)
    error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / METHODS[method][2] / len(CORRELATIONS))
    for name, values in found.items():
        for of_holm, of_max_t in values:
            assert of_max_t <= 100 * LEVEL + 3 * error if "wrong" in name else of_max_t > of_holm - 2


@pytest.mark.parametrize("method", METHODS)
def test_dependence_is_worth_something(method: str):
    """Six outcomes of one run that say almost the same: Holm pays for six, max-t for little more than one."""
    found = rates(method, (1, 6), "normal", 5, 0.9, True, share=0.2).found
    assert found[1] > found[0] + 2


def test_draws_that_are_cut_short_are_those_of_the_whole():
    """What the simulation leaves out, for speed, is never below the level."""
    study = simulate(np.random.default_rng(0), (9, 2), SCORES["normal"], 5, 0.5, partial=True)
    for (_, cut), whole in (
        (
            by_welch(study, np.random.default_rng(1), 998),
            p_of_t(simulated(study.cells, 998, np.random.default_rng(1))),
        ),
        (
            by_bootstrap(study, np.random.default_rng(1), 998),
            p_of_ranks(resampled(study.cells, 998, np.random.default_rng(1))),
        ),
    ):
        assert np.where(cut < LEVEL, cut, 1) == pytest.approx(np.where(whole < LEVEL, whole, 1))
