"""The variant of a run that comes from the user's own file, and the consent to run that file.

A file that is typed is run. One that a configuration names is run where the caller consents for the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.config_input import deep_merge, find_config, read_yaml
from base.errors import UsageError
from base.model_folders import VARIANT_COPY
from base.sections import Typed
from ffn_variants.files import absolute_place, is_loaded, load_variant, names_file
from ffn_variants.registry import is_registered
from ffn_variants.source import source_fingerprint
from pretrain.config import ModelConfig
from pretrain.config_sources import Sources, merge_sources

_FFN, _FILE, _SOURCE = ("model", "ffn"), ("model", "ffn_file"), ("model", "ffn_source")


def read_sources(
    path: Path | None, overrides: dict[str, Any] | None, typed: Typed, trust_remote_code: bool = False
) -> Sources:
    """Put together what is given for one run, as ``merge_sources``; a variant's file is run before.

    Args:
        path: YAML file, the name of a shipped one, or None for the defaults.
        overrides: Nested values a study sets on top of the YAML.
        typed: What flags give.
        trust_remote_code: Whether to run a file that the YAML or the study names, and nobody typed.

    Raises:
        UsageError: As ``merge_sources`` and ``load_variant``; or for a file that nobody typed.
    """
    path = find_config(path, "config") if path else None
    typed = _with_typed_file(typed)
    values = deep_merge(read_yaml(path) if path else {}, overrides or {})
    if own := _from_values(values.get("model"), typed, trust_remote_code, path):
        overrides = deep_merge(overrides or {}, {"model": own})
    return merge_sources(path, overrides, typed)


def load_own_variant(model: ModelConfig, trust_remote_code: bool = False) -> None:
    """Load the variant of a configuration that was checked in another process, if it is from a file.

    Raises:
        UsageError: As ``load_variant``; without consent, if the file would have to be run.
    """
    if model.ffn_file is not None and not is_registered(model.ffn):
        _load(model.ffn_file, model.ffn, trust_remote_code, None)


def is_unknown_here(model: ModelConfig) -> bool:
    """Whether a run's variant is from a file that this process did not load."""
    return model.ffn_file is not None and not is_registered(model.ffn)


def _with_typed_file(typed: Typed) -> Typed:
    """Load a variant's file that flags name, and put the variant's name, place and source in its stead."""
    ffn, file = typed.values.get(_FFN), typed.values.get(_FILE)
    flag = _FILE
    if isinstance(ffn, str) and names_file(ffn):
        if file is not None:
            raise UsageError(f"--ffn {ffn} and --model.ffn-file {file} were both given; leave one out")
        ffn, file, flag = None, ffn, _FFN
    if file is None:
        return typed
    spec = load_variant(str(file))
    if ffn not in (None, spec.name):
        raise UsageError(f"--ffn {ffn} and --model.ffn-file, which holds {spec.name!r}: leave one out")
    name = typed.names[flag]
    typed = typed.given(name, _FFN, spec.name).given(name, _FILE, absolute_place(str(file)))
    return typed.given(name, _SOURCE, source_fingerprint(spec.name))


def _from_values(model: Any, typed: Typed, trust: bool, path: Path | None) -> Mapping[str, Any]:
    """Load a variant's file that a configuration names; returns what then belongs into the configuration."""
    if not isinstance(model, dict) or _FILE in typed.values:
        return {}
    ffn, file = model.get("ffn"), model.get("ffn_file")
    if typed.values.get(_FFN, ffn) != ffn:
        return {"ffn_file": None, "ffn_source": None} if file is not None else {}
    place = ffn if isinstance(ffn, str) and names_file(ffn) else file
    if not isinstance(place, str):
        return {}
    name = _load(place, ffn if place is file else None, trust, path)
    return {"ffn": name, "ffn_file": absolute_place(place), "ffn_source": source_fingerprint(name)}


def _load(place: str, ffn: str | None, trust: bool, source: Path | None) -> str:
    """Load a variant from a file that nobody typed; returns its name."""
    if not (trust or is_loaded(place)):
        copy = source.parent / VARIANT_COPY if source else None
        typed = f"{copy}:{place.rpartition(':')[2]}" if copy and copy.is_file() else place
        raise UsageError(
            f"{source or 'the run'}: its FFN variant is in {place}, which is code; read it, then consent to "
            f"run it by typing it: --ffn {typed}"
        )
    spec = load_variant(place)
    if ffn not in (None, spec.name):
        raise UsageError(f"{source or 'the run'}: model.ffn is {ffn!r}, and {place} holds {spec.name!r}")
    return spec.name
