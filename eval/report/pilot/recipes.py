"""What a pilot shows of each recipe: loss, spread over seeds, hours, and what unlike variants differ by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from eval.report.curves.plateaus import find_plateau
from eval.report.inputs.recipe import Recipe
from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.run_files import read_all_facts
from eval.significance.statistics.pilot import Spread, pooled_spread
from pretrain.run.folders import StudyFolder

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a pilot's ``study.yaml`` says."""

    study: str
    """Name of the study that it goes before."""
    detect: float
    """The difference to be found, in nats a token."""
    size: str | None
    """Of the models, where the study has sizes."""
    variants: tuple[str, str]
    """The baseline and one unlike it."""
    recipes: tuple[Recipe, ...]
    families: tuple[str, ...]
    cells: Mapping[str, tuple[str, str, Recipe]]
    """By run id its family, variant and recipe."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the runs of one family show under one recipe; None where too few finished."""

    family: str
    recipe: Recipe
    planned: int
    """Runs."""
    counts: tuple[int, int]
    """Finished runs of both variants."""
    num_left: int | None
    """Finished runs that left the plateau of word frequencies."""
    of_frequencies: float | None
    """What word frequencies alone score, nats a token."""
    losses: tuple[float | None, float | None]
    """Mean final held-out losses of both variants, nats a token."""
    spread: Spread | None
    """Over seeds, pooled over both variants, nats."""
    hours: float | None
    """Of a run's training, median: other work on the machine makes some take longer."""

    @property
    def finished(self) -> int:
        """Finished runs."""
        return sum(self.counts)

    @property
    def difference(self) -> float | None:
        """The other variant minus the baseline, nats."""
        baseline, other = self.losses
        return None if baseline is None or other is None else other - baseline

    @property
    def signal_to_noise(self) -> float | None:
        """The difference over the spread."""
        if self.difference is None or self.spread is None:
            return None
        return abs(self.difference) / self.spread.sd

    @property
    def refused(self) -> str:
        """Why nothing should rest on these runs; empty where something can."""
        if self.finished < self.planned:
            return f"{self.finished} of {self.planned} runs finished"
        if self.num_left is not None and self.num_left < self.finished:
            return f"{self.finished - self.num_left} of {self.finished} runs never left the first plateau"
        if self.spread is None or self.difference is None or self.hours is None:
            return "its runs do not tell their spread over seeds or their hours"
        return ""


def read_plan(folder: Path) -> Plan:
    """Read what a pilot was to run.

    Raises:
        UsageError: If the folder is not a pilot's.
    """
    path = StudyFolder(folder).study_file
    content = read_yaml(path)
    pilot, levels = mapping(content.get("pilot")), mapping(content.get("levels"))
    try:
        axes = [str(name) for name in pilot["recipe"]]
        first, second = (str(name) for name in pilot["variants"])
        cells = {
            str(run_id): (str(run_id).split("/")[0], *_placed(mapping(levels.get(run_id)), run_id, axes))
            for run_id in content["cells"]
        }
        size = pilot.get("size")
        return Plan(
            study=str(pilot["of"]),
            detect=float(pilot["detect"]),
            size=None if size is None else str(size),
            variants=(first, second),
            recipes=tuple(dict.fromkeys(recipe for _, _, recipe in cells.values())),
            families=tuple(dict.fromkeys(family for family, _, _ in cells.values())),
            cells=cells,
        )
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path} is not that of a pilot; run one: ffn-ablations study pilot STUDY.yaml"
        ) from None


def _placed(levels: Mapping[str, Any], run_id: str, axes: Sequence[str]) -> tuple[str, Recipe]:
    """Return a cell's variant, told by its folder if by nothing else, and its recipe."""
    variant = str(levels.get("variant", run_id.split("/")[1]))
    return variant, tuple((axis, str(levels[axis])) for axis in axes)


def read_recipes(folder: Path, plan: Plan) -> list[Seen]:
    """Read what the finished runs of a pilot show, family by family, recipe by recipe."""
    study = StudyFolder(folder)
    runs = {name: study.run(name) for name in plan.cells if study.run(name).is_complete}
    facts = {run.run_id: run for run in read_all_facts(runs, {})[0] if run.eval_loss is not None}
    return [seen for family in plan.families for seen in _of_family(family, plan, facts)]


def _of_family(family: str, plan: Plan, facts: Mapping[str, RunFacts]) -> list[Seen]:
    names = [name for name, (its, _, _) in plan.cells.items() if its == family]
    finished = [facts[name] for name in names if name in facts]
    # One threshold for all recipes: half of the way from the frequencies' loss to the best final loss.
    plateau = find_plateau(family, finished, plan.variants, CONFIDENCE)
    left = {x.run_id: x.tokens is not None for x in plateau.departures} if plateau else {}
    found = []
    for recipe in plan.recipes:
        planned = [name for name in names if plan.cells[name][2] == recipe]
        of_recipe = [name for name in planned if name in facts]
        arms = [[facts[n] for n in of_recipe if plan.cells[n][1] == variant] for variant in plan.variants]
        told = [left[name] for name in of_recipe if name in left]
        seen = _seen(family, recipe, len(planned), arms, sum(told) if told else None)
        found.append(replace(seen, of_frequencies=plateau.word_frequency_loss if plateau else None))
    return found


def _seen(
    family: str, recipe: Recipe, planned: int, arms: Sequence[Sequence[RunFacts]], num_left: int | None
) -> Seen:
    losses = [[run.eval_loss for run in arm if run.eval_loss is not None] for arm in arms]
    hours = [run.train_hours for arm in arms for run in arm if run.train_hours is not None]
    spread = pooled_spread(losses, CONFIDENCE)
    baseline, other = (float(np.mean(arm)) if arm else None for arm in losses)
    return Seen(
        family=family,
        recipe=recipe,
        planned=planned,
        counts=(len(losses[0]), len(losses[1])),
        num_left=num_left,
        of_frequencies=None,
        losses=(baseline, other),
        spread=spread,
        hours=float(np.median(hours)) if hours else None,
    )
