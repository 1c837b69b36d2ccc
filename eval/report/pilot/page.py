"""A pilot as a page: its recommendation, the lines for the study's file, and the table that they rest on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import yaml

from base.option_text import read_value
from base.sentences import first_few
from eval.report.document.markdown import details, table
from eval.report.inputs.recipe import SHORT, Recipe, recipe_name
from eval.report.pilot.choice import ARMS, FAR, Choice, Weighed
from eval.report.pilot.recipes import CONFIDENCE, Seen
from eval.significance.statistics.power import POWER

NAMED = 4
"""Recipes that a sentence names."""


def recipe_yaml(recipe: Recipe) -> str:
    """Write a recipe as lines for a study's file."""
    values: dict[str, Any] = {}
    for axis, level in recipe:
        if axis == "tokens":
            values["tokens"] = [level]
            continue
        section, name = ("config." + axis).rsplit(".", 1)
        inner = values
        for key in section.split("."):
            inner = inner.setdefault(key, {})
        inner[name] = read_value(level)
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None).strip()


def pilot_text(choice: Choice) -> str:
    """Write what is recommended, and why, in a few lines of Markdown."""
    return "\n\n".join(part for part in (_answer(choice), *_cautions(choice)) if part)


def pilot_page(choice: Choice, figure: str | None) -> str:
    """Write the whole page.

    Args:
        choice: What the pilot found.
        figure: Path of its figure; None where nothing can be drawn.
    """
    plan = choice.plan
    drawn = f"![Hours to find the difference, and spread against loss, recipe by recipe]({figure})"
    parts = [
        f"# Pilot of {plan.study}",
        pilot_text(choice),
        f"## Recipes\n\n{pilot_table(choice)}",
        drawn if figure else "",
        details("How to read this", _explained(choice)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def pilot_table(choice: Choice) -> str:
    """Write one row for each recipe and family, the chosen one in bold."""
    plan = choice.plan
    axes = [SHORT.get(axis, axis) for axis, _ in plan.recipes[0]]
    many = len(plan.families) > 1
    baseline, other = plan.variants
    header = [
        *axes,
        *(["family"] if many else []),
        f"loss of `{baseline}`",
        f"`{other}` - `{baseline}`",
        "spread over seeds",
        "signal / noise",
        "left plateau",
        "minutes a run",
        "spread promised",
        "seeds",
        "hours",
    ]
    rows = [
        _row(one, place, many, is_chosen=one is choice.chosen)
        for one in choice.weighed
        for place in range(len(plan.families))
    ]
    return table(header, rows)


def as_record(choice: Choice) -> dict[str, Any]:
    """Return every number of the page, for ``pilot.json``."""
    plan, chosen = choice.plan, choice.chosen
    return {
        "study": plan.study,
        "detect": plan.detect,
        "size": plan.size,
        "variants": list(plan.variants),
        "families": list(plan.families),
        "chosen": _recorded(chosen) if chosen else None,
        "yaml": recipe_yaml(chosen.recipe) if chosen else None,
        "recipes": [_recorded(one) for one in choice.weighed],
    }


def _recorded(one: Weighed) -> dict[str, Any]:
    families = {
        seen.family: {name: value for name, value in asdict(seen).items() if name not in ("family", "recipe")}
        | {"signal_to_noise": seen.signal_to_noise, "difference": seen.difference, "promise": None}
        | {"finished": seen.finished, "interval": None}
        for seen in one.seen
    }
    for seen, promise, ends in zip(one.seen, one.promises, one.intervals, strict=False):
        families[seen.family] |= {"promise": asdict(promise), "interval": ends}
    return {
        "recipe": dict(one.recipe),
        "refused": one.refused,
        "seeds": one.seeds,
        "hours": one.hours,
        "families": families,
    }


def _answer(choice: Choice) -> str:
    plan, chosen = choice.plan, choice.chosen
    if chosen is None:
        reasons = dict.fromkeys(one.refused or _too_many(plan.detect) for one in choice.weighed)
        return (
            f"**No recipe can be recommended**: {'; '.join(reasons)}. Try more tokens, other learning rates, "
            "or a larger batch."
        )
    promised = "; ".join(
        f"{f'{seen.family}: ' if len(chosen.seen) > 1 else ''}{promise.sd:.4f} nats "
        f"({promise.low:.4f} to {promise.high:.4f})"
        for seen, promise in zip(chosen.seen, chosen.promises, strict=True)
    )
    at = f" at size {plan.size}" if plan.size else ""
    return (
        f"**{recipe_name(chosen.recipe)}** sees most per hour: {chosen.seeds} seeds an arm, "
        f"{_hours(chosen.hours)} of training, find a difference of {plan.detect:g} nats between two variants "
        f"in {POWER:.0%} of studies. It promises a spread over seeds{at} of {promised}.\n\n"
        f"In the study's file:\n\n```yaml\n{recipe_yaml(chosen.recipe)}\n```"
    )


def _cautions(choice: Choice) -> list[str]:
    """What a reader should know before resting a study on the choice."""
    said, chosen = [], choice.chosen
    if chosen is None:
        return said
    if chosen.is_blind:
        first, second = choice.plan.variants
        said.append(
            f"Under no recipe are `{second}` and `{first}` seen to differ, unlike as they are, so this "
            "choice is by spread alone: models of this size may hardly need their FFN. A pilot of a larger "
            "`size`, or of more seeds, says more."
        )
    if choice.alike:
        named = first_few([recipe_name(one.recipe) for one in choice.alike], NAMED, "; ")
        number = f"{len(choice.alike)} others" if choice.alike[1:] else "another"
        said.append(
            f"With so few seeds its hours cannot be told from those of {number} ({named}): of these it "
            "is the cheapest by the best guess, not by proof."
        )
    if choice.by_signal:
        said.append(
            f"Under {recipe_name(choice.by_signal.recipe)} `{choice.plan.variants[1]}` and "
            f"`{choice.plan.variants[0]}` differ by more, so that their own difference takes fewer hours to "
            "find there. Where variants are expected to gain with that recipe too, it is the better one."
        )
    if choice.better:
        said.append(
            f"`{choice.plan.variants[0]}` ends lower with as many tokens under "
            f"{recipe_name(choice.better.recipe)}: a reader may ask why the study does not use that."
        )
    return said


def _row(one: Weighed, place: int, many: bool, is_chosen: bool) -> list[str]:
    seen, promise = one.seen[place], one.promises[place] if one.promises else None
    levels = [f"**{level}**" if is_chosen else level for _, level in one.recipe]
    spread, between = seen.spread, one.intervals[place] if one.intervals else None
    ends = "" if between is None else f" [{between[0]:+.3f}, {between[1]:+.3f}]"
    return [
        *levels,
        *([seen.family] if many else []),
        "-" if seen.losses[0] is None else f"{seen.losses[0]:.3f}",
        "-" if seen.difference is None else f"{seen.difference:+.3f}{ends}",
        "-" if spread is None else f"{spread.sd:.4f} ({spread.low:.4f} to {spread.high:.4f})",
        "-" if seen.signal_to_noise is None else f"{seen.signal_to_noise:.1f}",
        "-" if seen.num_left is None else f"{seen.num_left} of {seen.finished}",
        "-" if seen.hours is None else f"{60 * seen.hours:.2f}",
        "-" if promise is None else f"{promise.sd:.4f}",
        *_needed(one, place),
    ]


def _needed(one: Weighed, place: int) -> tuple[str, str]:
    """Seeds and hours, or why there are none."""
    if one.refused:
        return "-", f"- ({one.refused})"
    if one.hours is None:
        return "over 1,000", "-"
    note = " (the unlike variants are not seen to differ)" if one.is_blind else ""
    return str(one.seeds), f"{one.hours:.3f}{note}" if place == 0 else "''"


def _explained(choice: Choice) -> str:
    plan = choice.plan
    first: Seen = choice.weighed[0].seen[0]
    df = first.spread.df if first.spread else 0
    return "\n".join(
        f"- {line}"
        for line in (
            "Losses are final held-out losses, nats a token, means over seeds; differences with the "
            f"{CONFIDENCE:.0%} interval of a t test with the promised spread (Smyth 2004).",
            f"*Spread over seeds*: standard deviation, pooled over both variants ({df} degrees of freedom), "
            f"with its {CONFIDENCE:.0%} interval by chi-square. It is wide: the smallest of several such "
            "numbers is mostly luck.",
            "*Spread promised*: hence the variances of all recipes that can be chosen, drawn towards their "
            "geometric mean as far as chance explains how they differ (empirical Bayes). The choice and the "
            "seeds rest on it.",
            "*Signal / noise*: the difference of the unlike variants over the spread. Where they do not "
            "differ, a recipe sees nothing, and is not chosen before one that does.",
            f"A recipe is refused, too, whose baseline has not come {FAR:.0%} of the way from the loss of "
            "word frequencies to the lowest with as many tokens: its learning rate or batch is wrong.",
            "*Left plateau*: runs that came half of the way from the loss of word frequencies to the best "
            "final loss of the pilot. Where some did and some did not, the spread says which.",
            f"*Seeds*: of each arm, for a Welch test at the {1 - CONFIDENCE:.0%} level, uncorrected, to find "
            f"{plan.detect:g} nats in {POWER:.0%} of studies. *Hours*: of training, {ARMS} arms, "
            "as measured in this pilot; correction for several claims asks for more.",
        )
    )


def _hours(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2g} hours" if value >= 1 else f"{60 * value:.2g} minutes"


def _too_many(detect: float) -> str:
    return f"more than 1,000 seeds an arm to find {detect:g} nats"
