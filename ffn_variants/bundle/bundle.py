"""The code of one model as flat files: its variants, its family's classes, and all that these import.

Found by following imports, so a new variant needs nothing done for it. A few modules have stand-ins
(``stand_ins/``): those that serve the command line, look variants up or compile kernels by hand.

Python files of this project, with what they import of it taken from flat files beside them.

transformers copies the file that an ``auto_map`` names and, by a regular expression, what it imports as
``from .name import``; it follows no folders, and does not see ``from . import name``.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import base
import ffn_variants
from base.errors import UsageError
from base.families import AUTO_CLASSES, FamilySpec, family_of
from base.model_folders import CONFIGURATION_MODULE, REMOTE_MODULE
from ffn_variants.registry import FFN_VARIANTS, get_variant, installed_variants

_PACKAGES = {package.__name__: Path(str(package.__file__)).parent for package in (base, ffn_variants)}
OURS = tuple(_PACKAGES)


@dataclass(frozen=True)
class Found:
    """Where a name that is imported is defined.

    Attributes:
        module: The module of this project.
        name: In it; None where the module itself is meant.
    """

    module: str
    name: str | None


def source_file(module: str) -> Path | None:
    """Return the file of a module of this project; None where it is none."""
    package, *inside = module.split(".")
    place = _PACKAGES[package].joinpath(*inside)
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def find(module: str, name: str) -> Found:
    """Find where a name is defined that a module of this project gives out.

    Raises:
        UsageError: If there is no such module.
    """
    if source_file(f"{module}.{name}") is not None:
        return Found(f"{module}.{name}", None)
    path = source_file(module)
    if path is None:
        raise UsageError(f"there is no module {module}")
    if path.name == "__init__.py":
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return find(node.module, alias.name)
    return Found(module, name)


def made_relative(text: str, flat: Callable[[str], str], origin: str) -> tuple[str, list[Found]]:
    """Rewrite what a file imports of this project.

    Args:
        text: The file.
        flat: The name of the flat file, without ``.py``, that holds a module.
        origin: What the file is, for errors.

    Returns:
        The new text, and all that it imports of this project.

    Raises:
        UsageError: For an import that has no flat form: of all names, or of a module within a package by
            ``import package.module``.
    """
    tree, lines = ast.parse(text), text.encode().splitlines(keepends=True)
    needed: list[Found] = []
    for node in reversed(list(_imports(tree))):
        new, found = _rewritten(node, tree, flat, origin)
        needed += found
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        before = lines[node.lineno - 1][: node.col_offset]
        after = lines[node.end_lineno - 1][node.end_col_offset :]
        indent = b" " * node.col_offset
        lines[node.lineno - 1 : node.end_lineno] = [before + (b"\n" + indent).join(new) + after]
    return b"".join(lines).decode(), needed


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of this project, in the order of their lines."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
        names = (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        )
        if any(name.partition(".")[0] in OURS for name in names):
            yield node


def _rewritten(
    node: ast.Import | ast.ImportFrom, tree: ast.Module, flat: Callable[[str], str], origin: str
) -> tuple[list[bytes], list[Found]]:
    lines, needed = [], []
    for alias in node.names:
        if isinstance(node, ast.Import) and alias.name.partition(".")[0] not in OURS:
            lines.append(ast.unparse(ast.Import([alias])))
        elif isinstance(node, ast.Import):
            if "." in alias.name:
                raise UsageError(
                    f"{origin}, line {node.lineno}: import {alias.name} cannot be written for a file that "
                    f"travels alone; write from {alias.name} import NAME"
                )
            new, found = _namespace(alias, tree, flat)
            lines, needed = lines + new, needed + found
        elif alias.name == "*":
            raise UsageError(
                f"{origin}, line {node.lineno}: import * does not say what a file that travels alone needs; "
                "name what is imported"
            )
        else:
            assert node.module
            found = find(node.module, alias.name)
            needed.append(found)
            lines += _one(found, alias.asname or alias.name, flat)
    return [line.encode() for line in lines], needed


def _one(found: Found, bound: str, flat: Callable[[str], str]) -> list[str]:
    file = flat(found.module)
    if found.name is None:  # the first line is what transformers sees
        return [f"from .{file} import __name__ as _{bound}", f"from . import {file} as {bound}"]
    return [f"from .{file} import {found.name}" + (f" as {bound}" if bound != found.name else "")]


def _namespace(
    alias: ast.alias, tree: ast.Module, flat: Callable[[str], str]
) -> tuple[list[str], list[Found]]:
    """``import ffn_variants``, as an object with what the file takes from it."""
    bound = alias.asname or alias.name
    used = sorted(
        {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == bound
        }
    )
    found = [find(alias.name, name) for name in used]
    lines = ["from types import SimpleNamespace as _Namespace"]
    for name, each in zip(used, found, strict=True):
        lines += _one(each, f"_{bound}_{name}", flat)
    fields = ", ".join(f"{name}=_{bound}_{name}" for name in used)
    return [*lines, f"{bound} = _Namespace({fields})"], found


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
