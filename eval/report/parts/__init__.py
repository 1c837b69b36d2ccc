"""Every part of a report, in the order of the page; a part reads the results of those before it."""

from __future__ import annotations

from typing import Any

from eval.report.part import Part
from eval.report.parts import comparisons, cost, design, learning_curves, methods, power, sensitivity, sizes

PARTS: tuple[Part[Any], ...] = (
    comparisons.PART,
    sizes.PART,
    learning_curves.PART,
    cost.PART,
    power.PART,
    sensitivity.PART,
    design.PART,
    methods.PART,
)
