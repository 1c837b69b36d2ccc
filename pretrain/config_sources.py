"""Where the values of a run's configuration come from: defaults < YAML < a study's overrides < flags."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from base.config_input import deep_merge, find_config, read_yaml
from base.errors import UsageError
from base.sections import Typed
from pretrain.config import ModelConfig, TrainConfig


@dataclass(frozen=True)
class Sources:
    """What is given for one run, before it is checked.

    Args:
        values: Nested values of the YAML file and the study, with those that are for this run's variant.
        typed: Flags, which win over them.
        variants: Every variant that the file has values for.
        name: What messages call the file.
    """

    values: dict[str, Any]
    typed: Typed
    variants: tuple[str, ...]
    name: str


def merge_sources(path: Path | None, overrides: dict[str, Any] | None, typed: Typed) -> Sources:
    """Put together what is given for one run.

    Args:
        path: YAML file, the name of a shipped one, or None for the defaults. Its top-level
            ``variants: {name: {section: ...}}`` holds overrides that apply only when
            ``model.ffn`` has that name.
        overrides: Nested values a study sets on top of the YAML; may have ``variants`` too.
        typed: What flags give.

    Raises:
        UsageError: For an unreadable file, or ``variants`` that are no mapping.
    """
    path = find_config(path, "config") if path else None
    name = str(path) if path else "config"
    values = deep_merge(read_yaml(path) if path else {}, overrides or {})
    variants = values.pop("variants", None) or {}
    if not isinstance(variants, dict):
        raise UsageError(f"{name}: variants: not a mapping of variant names to sections")
    ffn = typed.values.get(("model", "ffn")) or _nested(values, "model", "ffn") or ModelConfig().ffn
    of_variant = variants.get(ffn) if isinstance(ffn, str) else None
    if of_variant is not None and not isinstance(of_variant, dict):
        raise UsageError(f"{name}: variants.{ffn}: not a mapping of sections")
    values = _with_variant(values, of_variant or {})
    _tell_of_rows(values, typed)
    return Sources(values, typed, tuple(map(str, variants)), name)


def _tell_of_rows(values: dict[str, Any], typed: Typed) -> None:
    """Say how many rows a step has where the rows of a pass are given and may have been meant as these."""
    train = typed.onto(values).get("train") or {}
    size = train.get("per_device_train_batch_size", "auto")
    if size != "auto" and "batch_size" not in train:
        say_once(
            f"note: train.per_device_train_batch_size {size} is the most rows of one forward pass; a step "
            f"has {TrainConfig().batch_size}, which train.batch_size changes"
        )


@lru_cache(maxsize=64)  # a study reads the same files for every cell
def say_once(note: str) -> None:
    """Tell a user one line on stderr, from one of several processes, however many configs it holds for."""
    if os.environ.get("RANK", "0") == "0":
        print(note, file=sys.stderr)


def _with_variant(values: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Apply a variant's overrides; with another FFN width the other weights stay paired with the base's."""
    width = _nested(overrides, "model", "intermediate_size")
    if width is not None:
        base = _nested(values, "model", "intermediate_size") or ModelConfig().intermediate_size
        values = deep_merge({"model": {"paired_intermediate_size": base}}, values)
    return deep_merge(values, overrides)


def _nested(values: dict[str, Any], *keys: str) -> Any:
    for key in keys:
        if not isinstance(values, dict):
            return None
        values = values.get(key) or {}
    return values or None
