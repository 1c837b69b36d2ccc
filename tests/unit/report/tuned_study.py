"""A pretend study that was tuned: run folders and ``tuning.json``, without a training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import yaml

from base.run.folder_names import RunFolder, StudyFolder
from scores.tuning_trials import Trial, Tuning, TuningPlan, write_tuning

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
        widen=widen,
        shared=True,
        baseline="gelu",
        variants=tuple(BEST),
        settings=tuple((FAMILY, (("size", size),)) for size in sizes) or ((FAMILY, ()),),
    )

    return Tuning(plan=plan).advanced(partial(losses_of, diverged), "2026-11-23")


def losses_of(
    diverged: Sequence[tuple[str, float]], wanted: Trial, seeds: Sequence[int]
) -> tuple[float | None, ...]:
    """Return what runs of a variant at a point come to, by seed; nothing of those that diverge."""
    rate = float(wanted.point[FIELD])
    if (wanted.variant, rate) in diverged:
        return (None,) * len(seeds)
    return tuple(loss_at(wanted.variant, rate, seed) for seed in seeds)


def write_run(study: Path, run_id: str, loss: float) -> None:
    """Write a finished run's folder."""
    run = RunFolder(study / run_id)
    family, variant, name = run_id.split("/")
    seed = int(name[4:].split("-")[0])
    run.path.mkdir(parents=True)
    run.config_file.write_text(yaml.safe_dump({"family": family, "model": {"ffn": variant}, "seed": seed}))
    run.metrics_file.write_text(json.dumps({"step": 100, "tokens": 100, "eval_loss": loss, "time_s": 9}))
    run.completion_marker.write_text(json.dumps({"results": {"step": 100, "eval_loss": loss}}))


def write_study(folder: Path, tuning: Tuning) -> Path:
    """Write a tuned study with its main and its shared runs."""
    levels: dict[str, Mapping[str, str]] = {}
    stages: dict[str, list[str]] = {"main": [], "shared": []}
    for place, (family, places) in enumerate(tuning.plan.settings):
        one = tuning.shared(family, places)
        assert one is not None
        for variant, seed in product(tuning.plan.variants, SEEDS):
            own = tuning.choice(family, places, variant)
            assert own is not None
            for stage, choice in (("main", own), ("shared", one)):
                rate = float(choice.point[FIELD])
                run_id = f"{family}/{variant}/seed{seed}-{place}{round(1e7 * rate):07x}"
                if run_id not in levels:
                    write_run(folder, run_id, loss_at(variant, rate, seed))
                levels[run_id] = {"variant": variant, **dict(places)}
                stages[stage].append(run_id)
    sizes = [dict(places)["size"] for _, places in tuning.plan.settings if places]
    content = {
        "families": [FAMILY],
        "variants": list(tuning.plan.variants),
        "seeds": list(SEEDS),
        "cells": list(levels),
        "levels": levels,
        "stages": stages,
        **({"axes": {"size": sizes}} if sizes else {}),
    }
    StudyFolder(folder).study_file.write_text(yaml.safe_dump(content, sort_keys=False))
    write_tuning(folder, tuning)
    return folder
