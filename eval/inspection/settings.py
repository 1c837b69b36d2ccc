"""Which runs are seeds of one thing: those whose configurations differ in the seed alone.

A study may train a variant at several sizes, rates or options. Such runs are no repetitions of one another.
Options of the FFN make another variant (``kan grid_size=3``), any other field another setting
(``GPT-Neo, optim.learning_rate=0.003``), within which variants are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from base.families import family_label
from eval.results.inspection import RunInspection
from pretrain.resolution import resolve
from pretrain.run.run_dir import RESULT_NEUTRAL, read_run

OF_THE_FFN = ("model.ffn_options.", "model.intermediate_size")
FOLLOWS = ("seed", "model.ffn", "model.paired_intermediate_size", "model.max_position_embeddings")
"""Fields that say what is known anyway, or follow from others."""

Fields = Mapping[str, Any]


def told_apart(runs: Sequence[tuple[Path, RunInspection]]) -> list[RunInspection]:
    """Name runs of one variant that are trained differently, so that no two things share a name.

    Args:
        runs: Folders and what was measured.

    Returns:
        The same, in their order, with further words in ``family`` and ``variant`` where they are needed.
    """
    fields = [_fields(path) for path, _ in runs]
    found = [run for _, run in runs]
    settings = _settings(found, fields)
    options = _options(found, fields, settings)
    return [
        replace(
            run,
            family=f"{family_label(run.family)}, {settings[place]}" if place in settings else run.family,
            variant=f"{run.variant} {options[place]}" if place in options else run.variant,
        )
        for place, run in enumerate(found)
    ]


def each_once(runs: Sequence[RunInspection]) -> tuple[list[RunInspection], list[str]]:
    """Leave out what is no further training: a run named twice, its copy, or its seed trained once more.

    Counted again, one run would make intervals narrower that say nothing more.

    Args:
        runs: With names of ``told_apart``.

    Returns:
        The others in their order, and a line for each that is left out.
    """
    seeds: set[tuple[str, str, int]] = set()
    keys: set[str] = set()
    kept, notes = [], []
    for run in runs:
        place = (run.family, run.variant, run.seed)
        if place in seeds or run.key in keys:
            notes.append(f"{run.run_id}: left out, as the same training is there already")
            continue
        seeds.add(place)
        keys |= {run.key} - {""}
        kept.append(run)
    return kept, notes


def _settings(runs: Sequence[RunInspection], fields: Sequence[Fields]) -> dict[int, str]:
    """By a run's place the fields, no options of an FFN, that any variant has several values of.

    They are said of all runs, so that variants of one setting find one another.
    """
    differ = {
        name
        for places in _alike(runs, {}).values()
        for name in _differing(places, fields)
        if not name.startswith(OF_THE_FFN)
    }
    return {place: _said(fields[place], differ) for place in range(len(runs)) if differ}


def _options(
    runs: Sequence[RunInspection], fields: Sequence[Fields], settings: Mapping[int, str]
) -> dict[int, str]:
    """By a run's place the options that its variant has several values of in its setting."""
    found = {}
    for places in _alike(runs, settings).values():
        differ = _differing(places, fields)
        found |= {place: _said(fields[place], differ) for place in places if differ}
    return found


def _alike(runs: Sequence[RunInspection], settings: Mapping[int, str]) -> dict[tuple[str, ...], list[int]]:
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        alike[run.family, run.variant, settings.get(place, "")].append(place)
    return alike


def _differing(places: Sequence[int], fields: Sequence[Fields]) -> set[str]:
    names = {name for place in places for name in fields[place]}
    return {name for name in names if len({repr(fields[place].get(name)) for place in places}) > 1}


def _said(fields: Fields, names: set[str]) -> str:
    return " ".join(f"{_short(name)}={fields.get(name)}" for name in sorted(names))


def _short(name: str) -> str:
    return name.removeprefix("model.ffn_options.").removeprefix("model.")


def _fields(path: Path) -> Fields:
    values = resolve(read_run(path)).model_dump(mode="json", exclude=RESULT_NEUTRAL)
    flat = _flat(values)
    return {name: value for name, value in flat.items() if name not in FOLLOWS}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found
