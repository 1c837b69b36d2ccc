"""Percentages that were written as fractions, and inputs that were cut at a model's positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from base.errors import UsageError
from base.printing import first_few
from base.run.folders import RunFolder
from scores.declarations import Scale
from scores.outcome import Outcome
from scores.rows import read_table

ARM = ["benchmark", "family", "variant"]
NEAR = 1.5
"""Times a score may differ from the others of its task and be like them."""


def in_percent(
    tasks: pd.DataFrame, outcomes: Mapping[Any, Outcome], scale: Scale | None, origin: str
) -> pd.DataFrame:
    """Return scores of which those that count as percentages are so.

    Args:
        tasks: What ``comparable_scores`` returns of a table that somebody wrote.
        outcomes: What the scores of each benchmark are.
        scale: What the user said they are; None where nothing was said.
        origin: Where they come from, named in errors.

    Raises:
        UsageError: For an arm that looks like fractions where nobody said what it is, or a fraction above 1.
    """
    is_percent = tasks["benchmark"].map(lambda name: outcomes[name].is_percentage).astype(bool)
    chosen = tasks[is_percent]
    chosen = chosen.assign(size=chosen["score"].abs())
    if chosen.empty and scale is not None:
        raise UsageError(f"{origin}: no score is a percentage, which --scale {scale} is about; leave it out")
    if scale == "fraction":
        _refuse_percentages(chosen, origin)
        return tasks.assign(score=tasks["score"].where(~is_percent, 100 * tasks["score"]))
    if scale is None:
        _refuse_fractions(chosen, origin)
        _refuse_mixtures(chosen, origin)
    return tasks


def _refuse_percentages(chosen: pd.DataFrame, origin: str) -> None:
    largest = chosen.loc[chosen["size"].idxmax()]
    if largest["size"] > 1:
        raise UsageError(
            f"{origin}: {largest.benchmark} of {largest.family} {largest.variant} is {largest.score:g}, "
            "which is no fraction; leave out --scale fraction, or write all scores alike"
        )


def _refuse_fractions(chosen: pd.DataFrame, origin: str) -> None:
    """Refuse an arm, and a task over all arms, of which no score is above 1, unless all are 0."""
    for keys in (ARM, ["benchmark", "task"]):
        largest = chosen.groupby(keys)["size"].max()
        for names in largest[(largest > 0) & (largest <= 1)].index[:1]:
            raise UsageError(
                f"{origin}: no score of {' '.join(map(str, names))} is above 1; are these fractions? Scores "
                "are percentages: add --scale fraction to have all of them times 100, or --scale percent if "
                "they are that small"
            )


def _refuse_mixtures(chosen: pd.DataFrame, origin: str) -> None:
    """Refuse a task of which some scores are above 1, and the others like them once taken times 100."""
    for (benchmark, task, _), scores in chosen[chosen["size"] > 0].groupby(["benchmark", "task", "metric"]):
        small, large = (scores["size"][is_small] for is_small in (scores["size"] <= 1, scores["size"] > 1))
        if len(small) and (100 * small).between(large.min() / NEAR, large.max() * NEAR).all():
            raise UsageError(
                f"{origin}: scores of {benchmark} {task} are {scores['score'][small.idxmax()]:g} and "
                f"{scores['score'][large.idxmax()]:g}; write all as percentages, or add --scale percent if "
                "some are that small"
            )


MOST = 0.5
"""A larger share of a task's inputs is told."""
CUT = "truncated"
"""The column of items that says whether an input lost tokens."""
SHOWN = 3


def cut_inputs(items: pd.DataFrame) -> dict[str, float]:
    """Return the tasks of which most inputs lost tokens, to the share of those that did."""
    if CUT not in items:
        return {}
    shares = items.groupby("task")[CUT].mean()
    return {str(task): float(share) for task, share in shares.items() if share > MOST}


def describe_cut(task: str, share: float) -> str:
    """Say it of one task."""
    return f"{task}: {share:.0%} of the inputs are longer than what the model reads, and cut"


def cut_input_notes(runs: Mapping[str, RunFolder]) -> list[str]:
    """Say of which tasks of a study most inputs are cut, and in which of its runs."""
    cut: dict[str, list[str]] = defaultdict(list)
    for run_id, run in runs.items():
        for path in sorted(run.items_dir.glob("*.parquet")):
            try:
                if not {"task", CUT} <= set(pq.read_schema(path).names):
                    continue
                items = read_table(path, ["task", CUT]).to_pandas()
            except (OSError, pa.ArrowInvalid, UsageError):
                continue  # told by whoever needs the items
            for task, share in cut_inputs(items).items():
                cut[describe_cut(f"{path.stem}/{task}", share)].append(run_id)
    return [f"{said}, in {first_few(run_ids, SHOWN)}" for said, run_ids in cut.items()]
