"""Reading YAML files and flags into configurations, and telling mistakes in them in one line."""

from __future__ import annotations

import copy
import difflib
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from base.errors import UsageError

Config = TypeVar("Config", bound=BaseModel)

# libyaml's parser, ten times as fast, where PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises:
        UsageError: If the file is missing, is not text or YAML, or holds something other than a mapping.
    """
    try:
        values = copy.deepcopy(_parse(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text; give the path of a YAML file") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is not valid YAML: {_one_line(str(error))}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{path}: holds a {type(values).__name__}, expected a mapping of sections")
    return values


# The cells of a study share a few files.
@lru_cache(maxsize=64)
def _parse(text: str) -> Any:
    return yaml.load(text, Loader=_LOADER)


def deep_merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Nested mappings merged key by key; ``top`` wins. Neither argument is changed."""
    merged = dict(base)
    for key, value in top.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read a YAML file into a model.

    Raises:
        UsageError: If it cannot be read or a value in it does not fit; names the file and the key.
    """
    try:
        return kind.model_validate(read_yaml(path))
    except ValidationError as error:
        raise explain(error, kind, str(path)) from None


def explain(error: ValidationError, model: type[BaseModel], source: str) -> UsageError:
    """Turn pydantic's first complaint into one line: where, which key, what is wrong, the closest match."""
    # A misspelt key is also a missing one, and its own complaint comes last.
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    location = [str(part) for part in first["loc"]]
    where = ": ".join(part for part in (source, ".".join(location)) if part)
    if first["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        close = difflib.get_close_matches(location[-1], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        return UsageError(f"{where}: unknown key, {hint}")
    message = first["msg"].removeprefix("Value error, ")
    given = first.get("input")
    shown = f" (is {given!r})" if isinstance(given, str | int | float | bool | None) else ""
    return UsageError(f"{where}: {message}{'' if first['type'] == 'value_error' else shown}")


def _fields_at(model: type[BaseModel], location: list[str]) -> list[str]:
    """Names of the fields below a path such as ``["model"]``."""
    for name in location:
        annotation: Any = model.model_fields[name].annotation
        # An optional section is one of the members of its type.
        model = next(kind for kind in get_args(annotation) or (annotation,) if hasattr(kind, "model_fields"))
    return list(model.model_fields)


def flag_value(args: list[str], *names: str) -> str | None:
    """The last value given to one of the flags, before anything else is parsed."""
    value = None
    for position, arg in enumerate(args):
        name, equals, inline = arg.partition("=")
        if name in names:
            value = inline if equals else args[position + 1] if position + 1 < len(args) else None
    return value


def split_config_path(args: list[str]) -> tuple[Path | None, list[str]]:
    """Take the YAML file off the front of a command line, where there is one."""
    if args and not args[0].startswith("-"):
        return Path(args[0]), args[1:]
    return None, args


def _one_line(text: str) -> str:
    return " ".join(text.split())
