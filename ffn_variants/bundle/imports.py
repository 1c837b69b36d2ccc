"""Python files of this project, with what they import of it taken from flat files beside them.

transformers copies the file that an ``auto_map`` names and, by a regular expression, what it imports as
``from .name import``; it follows no folders, and does not see ``from . import name``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import base
import ffn_variants
from base.errors import UsageError

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
