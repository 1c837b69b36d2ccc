"""How much an evaluation reads, before anything is trained: counted from its texts, in tokens of 4 letters.

Nothing is fetched: what lies on the hub and is not bounded by the configuration is named instead of counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eval.classification.cost import CHARACTERS_PER_TOKEN, TokenPasses, estimated_passes, input_tokens
from eval.classification.tasks.chosen import classification_tasks
from eval.classification.tasks.examples import SPLITS, data_source
from eval.classification.tasks.task import ClassificationTask
from eval.config import EvalConfig
from eval.runner.work_units import task_heads
from eval.zero_shot.suites import find_text_tasks

HUB = "hub:"


@dataclass(frozen=True)
class PlannedEvaluation:
    """What one run's evaluation reads.

    Attributes:
        num_texts: Texts that are scored, both sentences of a pair among them.
        text_tokens: Tokens of one of them, on average.
        finetuning: Tokens that classifiers read, each as often as it is read, over tasks, heads, seeds and
            candidates; at most, as fine-tuning may stop early.
        input_tokens: Tokens of an input of a classifier, on average over what is read.
        uncounted: What is not counted, in words.
    """

    num_texts: int
    text_tokens: float
    finetuning: TokenPasses
    input_tokens: float
    uncounted: tuple[str, ...] = ()


def planned_evaluation(config: EvalConfig) -> PlannedEvaluation:
    """Count what an evaluation reads.

    Args:
        config: With the seeds of fine-tuning that hold for a run.

    Raises:
        UsageError: For data that is asked for and absent or faulty.
    """
    lengths, uncounted = _texts(config)
    passes, weights = [], []
    for task, head_passes in _finetunings(config, uncounted):
        passes.append(head_passes)
        weights.append((head_passes.trained + head_passes.evaluated, input_tokens(task, config)))
    read = sum(weight for weight, _ in weights)
    return PlannedEvaluation(
        num_texts=len(lengths),
        text_tokens=float(lengths.mean()) / CHARACTERS_PER_TOKEN if len(lengths) else 0.0,
        finetuning=TokenPasses(sum(one.trained for one in passes), sum(one.evaluated for one in passes)),
        input_tokens=sum(weight * length for weight, length in weights) / read if read else 0.0,
        uncounted=tuple(dict.fromkeys(uncounted)),
    )


def _texts(config: EvalConfig) -> tuple[np.ndarray, list[str]]:
    """(n,) letters of each text that is scored, and what is not counted."""
    lengths: list[int] = []
    uncounted = []
    for task in find_text_tasks(config):
        if task.source.startswith(HUB):
            uncounted.append(f"{task.suite} of the hub")
        else:
            lengths += map(len, task.texts())
    if "perplexity" in config.suites:
        uncounted.append("perplexity")
    if config.tasks:
        uncounted.append("tasks of lm-eval")
    return np.array(lengths, dtype=float), uncounted


def _finetunings(
    config: EvalConfig, uncounted: list[str]
) -> Iterator[tuple[ClassificationTask, TokenPasses]]:
    """Yield every task that is fine-tuned on, under every head; names in ``uncounted`` what cannot be."""
    for tasks in classification_tasks(config):
        for head in task_heads(tasks, config):
            if any(data_source(tasks[0], split, config).startswith(HUB) for split in SPLITS):
                uncounted.append(f"{tasks[0].benchmark} of the hub")
                continue
            yield tasks[0], estimated_passes(tasks[0], config, head)
