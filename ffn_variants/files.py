"""Variants from a user's own file: ``path/to/mine.py:SPEC``.

A file is run once for each content, as a module named by that content: its copies in a run's folder and
beside a model's weights are the same module, and so the same variant. It is one file; what it imports is
installed. Running it is the user's consent to its code, which is asked for elsewhere.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

from base.config_input import LONGEST_PATH_SHOWN
from base.errors import UsageError, first_line, shown, unknown_name
from base.files import PACKAGES
from base.model_folders import VARIANT_COPY
from ffn_variants.definitions import UnreadableError, read_source
from ffn_variants.registry import FFN_VARIANTS, is_registered, register
from ffn_variants.spec import FFNSpec, check_spec

MODULE = "ffn_variant_file_"
_DIGITS = 12
_EXAMPLE = "give path/to/mine.py:SPEC"


@dataclass(frozen=True)
class VariantFile:
    """Where a variant of this process came from.

    Attributes:
        path: The file, absolute.
        attribute: The name of the spec in it.
        content: What was run, whatever the file holds now.
        module: What it was run as.
        constants: Numbers that it has by name once it was run, and lists of such, as texts.
    """

    path: Path
    attribute: str
    content: bytes
    module: str
    constants: Mapping[str, str]


_FILES: dict[str, VariantFile] = {}
"""By the name of the variant."""
_CONSTANTS: dict[str, Mapping[str, str]] = {}
"""By module; taken at once, as what counts calls changes."""


def variant_file(name: str) -> VariantFile | None:
    """Return the file that a registered variant came from; None for one that came from none."""
    return _FILES.get(name)


def is_variant_file(path: Path) -> bool:
    """Whether a variant of this process came from a file."""
    return any(file.path.resolve() == path for file in _FILES.values())


def names_file(text: str) -> bool:
    """Whether a text that stands for a variant names a file; a variant's name never looks so."""
    return ":" in text or "/" in text or text.endswith(".py")


def absolute_place(place: str) -> str:
    """Return ``path.py:NAME`` with the path made absolute, for a configuration that is read elsewhere.

    Raises:
        UsageError: If it has no such form; a file that can be run is told with what it has.
    """
    path, attribute = _split(place)
    return f"{path}:{attribute}"


def load_variant(place: str) -> FFNSpec:
    """Run a file of the user, and register the variant in it for the life of this process.

    Args:
        place: ``path/to/mine.py:SPEC``: a Python file, and the name in it of an ``FFNSpec``.

    Returns:
        The spec; the same one where a file of this content was loaded before.

    Raises:
        UsageError: If there is no such file or no such name in it, the file fails or imports a file beside
            it, or the spec is not complete or has the name of another variant. One line each.
    """
    path, attribute = _split(place)
    content = _read(path)
    before = dict(FFN_VARIANTS)
    module = _run(path, content)
    spec = _find(module, path, attribute)
    _refuse_name_of_file(spec, path, content)
    if before.get(spec.name) is not spec:
        if FFN_VARIANTS.get(spec.name) is not spec:  # else the file itself registered it
            _refuse_taken(spec, path)
            register(spec)
        _FILES[spec.name] = VariantFile(
            path, attribute, content, module.__name__, _CONSTANTS[module.__name__]
        )
    return spec


def is_loaded(place: str) -> bool:
    """Whether the variant in a file is registered already, so that nothing of the file need be run.

    Args:
        place: As for ``load_variant``; a file that is gone, or has another content now, is not loaded.
    """
    path, attribute = _split(place)
    with_this_name = (file for file in _FILES.values() if file.attribute == attribute)
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return any(file.content == content for file in with_this_name)


def _split(place: str) -> tuple[Path, str]:
    """Split a place into the absolute path and the name.

    Raises:
        UsageError: If it is no Python file, or no name is given; says which there are.
    """
    name, _, attribute = place.rpartition(":")
    if not name.endswith(".py"):
        name, attribute = place, ""
    if not name.endswith(".py"):
        raise UsageError(f"{shown(place)} names no Python file (.py) with a variant; {_EXAMPLE}")
    path = Path(os.path.abspath(Path(name).expanduser()))
    if not attribute.isidentifier():
        known = ", ".join(_written_specs(path)) or "none was found"
        raise UsageError(
            f"{place}: which of its names is the FFNSpec? Write {name}:NAME; it has these: {known}"
        )
    return path, attribute


def _written_specs(path: Path) -> list[str]:
    """The names to which a file assigns a call of ``FFNSpec``, found without running it."""
    found = []
    for statement in _parse(path, _read(path)).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Call):
            called = ast.unparse(statement.value.func).rpartition(".")[2]
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found += [ast.unparse(target) for target in targets if called == FFNSpec.__name__]
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such file; {_EXAMPLE}, or the copy of it in a run's folder, RUN/{VARIANT_COPY}:SPEC"
        ) from None
    except OSError as error:
        cut = str(path)[:LONGEST_PATH_SHOWN]
        raise UsageError(f"{cut}: cannot be read ({error.strerror}); {_EXAMPLE}") from None


def _parse(path: Path, content: bytes) -> ast.Module:
    try:
        return ast.parse(content, str(path))
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: {type(error).__name__}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path}: is no Python file ({first_line(error)}); {_EXAMPLE}") from None


def _run(path: Path, content: bytes) -> ModuleType:
    """Run a file, or return the module of the same content that was run before."""
    # The name is the same in every process, for pickles, and nothing is written beside the file, as caches.
    name = f"{MODULE}{hashlib.sha256(content).hexdigest()[:_DIGITS]}"
    if name in sys.modules:
        return sys.modules[name]
    tree = _parse(path, content)
    for line, imported in _neighbours(path, tree):
        raise UsageError(
            f"{path}, line {line}: imports {imported}, which lies beside it; a variant's file is copied "
            "alone into runs and models: put all into it, or into a package that is installed"
        )
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception | SystemExit):
            raise
        raise UsageError(_told(path, error)) from None
    found = ((key, _number_text(value)) for key, value in vars(module).items())
    _CONSTANTS[name] = {key: text for key, text in found if text}
    _keep_source(path, content, name)
    return module


def _number_text(value: object) -> str:
    """Write a number, or a list of numbers, to nine digits, which all machines share; empty for others.

    Truth values are left out: they tell what is installed, or whether there is a GPU.
    """
    if isinstance(value, list | tuple):
        inside = [_number_text(each) for each in value]
        return f"[{','.join(inside)}]" if inside and all(inside) else ""
    is_number = isinstance(value, int | float | complex) and not isinstance(value, bool)
    return f"{value:.9g}" if is_number else ""


def _keep_source(path: Path, content: bytes, module: str) -> None:
    """Parse a file for its fingerprint, before anybody edits it.

    Raises:
        UsageError: If somebody did while it was run.
    """
    with contextlib.suppress(UnreadableError):
        read_source(path.resolve(), module)
    if _read(path) != content:
        del sys.modules[module]
        raise UsageError(f"{path}: was edited while it was read; give the command again")


def _told(path: Path, error: BaseException) -> str:
    """Say where and how a file failed."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    place = f"{path}, line {lines[-1]}" if lines else str(path)
    return f"{place}: {type(error).__name__}: {first_line(error)}; the file must run by itself"


def _neighbours(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Find imports of what lies in the folder of a file and is not installed: their lines and names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if _is_neighbour(path.parent, name))


def _is_neighbour(folder: Path, imported: str) -> bool:
    first = imported.partition(".")[0]
    if not first:
        return True
    if first in PACKAGES or first in sys.stdlib_module_names:
        return False
    if not ((folder / f"{first}.py").is_file() or (folder / first).is_dir()):
        return False
    try:
        found = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return False
    origin = found.origin if found else None
    return origin is None or (Path(origin).is_relative_to(folder) and first not in _installed())


@functools.cache
def _installed() -> frozenset[str]:
    """Everything that packages bring, those that are installed from a checkout too."""
    return frozenset(packages_distributions())


def _find(module: ModuleType, path: Path, attribute: str) -> FFNSpec:
    specs = [name for name, value in vars(module).items() if isinstance(value, FFNSpec)]
    if attribute not in vars(module):
        if not specs:
            raise UsageError(f"{path}: has no FFNSpec; add {attribute} = FFNSpec(...)")
        raise UsageError(f"{path}: {unknown_name('FFNSpec', attribute, specs)}")
    spec = getattr(module, attribute)
    if not isinstance(spec, FFNSpec):
        known = f"its FFNSpecs are {', '.join(specs)}" if specs else "it has no FFNSpec"
        raise UsageError(f"{path}: {attribute} is a {type(spec).__name__} and no FFNSpec; {known}")
    try:
        check_spec(spec)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return spec


def _refuse_name_of_file(spec: FFNSpec, path: Path, content: bytes) -> None:
    """Refuse a name that is taken from the file's own, as copies of the file have other names."""
    texts = (node.value for node in ast.walk(_parse(path, content)) if isinstance(node, ast.Constant))
    if spec.name == path.stem and b"__file__" in content and spec.name not in texts:
        raise UsageError(
            f"{path}: the name of {spec.name!r} follows the file's, which its copies in runs and models do "
            f"not have; write it as a text, name={spec.name!r}"
        )


def _refuse_taken(spec: FFNSpec, path: Path) -> None:
    """Refuse the name of another variant."""
    if not is_registered(spec.name):
        return
    before = _FILES.get(spec.name)
    if before and before.path == path:
        raise UsageError(
            f"{path}: was edited after this process loaded {spec.name!r} from it; start a new process, or "
            "give the new formula a name of its own"
        )
    origin = f"from {before.path}" if before else "of this project or an installed package"
    raise UsageError(
        f"{path}: there is a variant {spec.name!r} already, {origin}; change name={spec.name!r} in the file"
    )
