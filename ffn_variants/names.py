"""Names of variants: of this project, of an installed package, or of a file as ``path/to/mine.py:SPEC``.

What a name tells is known here without torch, which takes a second to load.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from base.config_input import LONGEST_PATH_SHOWN
from base.errors import UsageError, first_line, near_file, shown, unknown_name
from base.model_folders import VARIANT_COPY
from base.records import read_json

EARLIER_SOURCES = Path(__file__).with_name("earlier_sources.json")
"""By variant of this project a fingerprint, then those of earlier source that gave the same bits."""
ENTRY_POINTS = "ffn_variants"
"""Group of entry points by which a package names its specs: ``mish = "mypkg.ffn:SPEC"``."""
EXAMPLE = "give path/to/mine.py:SPEC"


@functools.cache
def installed_variants() -> dict[str, EntryPoint]:
    """Return the variants that installed packages name, by name; none of them is loaded by this."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def registered_names() -> Collection[str]:
    """Return the names in the registry, which are those of this project where it is not loaded yet."""
    registry = sys.modules.get("ffn_variants.registry")
    return registry.FFN_VARIANTS if registry else read_json(EARLIER_SOURCES)


def is_registered(name: str) -> bool:
    """Whether ``get_variant`` would find a variant, without loading it."""
    return name in registered_names() or name in installed_variants()


def check_registered(name: str) -> None:
    """Refuse a name that ``get_variant`` would not find.

    Raises:
        UsageError: Lists all names, and the closest match.
    """
    if not is_registered(name):
        if name == "efficient-kan":
            package = "pip install '.[efficient-kan]', then --ffn benchmarks/package_kan.py:SPEC in a clone"
            raise UsageError(f"{name} is kan here, the same function; the package itself: {package}")
        message = unknown_name("FFN variant", name, (*registered_names(), *installed_variants()))
        python = "a class of a notebook is known after its cell and ffn_ablations.check(CLASS)"
        raise UsageError(f"{message}; one in a file of yours is path/to/mine.py:SPEC, {python}")


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


LOADED: dict[str, VariantFile] = {}
"""By the name of the variant."""


def variant_file(name: str) -> VariantFile | None:
    """Return the file that a registered variant came from; None for one that came from none."""
    return LOADED.get(name)


def names_file(text: str) -> bool:
    """Whether a text that names a variant is the place of a file (``mine.py:SPEC``), not a name."""
    return ":" in text or "/" in text or text.endswith(".py")


def absolute_place(place: str) -> str:
    """Return ``path.py:NAME`` with the path made absolute, for a configuration that is read elsewhere.

    Raises:
        UsageError: If it has no such form.
    """
    path, attribute = split_place(place)
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


def is_loaded(place: str) -> bool:
    """Whether the variant in a file is registered already, so that nothing of the file need be run.

    Args:
        place: As for ``load_variant``; a file that is gone, or has another content now, is not loaded.
    """
    path, attribute = split_place(place)
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return any((file.attribute, file.content) == (attribute, content) for file in LOADED.values())


def split_place(place: str) -> tuple[Path, str]:
    """Split a place into the absolute path and the name.

    Raises:
        UsageError: If it is no Python file, or no name is given.
    """
    name, _, attribute = place.rpartition(":")
    if not name.endswith(".py"):
        name, attribute = place, ""
    if not name.endswith(".py"):
        raise UsageError(f"{shown(place)} names no Python file (.py) with a variant; {EXAMPLE}")
    if not attribute.isidentifier():
        raise UsageError(f"{place}: which of its names is the variant? Write {name}:{_spec_names(name)}")
    return Path(os.path.abspath(Path(name).expanduser())), attribute


def _spec_names(name: str) -> str:
    """What a file calls its specs, else its modules, NAME or OTHER; it is read and not run."""
    path = Path(name).expanduser()
    body = parse_file(path, read_file(path)).body
    assignments = (node for node in body if isinstance(node, ast.Assign))
    specs = [ast.unparse(each.targets[0]) for each in assignments if "FFNSpec(" in ast.unparse(each.value)]
    classes = (node for node in body if isinstance(node, ast.ClassDef))
    modules = [each.name for each in classes if any("Module" in ast.unparse(base) for base in each.bases)]
    return " or ".join(specs or modules) or "NAME"


def read_file(path: Path) -> bytes:
    """Read a variant's file; ``UsageError`` if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such file; {near_file(path)}{EXAMPLE}, or the copy of it in a run's folder, "
            f"RUN/{VARIANT_COPY}:SPEC"
        ) from None
    except OSError as error:
        cut = str(path)[:LONGEST_PATH_SHOWN]
        raise UsageError(f"{cut}: cannot be read ({error.strerror}); {EXAMPLE}") from None


def parse_file(path: Path, content: bytes) -> ast.Module:
    """Parse a variant's file; ``UsageError`` if it is no Python."""
    try:
        return ast.parse(content, str(path))
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: {type(error).__name__}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path}: is no Python file ({first_line(error)}); {EXAMPLE}") from None
