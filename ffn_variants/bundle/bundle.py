"""The code of one model as flat files: its variants, its family's classes, and all that these import.

Found by following imports, so a new variant needs nothing done for it. A few modules have stand-ins
(``stand_ins/``): those that serve the command line, look variants up or compile kernels by hand.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import UsageError
from base.families import AUTO_CLASSES, FamilySpec, family_of
from base.model_folders import CONFIGURATION_MODULE, REMOTE_MODULE
from ffn_variants.bundle.imports import OURS, made_relative, source_file
from ffn_variants.registry import FFN_VARIANTS, get_variant, installed_variants

_REGISTRY = "ffn_variants.registry"
STAND_INS = {
    "base.errors": "errors",
    _REGISTRY: "registry",
    "ffn_variants.models.own_variants": "own_variants",
    "ffn_variants.source": "source",
    "ffn_variants.kernels.triton_ops": "triton_ops",
}
"""By the module in whose place they are."""
_NAMES = {
    "ffn_variants.models.modeling": REMOTE_MODULE,
    "ffn_variants.models.configuration": CONFIGURATION_MODULE,
}
_OWN = "own_variant"
_OPERATIONS = '"ffn_variants::'


@dataclass(frozen=True)
class Bundle:
    """The code of a model.

    Attributes:
        files: Text by name; all in one folder.
        auto_map: For config.json: where transformers finds the classes.
    """

    files: Mapping[str, str]
    auto_map: Mapping[str, str]


@dataclass(frozen=True)
class _Place:
    """Where a variant's spec is: in a module, of this project or not, or in a file of the user."""

    module: str
    attribute: str


def bundle_code(config: Mapping[str, Any], folder: Path) -> Bundle:
    """Gather the code of a saved model.

    Args:
        config: The model's config.json.
        folder: Where it lies, with the files of variants that came from such; these are read, and not run.

    Raises:
        UsageError: If the model is none of this project, or a variant's file imports what cannot travel.
    """
    family = family_of(str(config.get("model_type")))
    if family is None or not str(config["model_type"]).startswith("ffn_"):
        raise UsageError(f"{folder}: a model of type {config.get('model_type')!r} is none of this project's")
    layers = [config, *(config.get("layer_ffns") or [])]
    names = list(dict.fromkeys(str(layer["ffn"]) for layer in layers))
    own = dict(config.get("ffn_files") or {})
    texts = {_own_module(name): _own_text(folder, place) for name, place in own.items()}
    places = [
        _Place(_own_module(name), str(own[name]).rpartition(":")[2]) if name in own else _find(name)
        for name in names
    ]
    modules = _follow(family, places, texts)
    digest = hashlib.sha256("".join(modules[name] for name in sorted(modules)).encode()).hexdigest()[:8]
    return Bundle(
        # Operations of torch are known to the whole process by name: those of two models may differ.
        {
            f"{_flat(name)}.py": text.replace(_OPERATIONS, f'"ffn_{digest}::')
            for name, text in sorted(modules.items())
        },
        _auto_map(family),
    )


def _auto_map(family: FamilySpec) -> dict[str, str]:
    classes = {
        "AutoConfig": family.config_class,
        "AutoModel": family.backbone_class,
        AUTO_CLASSES[family.objective]: family.model_class,
        "AutoModelForSequenceClassification": family.classifier_class,
    }
    return {
        auto: "{}.{}".format(_flat(place.split(":")[0]), place.split(":")[1])
        for auto, place in classes.items()
    }


def _follow(family: FamilySpec, places: list[_Place], own: Mapping[str, str]) -> dict[str, str]:
    """By module the new text of all that is needed."""
    waiting = [family.model_class.split(":")[0], family.config_class.split(":")[0]]
    done: dict[str, str] = {}
    while waiting:
        module = waiting.pop()
        if module in done:
            continue
        text = own.get(module) or _read(module)
        done[module], needed = made_relative(text, _flat, module)
        for found in needed:
            if (
                found.module in STAND_INS
                and found.name
                and not re.search(rf"^(def |class )?{found.name}\b", _read(found.module), re.MULTILINE)
            ):
                raise UsageError(f"{module}: takes {found.name} of {found.module}, which does not travel")
        waiting += [found.module for found in needed]
        if module == _REGISTRY:
            done[module] += _entries(places)
            waiting += [place.module for place in places if _travels(place.module)]
    return done


def _read(module: str) -> str:
    """The text of a module, or of what stands in for it."""
    name = f"ffn_variants.bundle.stand_ins.{STAND_INS[module]}" if module in STAND_INS else module
    path = source_file(name)
    if path is None:
        raise UsageError(f"there is no module {name}")
    return f"# Of ffn-ablations, {module}; MIT License.\n{path.read_text(encoding='utf-8')}"


def _entries(places: list[_Place]) -> str:
    """What the registry has below its functions."""
    lines = ["\n"]
    for number, place in enumerate(places):
        origin = f".{_flat(place.module)}" if _travels(place.module) else place.module
        lines.append(f"from {origin} import {place.attribute} as _found_{number}  # noqa: E402\n")
    lines += [
        "\n",
        *(
            f"for _spec in _found_{number} if isinstance(_found_{number}, tuple) else (_found_{number},):\n"
            "    FFN_VARIANTS[_spec.name] = _spec\n"
            for number in range(len(places))
        ),
    ]
    return "".join(lines)


def _travels(module: str) -> bool:
    return module.partition(".")[0] in OURS or module.startswith(_OWN)


def _find(name: str) -> _Place:
    """Find where a registered variant's spec is, alone or in a tuple."""
    spec = get_variant(name)
    if name in (installed := installed_variants()) and name in FFN_VARIANTS:
        return _Place(*installed[name].value.split(":"))
    for module in [module for module in sys.modules if module.startswith("ffn_variants.variants.")]:
        for attribute, value in vars(sys.modules[module]).items():
            if value is spec or (isinstance(value, tuple) and any(each is spec for each in value)):
                return _Place(module, attribute)
    raise UsageError(f"FFN variant {name!r} is in no module, so its code cannot travel; put it into a file")


def _own_module(variant: str) -> str:
    """What the flat file of a user's own variant is called."""
    return f"{_OWN}_{re.sub(r'[^A-Za-z0-9_]', '_', variant)}"


def _own_text(folder: Path, place: object) -> str:
    path = folder / Path(str(place).rpartition(":")[0]).name
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); the model's variant is in it") from None


def _flat(module: str) -> str:
    """The name of the flat file of a module."""
    return _NAMES.get(module, module.replace(".", "_"))
