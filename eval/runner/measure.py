"""Measuring a unit of work: with the run's language model, or by fine-tuning it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from base.progress import Tell
from eval.classification.cost import estimated_cost
from eval.classification.evaluate import evaluate_tasks
from eval.models.identity import model_folder, weights_hash
from eval.models.memory import told_if_memory_runs_out
from eval.runner.work_units import Work
from eval.scoring.protocol import Protocol
from eval.scoring.scorers import SCORERS, TextScorer
from eval.zero_shot.task import TaskResult
from ffn_variants.models.loading import load_language_model

# Guesses, by which units are put in order and the time left is estimated until something was measured.
ITEMS_PER_S = 100
FINETUNING_TOKENS_PER_S = 5000


def measure(work: Work, tell: Tell) -> dict[str, TaskResult]:
    """Measure a unit.

    Args:
        work: The unit.
        tell: Told how it goes.

    Returns:
        The results of all its tasks, by name.

    Raises:
        UsageError: For faulty data, or a model that does not fit them.
    """
    config, folder = work.config, model_folder(work.run_dir)
    if work.texts is not None:
        assert work.scored_by is not None
        weights = weights_hash(work.run_dir)
        with told_if_memory_runs_out("score on a CPU with --device cpu"):
            scorer = _load_scorer(folder, weights, work.scored_by, config.device, config.batch_tokens)
            return {work.texts.name: work.texts.measure(scorer, tell)}
    with told_if_memory_runs_out("lower --finetune.per-device-train-batch-size or --finetune.max-length"):
        results = evaluate_tasks(folder, list(work.classified), config, work.choice, tell)
    return {
        task.name: TaskResult(task.group, *results[task.name], primary=task.headline(config.finetune))
        for task in work.classified
    }


def cost(work: Work) -> float:
    """Return roughly how many seconds one core takes for a unit, with a model of 10M parameters.

    Raises:
        UsageError: For faulty data.
    """
    if work.texts is not None:
        return work.texts.num_items() / ITEMS_PER_S
    return estimated_cost(work.classified[0], work.config, work.choice) / FINETUNING_TOKENS_PER_S


# One run's tasks follow one another, so its model is kept for the next.
@lru_cache(maxsize=1)
def _load_scorer(
    folder: Path, weights: str, protocol: Protocol, device: str | None, batch_tokens: int | None
) -> TextScorer:
    model, tokenizer = load_language_model(folder, protocol.objective, device)
    return SCORERS[protocol.objective](model, tokenizer, protocol, batch_tokens=batch_tokens)
