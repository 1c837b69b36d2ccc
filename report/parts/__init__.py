"""Every part of a report, in the order of the page; a part reads the results of those before it."""

from __future__ import annotations

from typing import Any

from report.part import Part
from report.parts import (
    comparisons,
    cost,
    design,
    learning_curves,
    methods,
    phenomena,
    power,
    published,
    recipes,
    scores,
    sensitivity,
    sizes,
    tuning,
)

PARTS: tuple[Part[Any], ...] = (
    comparisons.PART,
    tuning.PART,
    sizes.PART,
    learning_curves.PART,
    cost.PART,
    scores.PART,
    power.PART,
    recipes.PART,
    sensitivity.PART,
    phenomena.PART,
    published.PART,
    design.PART,
    methods.PART,
)
