"""A pretend study that was tuned: run folders and ``tuning.json``, without a training."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from report.statistics.tuning_curves import chosen_places
from scores.tuning_trials import Trial, Tuning, TuningPlan, write_tuning
from tests.unit.report.studies import write_plan, write_run

FAMILY, FIELD = "gpt_neo", "optim.learning_rate"
RATES = (3e-4, 1e-3, 3e-3)
TUNING_SEEDS, SEEDS = (101, 102, 103), (1, 2, 3, 4, 5, 6)
BEST = {"gelu": 1e-3, "kan": 3e-3, "swiglu": 1e-3, "relu2": 1.6e-3}
LEAD = {"gelu": 0.0, "kan": 0.0, "swiglu": 0.06, "relu2": 0.0}
"""Nats below gelu, each at its own best."""
COST, SPREAD = 0.05, 0.006


def loss_at(variant: str, rate: float, seed: int) -> float:
    """What a run comes to: a parabola in the logarithm of the rate, in threefolds, and its seed's share."""
    rng = np.random.default_rng([sorted(BEST).index(variant), round(1e7 * rate), seed])
    off = np.log(rate / BEST[variant]) / np.log(3)
    return float(3.0 - LEAD[variant] + COST * off**2 + SPREAD * rng.standard_normal())


def tune(
    sizes: Sequence[str] = (),
    seeds: Sequence[int] = TUNING_SEEDS,
    widen: int = 2,
    diverged: Sequence[tuple[str, float]] = (),
) -> Tuning:
    """Return the tuning of a study, with every round that it takes; runs at ``diverged`` diverge."""
    plan = TuningPlan(
        fields={FIELD: RATES},
        seeds=tuple(seeds),
        select="held-out-loss",
        by_curve=True,
        widen=widen,
        shared=True,
        baseline="gelu",
        variants=tuple(BEST),
        settings=tuple((FAMILY, (("size", size),)) for size in sizes) or ((FAMILY, ()),),
    )

    return Tuning(plan=plan).advanced(partial(losses_of, diverged), "2026-11-23", chosen_places)


def losses_of(
    diverged: Sequence[tuple[str, float]], wanted: Trial, seeds: Sequence[int]
) -> tuple[float | None, ...]:
    """Return what runs of a variant at a point come to, by seed; nothing of those that diverge."""
    rate = float(wanted.point[FIELD])
    if (wanted.variant, rate) in diverged:
        return (None,) * len(seeds)
    return tuple(loss_at(wanted.variant, rate, seed) for seed in seeds)


def write_study(folder: Path, tuning: Tuning) -> Path:
    """Write a tuned study with its main and its shared runs."""
    levels: dict[str, Mapping[str, str]] = {}
    stages: dict[str, list[str]] = {"main": [], "shared": []}
    for place, (family, places) in enumerate(tuning.plan.settings):
        one = tuning.shared(family, places)
        for variant, seed in product(tuning.plan.variants, SEEDS):
            own = tuning.choice(family, places, variant)
            for stage, choice in (("main", own), ("shared", one)):
                rate = float(choice.point[FIELD])
                run_id = f"{family}/{variant}/seed{seed}-{place}{round(1e7 * rate):07x}"
                if run_id not in levels:
                    loss = loss_at(variant, rate, seed)
                    write_run(folder, run_id, [{"step": 100, "tokens": 100, "eval_loss": loss, "time_s": 9}])
                levels[run_id] = {"variant": variant, **dict(places)}
                stages[stage].append(run_id)
    sizes = [dict(places)["size"] for _, places in tuning.plan.settings if places]
    axes = {"axes": {"size": sizes}} if sizes else {}
    write_plan(folder, levels, levels=levels, stages=stages, **axes)
    write_tuning(folder, tuning)
    return folder
