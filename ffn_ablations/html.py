"""How objects show themselves in a notebook; whatever comes from a user is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table(header: Sequence[object], rows: Iterable[Sequence[object]], title: object = "") -> str:
    """Return a table, with a line above it where there is a title."""
    head = f"<tr>{_cells('th', header)}</tr>" if header else ""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    above = f"<p>{_text(title)}</p>" if title else ""
    return f"{above}<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _cells(tag: str, row: Sequence[object]) -> str:
    return "".join(f'<{tag} style="text-align: left">{_text(cell)}</{tag}>' for cell in row)


def _text(value: object) -> str:
    return "" if value is None else html.escape(str(value))
