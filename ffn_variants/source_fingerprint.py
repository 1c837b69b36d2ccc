"""A fingerprint of the source that computes a variant, by which a changed one is told from what was trained.

For a variant of this project it is over the ``build`` of its spec and everything that this reaches by name,
definition by definition: an activation that is edited changes its own fingerprint and no other of its file,
and a definition that moves to another file changes none. A name is looked up among the definitions of its
file, then in the file's imports. Of the standard library and of installed packages the names alone count.

For a variant in a user's own file, or of an installed package, it is over the whole file. For one that a
notebook or a script gave by value it is over the functions and classes that it reaches, as they were run.

Files are parsed and never run. Left out is what computes nothing: comments, formatting, docstrings,
annotations, the words of errors and warnings, methods that only print; and formula, reference, counts and all
of an option but its default. An annotation that does compute something, as ``functools.singledispatch`` reads
them, is missed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import inspect
import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from base.files import CODE_ROOT, PACKAGES
from base.records import read_json
from ffn_variants.names import EARLIER_SOURCES, variant_file
from ffn_variants.registry import FFN_VARIANTS, get_variant
from ffn_variants.spec import FFNSpec

DIGITS = 12
PRINTING = ("extra_repr", "__repr__", "__str__")
"""Methods that compute nothing but words."""
PRINTING_CALLS = ("warnings.warn", "print")
_IGNORED = ("ctx", "kind", "type_comment", "type_params")
_LIBRARIES = ("numpy", "torch", "transformers")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


class UnreadableError(Exception):
    """There is no source to read, as of code in a notebook or an archive."""


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A parsed file.

    Attributes:
        statements: By name the statements on the top level that bind or change it; all under the empty one.
        imports: By name the module, and what of it was imported; empty for the module itself.
    """

    statements: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)


Definition = tuple[SourceFile, tuple[ast.AST, ...]]
"""A file, and the statements or functions in it that count."""


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
    source = SourceFile({"": tree.body})
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source.imports[alias.asname or alias.name] = (node.module or "", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                source.imports[alias.asname or module] = (module, "")
    for statement in tree.body:
        for name in _bound(statement):
            source.statements.setdefault(name, []).append(statement)
    return source


def _bound(statement: ast.AST) -> set[str]:
    """The names that a statement on the top level binds, or whose values it may change."""
    match statement:
        case ast.Expr():  # such as a call that registers something
            return _names(statement)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return set().union(*map(_names, targets))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _names(target)
    inner = (node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.stmt))
    return set().union(*map(_bound, inner))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


class _Writer:
    """Writes trees as texts without what computes nothing, and notes the names in them.

    Its texts of users' files are in the identity of their runs, so they must stay as they are.

    Attributes:
        names: Every name with the attributes after it; a dict to keep their order.
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def write(self, node: Any) -> str:
        """Write a tree; ``ast.dump`` and ``ast.unparse`` differ between versions of Python."""
        if isinstance(node, list):
            return f"[{','.join(self.write(each) for each in node if not _is_silent(each))}]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if dotted := _dotted(node):
            self.names[dotted] = None
            return dotted
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
        is_named_tuple = any(_dotted(base).endswith("NamedTuple") for base in node.bases)
        if not node.decorator_list and not is_named_tuple:
            return ""
        targets = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
        return str([tuple(_dotted(target).split(".")) for target in targets])


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
            return _dotted(func) in PRINTING_CALLS
        case ast.FunctionDef(name=name):
            return name in PRINTING
    return False


def _dotted(node: ast.AST) -> str:
    """A name and the attributes after it, ``torch.nn.Linear``; empty for anything else."""
    attributes = ""
    while isinstance(node, ast.Attribute):
        attributes, node = f".{node.attr}{attributes}", node.value
    return node.id + attributes if isinstance(node, ast.Name) else ""


def source_fingerprint(name: str) -> str:
    """Return 12 hexadecimal digits of the source that computes a variant.

    They are the same wherever the code lies. Of files a process takes those of what it imported.

    Where no source can be read, as of what is typed into a plain Python, they are those of its compiled code.

    Raises:
        UsageError: If there is no such variant.
    """
    return _fingerprint(get_variant(name))


def is_same_source(name: str, recorded: str | None) -> bool:
    """Whether a variant's present source is the recorded one, or one that computes the same.

    Args:
        name: The variant.
        recorded: A fingerprint; empty or None, as older runs have it, is not known to differ.

    Raises:
        UsageError: If there is no such variant.
    """
    present = source_fingerprint(name)
    return not recorded or recorded in (present, *earlier_sources(name))


def earlier_sources(name: str) -> list[str]:
    """Fingerprints of earlier source of a variant that computed the same.

    A line of the file begins with the source that its others compute the same as. Where the present one is
    another, it says nothing of that.
    """
    same_as, *earlier = read_json(EARLIER_SOURCES).get(name, "-").split()
    of_file = earlier if same_as == source_fingerprint(name) else []
    return [*of_file, *get_variant(name).earlier_sources]


def describe_change(name: str, recorded: str) -> str:
    """Say that a variant's source is another than what was recorded, for a sentence."""
    return f"another {name!r} (source {recorded}, now {source_fingerprint(name)})"


def cure(recorded: str) -> str:
    """Say what helps besides training anew."""
    return (
        "restore that source, register the new formula under another name, or, if both compute the same, "
        f"add {recorded!r} to earlier_sources of its spec"
    )


def _fingerprint(spec: FFNSpec) -> str:
    text = _text_of_files(spec)
    # Anew each time: a cell of a notebook may define again what a class calls.
    text = "\n".join(_by_value(spec.build, set())) if text is None else text
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


@functools.cache
def _text_of_files(spec: FFNSpec) -> str | None:
    with contextlib.suppress(UnreadableError):
        return "\n".join(source_texts(spec))
    return None


def source_texts(spec: FFNSpec) -> list[str]:
    """What the source of a variant consists of: the spec's own part, then a text for each definition or file.

    Raises:
        UnreadableError: If part of it cannot be read.
    """
    settings = f"{spec.kind} {sorted((name, option.default) for name, option in spec.options.items())!r}"
    file = variant_file(spec.name)
    if file is not None and FFN_VARIANTS.get(spec.name) is spec:
        return [f"{settings} {file.attribute}", _Writer().write(ast.parse(file.content).body)]
    if module_file(spec.build.__module__) is None:
        whole = read_source(_python_file(spec.build)).statements[""]
        return [f"{settings} {getattr(spec.build, '__qualname__', '')}", _Writer().write(whole)]
    return [settings, *_reached(spec.build)]


def _by_value(value: Any, seen: set[int]) -> Iterator[str]:
    """Write a function or class, and what it reaches by name; of libraries the names alone."""
    if isinstance(value, functools.partial):
        value = [value.func, *value.args, *value.keywords.values()]
    package = (getattr(value, "__module__", None) or "").partition(".")[0]
    if id(value) in seen or isinstance(value, ModuleType):
        return
    seen.add(id(value))
    if isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _by_value(each, seen)
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}"
        is_library = package in sys.stdlib_module_names or package in _LIBRARIES
        for name, member in () if is_library else (("", value.__bases__), *vars(value).items()):
            if not name.startswith("__") or name == "__init__":
                yield name
                yield from _by_value(getattr(member, "fget", getattr(member, "__func__", member)), seen)
    elif isinstance(value, FunctionType):
        value = inspect.unwrap(value)
        if package in _LIBRARIES:
            yield f"{value.__module__}.{value.__qualname__}"
        elif package not in PACKAGES:
            yield _text_of(value)
            for name in _global_names(value.__code__):
                yield from _by_value(value.__globals__.get(name), seen)
        for inner in (*(value.__closure__ or ()), *(value.__defaults__ or ())):
            yield from _by_value(getattr(inner, "cell_contents", inner), seen)


@functools.cache
def _text_of(function: FunctionType) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # typed into a plain Python, or run by exec
        return str(list(_text_of_code(function.__code__)))
    try:
        return _Writer().write(ast.parse(source).body)
    except SyntaxError:  # a lambda in the midst of a call
        return source


def _text_of_code(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for inner in code.co_consts:
        yield from _text_of_code(inner) if isinstance(inner, CodeType) else [repr(inner)]


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def module_file(module: str) -> Path | None:
    """Return the file of a module of this project; None where it is none."""
    if module.partition(".")[0] not in PACKAGES:
        return None
    place = CODE_ROOT.joinpath(*module.split("."))
    return next(filter(Path.is_file, (place.with_suffix(".py"), place / "__init__.py")), None)


def _python_file(value: Any) -> Path:
    """The file of a function or class, by the variables beside it where it was not imported."""
    module = sys.modules.get(value.__module__)
    name = getattr(value, "__globals__", {}).get("__file__") or getattr(module, "__file__", None)
    if not name or not name.endswith(".py"):
        raise UnreadableError(f"{value} has no file")
    return Path(name)


def _reached(build: Any) -> Iterator[str]:
    """Write what a spec builds with, then each definition that this reaches by name, nearest first."""
    # gelu is built by ``lambda _, approximate: GELU(approximate)``, which is the first text. It names GELU, a
    # class of its file, which is the second. That names nn and F of torch: "nn.Module: torch.nn" and the like
    # are the last.
    waiting = deque(_parts(build))
    reached = set()
    while waiting:
        part = waiting.popleft()
        if isinstance(part, str):
            yield part
            continue
        source, nodes = part
        text, names = _written(nodes)
        yield text
        for name in names:
            meaning = _find(source, name)
            if isinstance(meaning, str):
                yield f"{name}: {meaning}"
            elif meaning is not None and meaning not in reached:
                reached.add(meaning)
                waiting.append(meaning)


def _parts(value: Any) -> Iterator[str | Definition]:
    """What a value is: a text where it is plain or somebody else's; else its definition and its closure."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str):
        raise UnreadableError(f"{value!r} has no source")
    path = module_file(value.__module__)
    if path is None:
        yield f"{value.__module__}.{name}"
        return
    source = read_source(path)
    if name in source.statements:
        yield source, tuple(source.statements[name])
        return
    # A lambda, or a function inside another: whatever begins on its line.
    everything = (node for statement in source.statements[""] for node in ast.walk(statement))
    first = value.__code__.co_firstlineno
    functions = (node for node in everything if isinstance(node, ast.Lambda | ast.FunctionDef))
    yield source, tuple(node for node in functions if node.lineno == first)
    closure = (cell.cell_contents for cell in value.__closure__ or ())
    for inner in (*closure, *(value.__defaults__ or ())):
        yield from _parts(inner)


@functools.cache
def _written(nodes: tuple[ast.AST, ...]) -> tuple[str, tuple[str, ...]]:
    """The text of a definition, and the names in it, first come first."""
    writer = _Writer()
    return writer.write(list(nodes)), tuple(writer.names)


@functools.cache
def _find(source: SourceFile, dotted: str) -> Definition | str | None:
    """What a name in a file means: a definition; a text where it is somebody else's; None for a local one."""
    name, _, attributes = dotted.partition(".")
    if name in source.statements:
        return source, tuple(source.statements[name])
    if name not in source.imports:
        return None
    module, attribute = source.imports[name]
    full_name = f"{module}.{attribute}" if attribute else module
    if (path := module_file(full_name)) is not None:
        module_source = read_source(path)
        if attributes:
            return _find(module_source, attributes) or full_name
        return module_source, tuple(module_source.statements[""])
    if (path := module_file(module)) is not None:
        return _find(read_source(path), attribute) or full_name
    return full_name
