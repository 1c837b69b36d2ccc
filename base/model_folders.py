"""A saved model is data: what its folder may not bring, and how transformers is told to read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.errors import UsageError, first_line
from base.families import FAMILIES
from base.records import parse_json

AS_DATA: Mapping[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""For every ``from_pretrained`` of a folder: no code of its own, and no other model in its place."""

WEIGHTS_AS_DATA: Mapping[str, Any] = {**AS_DATA, "use_safetensors": True}
"""For those of models: a pickled ``.bin`` is a program that builds weights, and is not read."""

VARIANT_COPY = "variant.py"
"""In a run's folder: the file of its user's own FFN variant."""
REMOTE_MODULE = "modeling_ffn"
"""Beside the weights of a model with such a variant: the module that its ``auto_map`` names."""
CONFIGURATION_MODULE = "configuration_ffn"
"""Beside it where all code of a model travels: its config's (see ``ffn_variants.bundle``)."""

_MODULES = (f"{REMOTE_MODULE}.", f"{CONFIGURATION_MODULE}.")
_MODEL_TYPES = tuple(f"ffn_{name}" for name in FAMILIES)
_MOST = 64
"""Letters of a name in a path or a message."""


def refuse_code(folder: Path) -> None:
    """Refuse a folder whose config or tokenizer names code of its own: such code is never run.

    A model of ours passes here: its classes are this project's, and what its ``auto_map`` names is not run.
    To an FFN variant of the user's own, consent is asked for where it would be run
    (``ffn_variants.models.stored_variants``).

    Args:
        folder: What ``save_pretrained`` wrote.

    Raises:
        UsageError: Names the file that has an ``auto_map``, or is no JSON.
    """
    for path in sorted(Path(folder).glob("*config.json")):
        try:
            content = parse_json(path.read_bytes())
        except OSError:
            continue  # whoever loads it says what is wrong
        except ValueError as error:
            raise UsageError(f"{path} is not JSON ({first_line(error)}); save the model again") from None
        if isinstance(content, dict) and content.get("auto_map") and not _is_ours(content):
            raise UsageError(
                f"{path} names code of its own (auto_map), and no code from a model's folder is run; save "
                "the model as one of transformers' own classes, without auto_map"
            )


def _is_ours(content: Mapping[str, Any]) -> bool:
    """Whether an ``auto_map`` is that of a model of ours, whose type this project registers."""
    auto_map = content["auto_map"]
    places = list(auto_map.values()) if isinstance(auto_map, dict) else [auto_map]
    is_ours = content.get("model_type") in _MODEL_TYPES
    return is_ours and all(str(place).startswith(_MODULES) for place in places)


def clean_name(text: str) -> str:
    """Make a name from a file of somebody else fit for a path and for a line: letters, digits, ``._-``.

    It is never empty, hidden, or a way up (``..``).
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_MOST].strip(".-") or "unnamed"
