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

ROWS_OF_BEFORE = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
"""How the rows of a process were given before ``train.batch_size``: factors, with their defaults of then."""


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
    factors = rows_of_before(values, name)
    if ("train", "batch_size") not in typed.values:
        _tell_of_rows(name, factors, "batch_size" in (_nested(values, "train") or {}), typed)
    return Sources(with_batch_size(values, factors), typed, tuple(map(str, variants)), name)


def rows_of_before(values: dict[str, Any], name: str) -> tuple[int, int] | None:
    """Rows of a pass and passes of a step, where a file gives these and not ``train.batch_size``.

    Files from before the batch was a global number do; None for all others.

    Raises:
        UsageError: If ``train.gradient_accumulation_steps`` stands beside ``train.batch_size``.
    """
    train = values.get("train")
    if not isinstance(train, dict) or not train.keys() & ROWS_OF_BEFORE.keys():
        return None
    if "batch_size" in train:
        if "gradient_accumulation_steps" in train:
            raise UsageError(
                f"{name}: train.gradient_accumulation_steps follows from train.batch_size, which is given "
                "too; leave it out"
            )
        return None
    rows, passes = (train.get(factor, default) for factor, default in ROWS_OF_BEFORE.items())
    return (rows, passes) if type(rows) is type(passes) is int and min(rows, passes) > 0 else None


def with_batch_size(
    values: dict[str, Any], factors: tuple[int, int] | None, num_processes: int = 1
) -> dict[str, Any]:
    """Return values with ``train.batch_size`` in place of what ``rows_of_before`` found."""
    if factors is None:
        return values
    train = {name: value for name, value in values["train"].items() if name != "gradient_accumulation_steps"}
    return values | {"train": train | {"batch_size": factors[0] * factors[1] * num_processes}}


def _tell_of_rows(name: str, factors: tuple[int, int] | None, is_given: bool, typed: Typed) -> None:
    """Say how many rows a step has where that may not be what was meant."""
    if factors:
        rows, passes = factors
        say_once(
            f"note: {name}: train.batch_size is not given, so a step has the {rows * passes} rows of "
            f"per_device_train_batch_size {rows} x gradient_accumulation_steps {passes}, whatever the number "
            "of processes; write batch_size there"
        )
    elif (
        not is_given
        and (size := typed.values.get(("train", "per_device_train_batch_size"), "auto")) != "auto"
    ):
        say_once(
            f"note: --train.per-device-train-batch-size {size} is the most rows of one forward pass; a step "
            f"has {TrainConfig().batch_size}, which --train.batch-size changes"
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
