"""What calls of the Python API share: keywords that are flags of a command, and errors of one line."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import signature
from traceback import walk_tb
from types import MappingProxyType
from typing import Any, TypeVar

from base.errors import UsageError, as_usage_error, did_you_mean, missing_extra, shown
from base.families import FAMILIES
from base.other_names import OtherNames
from base.printing import ProgressBar
from base.sections import FieldPath, Section, Typed, check, closest_setting, leaf_fields
from ffn_ablations.wording import as_keyword, as_keywords, shown_briefly

Arguments = TypeVar("Arguments", bound=Section)
_MEANT, _HINTS = OtherNames("keyword"), OtherNames("no keyword")
_ALIASES = OtherNames("setting")
"""Those that can mean one thing alone, and work."""
SHOWN = 40
"""Settings that are listed."""


class KeywordError(UsageError, TypeError):
    """A keyword that there is not, for which Python's own functions raise a ``TypeError``."""


@contextmanager
def one_line_errors(keywords: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Raise a user's mistake, a fault of the world or a stop signal as one ``UsageError``; a decorator, too.

    A defect of this project keeps its own type and traceback. So does Ctrl-C.

    Args:
        keywords: Of flags, those that have another name in Python.
    """
    try:
        yield
    except UsageError as error:
        error.args = (as_keywords(str(error), keywords),)
        raise
    except SystemExit as end:  # a run that a signal stopped, after its checkpoint
        told = str(end) if " " in str(end) else "told to stop; the same call goes on from there"
        raise UsageError(told) from None
    except Exception as error:
        if takes := _parameters_of_failed_call(error):
            keyword = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            hint = meant(keyword[1], takes) if keyword else None
            raise KeywordError(f"{error}; {hint or 'it takes ' + ', '.join(takes)}") from None
        missing = missing_extra(error)
        mistake = UsageError(missing) if missing else as_usage_error(error)
        if mistake is error:
            raise
        raise mistake from None


def _parameters_of_failed_call(error: Exception) -> tuple[str, ...]:
    """What a decorated function takes, where the error is that it was called otherwise; else nothing."""
    last = [frame for frame, _ in walk_tb(error.__traceback__)][-1]
    if not isinstance(error, TypeError) or last.f_code.co_filename != contextlib.__file__:
        return ()
    return tuple(name for name in signature(last.f_locals["func"]).parameters if name != "self")


@contextmanager
def quiet() -> Iterator[None]:
    """Show bars, notes and errors alone: what a command prints besides is in the objects."""
    ProgressBar.is_quiet = True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        ProgressBar.is_quiet = False


def read_keywords(kind: type[Arguments], keywords: Mapping[str, Any]) -> Arguments:
    """Make a command's arguments of keywords.

    Raises:
        UsageError: As ``typed_values``, and for a value that is not allowed.
    """
    return check(kind, {}, typed_values(kind, keywords))


def typed_values(kind: type[Section], keywords: Mapping[str, Any], others: Iterable[str] = ()) -> Typed:
    """Find the field of each keyword, for whoever takes what a command line gives.

    Args:
        kind: The model whose fields they are.
        keywords: By name as the flags have it, with underscores: ``ffn``, ``optim.max_steps``, ``optim`` with
            a mapping, or ``max_steps``, where one section alone has it. Nothing is checked yet but the names.
        others: Keywords that the call has besides, for who meant them.

    Raises:
        KeywordError: For an unknown name, with the closest match.
        UsageError: For one that is given twice.
    """
    # Both "optim.max_steps" and, where a field has a short name, that one: "ffn" for "model.ffn".
    paths = {".".join(path): path for path, _ in leaf_fields(kind)}
    ends = Counter(path[-1] for path in paths.values())
    paths |= {path[-1]: path for path in list(paths.values()) if ends[path[-1]] == 1}
    paths |= {as_keyword(name): path for path, name in kind.short_names.items()}
    paths |= {alias: paths[name] for alias, name in _ALIASES.items() if name in paths}
    values: dict[FieldPath, Any] = {}
    names: dict[FieldPath, str] = {}
    for name in keywords:
        if name not in {*_ALIASES, *_MEANT} and (hint := kind.hints.get(name.replace("_", "-"))):
            if "ffn-ablations" not in hint:  # a command stays as it is typed
                hint = re.sub(r"--(?:(\w+)\.)?([\w-]+)", partial(_as_setting, name), hint)
            raise KeywordError(f"unknown setting {name!r}; {hint}")
    for name, value in _flat(keywords, paths, others=others):
        path = paths[as_keyword(name)]
        if path in values:
            raise UsageError(f"{names[path]} and {name} are the same setting; give it once")
        values[path], names[path] = as_yaml(value), name
    return Typed(values, names)


def _as_setting(unknown: str, flag: re.Match[str]) -> str:
    """Write a flag as a keyword; one of the unknown name is meant in its section."""
    name = as_keyword(flag[2])
    return f'{flag[1]}={{"{name}": ...}}' if name == unknown else name


def _flat(
    keywords: Mapping[str, Any], paths: Mapping[str, FieldPath], section: str = "", others: Iterable[str] = ()
) -> Iterator[tuple[str, Any]]:
    """List settings by their whole names, those in mappings of sections too."""
    for keyword, value in keywords.items():
        name = f"{section}{keyword}"
        if as_keyword(name) in paths:  # a mapping, too, where the field is one, as ffn_options
            yield name, value
        elif not any(path.startswith(f"{as_keyword(name)}.") for path in paths):
            raise _unknown(name, [*paths, *others])
        elif isinstance(value, Mapping):
            yield from _flat(value, paths, f"{name}.")
        else:
            hint = f", did you mean family={value!r}?" if str(value) in FAMILIES else ""
            hint = ", did you mean optimizer?" if name == "optim" and isinstance(value, str) else hint
            told = f"give a mapping of settings, not {shown_briefly(value)}{hint}"
            raise UsageError(f"{name} is a section: {told}")


def _unknown(name: str, keywords: list[str]) -> KeywordError:
    # Python takes no dot in a keyword; a section's field has one where several sections have its name.
    short = [each for each in keywords if "." in name or each.rpartition(".")[2] not in {*keywords} - {each}]
    names = [*short, *(path.partition(".")[0] for path in keywords)]
    last = sorted({path.rpartition(".")[2] for path in keywords} - {*_ALIASES})
    advice = (
        f"available: {', '.join(last)}"
        if len(last) <= SHOWN
        else "ffn-ablations COMMAND --help all lists them"
    )
    hint = meant(name, keywords) or did_you_mean(closest_setting(as_keyword(name), names), advice)
    return KeywordError(f"unknown setting {shown(name)}, {hint}")


def meant(name: str, keywords: Collection[str]) -> str | None:
    """Say which of these keywords one of another library is, or what to do instead."""
    known = (f"did you mean {each}?" for each in _MEANT.get(name, "").split() if each in keywords)
    return next(known, _HINTS.get(name))


def as_yaml(value: Any) -> Any:
    """Return a value as a YAML file would have it: no path, no number of NumPy.

    Raises:
        UsageError: For a tokenizer or a model, of which a file names the folder.
    """
    if hasattr(value, "save_pretrained") and not isinstance(value, type):
        what = type(value).__name__
        raise UsageError(f'a {what} is given by its folder: write .save_pretrained("mine"), and give "mine"')
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple | range):
        return [as_yaml(each) for each in value]
    if isinstance(value, Mapping):
        return {name: as_yaml(each) for name, each in value.items()}
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value
