"""Where the values of a run's configuration come from: defaults < YAML < a study's overrides < flags.

A variant of the user's own is in a file, which is code. A file that is typed is run. One that a configuration
names is run where the caller consents for the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ffn_variants
from base.config_input import deep_merge, find, find_config, read_yaml
from base.errors import UsageError
from base.model_folders import VARIANT_COPY
from base.sections import Typed
from ffn_variants.names import absolute_place, check_consent, is_loaded, is_registered, names_file
from pretrain.config import ModelConfig

_EPOCHS, _STEPS = ("optim", "num_train_epochs"), ("optim", "max_steps")
_FFN, _FILE, _SOURCE = ("model", "ffn"), ("model", "ffn_file"), ("model", "ffn_source")


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


def read_sources(
    path: Path | None, overrides: dict[str, Any] | None, typed: Typed, trust_remote_code: bool = False
) -> Sources:
    """Put together what is given for one run; a variant's file is run on the way.

    Args:
        path: YAML file, the name of a shipped one, or None for the defaults. Its top-level
            ``variants: {name: {section: ...}}`` holds overrides that apply only when
            ``model.ffn`` has that name.
        overrides: Nested values a study sets on top of the YAML; may have ``variants`` too.
        typed: What flags give.
        trust_remote_code: Whether to run a file that the YAML or the study names, and nobody typed.

    Raises:
        UsageError: For an unreadable file, ``variants`` that are no mapping, a variant's file that cannot be
            loaded, or one that nobody typed.
    """
    path = find_config(path, "config") if path else None
    name = str(path) if path else "config"
    typed = _with_typed_file(typed)
    if (both := [typed.names[path] for path in (_EPOCHS, _STEPS) if typed.values.get(path)])[1:]:
        raise UsageError(f"{' and '.join(both)} each say how long a run is; leave one of them out")
    if _EPOCHS in typed.values and _STEPS not in typed.values:  # else a file's max_steps would win
        typed = typed.given("--optim.max-steps", _STEPS, None)
    values = deep_merge(read_yaml(path) if path else {}, overrides or {})
    if model := _with_variant_file(values.get("model"), typed, trust_remote_code, path):
        values = deep_merge(values, {"model": model})
    variants = values.pop("variants", None) or {}
    if not isinstance(variants, dict):
        advice = f"; a study's file is for: ffn-ablations study run {name}" * isinstance(variants, list)
        raise UsageError(f"{name}: variants: not a mapping of variant names to sections{advice}")
    ffn = typed.values.get(_FFN) or find(values, "model.ffn") or ModelConfig().ffn
    of_variant = variants.get(ffn) if isinstance(ffn, str) else None
    if of_variant is not None and not isinstance(of_variant, dict):
        raise UsageError(f"{name}: variants.{ffn}: not a mapping of sections")
    return Sources(_with_variant(values, of_variant or {}), typed, tuple(map(str, variants)), name)


def load_own_variant(model: ModelConfig) -> None:
    """Load the variant of a configuration that was checked in another process, if it is from a file.

    Raises:
        UsageError: As ``load_variant``, or if nobody in this process consented to run the file.
    """
    if is_unknown_here(model):
        _load(str(model.ffn_file), model.ffn, False, None)


def is_unknown_here(model: ModelConfig) -> bool:
    """Whether a run's variant is from a file or a notebook that this process did not load."""
    return (model.ffn_file or model.ffn_source) is not None and not is_registered(model.ffn)


def _with_typed_file(typed: Typed) -> Typed:
    """Load a variant's file that flags name, and put the variant's name, place and source in its stead."""
    if _FILE in typed.values:
        raise UsageError(f"{typed.names[_FILE]} follows from --ffn path/to/mine.py:SPEC; leave it out")
    place = typed.values.get(_FFN)
    if not (isinstance(place, str) and names_file(place)):
        return typed
    (ffn, source), name = _run_file(place), typed.names[_FFN]
    typed = typed.given(name, _FFN, ffn).given(name, _FILE, absolute_place(place))
    return typed.given(name, _SOURCE, source)


def _with_variant_file(model: Any, typed: Typed, trust: bool, config: Path | None) -> dict[str, Any]:
    """Load a variant's file that a configuration names; returns what then belongs into ``model``."""
    if not isinstance(model, dict) or _FILE in typed.values:
        return {}
    ffn, file = model.get("ffn"), model.get("ffn_file")
    if typed.values.get(_FFN, ffn) != ffn:
        return {"ffn_file": None, "ffn_source": None} if file is not None else {}
    place = ffn if isinstance(ffn, str) and names_file(ffn) else file
    if not isinstance(place, str):
        return {}
    name, source = _load(place, ffn if place is file else None, trust, config)
    return {"ffn": name, "ffn_file": absolute_place(place), "ffn_source": source}


def _load(place: str, ffn: str | None, trust: bool, config: Path | None) -> tuple[str, str]:
    """Load a variant from a file that nobody typed; returns its name and the fingerprint of its source."""
    source = config or "the run"
    if not is_loaded(place):
        copy = config.parent / VARIANT_COPY if config else None
        typed = f"{copy}:{place.rpartition(':')[2]}" if copy and copy.is_file() else place
        check_consent(trust, f"{source}: its FFN variant is in {place}", f"type --ffn {typed}")
    name, fingerprint = _run_file(place)
    if ffn not in (None, name):
        raise UsageError(f"{source}: model.ffn is {ffn!r}, and {place} holds {name!r}")
    return name, fingerprint


def _run_file(place: str) -> tuple[str, str]:
    """Load a variant from a file; returns its name and the fingerprint of its source."""
    from ffn_variants.source_fingerprint import source_fingerprint  # torch, which most mistakes need not

    name = ffn_variants.load_variant(place).name
    return name, source_fingerprint(name)


def _with_variant(values: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Apply a variant's overrides; with another FFN width the other weights stay paired with the base's."""
    width = find(overrides, "model.intermediate_size")
    if width is not None:
        base = find(values, "model.intermediate_size") or ModelConfig().intermediate_size
        values = deep_merge({"model": {"paired_intermediate_size": base}}, values)
    return deep_merge(values, overrides)
