"""Reading YAML files into configurations, and telling mistakes in them in one line."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from base.errors import UsageError, shown
from base.mistakes import check

Config = TypeVar("Config", bound=BaseModel)

LONGEST_PATH_SHOWN = 300
DEEPEST = 100
"""Levels of a file of settings; libyaml's parser overruns its stack after some ten thousand."""
MOST_DIGITS = 300
"""Of a whole number that a float has room for."""

# libyaml's parser, ten times as fast, where PyYAML was built with it.
_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE_LOADER):
    """Refuses a key that is named twice, of which YAML's readers silently take the last.

    As well what is nested without end, a number that no float has room for, and a value that its tag belies.
    """

    depth = 0

    def descend_resolver(self, *place: Any) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            problem = "it is nested deeper than any configuration; is it the right file?"
            raise yaml.constructor.ConstructorError(None, None, problem)
        super().descend_resolver(*place)

    def ascend_resolver(self) -> None:
        self.depth -= 1
        super().ascend_resolver()

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        kind = node.tag.rpartition(":")[2]
        if kind == "int" and len(node.value) > MOST_DIGITS:
            problem = f"a whole number has {len(node.value):,} digits; give at most {MOST_DIGITS}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        try:
            return super().construct_object(node, deep)
        except (ValueError, AttributeError, KeyError):
            problem = f"{shown(node.value)} is no {kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if twice := {name for name in names if names.count(name) > 1}:
            raise yaml.constructor.ConstructorError(
                None, None, f"{', '.join(sorted(twice))} is named twice; name it once", node.start_mark
            )
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises:
        UsageError: If the file is missing, is not text or YAML, or holds something other than a mapping.
    """
    try:
        values = copy.deepcopy(_parse(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        cut = str(path)[:LONGEST_PATH_SHOWN]
        raise UsageError(f"{cut}: cannot be read ({error.strerror}); give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text; give the path of a YAML file") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is not valid YAML: {_why(path, error)}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{path}: holds a {type(values).__name__}, expected a mapping of sections")
    return values


# The cells of a study share a few files.
@lru_cache(maxsize=64)
def _parse(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


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
    return check(kind, read_yaml(path), source=str(path))


def _why(path: Path, error: yaml.YAMLError) -> str:
    """Say what is wrong in a file that is text; a tab cannot be seen, so it is named."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    if mark is not None and mark.line < len(lines) and "\t" in lines[mark.line][: mark.column + 1]:
        return f"a tab stands in line {mark.line + 1}; indent with spaces"
    return _one_line(str(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())
