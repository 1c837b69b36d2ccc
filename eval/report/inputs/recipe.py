"""A recipe that a pilot tried, and its name in words."""

from __future__ import annotations

Recipe = tuple[tuple[str, str], ...]
"""Axes with their levels: ``(("tokens", "1M"), ("optim.learning_rate", "0.003"))``."""
SHORT = {"optim.learning_rate": "learning rate", "train.batch_size": "batch"}


def recipe_name(recipe: Recipe) -> str:
    """Write a recipe in words: ``1M tokens, learning rate 0.003, batch 8``."""
    return ", ".join(
        f"{level} tokens" if axis == "tokens" else f"{SHORT.get(axis, axis)} {level}"
        for axis, level in recipe
    )
