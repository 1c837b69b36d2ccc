"""A head's learning rate and first weights, chosen on held-out data: each is tried, the best one kept.

What is reported on has no part in the choice. Each run, task and seed chooses for itself.
"""

from __future__ import annotations

from dataclasses import replace

from eval.classification.config import Finetuning
from scores.heads.registry import parse_head

INIT_SCALE = "init_scale"


def candidates(settings: Finetuning) -> list[Finetuning]:
    """Return the settings of every candidate; the settings alone where there is nothing to choose."""
    choice = parse_head(settings.head)
    heads = [
        str(replace(choice, options=(*choice.options, (INIT_SCALE, scale)))) for scale in settings.init_scales
    ]
    fixed = {"head_learning_rates": (), "init_scales": ()}
    return [
        settings.model_copy(update={**fixed, "head_learning_rate": rate, "head": head})
        for rate in settings.head_learning_rates or (settings.head_learning_rate,)
        for head in heads or (settings.head,)
    ]


def what_differs(candidate: Finetuning, settings: Finetuning) -> str:
    """Name a candidate of settings: ``head_learning_rate=0.001 init_scale=0.1``; empty where there is one."""
    words = []
    if settings.head_learning_rates:
        words.append(f"head_learning_rate={candidate.head_learning_rate:g}")
    if settings.init_scales:
        words.append(f"{INIT_SCALE}={dict(parse_head(candidate.head).options)[INIT_SCALE]:g}")
    return " ".join(words)
