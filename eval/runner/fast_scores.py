"""Scores of a run's checkpoints on the fast data of BabyLM 2025, which its leaderboard shows as curves.

What was scored is kept in ``eval/babylm_fast.json``, checkpoint by checkpoint, so that a process that was
killed goes on where it stopped. Other weights, data or another protocol begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError
from base.progress import Tell
from base.records import read_record, write_record
from eval.config import EvalConfig
from eval.models.identity import admit_run, identify_run, model_folder, weights_hash
from eval.scoring.protocol import Protocol, preset_protocol
from eval.scoring.scorers import SCORERS, TextScorer
from eval.suites.registry import SUITES
from eval.zero_shot.aoa import trained_states
from eval.zero_shot.entity_tracking import find_fast_task
from eval.zero_shot.task import TaskResult, TextTask
from ffn_variants.models.loading import load_language_model
from pretrain.run.folders import RunFolder
from pretrain.run.lock import sole_writer

Scores = dict[str, dict[str, float]]
"""By the keys of the leaderboard's file, and there by subtask: shares from 0 to 1, and correlations."""
KEYS = {
    "blimp": "blimp-fast",
    "blimp_supplement": "blimp-supplement",
    "ewok": "ewok",
    "wug_adj": "wug",
    "wug_past": "wug-past",
    "reading": "reading",
}
"""The suites of the keys; ``entity_tracking`` has one task of its suite."""
READING = {"self-paced": "spr", "eye-tracking": "rt"}


@dataclass(frozen=True, kw_only=True)
class FastScores:
    """What was scored under which circumstances, by step."""

    of: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


def fast_scores(
    run_dir: Path,
    data: Path | None,
    steps: Mapping[int, str],
    tell: Tell,
    trust_remote_code: bool = False,
) -> dict[str, list[dict[str, float]]]:
    """Score checkpoints, or read what they were scored.

    Args:
        run_dir: The run.
        data: The pipeline's ``evaluation_data``, or its ``fast_eval``.
        steps: The checkpoints that are wanted, with what they are called in messages.
        tell: Told how it goes.
        trust_remote_code: Whether to run an FFN variant that the run brings, which is refused otherwise.

    Returns:
        By key a list with the scores of each of the steps, in their order.

    Raises:
        UsageError: If data are absent or faulty, or the run or a checkpoint is damaged.
    """
    run, tasks = identify_run(run_dir), find_fast_tasks(data)
    if run.objective is None:
        raise UsageError(f"{run_dir} is no run of this project, and only those have checkpoints")
    protocol, states = preset_protocol("babylm25", run.objective), trained_states(run_dir)
    file = RunFolder(run_dir).fast_scores_file
    with sole_writer(run_dir, "evaluates"):
        circumstances = {
            "weights": weights_hash(run_dir),
            "protocol": protocol.record(),
            "data": {key: [task.source for task in of_key] for key, of_key in tasks.items()},
        }
        known = read_record(file, FastScores)
        scored = dict(known.steps) if known and known.of == circumstances else {}
        scorer = None
        for number, (step, name) in enumerate(steps.items(), start=1):
            if str(step) in scored:
                continue
            scorer = scorer or _load(run_dir, protocol, trust_remote_code)
            tell(f"{name}, {number} of {len(steps)}")
            path = states[step]
            scored[str(step)] = score_fast(tasks, scorer if path is None else scorer.at_checkpoint(path))
            write_record(file, FastScores(of=circumstances, steps=scored))
    return {key: [scored[str(step)][key] for step in steps] for key in tasks}


def find_fast_tasks(data: Path | None) -> dict[str, list[TextTask]]:
    """List the tasks of the fast evaluation by the keys of the leaderboard's file.

    Raises:
        UsageError: If data are absent.
    """
    folder = data / "fast_eval" if data is not None and (data / "fast_eval").is_dir() else data
    config = EvalConfig(suites=(), babylm25_dir=folder)
    found = {key: SUITES[suite].find(config) for key, suite in KEYS.items()}
    assert folder is not None
    return {**found, "entity_tracking": [find_fast_task(folder)]}


def score_fast(tasks: Mapping[str, list[TextTask]], scorer: TextScorer) -> Scores:
    """Score one checkpoint.

    Raises:
        UsageError: For faulty data, or a score that is not finite.
    """
    found: Scores = {}
    for key, of_key in tasks.items():
        found[key] = {}
        for task in of_key:
            found[key] |= _of_task(key, task, task.measure(scorer, lambda message: None))
    return found


def _of_task(key: str, task: TextTask, result: TaskResult) -> dict[str, float]:
    """Return a task's scores as the pipeline counts them: of equal scores the first is the preferred one."""
    if key == "entity_tracking":
        of_number = (result.items["prediction"] == 0).groupby(result.items["num_operations"]).mean()
        return {f"{task.name}_{number}_ops": float(share) for number, share in of_number.items()}
    if key == "reading":
        return {READING[task.name]: result.metrics[result.primary] / 100}
    if key in ("wug_adj", "wug_past"):
        return {key: result.metrics[result.primary] / 100}
    return {task.name: _share_preferred(result.items)}


def _share_preferred(items: pd.DataFrame) -> float:
    return float((items["score_good"] >= items["score_bad"]).mean())


def _load(run_dir: Path, protocol: Protocol, trust_remote_code: bool) -> TextScorer:
    admit_run(run_dir, trust_remote_code)
    model, tokenizer = load_language_model(model_folder(run_dir), protocol.objective)
    return SCORERS[protocol.objective](model, tokenizer, protocol)
