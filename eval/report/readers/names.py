"""Which variant, family and seed a run is of, read from its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from base.errors import UsageError, shown, unknown_name

IGNORED = "_"
"""The field of a template that stands for what tells nothing."""
_FIELD = re.compile(r"\{([^{}]*)\}")
_GUESSES = (
    # Folders of this project: runs/STUDY/FAMILY/VARIANT/seed1-HASH/model.
    r"(?:.*/)?(?P<family>[^/]+)/(?P<variant>[^/]+)/seed(?P<seed>\d+)-[0-9a-f]{8,}(?:/model)?/?",
    r"(?:.*/)?(?P<variant>[^/]+)/(?:seed|s)[-_=]?(?P<seed>\d+)(?:/[^/]*)?",
    r"(?:.*/)?(?P<variant>[^/]+?)(?:[-_. ]+(?:seed|s)|seed)[-_=. ]*(?P<seed>\d+)",
)
"""Of how people name runs, from the most telling on; one is taken where it fits all names."""


def split_names(
    names: Sequence[str], template: str | None, axes: Iterable[str], origin: str
) -> tuple[pd.DataFrame, str]:
    """Read from names what their runs are.

    Args:
        names: One for each row.
        template: ``{variant}-seed{seed}``, which the end of every name is to fit, from a ``/`` or its start
            on; None tries what is usual.
        axes: Further fields that a template may have.
        origin: Where the names are from, named in errors.

    Returns:
        A column for each field, at least variant, and a sentence that says how names were read.

    Raises:
        UsageError: For a template that is none, or a name that does not fit it.
    """
    distinct = list(dict.fromkeys(names))
    if template is not None:
        pattern = re.compile(f"(?:.*/)?{_compiled(template, axes)}", re.DOTALL)
        if odd := [name for name in distinct if not pattern.fullmatch(name)]:
            raise UsageError(
                f"{origin}: the name {shown(odd[0])} does not fit --names {template!r}; the fields are "
                f"{{variant}}, {{seed}} and {{family}}, and {{{IGNORED}}} stands for anything"
            )
        return _fields(names, pattern), ""
    for guess in _GUESSES:
        pattern = re.compile(guess)
        if all(pattern.fullmatch(name) for name in distinct):
            read = _fields(names, pattern)
            first = read.iloc[0]
            return read, (
                f"variants and seeds are read from names: {names[0]} is {first.variant}, seed {first.seed}; "
                "where that is wrong, say --names, such as {variant}-seed{seed}"
            )
    last = [name.rstrip("/").rpartition("/")[2] for name in distinct]
    own = dict(zip(distinct, last if len(set(last)) == len(last) else distinct, strict=True))
    said = (
        f"no seeds are found in names such as {names[0]}, so each name counts as a variant with one run; if "
        "some are seeds of one variant, say --names, such as {variant}-seed{seed}"
    )
    return pd.DataFrame({"variant": [own[name] for name in names], "seed": "0"}), said


def _fields(names: Sequence[str], pattern: re.Pattern[str]) -> pd.DataFrame:
    found = [found.groupdict() for name in names if (found := pattern.fullmatch(name))]
    return pd.DataFrame(found).fillna("")


def _compiled(template: str, axes: Iterable[str]) -> str:
    """Make a regular expression of a template, whose fields take as little as they can."""
    known = ("variant", "family", "seed", *axes, IGNORED)
    parts, groups = [], []
    for place, part in enumerate(_FIELD.split(template)):
        if place % 2 == 0:
            parts.append(re.escape(part))
            continue
        if part not in known:
            raise unknown_name("field in --names", part, [f"{{{name}}}" for name in known])
        if part in groups and part != IGNORED:
            raise UsageError(f"--names {template!r} has {{{part}}} twice; name each field once")
        groups.append(part)
        kind = r"\d+" if part == "seed" else ".+?"
        parts.append(f"(?:{kind})" if part == IGNORED else f"(?P<{_group(part, known)}>{kind})")
    if "variant" not in groups:
        raise UsageError(
            f"--names {template!r} has no {{variant}}; write, for example, {{variant}}-seed{{seed}}"
        )
    return "".join(parts)


def _group(name: str, known: Sequence[str]) -> str:
    """Name a group of a regular expression, which no axis need be able to."""
    if not name.isidentifier():
        raise UsageError(f"--names cannot hold the axis {name}, which is no plain word; give it a column")
    return name
