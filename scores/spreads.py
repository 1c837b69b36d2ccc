"""Means with their spread, which tables of papers hold and which cannot be compared as runs.

A test over seeds needs the score of each run. Of a mean nobody knows which of its runs share a seed with
those of another, and its spread may be a standard deviation, an error of the mean or half an interval.
"""

from __future__ import annotations

import re

_NUMBER = r"[-+]?\d*[.,]?\d+%?[*_]*"
_SPREAD = re.compile(
    rf"\W*{_NUMBER}\s*(?:(?:±|\+/-|\+-|\$?_?\{{?\\pm\$?)\s*{_NUMBER}\}}?\$?|[(\[]±?\s*{_NUMBER}[)\]])\W*"
)
WHY = (
    "a mean with its spread has no runs in it, so a test cannot compare it; give one row a run, with columns "
    "variant, seed and its scores"
)
_CURES = (
    (_SPREAD, WHY),
    (re.compile(r"[-+]?\d+,(\d{1,2}|\d{4,})"), "write a decimal point, or ; or tabs between fields"),
    (re.compile(r"[-+]?\d{1,3}([ ,.'\s]\d{3})+([.,]\d+)?"), "write it without signs between thousands"),
    (re.compile(r"(?i)[-+]?inf(inity)?"), "of a run that diverged write: diverged"),
    (re.compile(""), "correct or remove it"),
)


def cure_of_cell(cell: str) -> str:
    """Say what to do about a cell that is no number."""
    return next(cure for pattern, cure in _CURES if pattern.fullmatch(cell.strip()) or not pattern.pattern)
