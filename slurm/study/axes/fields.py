"""Fields of a run's configuration as axes: which can be, and their values as text."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from base.errors import LONGEST_SHOWN, UsageError, shown
from base.mistakes import explain
from base.sections import is_section
from pretrain.config import RunConfig
from pretrain.run.run_dir import RESULT_NEUTRAL
from slurm.study.axes.nested import put

SAID_BY_STUDY = {
    "family": "its `families` name them",
    "seed": "its `seeds` name them",
    "seeds": "name them in its own `seeds`",
    "model.ffn": "its `variants` name them",
    "output.study": "its `name` is that of the folder",
}
"""What no run of a study may say for itself, and where the study says it."""
_FINITE = ConfigDict(allow_inf_nan=False)
_OF_VARIANTS = ("model.ffn", "model.ffn_file", "model.ffn_options", "model.ffn_budget")


def check_field(name: str) -> None:
    """Refuse an axis that is no field, that the study says itself, or that cannot change a result.

    Raises:
        UsageError: Says which.
    """
    fields = dict(_fields())
    if any(field.startswith(f"{name}.") for field in fields):
        raise UsageError(f"axes: {name} is a section; name one of its fields, such as {_first(fields, name)}")
    parent = next((each for each in _OF_VARIANTS if name == each or name.startswith(f"{each}.")), None)
    if parent:
        raise UsageError(
            f'axes: {name} is no axis of its own; write it under `variants`, such as "kan grid_size=3" or '
            '"kan ffn_budget=params"'
        )
    if name in SAID_BY_STUDY:
        raise UsageError(f"axes: {name} is no axis of its own; {SAID_BY_STUDY[name]}")
    if name not in fields:
        close = difflib.get_close_matches(name[:LONGEST_SHOWN], fields, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "write section.name, such as optim.learning_rate"
        raise UsageError(f"axes: {shown(name)} is no field of a run's configuration; {hint}")
    section, _, own = name.rpartition(".")
    neutral = RESULT_NEUTRAL.get(section, {})
    if neutral is True or own in neutral:
        raise UsageError(
            f"axes: {name} cannot change what is trained, so all its levels would be one run; leave it out"
        )


def read_value(name: str, value: Any) -> Any:
    """Return a value of a field in the field's type.

    Raises:
        UsageError: If it does not fit.
    """
    kind: Any = dict(_fields())[name].rebuild_annotation()
    try:
        return TypeAdapter(kind, config=_FINITE).validate_python(value)
    except ValidationError:
        pass
    try:
        RunConfig.model_validate(put(name, value))
    except ValidationError as error:
        raise explain(error, RunConfig, "axes") from None
    raise AssertionError("a field refuses what its section takes")


def write_value(value: Any) -> str:
    """Write a field's value as text, which is what a level is in tables: ``0.003``."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, tuple | list):
        return " ".join(map(write_value, value))
    return str(value)


def _fields(kind: type[BaseModel] = RunConfig, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        if is_section(annotation):
            yield from _fields(annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def _first(fields: Mapping[str, FieldInfo], section: str) -> str:
    return next(name for name in fields if name.startswith(f"{section}."))
