"""Reading JSON, and state files: small JSON objects, written whole; what does not parse is not there."""

from __future__ import annotations

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

from base.errors import UsageError, first_line
from base.files import write_text


def parse_json(text: str | bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: Saying why it is none.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested deeper than any data") from None


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: If it cannot be read, or is not JSON.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({first_line(error)}); was it cut off?") from None


Kind = TypeVar("Kind")


def write_record(path: Path, content: Any) -> None:
    """Replace a state file in one step.

    Args:
        path: The file; its folder is made if need be.
        content: A dataclass or a mapping, of JSON values.
    """
    write_text(path, record_text(dict(content) if isinstance(content, Mapping) else asdict(content)))


def record_text(values: Mapping[str, Any]) -> str:
    """Return the text of a state file."""
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def read_record(path: Path, kind: type[Kind]) -> Kind | None:
    """Read a state file; None where there is none, or one that does not parse, which is told in a line.

    What a newer version wrote may have keys that are not known here, which are left out; one of an older
    version may lack keys that have a default.

    Args:
        path: The file.
        kind: A dataclass, a TypedDict, or ``dict`` for any object.
    """
    try:
        return _adapter(kind).validate_python(parse_record(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    _tell(f"{path} is damaged ({' '.join(reason.split())}); taken as not there")
    return None


def read_needed(path: Path, kind: type[Kind], purpose: str) -> Kind | None:
    """Read a state file that must not be passed over when it is damaged; None where there is none.

    Args:
        path: The file.
        kind: A dataclass.
        purpose: What the command does anew once the file is removed, for the message.

    Raises:
        UsageError: If it is damaged, or has a value of another type.
    """
    if not path.exists():
        return None
    try:
        # As JSON and not as Python's values: strictly taken, a list would be no tuple.
        return _adapter(kind).validate_json(json.dumps(parse_record(path.read_bytes())), strict=True)
    except (OSError, ValueError, RecursionError):
        raise UsageError(f"{path} is damaged; restore it, or remove it to {purpose}") from None


def peek_record(path: Path) -> dict[str, Any]:
    """Read an object without a word; empty where it does not parse."""
    try:
        return parse_record(path.read_bytes())
    except (OSError, ValueError):
        return {}


def parse_record(content: bytes) -> dict[str, Any]:
    """Read the text of a state file.

    Raises:
        ValueError: If it is no JSON object.
    """
    try:
        values = parse_json(content.decode("utf-8"))
    except ValueError as error:
        raise ValueError("it is empty" if not content.strip() else "it is no JSON") from error
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    return values


def set_aside(path: Path, reason: str) -> None:
    """Rename a damaged file or folder to ``<name>.broken``, in place of an older one, and say so."""
    broken = path.with_name(f"{path.name}.broken")
    if broken.is_dir():
        shutil.rmtree(broken)
    os.replace(path, broken)
    _tell(f"{path} is damaged ({' '.join(reason.split())}); kept as {broken.name} and taken as not there")


@lru_cache(maxsize=1024)  # once in a process, however often it is read
def _tell(line: str) -> None:
    print(f"note: {line}", file=sys.stderr, flush=True)


@lru_cache(maxsize=64)
def _adapter(kind: type[Kind]) -> TypeAdapter[Kind]:
    return TypeAdapter(kind)
