"""Where a run stands in a study."""

from __future__ import annotations

Places = tuple[tuple[str, str], ...]
"""Axes of a study beside family and variant, and a run's level on each: ``(("size", "0.5M"),)``."""
