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

from base.errors import UsageError
from base.files import mapping
from base.model_folders import REMOTE_MODULE
from base.records import peek_record
from ffn_variants.models.configuration import FFNConfig
from ffn_variants.names import check_consent, is_registered, variant_file
from ffn_variants.source_fingerprint import is_same_source
from ffn_variants.variant_files import load_variant

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
    """Write the file of a model's variant into its folder, where it came from one, and name it in its config.

    Args:
        config: Of the model; is changed.
        folder: Where ``save_pretrained`` writes the weights.
    """
    file = variant_file(config.ffn)
    config.ffn_files = None if file is None else {config.ffn: f"ffn_{config.ffn}.py:{file.attribute}"}
    vars(config).pop("auto_map", None)  # of the folder that the model was loaded from
    if file is not None:
        setattr(config, "auto_map", {"AutoConfig": f"{REMOTE_MODULE}.{type(config).__name__}"})  # noqa: B010
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{REMOTE_MODULE}.py").write_text(_REMOTE_CODE, encoding="utf-8")
        (folder / f"ffn_{config.ffn}.py").write_bytes(file.content)


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
    _load_stored(vars(config), model, trust, arguments)


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
    _load_stored(peek_record(folder / "config.json"), folder, trust_remote_code, {})


def _load_stored(
    config: Mapping[str, Any], model: str | Path, trust: bool, arguments: Mapping[str, Any]
) -> None:
    """Load what ``ffn_files`` of a config names, but for the variants that this process has already."""
    files, ffn = mapping(config.get("ffn_files")), config.get("ffn")
    if isinstance(ffn, str) and ffn not in files and not is_registered(ffn):
        raise UsageError(
            f"{model}: unknown FFN variant {ffn!r}; a class of a notebook is known after its cell and "
            "ffn_ablations.check(CLASS)"
        )
    for name, place in files.items():
        file, attribute = _file_name(place), str(place).rpartition(":")[2]
        recorded = config.get("ffn_source") if name == ffn else None
        if is_registered(name) and _is_here(name, recorded):
            continue
        check_consent(trust, f"{model} brings its FFN variant {name!r} in {file}")
        path = None
        with contextlib.suppress(OSError):
            path = cached_file(str(model), file, **arguments)
        if path is None:
            raise UsageError(f"{model}: has no {file} with its variant {name!r}")
        spec = load_variant(f"{path}:{attribute}")  # where another variant has the name, this says so
        if spec.name != name:
            raise UsageError(f"{path}: holds the variant {spec.name!r}, and the model's config says {name!r}")


def _file_name(place: object) -> str:
    """The name of a file beside the weights; never a path out of their folder."""
    return Path(str(place).rpartition(":")[0]).name or "a file"


def _is_here(name: str, recorded: str | None) -> bool:
    """Whether a registered variant is the one that a model brings, by the fingerprint in its config.

    Where an older config has none, one that came from no file is taken.
    """
    return is_same_source(name, recorded) and (bool(recorded) or variant_file(name) is None)
