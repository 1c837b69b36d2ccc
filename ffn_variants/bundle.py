"""The code of one model as flat files: its variant, its family's classes, and all that these import.

The files are found by following imports, so a new variant needs nothing done for it. What serves the command
line, looks variants up or compiles kernels by hand is replaced by ``stand_ins``.

transformers copies the file that an ``auto_map`` names and, by a regular expression, what it imports as
``from .name import``; it follows no folders, and does not see ``from . import name``. So every import of this
project's is rewritten to that form.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import UsageError
from base.families import AUTO_CLASSES, FamilySpec, family_of
from base.model_folders import CONFIGURATION_MODULE, REMOTE_MODULE
from ffn_variants.names import installed_variants
from ffn_variants.registry import FFN_VARIANTS, get_variant
from ffn_variants.source_fingerprint import module_file

PACKAGES = ("base", "ffn_variants")
"""Those that a model's code is in."""
STAND_INS = "ffn_variants.stand_ins"
REPLACED = (
    "base.errors",
    "ffn_variants.names",
    "ffn_variants.registry",
    "ffn_variants.source_fingerprint",
    "ffn_variants.models.stored_variants",
    "ffn_variants.kernels.triton_ops",
)
"""Modules in whose place ``STAND_INS`` is."""
_FILE_NAMES = {
    "ffn_variants.models.modeling": REMOTE_MODULE,
    "ffn_variants.models.configuration": CONFIGURATION_MODULE,
}
_OWN = "own_variant"
_OPERATIONS = '"ffn_variants::'
_IMPORT = re.compile(
    rf"^(?P<indent> *)(?:from|import) (?P<module>(?:{'|'.join(PACKAGES)})\b[\w.]*)"
    r"(?: import \([^)]*\))?[^\n]*\n",
    re.MULTILINE,
)
"""A statement that imports something of this project, comments behind it included."""


@dataclass(frozen=True)
class Definition:
    """Where something is defined.

    Attributes:
        module: Of this project, of a package, or the name of a user's own file among the flat ones.
        name: In it; None where the module itself is meant.
    """

    module: str
    name: str | None


def bundle_code(config: Mapping[str, Any], folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Gather the code of a saved model.

    Args:
        config: The model's config.json.
        folder: Where it lies, with the file of a variant that came from one; it is read, and not run.

    Returns:
        Text by name of file, all in one folder, and the ``auto_map`` of config.json: where transformers finds
        the classes.

    Raises:
        UsageError: If the model is none of this project, or a variant's file imports what cannot travel.
    """
    family = family_of(str(config.get("model_type")))
    if family is None or not str(config["model_type"]).startswith("ffn_"):
        raise UsageError(f"{folder}: a model of type {config.get('model_type')!r} is none of this project's")
    name = str(config["ffn"])
    place = (config.get("ffn_files") or {}).get(name)
    own_texts = {_own_module(name): _own_text(folder, place)} if place else {}
    spec = Definition(_own_module(name), place.rpartition(":")[2]) if place else _find_spec(name)
    modules = _follow(family, spec, own_texts)
    digest = hashlib.sha256("".join(modules[name] for name in sorted(modules)).encode()).hexdigest()[:8]
    # Operations of torch are known to the whole process by name: those of two models may differ.
    files = {
        f"{_flat(name)}.py": text.replace(_OPERATIONS, f'"ffn_{digest}::')
        for name, text in sorted(modules.items())
    }
    return files, _auto_map(family)


def _auto_map(family: FamilySpec) -> dict[str, str]:
    classes = {
        "AutoConfig": family.config_class,
        "AutoModel": family.backbone_class,
        AUTO_CLASSES[family.objective]: family.model_class,
        "AutoModelForSequenceClassification": family.classifier_class,
    }
    places = {auto: place.split(":") for auto, place in classes.items()}
    return {auto: f"{_flat(module)}.{name}" for auto, (module, name) in places.items()}


def _follow(family: FamilySpec, spec: Definition, own_texts: Mapping[str, str]) -> dict[str, str]:
    """Collect the modules that a model needs, from its classes on, each with its rewritten text."""
    waiting = [family.model_class.split(":")[0], family.config_class.split(":")[0]]
    done: dict[str, str] = {}
    while waiting:
        module = waiting.pop()
        if module in done:
            continue
        text = own_texts.get(module) or _read(module)
        done[module], needed = made_relative(text, _flat, module)
        _refuse_what_stays(module, needed)
        waiting += [each.module for each in needed]
        if module == STAND_INS:
            done[module] += _entry(spec)
            waiting += ["ffn_variants.spec", *([spec.module] if _travels(spec.module) else [])]
    return done


def _refuse_what_stays(module: str, needed: list[Definition]) -> None:
    for each in needed:
        if each.module == STAND_INS and not re.search(
            rf"^(def |class )?{each.name}\b", _read(STAND_INS), re.MULTILINE
        ):
            raise UsageError(f"{module}: takes {each.name}, which does not travel with a model")


def _read(module: str) -> str:
    path = module_file(module)
    if path is None:
        raise UsageError(f"there is no module {module}")
    return f"# Of ffn-ablations, {module}; MIT License.\n{path.read_text(encoding='utf-8')}"


def _entry(spec: Definition) -> str:
    """Write the lines that put the spec, which may stand in a tuple, into the registry of ``stand_ins``."""
    origin = f".{_flat(spec.module)}" if _travels(spec.module) else spec.module
    return (
        "\n\nfrom .ffn_variants_spec import as_spec  # noqa: E402\n"
        f"from {origin} import {spec.name} as _specs  # noqa: E402\n\n"
        "for _spec in _specs if isinstance(_specs, tuple) else (_specs,):\n"
        "    FFN_VARIANTS[as_spec(_spec).name] = as_spec(_spec)\n"
    )


def _travels(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES or module.startswith(_OWN)


def _find_spec(name: str) -> Definition:
    """Find where a registered variant's spec is, alone or in a tuple."""
    spec = get_variant(name)
    if name in (installed := installed_variants()) and name in FFN_VARIANTS:
        return Definition(*installed[name].value.split(":"))
    for module in [module for module in sys.modules if module.startswith("ffn_variants.variants.")]:
        for attribute, value in vars(sys.modules[module]).items():
            if value is spec or (isinstance(value, tuple) and any(each is spec for each in value)):
                return Definition(module, attribute)
    raise UsageError(f"FFN variant {name!r} is in no module, so its code cannot travel; put it into a file")


def _own_module(variant: str) -> str:
    """What the flat file of a user's own variant is called."""
    return f"{_OWN}_{re.sub(r'[^A-Za-z0-9_]', '_', variant)}"


def _own_text(folder: Path, place: str) -> str:
    path = folder / Path(place.rpartition(":")[0]).name
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); the model's variant is in it") from None


def _flat(module: str) -> str:
    """The name of the flat file of a module, without ``.py``."""
    return _FILE_NAMES.get(module, module.replace(".", "_"))


def made_relative(text: str, flat: Callable[[str], str], origin: str) -> tuple[str, list[Definition]]:
    """Rewrite what a file imports of this project.

    Args:
        text: The file.
        flat: The name of the flat file, without ``.py``, that holds a module.
        origin: What the file is, for errors.

    Returns:
        The new text, and all that it imports of this project.

    Raises:
        UsageError: For an import that has no flat form: ``import package``, or of all names.
    """
    needed: list[Definition] = []

    def rewritten(match: re.Match[str]) -> str:
        (statement,) = ast.parse(match[0].strip()).body
        if not isinstance(statement, ast.ImportFrom) or statement.names[0].name == "*":
            raise UsageError(
                f"{origin}: {match[0].strip()} does not say what a file that travels alone needs; write from "
                f"{match['module']} import NAME"
            )
        lines = []
        for alias in statement.names:
            definition = _defined(statement.module or "", alias.name)
            needed.append(definition)
            lines += _import_lines(definition, alias.asname or alias.name, flat)
        return "".join(match["indent"] + line + "\n" for line in lines)

    return _IMPORT.sub(rewritten, text), needed


def _defined(module: str, name: str) -> Definition:
    """Find where a name is defined that a module of this project gives out.

    Raises:
        UsageError: If there is no such module.
    """
    if module in REPLACED:
        return Definition(STAND_INS, name)
    if module_file(f"{module}.{name}") is not None:
        return Definition(f"{module}.{name}", None)
    path = module_file(module)
    if path is None:
        raise UsageError(f"there is no module {module}")
    if path.name == "__init__.py":
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # within TYPE_CHECKING too
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and name in [each.name for each in node.names]
            ):
                return _defined(node.module, name)
    return Definition(module, name)


def _import_lines(definition: Definition, bound: str, flat: Callable[[str], str]) -> list[str]:
    file = flat(definition.module)
    if definition.name is None:  # the first line is what transformers sees
        return [f"from .{file} import __name__ as _{bound}", f"from . import {file} as {bound}"]
    renamed = f" as {bound}" if bound != definition.name else ""
    return [f"from .{file} import {definition.name}{renamed}"]
