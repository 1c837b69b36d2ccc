"""State files: small JSON objects that carry a checksum of their own, and what becomes of damaged ones.

A state is written whole and read as a whole, or not at all. ``{"step": 3, "sha256": "1f8a..."}``: the last
key stands for the others, so a file that was cut, edited or flipped by a disk is told from one that is right.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from base.files import write_text
from base.json_text import parse_json

SEAL = "sha256"
"""The key of the checksum."""
BROKEN = ".broken"
"""What the name of a damaged file ends with, once it was found."""

Kind = TypeVar("Kind")


def write_record(path: Path, content: Any) -> None:
    """Replace a state file in one step.

    Args:
        path: The file; its folder is made if need be.
        content: A dataclass or a mapping, of JSON values.
    """
    write_text(path, sealed(dict(content) if isinstance(content, Mapping) else asdict(content)))


def sealed(values: Mapping[str, Any]) -> str:
    """Return the text of a state file: JSON values and their checksum."""
    return json.dumps({**values, SEAL: seal(values)}, indent=1, ensure_ascii=False) + "\n"


def read_record(path: Path, kind: type[Kind]) -> Kind | None:
    """Read a state file; None where there is none, or one that cannot be believed.

    A damaged file is set aside and told of in one line. What a newer version wrote may have keys that are not
    known here, which are left out; one of an older version may lack keys that have a default, and the seal.

    Args:
        path: The file.
        kind: A dataclass, a TypedDict, or ``dict`` for any object.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if path.is_dir():
            set_aside(path, "it is a folder")
        else:
            _tell(f"{path} cannot be read ({error.strerror}); taken as not there")
        return None
    try:
        return _adapter(kind).validate_python(unsealed(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        set_aside(path, f"{place}: {first['msg']}" if place else first["msg"])
    except (ValueError, RecursionError) as error:
        set_aside(path, str(error))
    return None


def peek_record(path: Path) -> dict[str, Any]:
    """Read an object without a word and without setting anything aside; empty where it cannot be believed.

    For what is shown beside other things, such as a log's address.
    """
    try:
        return unsealed(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}


def unsealed(content: bytes) -> dict[str, Any]:
    """Read a sealed object.

    Returns:
        Its values without the seal.

    Raises:
        ValueError: If it is no JSON object, or if it is not what was sealed.
    """
    try:
        values = parse_json(content.decode("utf-8"))
    except ValueError as error:
        raise ValueError("it is empty" if not content.strip() else "it is no JSON") from error
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    if (given := values.pop(SEAL, None)) is not None and given != seal(values):
        raise ValueError("its content does not fit its checksum")
    return values


def seal(values: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits over JSON values, whatever the order of keys."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def set_aside(path: Path, reason: str) -> Path | None:
    """Rename a damaged file or folder to ``<name>.broken``, in place of an older one, and say so in one line.

    Returns:
        Its new place; None where it cannot be renamed, as on a disk that may only be read.
    """
    broken = path.with_name(f"{path.name}{BROKEN}")
    reason = " ".join(reason.split())
    try:
        if broken.is_dir():
            shutil.rmtree(broken)
        os.replace(path, broken)
    except OSError as error:
        _tell(f"{path} is damaged ({reason}), taken as not there; it stays, as {error.strerror}")
        return None
    _tell(f"{path} is damaged ({reason}); kept as {broken.name} and taken as not there")
    return broken


def _tell(line: str) -> None:
    print(f"note: {line}", file=sys.stderr, flush=True)


@lru_cache(maxsize=64)
def _adapter(kind: type[Kind]) -> TypeAdapter[Kind]:
    return TypeAdapter(kind)
