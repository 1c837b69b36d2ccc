"""A fingerprint of the source that computes a variant, by which a changed one is told from what was trained.

For a variant of this project it is over everything that the ``build`` of its spec reaches by name, definition
by definition: an activation that is edited changes its own fingerprint and no other of its file, and a
definition that moves to another file changes none. What a name means is found as Python finds it: in an
import beside it, among the module's own definitions, in the module's imports. Of the standard library and of
installed packages it holds the names alone.

For a variant in a user's own file, or of an installed package, it is over the whole file.

Files are parsed and never run. Left out is what computes nothing: comments, formatting, docstrings,
annotations, the words of errors and warnings, methods that only print; and formula, reference, counts and all
of an option but its default. An annotation that does compute something, as ``functools.singledispatch`` reads
them, is missed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from base.files import CODE_ROOT, PACKAGES
from ffn_variants.earlier_sources import EARLIER_SOURCES
from ffn_variants.registry import FFN_VARIANTS, get_variant
from ffn_variants.spec import FFNSpec
from ffn_variants.variant_files import variant_file

DIGITS = 12
ROOTS = tuple(CODE_ROOT / package for package in PACKAGES)
"""Folders whose definitions are followed."""

PRINTING = ("extra_repr", "__repr__", "__str__")
"""Methods that compute nothing but words."""
PRINTING_CALLS = (("warnings", "warn"), ("print",))
_IGNORED = ("ctx", "kind", "type_comment", "type_params")

Chain = tuple[str, ...]
"""A name and the attributes after it: ``kan_layers.KAN.options`` as written."""
Import = tuple[str, str | None]
"""A module, and what of it was imported; None for the module itself."""


class UnreadableError(Exception):
    """There is no source to read, as of code in a notebook or an archive."""


class Place(NamedTuple):
    """A definition on the top level of a module's file; an empty name stands for all of them."""

    path: Path
    name: str


@dataclass(frozen=True, eq=False)
class Definition:
    """What stands in a file under one name.

    Attributes:
        text: Equal for equal code, in every version of Python.
        chains: The names in it, first come first.
        imports: By name what its own import statements bring.
    """

    text: str
    chains: tuple[Chain, ...]
    imports: dict[str, Import]


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A parsed file.

    Attributes:
        path: Where it lies.
        statements: By name the statements on the top level that bind or change it; all under the empty one.
        imports: By name what the import statements on the top level bring.
    """

    path: Path
    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)

    @functools.cached_property
    def functions(self) -> list[Any]:
        """Every function and lambda, wherever it stands."""
        kinds = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef
        return [
            node
            for statement in self.statements[""]
            for node in ast.walk(statement)
            if isinstance(node, kinds)
        ]

    @functools.cache  # noqa: B019  as long as the file itself is kept
    def definition(self, name: str) -> Definition:
        """What stands under a name."""
        return read_definition(self, self.statements[name])


@functools.cache
def read_source(path: Path) -> SourceFile:
    """Parse a file, once in a process: what runs is what was imported, whatever is edited later.

    Raises:
        UnreadableError: If there is no such file, or it is no Python.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise UnreadableError(f"{path}: {error}") from None
    source = SourceFile(path, {"": tree.body})
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            source.imports.update(_imported(statement))
        else:
            for bound in _bound(statement):
                source.statements.setdefault(bound, []).append(statement)
    return source


def read_definition(source: SourceFile, nodes: Sequence[ast.AST]) -> Definition:
    """Read some nodes of a file's tree as one definition."""
    writer = _Writer()
    text = writer.write(list(nodes))
    imports = {name: of for node in writer.imports for name, of in _imported(node).items()}
    return Definition(text, tuple(writer.chains), imports)


class _Writer:
    """Writes trees as texts without what computes nothing, and notes the names in them.

    Attributes:
        chains: Every name with the attributes after it; a dict to keep their order.
        imports: The import statements.
    """

    def __init__(self) -> None:
        self.chains: dict[Chain, None] = {}
        self.imports: list[ast.Import | ast.ImportFrom] = []

    def write(self, node: Any) -> str:
        """Write a tree; ``ast.dump`` and ``ast.unparse`` differ between versions of Python."""
        if isinstance(node, list):
            return f"[{','.join(self.write(each) for each in node if not _is_silent(each))}]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Name | ast.Attribute) and (chain := _chain(node)):
            self.chains[chain] = None
            return ".".join(chain)
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imports.append(node)
        if isinstance(node, ast.AnnAssign):
            node = ast.Assign([node.target], node.value)  # type: ignore[bad-argument-type]
        fields = [
            f"{name}={self.write(value)}"
            for name in node._fields
            if name not in _left_out(node)
            and (value := getattr(node, name, None)) is not None
            and value != []
        ]
        if isinstance(node, ast.ClassDef):
            fields.append(self.fields_of(node))
        return f"{type(node).__name__}({','.join(fields)})"

    def fields_of(self, node: ast.ClassDef) -> str:
        """The fields of a dataclass or a named tuple, whose order is that of its arguments."""
        names = [_chain(base) or ("",) for base in node.bases]
        if not node.decorator_list and not any(name[-1] == "NamedTuple" for name in names):
            return ""
        return str([_chain(each.target) for each in node.body if isinstance(each, ast.AnnAssign)])


def _left_out(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Raise():
            return ("exc", "cause")
        case ast.Assert():
            return ("msg",)
        case ast.arg():
            return (*_IGNORED, "annotation")
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return (*_IGNORED, "returns")
    return _IGNORED


def _is_silent(node: Any) -> bool:
    """Whether a statement computes nothing."""
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return _chain(func) in PRINTING_CALLS
        case ast.FunctionDef(name=name):
            return name in PRINTING
    return False


def _chain(node: ast.AST) -> Chain | None:
    """A name and the attributes after it; None for anything else."""
    attributes: Chain = ()
    while isinstance(node, ast.Attribute):
        attributes, node = (node.attr, *attributes), node.value
    return (node.id, *attributes) if isinstance(node, ast.Name) else None


def _bound(statement: ast.AST) -> set[str]:
    """The names that a statement on the top level binds, or whose values it may change."""
    match statement:
        case ast.Expr():  # such as a call that registers something
            return _names(statement)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return set().union(*map(_names, targets))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            names = _names(target)
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name.split(".")[0] for alias in aliases}
        case ast.withitem(optional_vars=ast.AST() as target):
            names = _names(target)
        case ast.expr():
            return {node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)}
        case _:
            names = set()
    return names.union(*map(_bound, ast.iter_child_nodes(statement)))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, Import]:
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
    imports: dict[str, Import] = {}
    for alias in node.names:
        first = alias.name.partition(".")[0]
        imports[alias.asname or first] = (alias.name if alias.asname else first, None)
    return imports


def module_path(name: str) -> Path | None:
    """Return the file of a module; None where it has none, or there is no such module."""
    if name in sys.modules:
        return python_file(getattr(sys.modules[name], "__file__", None))
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return python_file(spec.origin if spec and spec.has_location else None)


@functools.cache
def python_file(name: str | None) -> Path | None:
    """The path of a file of Python source; None for anything else."""
    return Path(name).resolve() if name and name.endswith(".py") else None


_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def source_fingerprint(name: str) -> str:
    """Return 12 hexadecimal digits of the source that computes a variant.

    They are the same wherever the code lies. A process takes them once: they are those of what it imported.

    Returns:
        Empty where the source cannot be read, as in a notebook or an archive: not known.

    Raises:
        UsageError: If there is no such variant.
    """
    return _fingerprint(_Key(get_variant(name)))


def is_same_source(name: str, recorded: str | None) -> bool:
    """Whether a variant's present source is the recorded one, or one that computes the same.

    Args:
        name: The variant.
        recorded: A fingerprint; empty or None, as older runs have it, is not known to differ.

    Raises:
        UsageError: If there is no such variant.
    """
    present = source_fingerprint(name)
    return not recorded or not present or recorded in (present, *earlier_sources(name))


def earlier_sources(name: str) -> list[str]:
    """Fingerprints of earlier source of a variant that computed the same."""
    return [*EARLIER_SOURCES.get(name, "").split(), *get_variant(name).earlier_sources]


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
        text = "\n".join(source_texts(key.spec))
    except UnreadableError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def source_texts(spec: FFNSpec) -> list[str]:
    """What the source of a variant consists of: the spec's own part, then a text for each definition or file.

    Raises:
        UnreadableError: If part of it cannot be read.
    """
    defaults = repr(sorted((name, option.default) for name, option in spec.options.items()))
    file = variant_file(spec.name)
    if file is not None and FFN_VARIANTS.get(spec.name) is spec:
        return [f"{spec.kind} {defaults} {file.attribute}", _Writer().write(ast.parse(file.content).body)]
    path = _file_of(spec.build)
    if path is None:
        raise UnreadableError(f"{spec.build} has no file")
    if not _is_followed(path):
        name = getattr(spec.build, "__qualname__", "")
        return [f"{spec.kind} {defaults} {name}", _Writer().write(read_source(path).statements[""])]
    walk = _Walk()
    return walk.texts(f"{spec.kind} {defaults} {walk.value(spec.build)}")


class _Walk:
    """Follows what an object is made of; each definition gets a number, which stands for it in the others."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.waiting: deque[tuple[SourceFile, Definition, Mapping[str, Any]]] = deque()

    def texts(self, beginning: str) -> list[str]:
        """Follow everything, and write it definition by definition."""
        texts = [beginning]
        while self.waiting:
            source, definition, values = self.waiting.popleft()
            meanings = [
                f"{'.'.join(chain)}: {self.place(meaning) if isinstance(meaning, Place) else meaning}"
                for chain, meaning in _links(source, definition)
                if chain[0] not in values
            ]
            closure = [f"{name}={self.value(value)}" for name, value in sorted(values.items())]
            texts.append("\n".join([definition.text, *meanings, *closure]))
        return texts

    def place(self, place: Place) -> str:
        """The number of a definition on the top level of a file."""
        source = read_source(place.path)
        return self.number((place.path, place.name), source, source.definition(place.name), {})

    def number(self, key: Any, source: SourceFile, definition: Definition, values: Mapping[str, Any]) -> str:
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.waiting.append((source, definition, values))
        return f"#{self.numbers[key]}"

    def value(self, value: Any) -> str:
        """Write a value that a function closes over or has as a default, the same in every process."""
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, Mapping):
            pairs = ",".join(f"{self.value(key)}:{self.value(each)}" for key, each in value.items())
            return f"{{{pairs}}}"
        if isinstance(value, list | tuple):
            return f"[{','.join(map(self.value, value))}]"
        if isinstance(getattr(value, "__qualname__", None), str):
            return self.defined(value)
        raise UnreadableError(f"{value!r} has no source")

    def defined(self, value: Any) -> str:
        """A class or a function, by the place of its definition."""
        path, name = _file_of(value), value.__qualname__.split(".")[0]
        if path is None or not _is_followed(path):
            return f"{value.__module__ or 'builtins'}.{value.__qualname__}"
        source = read_source(path)
        if "<" not in value.__qualname__ and name in source.statements:
            return self.place(Place(path, name))
        definition = read_definition(source, [_find(source, value.__code__)])
        return self.number(id(value), source, definition, _closure(value))


@functools.cache
def _links(source: SourceFile, definition: Definition) -> list[tuple[Chain, Place | str]]:
    """Resolve the names in a definition, but for local ones."""
    meanings = ((chain, _resolve(source, definition, chain)) for chain in definition.chains)
    return [(chain, meaning) for chain, meaning in meanings if meaning is not None]


def _resolve(source: SourceFile, definition: Definition, chain: Chain) -> Place | str | None:
    """Find what a name in a definition means.

    Returns:
        The place of a definition; or a text, where it is somebody else's; or None for a local name.
    """
    if chain[0] in definition.imports:
        return _resolve_import(definition.imports[chain[0]], chain[1:])
    return _resolve_in(source, chain)


def _resolve_in(source: SourceFile, chain: Chain) -> Place | str | None:
    name, *_ = chain
    if name in source.statements:
        return Place(source.path, name)
    if name in source.imports:
        return _resolve_import(source.imports[name], chain[1:])
    return None


def _resolve_import(target: Import, attributes: Chain) -> Place | str:
    module, attribute = target
    path = module_path(module)
    names: Chain = (attribute, *attributes) if attribute else attributes
    if path is not None and not _is_followed(path):
        return f"{module}.{attribute}" if attribute else module
    if path is not None and not names:
        return Place(path, "")
    if path is not None and (meaning := _resolve_in(read_source(path), names)):
        return meaning
    # A module inside a package, which need not have a file of its own.
    if names and module_path(f"{module}.{names[0]}") is not None:
        return _resolve_import((f"{module}.{names[0]}", None), names[1:])
    return ".".join((module, *names[:1]))


@functools.cache
def _is_followed(path: Path) -> bool:
    return any(map(path.is_relative_to, ROOTS))


def _file_of(value: Any) -> Path | None:
    """The file that defines a class or a function, by the variables beside it where it was not imported."""
    variables = getattr(value, "__globals__", {})
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return python_file(variables.get("__file__") or getattr(module, "__file__", None))


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


def _closure(function: Any) -> dict[str, Any]:
    """Return the values that a function closes over, by name, and its defaults."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {name: cell.cell_contents for name, cell in cells}
    defaults = dict(enumerate(function.__defaults__ or ()))
    return {**values, "<defaults>": [defaults, function.__kwdefaults__ or {}]}
