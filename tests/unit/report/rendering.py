"""A report's page as text, without drawing its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from report.analysis import Analysis
from report.document.document import Document
from report.page import blocks
from report.part import Page
from report.write import number_tables, record_of


def render(analysis: Analysis, alternative_texts: Mapping[str, str] | None = None) -> str:
    """Return the page's Markdown."""
    return "\n\n".join(blocks(analysis, Page(alternative_texts=alternative_texts or {})))


def numbers(analysis: Analysis) -> dict[str, Any]:
    """Return what report.json holds."""
    document = Document(
        title="",
        blocks=(),
        figures={},
        tables=number_tables(analysis),
        record=record_of(analysis, {}, "source"),
        command="",
    )
    return json.loads(document.json)
