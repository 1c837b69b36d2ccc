"""For ``ffn_variants.source``: the code that travels with weights is that of their training."""

from __future__ import annotations


def is_same_source(name: str, recorded: str | None) -> bool:
    """Say yes."""
    return True


def describe_change(name: str, recorded: str) -> str:
    """Return what is never said."""
    return "another source"


def cure(recorded: str) -> str:
    """Return what is never said."""
    return "load the model with its own code"
