"""What the pilot before a study promised, beside what the study's own runs show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from base.files import mapping
from eval.report.inputs.beside import Beside
from eval.report.inputs.recipe import Recipe, recipe_name
from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import plain
from eval.significance.statistics.pilot import Promise, pooled_spread, predicted_spread


def promise_note(beside: Beside, facts: Sequence[RunFacts]) -> str:
    """Say which recipe the study's pilot chose, and the spread promised against the spread seen.

    Args:
        beside: The pilot's record, and the configuration of one of the runs.
        facts: Of the study's runs.

    Returns:
        A sentence or two of Markdown; empty where no pilot lies beside the study.
    """
    record, config = beside.pilot, beside.config
    chosen = mapping(record.get("chosen"))
    if not chosen:
        return ""
    recipes = [mapping(each) for each in record.get("recipes", ())]
    own = next((each for each in recipes if _is_of(config, _recipe(each))), {}) if config else chosen
    size = record.get("size")
    said = [
        _kept(family, mapping(mapping(of_family).get("promise")), facts, size)
        for family, of_family in mapping(own.get("families")).items()
    ]
    kept = [text for text in said if text]
    parts = [
        f"The pilot chose {recipe_name(_recipe(chosen))}",
        "" if _recipe(own) == _recipe(chosen) else f"The study has {_instead(own)}",
        f"Spread over seeds: {'; '.join(kept)}" if kept else "",
    ]
    return ". ".join(part for part in parts if part) + "."


def _recipe(told: Mapping[str, Any]) -> Recipe:
    return tuple((str(axis), str(level)) for axis, level in mapping(told.get("recipe")).items())


def _instead(own: Mapping[str, Any]) -> str:
    """Say which recipe a study has that has not the chosen one."""
    if not own:
        return "another recipe, which the pilot did not try"
    refused = f", which the pilot refused ({own['refused']})" if own.get("refused") else ""
    return f"{recipe_name(_recipe(own))}{refused}"


def _is_of(config: Mapping[str, Any], recipe: Recipe) -> bool:
    """Whether a run has every level of a recipe."""
    try:
        return all(_has(config, axis, level) for axis, level in recipe)
    except (KeyError, TypeError, ValueError):
        return False


def _has(config: Mapping[str, Any], axis: str, level: str) -> bool:
    if axis != "tokens":
        value: Any = config
        for key in axis.split("."):
            value = value[key]
        return str(value) == level or float(value) == float(level)
    step = config["train"]["batch_size"] * config["data"]["block_size"]
    wanted = float(level.rstrip("kMB")) * {"k": 1e3, "M": 1e6, "B": 1e9}.get(level[-1], 1.0)
    return wanted - step < step * config["optim"]["max_steps"] <= wanted


def _kept(family: str, promise: Mapping[str, Any], facts: Sequence[RunFacts], size: object) -> str:
    """Say of one family what was promised and what is seen; empty where nothing is."""
    arms: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for run in facts:
        places = dict(run.places)
        fits = size is None or places.get("size", size) == size
        if plain(run.family) == family and fits and run.eval_loss is not None:
            arms[(run.variant, *sorted(places.items()))].append(run.eval_loss)
    spread = pooled_spread(list(arms.values()))
    if spread is None:
        return ""
    try:
        promised = Promise(**promise)
        low, high = predicted_spread(promised, spread.df)
    except (TypeError, ValueError):
        return ""
    word = "as promised" if low <= spread.sd <= high else "more than" if spread.sd > high else "less than"
    verdict = word if word == "as promised" else f"{word} promised"
    at, num_runs = f" at size {size}" if size is not None else "", sum(map(len, arms.values()))
    return (
        f"{family}{at} {promised.sd:.4f} nats promised ({low:.4f} to {high:.4f} expected of as many runs), "
        f"{spread.sd:.4f} ({spread.low:.4f} to {spread.high:.4f}) seen in {num_runs} runs "
        f"of {len(arms)} arms: {verdict}"
    )
