"""How much work fine-tuning on a task is, before anything is loaded."""

from __future__ import annotations

import numpy as np

from eval.classification.config import ClassificationConfig
from eval.classification.finetune import evaluation_interval, num_steps
from eval.classification.tasks.examples import data_source, read_examples
from eval.classification.tasks.task import ClassificationTask
from eval.classification.tuning import candidates
from scores.heads.registry import HeadChoice

# Characters of a token of English in a vocabulary of about 10,000; only estimates of time use it.
CHARACTERS_PER_TOKEN = 4
# A forward pass is a third of a training step.
FORWARD_SHARE = 1 / 3

_LENGTHS: dict[tuple[str, ...], np.ndarray] = {}


def estimated_cost(
    task: ClassificationTask, config: ClassificationConfig, head: HeadChoice | None = None
) -> float:
    """Estimate the work of fine-tuning on a task, if nothing stops early.

    Args:
        task: The task.
        config: How, and on what.
        head: One of the config's; None takes the first. On a frozen backbone each text is computed once.

    Returns:
        Tokens times passes over them, over all seeds and candidates; a token that is only evaluated counts a
        third.
    """
    head = head or config.finetune.heads[0]
    settings = task.finetuning(config.finetune, head)
    size, train_tokens = _size(task, "train", config, settings.max_train_examples)
    _, validation_tokens = _size(task, "validation", config, settings.max_validation_examples)
    if head.is_frozen:
        return FORWARD_SHARE * (train_tokens + validation_tokens)
    evaluated = validation_tokens
    if settings.select_on == "held-out":
        evaluated = train_tokens * settings.held_out_fraction
        size, train_tokens = round(size * (1 - settings.held_out_fraction)), train_tokens - evaluated
    epochs, steps = settings.num_train_epochs, num_steps(size, settings)
    evaluations = epochs * steps // evaluation_interval(steps, settings)
    trainings = len(settings.seeds) * len(candidates(settings))
    forward = evaluations * evaluated + validation_tokens
    return trainings * (epochs * train_tokens + FORWARD_SHARE * forward)


def _size(
    task: ClassificationTask, part: str, config: ClassificationConfig, limit: int | None
) -> tuple[int, float]:
    """Examples of a file, or as many as the limit allows, and about how many tokens they have."""
    lengths = _text_lengths(task, part, data_source(task, part, config), config)
    tokens = np.minimum(lengths / CHARACTERS_PER_TOKEN, task.finetuning(config.finetune).max_length)
    count = min(len(tokens), limit or len(tokens))
    return count, float(tokens.mean() * count)


def _text_lengths(
    task: ClassificationTask, part: str, source: str, config: ClassificationConfig
) -> np.ndarray:
    """(n,) characters of each example of a file."""
    key = (task.benchmark, task.name, part, source)
    if key not in _LENGTHS:
        texts = (task.make_input(row) for row in read_examples(task, part, config))
        _LENGTHS[key] = np.array([len(first) + len(second or "") for first, second in texts])
    return _LENGTHS[key]
