"""Variants from a user's own file: ``path/to/mine.py:SPEC``, or the name of a class of ``nn.Module`` there.

A file is run once for each content, as a module named by that content: its copies in a run's folder and
beside a model's weights are the same module, and so the same variant. It is one file; what it imports is
installed. A place that was typed is run; one that a file brings needs consent (``check_consent``).
"""

from __future__ import annotations

import ast
import hashlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from torch import nn

from base.errors import UsageError, first_line, unknown_name
from ffn_variants.names import LOADED, VariantFile, names_file, parse_file, read_file, split_place
from ffn_variants.registry import FFN_VARIANTS, get_variant, register
from ffn_variants.spec import SIGNATURES, FFNSpec, as_spec

MODULE = "ffn_variant_file_"
_DIGITS = 12


def find_variant(text: str) -> FFNSpec:
    """Return a variant by its name, or from a file as ``mine.py:SPEC``; errors as of the two functions."""
    return load_variant(text) if names_file(text) else get_variant(text)


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
    path, attribute = split_place(place)
    content = read_file(path)
    before = dict(FFN_VARIANTS)
    spec = _find_spec(_run(path, content), path, attribute)
    try:
        register(spec)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    if before.get(spec.name) is not spec:  # else it came from another place with the same content
        LOADED[spec.name] = VariantFile(path, attribute, content)
    return spec


def _run(path: Path, content: bytes) -> ModuleType:
    """Run a file, or return the module of the same content that was run before."""
    # The name is the same in every process, for pickles, and nothing is written beside the file, as caches.
    name = f"{MODULE}{hashlib.sha256(content).hexdigest()[:_DIGITS]}"
    if name in sys.modules:
        return sys.modules[name]
    tree = parse_file(path, content)
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
    if not names or callable(found):
        what = f"{attribute} is no module" if callable(found) else "has no FFNSpec and no nn.Module"
        raise UsageError(f"{path}: {what}; add class {attribute}(nn.Module) with {SIGNATURES}")
    raise UsageError(f"{path}: {unknown_name('FFNSpec or nn.Module', attribute, names)}")


def _is_variant(value: object, module: ModuleType) -> bool:
    """Whether it is a spec, or a class of a module that is defined here."""
    is_class = (
        isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == module.__name__
    )
    return is_class or isinstance(value, FFNSpec)
