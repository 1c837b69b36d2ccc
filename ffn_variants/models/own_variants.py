"""Variants that travel with a model: their files beside its weights, and who may run these.

``config.json`` names the files (``ffn_files``), and a module of a few lines for transformers (``auto_map``),
which it takes where this project was not imported before and ``trust_remote_code=True`` is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.utils.hub import cached_file

from base.errors import UsageError, first_line
from base.model_folders import REMOTE_MODULE
from base.records import peek_record
from ffn_variants.files import load_variant, variant_file
from ffn_variants.models.configuration import FFNConfig, variants_of
from ffn_variants.registry import is_registered
from ffn_variants.source import is_same_source

_HUB_ARGUMENTS = (
    "cache_dir",
    "force_download",
    "local_files_only",
    "proxies",
    "revision",
    "subfolder",
    "token",
)

_REMOTE_CODE = '''"""Lets transformers load this folder with trust_remote_code=True.

The feed-forward variant is in the other .py file, which is run then; all else is the package ffn-ablations.
"""

try:
    from ffn_variants import FFNGPTNeoConfig, FFNLlamaConfig, FFNRobertaConfig, FFNT5Config
except ImportError as error:
    raise ImportError('this model needs ffn-ablations: pip install "ffn-ablations[torch]"') from error

__all__ = ["FFNGPTNeoConfig", "FFNLlamaConfig", "FFNRobertaConfig", "FFNT5Config"]
'''


def save_variants(config: FFNConfig, folder: Path) -> None:
    """Write the files of a model's variants into its folder, and name them in its config.

    Args:
        config: Of the model; is changed.
        folder: Where ``save_pretrained`` writes the weights.
    """
    files = {name: file for name in variants_of(config) if (file := variant_file(name))}
    config.ffn_files = {name: f"ffn_{name}.py:{file.attribute}" for name, file in files.items()} or None
    vars(config).pop("auto_map", None)  # of the folder that the model was loaded from
    if files:
        setattr(config, "auto_map", {"AutoConfig": f"{REMOTE_MODULE}.{type(config).__name__}"})  # noqa: B010
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{REMOTE_MODULE}.py").write_text(_REMOTE_CODE, encoding="utf-8")
    for name, file in files.items():
        (folder / f"ffn_{name}.py").write_bytes(file.content)


def need_variants(config: FFNConfig) -> None:
    """Refuse a config whose variants were not loaded.

    Raises:
        UsageError: Says which file has the variant.
    """
    for name, place in (config.ffn_files or {}).items():
        if not is_registered(name):
            raise UsageError(
                f"FFN variant {name!r} is in {_file_of(place)} beside the weights, which was not run; "
                "read that file, then load the model by from_pretrained with trust_remote_code=True"
            )


def hub_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Pick those of ``from_pretrained`` that say where the hub's files are."""
    return {name: arguments[name] for name in _HUB_ARGUMENTS if name in arguments}


def load_variants(config: FFNConfig, model: str | Path, trust: bool, **arguments: Any) -> None:
    """Load the variants that a model brings and this process does not have.

    Args:
        config: Of the model.
        model: Its folder, or its name on the hub.
        trust: Whether the user consents to run the files.
        **arguments: Where the hub's files are, see ``hub_arguments``.

    Raises:
        UsageError: Without consent, if a file is not there or cannot be loaded, or if this process has
            another variant of that name.
    """
    for name, place in (config.ffn_files or {}).items():
        file = _file_of(place)
        if is_registered(name):
            source = config.ffn_source if name == config.ffn else None
            if _is_here(name, source, _find_beside(model, file, arguments) if variant_file(name) else None):
                continue
        if not trust:
            raise _no_consent(model, name, place)
        try:
            path = cached_file(str(model), file, **arguments)
        except OSError as error:
            raise UsageError(
                f"{model}: has no {file} with its variant {name!r}: {first_line(error)}"
            ) from None
        _run(str(path), name, place)


def admit_variants(folder: Path, trust_remote_code: bool = False) -> None:
    """Load the variants that a saved model brings, or refuse it; one that brings none is not looked at.

    A variant that this process has from elsewhere, with the same source, is taken: nothing of the folder is
    run then.

    Args:
        folder: What ``save_pretrained`` wrote.
        trust_remote_code: Whether the user consents to run the folder's files.

    Raises:
        UsageError: Without consent; or if this process has another variant of that name.
    """
    stored = peek_record(folder / "config.json")
    files = stored.get("ffn_files")
    for name, place in (files if isinstance(files, Mapping) else {}).items():
        source = stored.get("ffn_source") if name == stored.get("ffn") else None
        if is_registered(name) and _is_here(name, source, folder / _file_of(place)):
            continue
        if not trust_remote_code:
            raise _no_consent(folder, name, place)
        # Where another variant has the name, this says so.
        _run(folder / _file_of(place), name, place)


def _is_here(name: str, source: str | None, beside: str | Path | None) -> bool:
    """Whether a registered variant is the one that a model brings.

    Args:
        name: The variant.
        source: The fingerprint that the model has of it, if any.
        beside: The file that the model brings, which is compared and not run.
    """
    if (own := variant_file(name)) is not None and beside is not None:
        with contextlib.suppress(OSError):
            if Path(beside).read_bytes() == own.content:
                return True
    return is_same_source(name, source) if source or own is None else False


def _find_beside(model: str | Path, file: str, arguments: Mapping[str, Any]) -> str | None:
    """Find a file of a model, downloaded if need be; None where it has none."""
    with contextlib.suppress(OSError):
        return cached_file(str(model), file, **arguments)
    return None


def _run(path: str | Path, name: str, place: object) -> None:
    """Load a variant that a config names from where its file is."""
    loaded = load_variant(f"{path}:{str(place).rpartition(':')[2]}")
    if loaded.name != name:
        raise UsageError(f"{path}: holds the variant {loaded.name!r}, and the model's config says {name!r}")


def _no_consent(model: str | Path, name: str, place: object) -> UsageError:
    return UsageError(
        f"{model} brings its FFN variant {name!r} in {_file_of(place)}, which is code; read that file, then "
        "consent to run it: --trust-remote-code, in Python trust_remote_code=True"
    )


def _file_of(place: object) -> str:
    """The name of a file beside the weights; never a path out of their folder."""
    return Path(str(place).rpartition(":")[0]).name or "a file"
