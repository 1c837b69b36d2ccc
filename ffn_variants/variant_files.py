"""Variants from a user's own file: ``path/to/mine.py:SPEC``, or the name of a class of ``nn.Module`` there.

A file is run once for each content, as a module named by that content: its copies in a run's folder and
beside a model's weights are the same module, and so the same variant. It is one file; what it imports is
installed. A place that was typed is run; one that a file brings needs consent (``check_consent``).
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import nn

from base.config_input import LONGEST_PATH_SHOWN
from base.errors import UsageError, first_line, shown, unknown_name
from base.model_folders import VARIANT_COPY
from ffn_variants.registry import FFN_VARIANTS, get_variant, register
from ffn_variants.spec import SIGNATURES, FFNSpec, as_spec

MODULE = "ffn_variant_file_"
_DIGITS = 12
_EXAMPLE = "give path/to/mine.py:SPEC"


@dataclass(frozen=True)
class VariantFile:
    """Where a variant of this process came from.

    Attributes:
        path: The file, absolute.
        attribute: The name of the spec or class in it.
        content: What was run, whatever the file holds now.
    """

    path: Path
    attribute: str
    content: bytes


_FILES: dict[str, VariantFile] = {}
"""By the name of the variant."""


def variant_file(name: str) -> VariantFile | None:
    """Return the file that a registered variant came from; None for one that came from none."""
    return _FILES.get(name)


def names_file(text: str) -> bool:
    """Whether a text that names a variant is the place of a file (``mine.py:SPEC``), not a name."""
    return ":" in text or "/" in text or text.endswith(".py")


def find_variant(text: str) -> FFNSpec:
    """Return a variant by its name, or from a file as ``mine.py:SPEC``; errors as of the two functions."""
    return load_variant(text) if names_file(text) else get_variant(text)


def absolute_place(place: str) -> str:
    """Return ``path.py:NAME`` with the path made absolute, for a configuration that is read elsewhere.

    Raises:
        UsageError: If it has no such form.
    """
    path, attribute = _split(place)
    return f"{path}:{attribute}"


def check_consent(
    trust: bool, place: str, how: str = "--trust-remote-code, in Python trust_remote_code=True"
) -> None:
    """Refuse to run a variant's file that nobody typed, and nobody consented to.

    Args:
        trust: Whether the user consents.
        place: Who names which file.
        how: How to consent.
    """
    if not trust:
        raise UsageError(f"{place}, which is code; read that file, then consent to run it: {how}")


def load_variant(place: str) -> FFNSpec:
    """Run a file of the user, and register the variant in it for the life of this process.

    Args:
        place: ``path/to/mine.py:SPEC``: a Python file, and the name in it of an ``FFNSpec``, or of a class
            of ``nn.Module`` (see ``ffn_variants.spec.spec_of_class``).

    Returns:
        The spec; the same one where a file of this content was loaded before.

    Raises:
        UsageError: If there is no such file or no such name in it, the file fails, or the spec is not
            complete or has the name of another variant. One line each.
    """
    path, attribute = _split(place)
    content = _read(path)
    before = dict(FFN_VARIANTS)
    spec = _find_spec(_run(path, content), path, attribute)
    try:
        register(spec)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    if before.get(spec.name) is not spec:  # else it came from another place with the same content
        _FILES[spec.name] = VariantFile(path, attribute, content)
    return spec


def is_loaded(place: str) -> bool:
    """Whether the variant in a file is registered already, so that nothing of the file need be run.

    Args:
        place: As for ``load_variant``; a file that is gone, or has another content now, is not loaded.
    """
    path, attribute = _split(place)
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return any((file.attribute, file.content) == (attribute, content) for file in _FILES.values())


def _split(place: str) -> tuple[Path, str]:
    """Split a place into the absolute path and the name.

    Raises:
        UsageError: If it is no Python file, or no name is given.
    """
    name, _, attribute = place.rpartition(":")
    if not name.endswith(".py"):
        name, attribute = place, ""
    if not name.endswith(".py"):
        raise UsageError(f"{shown(place)} names no Python file (.py) with a variant; {_EXAMPLE}")
    if not attribute.isidentifier():
        raise UsageError(f"{place}: which of its names is the variant? Write {name}:{_spec_names(name)}")
    return Path(os.path.abspath(Path(name).expanduser())), attribute


def _spec_names(name: str) -> str:
    """What a file calls its specs, else its modules, NAME or OTHER; it is read and not run."""
    path = Path(name).expanduser()
    body = _parse(path, _read(path)).body
    assignments = (node for node in body if isinstance(node, ast.Assign))
    specs = [ast.unparse(each.targets[0]) for each in assignments if "FFNSpec(" in ast.unparse(each.value)]
    classes = (node for node in body if isinstance(node, ast.ClassDef))
    modules = [each.name for each in classes if any("Module" in ast.unparse(base) for base in each.bases)]
    return " or ".join(specs or modules) or "NAME"


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
    _refuse_neighbours(path, tree)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception | SystemExit):
            raise
        raise UsageError(_failure(path, error)) from None
    return module


def _failure(path: Path, error: BaseException) -> str:
    """Say where and how a file failed."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    place = f"{path}, line {lines[-1]}" if lines else str(path)
    return f"{place}: {type(error).__name__}: {first_line(error)}; the file must run by itself"


def _refuse_neighbours(path: Path, tree: ast.Module) -> None:
    """Refuse imports of what lies in the folder of a file, which its copies would not find."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package = name.partition(".")[0]
            if not package or (path.parent / f"{package}.py").is_file():
                raise UsageError(
                    f"{path}: imports {name}, which lies beside it; a variant's file is copied alone into "
                    "runs and models: put all into it, or into a package that is installed"
                )


def _find_spec(module: ModuleType, path: Path, attribute: str) -> FFNSpec:
    found = getattr(module, attribute, None)
    if isinstance(found, type) and issubclass(found, nn.Module):
        try:
            return as_spec(found)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    if isinstance(found, FFNSpec):
        return found
    names = [name for name, value in vars(module).items() if _is_variant(value, module)]
    if not names:
        raise UsageError(
            f"{path}: has no FFNSpec and no nn.Module; add class {attribute}(nn.Module) with {SIGNATURES}"
        )
    raise UsageError(f"{path}: {unknown_name('FFNSpec or nn.Module', attribute, names)}")


def _is_variant(value: object, module: ModuleType) -> bool:
    """Whether it is a spec, or a class of a module that is defined here."""
    is_class = (
        isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == module.__name__
    )
    return is_class or isinstance(value, FFNSpec)
