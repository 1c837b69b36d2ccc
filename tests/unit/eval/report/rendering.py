"""A report's page as text, without drawing its figures."""

from __future__ import annotations

from collections.abc import Mapping

from eval.report.analysis import Analysis
from eval.report.page import blocks
from eval.report.part import Page


def render(analysis: Analysis, alternative_texts: Mapping[str, str] | None = None) -> str:
    """Return the page's Markdown."""
    return "\n\n".join(blocks(analysis, Page(alternative_texts=alternative_texts or {})))
