"""A saved model is data: what its folder may not bring, and how transformers is told to read it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.errors import UsageError

AS_DATA: Mapping[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""For every ``from_pretrained`` of a folder: no code of its own, and no other model in its place."""

WEIGHTS_AS_DATA: Mapping[str, Any] = {**AS_DATA, "use_safetensors": True}
"""For those of models: a pickled ``.bin`` is a program that builds weights, and is not read."""

_MOST = 64
"""Letters of a name in a path or a message."""


def refuse_code(folder: Path) -> None:
    """Refuse a folder whose config or tokenizer names code of its own: such code is never run.

    Args:
        folder: What ``save_pretrained`` wrote.

    Raises:
        UsageError: Names the file that has an ``auto_map``.
    """
    for path in sorted(Path(folder).glob("*config.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # whoever loads it says what is wrong
        if isinstance(content, dict) and content.get("auto_map"):
            raise UsageError(
                f"{path} names code of its own (auto_map), and no code from a model's folder is run; save "
                "the model as one of transformers' own classes, without auto_map"
            )


def from_hub(name: str) -> Path:
    """Download a model of the hub, or find its copy.

    Args:
        name: As the hub has it, with ``@revision`` where one is wanted.

    Returns:
        The folder.

    Raises:
        UsageError: If there is no such model, or no network.
    """
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.txt", "*.model", "*.safetensors"]
    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UsageError(
            f"{name} is no folder, and cannot be loaded from the hub: {reason}; name a run, a study, or a "
            "folder with a saved model"
        ) from None


def clean_name(text: str) -> str:
    """Make a name from a file of somebody else fit for a path and for a line: letters, digits, ``._-``.

    It is never empty, hidden, or a way up (``..``).
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_MOST].strip(".-") or "unnamed"
