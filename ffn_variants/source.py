"""A fingerprint of the source that computes a variant, by which a changed one is told from what was trained.

It is over everything that the ``build`` of a variant's spec reaches by name, definition by definition: an
activation that is edited changes its own fingerprint and no other of its file. Followed are the packages of
this project and, for a variant that is defined elsewhere, its file, package or folder; of the standard
library and of other installed packages it holds the names alone. Of a user's own file it also has what none
of its specs names, such as functions that a decorator puts into a table, and the numbers that names stand
for, which may come from the environment, from data or from chance. What computes nothing is left out
(``definitions``), and so are formula, reference, counts and all of an option but its default.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from base.files import CODE_ROOT, PACKAGES
from ffn_variants.definitions import (
    Chain,
    Definition,
    Place,
    SourceFile,
    UnreadableError,
    python_file,
    read_definition,
    read_source,
    resolve,
    unnamed,
)
from ffn_variants.files import VariantFile, is_variant_file, variant_file
from ffn_variants.registry import FFN_VARIANTS, get_variant, installed_variants
from ffn_variants.spec import FFNSpec

DIGITS = 12
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def source_fingerprint(name: str) -> str:
    """Return 12 hexadecimal digits of the source that computes a variant.

    They are the same wherever the code lies and whatever file of it holds a definition. A process takes them
    once, so they are those of what it imported.

    Returns:
        Empty where the source cannot be read, as in a notebook or an archive: not known.

    Raises:
        UsageError: If there is no such variant.
    """
    return _fingerprint(_Key(get_variant(name)))


def is_same_source(name: str, recorded: str | None) -> bool:
    """Whether what was recorded of a variant computes the same as its present source.

    Args:
        name: The variant.
        recorded: A fingerprint; empty or None, as older runs have it, is not known to differ.

    Raises:
        UsageError: If there is no such variant.
    """
    present = source_fingerprint(name)
    return not recorded or not present or recorded in (present, *get_variant(name).earlier_sources)


def describe_change(name: str, recorded: str) -> str:
    """Say that a variant's source is another than what was recorded, for a sentence."""
    return f"another {name!r} (source {recorded}, now {source_fingerprint(name)})"


def cure(recorded: str) -> str:
    """Say what helps besides training anew."""
    return (
        "restore that source, register the new formula under another name, or, if both compute the same, "
        f"add {recorded!r} to earlier_sources of its spec"
    )


class _Key:
    """A spec as the key of a cache, by identity: specs hold dicts."""

    def __init__(self, spec: FFNSpec):
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.spec is self.spec


@functools.cache
def _fingerprint(key: _Key) -> str:
    try:
        text = "\n".join(reached(key.spec))
    except UnreadableError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def reached(spec: FFNSpec) -> list[str]:
    """What the source of a variant consists of: the spec's own part, then a text for each definition.

    Raises:
        UnreadableError: If part of it cannot be read.
    """
    walk, file = _Walk(spec.build), variant_file(spec.name)
    beginning = f"{spec.kind} {_defaults(spec)} {walk.value(spec.build)}"
    if file is not None and FFN_VARIANTS.get(spec.name) is spec:
        walk.add_file(file)
    return walk.texts(beginning)


def _defaults(spec: FFNSpec) -> str:
    return repr(sorted((name, option.default) for name, option in spec.options.items()))


class _Walk:
    """Follows what an object is made of; each definition gets a number, which stands for it in the others."""

    def __init__(self, build: Any):
        self.build = build
        self.home = _home(build)
        self.numbers: dict[Any, int] = {}
        self.waiting: deque[tuple[SourceFile, Definition, Mapping[str, Any]]] = deque()
        self.constants: dict[tuple[Path, str], Mapping[str, Any]] = {}

    def add_file(self, file: VariantFile) -> None:
        """Count what the user's own file computes where no name leads, and the numbers that it found."""
        if (path := _file_of(file.module, vars(sys.modules[file.module]))) is None:
            return
        source = read_source(path, file.module)
        specs = [name for name, value in vars(sys.modules[file.module]).items() if isinstance(value, FFNSpec)]
        self.constants = {(path, name): {name: text} for name, text in file.constants.items()}
        if (rest := unnamed(source, specs)).text != "[]":
            self.number((path, "<unnamed>"), source, rest, {})

    def texts(self, beginning: str) -> list[str]:
        """Follow everything, and write it definition by definition."""
        texts = [beginning]
        while self.waiting:
            source, definition, values = self.waiting.popleft()
            named = [
                f"{'.'.join(chain)}: {self.place(found) if isinstance(found, Place) else found}"
                for chain, found in _links(source, definition, self.home)
                if chain[0] not in values
            ]
            given = [f"{name}={self.value(value)}" for name, value in sorted(values.items())]
            texts.append("\n".join([definition.text, *named, *given]))
        return texts

    def place(self, place: Place) -> str:
        """The number of a definition on the top level of a file."""
        source = read_source(place.path, place.module)
        key = place.path, place.name
        return self.number(key, source, source.definition(place.name), self.constants.get(key, {}))

    def number(self, key: Any, source: SourceFile, definition: Definition, values: Mapping[str, Any]) -> str:
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.waiting.append((source, definition, values))
        return f"#{self.numbers[key]}"

    def value(self, value: Any) -> str:
        """An object as text, the same in every process."""
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, Mapping):
            inside = ",".join(f"{self.value(key)}:{self.value(each)}" for key, each in value.items())
            return f"{{{inside}}}"
        if isinstance(value, list | tuple):
            return f"[{','.join(map(self.value, value))}]"
        if isinstance(value, set | frozenset):
            return f"set[{','.join(sorted(map(self.value, value)))}]"
        if isinstance(value, functools.partial):
            return f"partial{self.value([value.func, value.args, value.keywords])}"
        if isinstance(value, ModuleType):
            path = _file_of(value.__name__, vars(value))
            is_own = path is not None and _is_own(path, self.home)
            return self.place(Place(path, value.__name__, "")) if is_own else value.__name__
        if isinstance(getattr(value, "__qualname__", None), str):
            return self.defined(value)
        if id(value) in self.numbers:
            return f"#{self.numbers[id(value)]}"
        self.numbers[id(value)] = len(self.numbers)
        return f"{self.value(type(value))}{self.value(getattr(value, '__dict__', {}))}"

    def defined(self, value: Any) -> str:
        """A class, a function or a method, by the place of its definition."""
        if getattr(value, "__self__", None) is not None and not isinstance(value.__self__, ModuleType):
            return f"{self.value(value.__self__)}.{value.__name__}"
        module, name = value.__module__ or "builtins", value.__qualname__.split(".")[0]
        path = _file_of(module, getattr(value, "__globals__", {}))
        if path is None and _has_no_file(module):
            raise UnreadableError(f"{module} has no file")
        if path is None or not _is_own(path, self.home):
            return f"{module}.{value.__qualname__}"
        source = read_source(path, module)
        if "<" not in value.__qualname__ and name in source.statements:
            return self.place(Place(path, module, name))
        if (
            isinstance(value, type) and name in source.statements
        ):  # made by a function, of what that was given
            methods = [each for each in vars(value).values() if hasattr(each, "__code__")]
            values = dict(part for method in methods for part in _given(method).items())
            return self.number(id(value), source, source.definition(name), values)
        function = value if hasattr(value, "__code__") else getattr(value, "__wrapped__", None)
        if function is None:
            raise UnreadableError(f"{value.__qualname__} is not in {path}")
        definition = read_definition(source, [_find(source, function.__code__)])
        return self.number(id(function), source, definition, _given(function))


@functools.cache
def _links(source: SourceFile, definition: Definition, home: Path | None) -> list[tuple[Chain, Place | str]]:
    """What the names in a definition stand for, those apart that are local."""
    found = (
        (chain, resolve(source, definition, chain, lambda path: _is_own(path, home)))
        for chain in definition.chains
    )
    return [(chain, place) for chain, place in found if place is not None]


@functools.cache
def _is_own(path: Path, home: Path | None) -> bool:
    if any(path.is_relative_to(CODE_ROOT / package) for package in PACKAGES):
        return True
    if home is None or not path.is_relative_to(home):
        return is_variant_file(path)
    return _is_installed(home) or not _is_installed(path)


def _is_installed(path: Path) -> bool:
    """Whether a file is of the standard library or an installed package."""
    folders = (Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib"))
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(
        map(path.is_relative_to, folders)
    )


def _home(build: Any) -> Path | None:
    """Where all is that a variant's author wrote: the user's own file, else its package or its folder."""
    while isinstance(build, functools.partial):
        build = build.func
    build = build if hasattr(build, "__qualname__") else type(build)
    module = build.__module__
    path = _file_of(module, getattr(build, "__globals__", {}))
    if path is None or is_variant_file(path):
        return path
    if _is_installed(path) and module.partition(".")[0] not in _packages_with_variants():
        return None
    if _is_installed(path) and "." not in module and path.name != "__init__.py":
        return path
    folder = path.parent
    for _ in range(module.count(".") - (path.name != "__init__.py")):
        folder = folder.parent
    return folder


@functools.cache
def _packages_with_variants() -> frozenset[str]:
    return frozenset(found.module.partition(".")[0] for found in installed_variants().values())


def _file_of(module: str, variables: Mapping[str, Any]) -> Path | None:
    """The file of a module, by the variables of its functions where it was not imported by its name."""
    return python_file(variables.get("__file__") or getattr(sys.modules.get(module), "__file__", None))


def _has_no_file(module: str) -> bool:
    """Whether a module is of a notebook or of ``exec``, or compiled to Python's bytecode alone."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module not in sys.builtin_module_names if file is None else file.endswith(".pyc")


def _find(source: SourceFile, code: CodeType) -> Any:
    """Find a lambda, or a function inside another, by the place of its code."""
    spans = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    candidates = [
        node
        for node in source.functions
        if getattr(node, "name", "<lambda>") == code.co_name
        and _first_line(node) == code.co_firstlineno
        and all((node.lineno, node.col_offset) <= span <= _end(node) for span in spans)
    ]
    if not candidates:
        raise UnreadableError(f"{source.path}, line {code.co_firstlineno}: no {code.co_name}")
    return min(candidates, key=lambda node: (_end(node), -node.lineno, -node.col_offset))


def _first_line(node: Any) -> int:
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def _given(function: Any) -> dict[str, Any]:
    """What a function found around it when it was made, by name: of the outer function, and its defaults."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        values = {name: cell.cell_contents for name, cell in cells}
    except ValueError:
        raise UnreadableError(f"{function.__qualname__} is not complete") from None
    defaults = dict(enumerate(function.__defaults__ or ()))
    return {**values, "<defaults>": [defaults, function.__kwdefaults__ or {}]}
