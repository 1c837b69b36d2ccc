"""How somebody else's scores are to be read: what a user says of them, and what names of runs say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from base.errors import UsageError, shown, unknown_name

TABLE = "CSV"
"""What kind of source a table is that somebody wrote."""
ONLY_FAMILY = "model"
"""The family of a table that names none."""
SHOWN = 12
"""Names that a message lists."""
ANYTHING = "_"
"""The field of a template that stands for what tells nothing."""
_PATTERNS = (
    # Folders of this project: runs/STUDY/FAMILY/VARIANT/seed1-HASH/model.
    re.compile(r"(?:.*/)?(?P<family>[^/]+)/(?P<variant>[^/]+)/seed(?P<seed>\d+)-[0-9a-f]{8,}(?:/model)?/?"),
    re.compile(r"(?:.*/)?(?P<variant>[^/]+)/(?:seed|s)[-_=]?(?P<seed>\d+)(?:/[^/]*)?"),
    re.compile(r"(?:.*/)?(?P<variant>[^/]+?)(?:[-_. ]+(?:seed|s)|seed)[-_=. ]*(?P<seed>\d+)"),
)
"""How people name runs, the most telling first; one is taken where it fits all names."""


@dataclass(frozen=True, kw_only=True)
class TableOfRows:
    """A table with the columns of rows, and what a reader of the report must know of its reading."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()
    kind: str = TABLE
    failed: tuple[tuple[str, str, str], ...] = ()
    """Family, variant and seed of runs that a cell says to have failed."""


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
    names = [re.sub(r"(?<=[\w.:])\\", "/", name) for name in names]
    if template is not None:
        pattern = _compile(template, ("variant", "family", "seed", *axes))
        if misfits := [name for name in names if not pattern.fullmatch(name)]:
            raise UsageError(
                f"{origin}: the name {shown(misfits[0])} does not fit --names {template!r}; the fields are "
                f"{{variant}}, {{seed}} and {{family}}, and {{{ANYTHING}}} stands for anything"
            )
        return _fields(names, pattern), ""
    for pattern in _PATTERNS:
        if all(map(pattern.fullmatch, names)):
            fields = _fields(names, pattern)
            return fields, (
                f"variants and seeds are read from names: {names[0]} is {fields.variant[0]}, seed "
                f"{fields.seed[0]}; where that is wrong, say --names, such as {{variant}}-seed{{seed}}"
            )
    ends = {name: name.rstrip("/").rpartition("/")[2] for name in names}
    variants = [ends[name] if len(set(ends.values())) == len(ends) else name for name in names]
    return pd.DataFrame({"variant": variants}), ""


def _fields(names: Sequence[str], pattern: re.Pattern[str]) -> pd.DataFrame:
    matches = map(pattern.fullmatch, names)
    return pd.DataFrame([match.groupdict() for match in matches if match]).fillna("")


def _compile(template: str, fields: Sequence[str]) -> re.Pattern[str]:
    """Make a regular expression of a template, whose fields take as little as they can."""

    def group(match: re.Match[str]) -> str:
        name = match[1].replace("\\", "")
        if name not in (*fields, ANYTHING):
            raise unknown_name("field in --names", f"{{{name}}}", map("{{{}}}".format, fields))
        kind = r"\d+" if name == "seed" else ".+?"
        return f"(?:{kind})" if name == ANYTHING else f"(?P<{name}>{kind})"

    text = re.sub(r"\\\{(.*?)\\\}", group, re.escape(template))
    try:
        pattern = re.compile(f"(?:.*/)?{text}", re.DOTALL)
    except re.error:  # a field is there twice, or is no plain word
        pattern = None
    if pattern is None or "variant" not in pattern.groupindex:
        raise UsageError(f"--names {template!r} needs {{variant}}, and no field twice: {{variant}}-{{seed}}")
    return pattern
