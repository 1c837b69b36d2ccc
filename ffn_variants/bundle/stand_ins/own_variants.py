"""For ``ffn_variants.models.own_variants``: the variants are here, so none is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def need_variants(config: Any) -> None:
    """Do nothing."""


def load_variants(config: Any, model: Any, trust: bool, **arguments: Any) -> None:
    """Do nothing."""


def save_variants(config: Any, folder: Any) -> None:
    """Do nothing: transformers copies the files of code that a model was loaded from."""


def hub_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return no argument."""
    return {}
