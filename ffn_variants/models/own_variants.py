"""Variants that travel with a model: their files beside its weights, and who may run these.

``config.json`` names the files (``ffn_files``), and a module of a few lines for transformers (``auto_map``),
which it takes where this project was not imported before and ``trust_remote_code=True`` is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers.utils.hub import cached_file

from base.errors import UsageError
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
                f"FFN variant {name!r} is in {_file_name(place)} beside the weights, which was not run; "
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

    def find(file: str) -> Path | None:
        with contextlib.suppress(OSError):
            path = cached_file(str(model), file, **arguments)
            return Path(path) if path else None
        return None

    for name, place in (config.ffn_files or {}).items():
        source = config.ffn_source if name == config.ffn else None
        _load_variant(model, name, place, source, trust, find)


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
        _load_variant(folder, name, place, source, trust_remote_code, folder.joinpath)


def _load_variant(
    model: str | Path,
    name: str,
    place: object,
    source: str | None,
    trust: bool,
    find: Callable[[str], Path | None],
) -> None:
    """Load one variant of a model, unless this process has it already.

    Args:
        model: Its folder, or its name on the hub.
        name: The variant.
        place: As the config has it: the file beside the weights, and the name of the spec in it.
        source: The fingerprint that the model has of it, if any.
        trust: Whether the user consents to run the file.
        find: From the file's name to where it lies here; None where the model has none.
    """
    file, attribute = _file_name(place), str(place).rpartition(":")[2]
    if is_registered(name) and _is_here(name, source, find(file) if variant_file(name) else None):
        return
    if not trust:
        raise UsageError(
            f"{model} brings its FFN variant {name!r} in {file}, which is code; read that file, then "
            "consent to run it: --trust-remote-code, in Python trust_remote_code=True"
        )
    path = find(file)
    if path is None:
        raise UsageError(f"{model}: has no {file} with its variant {name!r}")
    spec = load_variant(f"{path}:{attribute}")  # where another variant has the name, this says so
    if spec.name != name:
        raise UsageError(f"{path}: holds the variant {spec.name!r}, and the model's config says {name!r}")


def _file_name(place: object) -> str:
    """The name of a file beside the weights; never a path out of their folder."""
    return Path(str(place).rpartition(":")[0]).name or "a file"


def _is_here(name: str, source: str | None, beside: str | Path | None) -> bool:
    """Whether a registered variant is the one that a model brings.

    Args:
        name: The variant.
        source: The fingerprint that the model has of it, if any.
        beside: The file that the model brings, which is compared and not run.
    """
    file = variant_file(name)
    if file is not None and beside is not None:
        with contextlib.suppress(OSError):
            if Path(beside).read_bytes() == file.content:
                return True
    return is_same_source(name, source) if source or file is None else False
