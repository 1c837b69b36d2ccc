"""A pilot as a study of its own: tokens, learning rate and batch are its axes, and few runs are in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from base.errors import UsageError, unknown_name
from base.files import mapping
from eval.suites.registry import HELD_OUT
from pretrain.run.folders import PILOT
from slurm.study.axes.points import TOKENS, read_tokens
from slurm.study.config import StudyConfig
from slurm.study.pilot import FIRST_SEED, PilotConfig
from slurm.study.study import Asked, Study, load_study

USUAL = 0.02
"""The difference to be found, in nats, where neither pilot nor study names one."""
WITHOUT = "none"
"""The variant that is unlike any other: no FFN at all."""


def load_pilot(
    path: Path,
    overrides: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
    asked: Asked | None = None,
) -> Study:
    """Read a study and expand its pilot into cells; arguments are those of ``load_study``.

    Raises:
        UsageError: If the study or its pilot does not fit; names the file.
    """
    if asked and asked != Asked():
        raise UsageError(
            "a pilot runs the variants and seeds of its section; leave out --variants, --add and --seeds"
        )
    question: dict[str, Any] = {}

    def change(config: StudyConfig) -> dict[str, Any]:
        try:
            pilot = _pilot_of(config)
            question.update(_question(config, pilot))
            return _values(config, pilot, question)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None

    return replace(load_study(path, overrides, trust_remote_code, change), pilot=question)


def _pilot_of(config: StudyConfig) -> PilotConfig:
    if config.backbones:
        raise UsageError("a pilot trains models, and a study of backbones trains none; leave pilot out")
    if config.pilot is None:
        raise UsageError(
            "pilot is not there; write pilot: {tokens: [0.3M, 1M], optim.learning_rate: [1e-3, 3e-3]}"
        )
    if config.report.factor in ("head", "both"):
        raise UsageError(f"a pilot compares FFN variants, and report.factor is {config.report.factor}")
    return config.pilot


def _question(config: StudyConfig, pilot: PilotConfig) -> dict[str, Any]:
    """What the pilot's page is about; stands in its study.yaml (see ``eval.report.pilot``)."""
    return {
        "of": config.name,
        "detect": pilot.detect or config.report.margins.get(HELD_OUT, USUAL),
        "size": _size(config, pilot),
        "recipe": list(pilot.levels),
        "variants": list(_variants(config, pilot)),
    }


def _values(config: StudyConfig, pilot: PilotConfig, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Write the pilot as the file of a study."""
    levels = pilot.levels
    axes = {axis: values[:1] for axis, values in config.axes.items()}  # what the pilot does not vary stays
    axes |= {axis: values for axis, values in levels.items() if axis != TOKENS}
    size, tokens = asked["size"], levels.get(TOKENS, config.tokens[:1])
    own: dict[str, Any] = dict(config.config)
    for axis in axes:
        own = _without(own, axis)
    values = {
        "name": f"{config.name}{PILOT}",
        "families": dict(config.families),
        "variants": asked["variants"],
        "sizes": {size: dict(config.sizes[size])} if size is not None else {},
        "tokens": list(tokens),
        "axes": {axis: list(each) for axis, each in axes.items()},
        "seeds": list(_seeds(config, pilot)),
        "config": _without(_without(own, "optim.max_steps"), "optim.num_train_epochs") if tokens else own,
        "evaluation": {"suites": []},
        "report": {
            "baseline": asked["variants"][0],
            "primary": [HELD_OUT],
            "margins": {HELD_OUT: asked["detect"]},
        },
    }
    return {name: value for name, value in values.items() if value not in ({}, [])}


def _variants(config: StudyConfig, pilot: PilotConfig) -> tuple[str, str]:
    if pilot.variants:
        first, second = pilot.variants
        return first, second
    report = config.report
    baseline = report.baseline if report.factor == "ffn" else config.variants[0]
    others = [name for name in config.variants if name != baseline]
    return baseline, WITHOUT if baseline != WITHOUT else others[-1]


def _seeds(config: StudyConfig, pilot: PilotConfig) -> tuple[int, ...]:
    """Seeds that the study itself has not; its own would be seen before the study is."""
    taken = {*config.all_seeds, *(config.tune.seeds if config.tune else ())}
    if isinstance(pilot.seeds, int):
        free = (
            seed for seed in range(FIRST_SEED, FIRST_SEED + pilot.seeds + len(taken)) if seed not in taken
        )
        return tuple(seed for seed, _ in zip(free, range(pilot.seeds), strict=False))
    if both := taken.intersection(pilot.seeds):
        raise UsageError(
            f"pilot.seeds {', '.join(map(str, sorted(both)))} are among the study's own, which a pilot must "
            f"not have seen; name others, such as {FIRST_SEED}"
        )
    return pilot.seeds


def _size(config: StudyConfig, pilot: PilotConfig) -> str | None:
    """The size that is named, else the smallest; the first where names are no numbers."""
    if pilot.size is not None:
        if pilot.size not in config.sizes:
            raise unknown_name("size in pilot.size", pilot.size, config.sizes)
        return pilot.size
    try:
        return min(config.sizes, key=read_tokens, default=None)
    except UsageError:
        return next(iter(config.sizes))


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return nested values without one of a dotted name, and without a section that it leaves empty."""
    first, _, rest = name.partition(".")
    left = {key: value for key, value in values.items() if key != first}
    if rest and (inner := _without(mapping(values.get(first)), rest)):
        left[first] = inner
    return left
