"""What a definition in a file is made of: its own text, and the definitions that it names.

Files are parsed and never run. Left out of a text is what computes nothing: comments, formatting,
docstrings, annotations, the words of errors and warnings, and methods that only tell. What a name means is
found as Python finds it: in an import beside it, among the module's own definitions, in the module's imports.
A name that is found nowhere is a local one, or one of Python's own.

An annotation that does compute something, as ``functools.singledispatch`` reads them, is missed.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

TELLING = ("extra_repr", "__repr__", "__str__")
"""Methods that compute nothing but words."""
TELLING_CALLS = (("warnings", "warn"), ("print",))
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
    module: str
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
        module: Its module, for relative imports.
        statements: By name the statements on the top level that bind or change it; all under the empty one.
        imports: By name what the import statements on the top level bring.
        stars: Modules of which everything is imported.
    """

    path: Path
    module: str
    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

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
def read_source(path: Path, module: str) -> SourceFile:
    """Parse a file, once in a process: what runs is what was imported, whatever is edited later.

    Raises:
        UnreadableError: If there is no such file, or it is no Python.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise UnreadableError(f"{path}: {error}") from None
    source = SourceFile(path, module, {"": tree.body})
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            source.imports.update(_imported(statement, source))
            if any(alias.name == "*" for alias in statement.names):
                source.stars.append(_module_of(statement, source))
        else:
            for bound in _bound(statement):
                source.statements.setdefault(bound, []).append(statement)
    return source


def unnamed(source: SourceFile, roots: Iterable[str]) -> Definition:
    """What of a file is not reached by name from some of its definitions, and yet is run when it is imported.

    A function that a decorator or a subclass that its base puts into a table is such; so are calls that
    change something elsewhere.

    Args:
        source: The file.
        roots: Names in it; what stands under ``if __name__ == "__main__"`` counts as one.
    """
    mains = [each for each in source.statements[""] if _is_main(each)]
    waiting = [*roots, *(chain[0] for chain in read_definition(source, mains).chains)]
    reached: set[str] = set()
    while waiting:
        if (name := waiting.pop()) in source.statements and name not in reached:
            reached.add(name)
            waiting += [chain[0] for chain in source.definition(name).chains]
    taken = [*mains, *(each for name in reached for each in source.statements[name])]
    return read_definition(
        source,
        [
            each
            for each in source.statements[""]
            if each not in taken
            and not isinstance(each, ast.Import | ast.ImportFrom)
            and not any(name.startswith("__") for name in _bound(each))  # such as __all__
        ],
    )


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in _names(statement.test)


def read_definition(source: SourceFile, nodes: Sequence[ast.AST]) -> Definition:
    """Read some nodes of a file's tree as one definition."""
    writer = _Writer()
    text = writer.write(list(nodes))
    imports = {name: of for node in writer.imports for name, of in _imported(node, source).items()}
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
        told = [
            f"{name}={self.write(value)}"
            for name in node._fields
            if name not in _left_out(node)
            and (value := getattr(node, name, None)) is not None
            and value != []
        ]
        if isinstance(node, ast.ClassDef):
            told.append(self.fields_of(node))
        return f"{type(node).__name__}({','.join(told)})"

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
            return _chain(func) in TELLING_CALLS
        case ast.FunctionDef(name=name):
            return name in TELLING
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
            own = _names(target)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {alias.asname or alias.name.split(".")[0] for alias in names}
        case ast.withitem(optional_vars=ast.AST() as target):
            own = _names(target)
        case ast.expr():
            return {node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)}
        case _:
            own = set()
    return own.union(*map(_bound, ast.iter_child_nodes(statement)))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _imported(node: ast.Import | ast.ImportFrom, source: SourceFile) -> dict[str, Import]:
    if isinstance(node, ast.ImportFrom):
        module = _module_of(node, source)
        return {alias.asname or alias.name: (module, alias.name) for alias in node.names if alias.name != "*"}
    found: dict[str, Import] = {}
    for alias in node.names:
        first = alias.name.partition(".")[0]
        found[alias.asname or first] = (alias.name if alias.asname else first, None)
    return found


def _module_of(node: ast.Import | ast.ImportFrom, source: SourceFile) -> str:
    """The module that a ``from`` imports from."""
    module, level = getattr(node, "module", None) or "", getattr(node, "level", 0)
    if not level:
        return module
    package = source.module if source.path.name == "__init__.py" else source.module.rpartition(".")[0]
    try:
        return importlib.util.resolve_name("." * level + module, package)
    except ImportError:
        return module


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


IsOwn = Callable[[Path], bool]
"""Whether a file is to be followed."""


def resolve(source: SourceFile, definition: Definition, chain: Chain, is_own: IsOwn) -> Place | str | None:
    """Find what a name in a definition means.

    Returns:
        The place of a definition; or a text, where it is somebody else's; or None for a local name.
    """
    if chain[0] in definition.imports:
        return _resolve_import(definition.imports[chain[0]], chain[1:], is_own)
    return _resolve_in(source, chain, is_own)


def _resolve_in(source: SourceFile, chain: Chain, is_own: IsOwn) -> Place | str | None:
    name, *_ = chain
    if name in source.statements:
        return Place(source.path, source.module, name)
    if name in source.imports:
        return _resolve_import(source.imports[name], chain[1:], is_own)
    found = (_resolve_in(other, chain, is_own) for other in _own_stars(source, is_own))
    return next(filter(None, found), None)


def _own_stars(source: SourceFile, is_own: IsOwn) -> Iterator[SourceFile]:
    for module in source.stars:
        path = module_path(module)
        if path is not None and is_own(path):
            yield read_source(path, module)


def _resolve_import(target: Import, rest: Chain, is_own: IsOwn) -> Place | str:
    module, attribute = target
    path = module_path(module)
    wanted: Chain = (attribute, *rest) if attribute else rest
    if path is not None and not is_own(path):
        return f"{module}.{attribute}" if attribute else module
    if path is not None and not wanted:
        return Place(path, module, "")
    if path is not None and (found := _resolve_in(read_source(path, module), wanted, is_own)):
        return found
    # A module inside a package, which need not have a file of its own.
    if wanted and module_path(f"{module}.{wanted[0]}") is not None:
        return _resolve_import((f"{module}.{wanted[0]}", None), wanted[1:], is_own)
    return ".".join((module, *wanted[:1]))
