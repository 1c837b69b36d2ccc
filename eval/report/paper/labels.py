"""What a paper calls variants, families and outcomes, which of them it shows, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict

from base import families
from base.config_input import read_config
from base.errors import UsageError, unknown_name
from eval.report.analysis import Analysis
from eval.report.document.names import title
from eval.significance.axes import Benchmark, Family, Level

Name = TypeVar("Name")
AVERAGED = "averaged"
WRITTEN = {"blimp": "BLiMP", "glue": "GLUE", "babylm23": "BabyLM 2023", "ewok": "EWoK"}
"""How outcomes are written that have no label."""


class Labels(BaseModel):
    """The content of ``labels.yaml``; what it does not name keeps its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    variants: dict[str, str] = {}
    """A variant to its label; variants stand in this order, and those not named after them."""
    families: dict[str, str] = {}
    """A family to its label."""
    outcomes: dict[str, str] = {}
    """An outcome to its label."""
    only: bool = False
    """Show none but the variants named here, and the baseline."""

    def variant(self, variant: Level) -> str:
        """Name a variant."""
        return self.variants.get(str(variant), str(variant))

    def family(self, family: Family | str | None) -> str:
        """Name a family or a setting; None is the average over all of them."""
        if family is None:
            return AVERAGED
        name = str(family)
        return self.families.get(name, families.family_label(name))

    def outcome(self, benchmark: Benchmark) -> str:
        """Name an outcome."""
        return self.outcomes.get(str(benchmark), WRITTEN.get(str(benchmark), title(benchmark)))

    def replaced(self, text: str) -> str:
        """Return a text of a figure with all names that have labels replaced, as whole words."""
        known = {**WRITTEN, **self.families, **self.outcomes, **self.variants}
        known |= {families.family_label(name): label for name, label in self.families.items()}
        if "held-out-loss" in self.outcomes:
            known["held-out loss"] = self.outcomes["held-out-loss"]
        names = sorted(known, key=len, reverse=True)
        # Figures break long names at a space, an underscore or a hyphen.
        patterns = [re.sub(r"\\ |\n| ", r"[ \\n]", re.escape(name)) for name in names]
        whole = re.compile(rf"(?<![\w-])(?:{'|'.join(f'({pattern})' for pattern in patterns)})(?![\w-])")
        return whole.sub(lambda found: known[names[(found.lastindex or 1) - 1]], text)


def read_labels(path: Path) -> Labels:
    """Read ``labels.yaml``.

    Raises:
        UsageError: If it cannot be read, has an unknown key, or gives two names one label.
    """
    labels = read_config(path, Labels)
    if not (labels.variants or labels.families or labels.outcomes):
        raise UsageError(f"{path} names nothing; list variants, families or outcomes with their labels")
    for section in ("variants", "families", "outcomes"):
        named: Mapping[str, str] = getattr(labels, section)
        said = list(named.values())
        if twice := next((label for label in said if said.count(label) > 1), None):
            raise UsageError(f"{path}: {section} has the label {twice!r} twice; tell them apart")
        if empty := next((name for name, label in named.items() if not label.strip()), None):
            raise UsageError(f"{path}: {section}.{empty} has no label; leave it out to keep its name")
    return labels


def check_labels(labels: Labels, analysis: Analysis, path: Path) -> None:
    """Refuse names that the report has not.

    Raises:
        UsageError: Naming the file and the closest match.
    """
    sections: Mapping[str, Sequence[str]] = {
        "variants": [str(name) for name in analysis.variants],
        "families": [str(name) for name in analysis.families],
        "outcomes": [str(name) for name in analysis.benchmarks],
    }
    for section, known in sections.items():
        for name in getattr(labels, section):
            if name not in known:
                raise unknown_name(f"name in {path}: {section}:", name, known)
    _refuse_alike(path, [(str(name), labels.variant(name)) for name in analysis.variants])
    _refuse_alike(path, [(str(name), labels.family(name)) for name in analysis.families])
    _refuse_alike(path, [(str(name), labels.outcome(name)) for name in analysis.benchmarks])
    if labels.only and len(shown(analysis, labels).variants) < 2:
        raise UsageError(
            f"{path}: only: true leaves nothing beside the baseline {analysis.baseline}; name another under "
            "variants"
        )


def _refuse_alike(path: Path, named: Iterable[tuple[str, str]]) -> None:
    """Refuse a label that is also what another one is called that has none."""
    seen: dict[str, str] = {}
    for name, label in named:
        if label in seen:
            raise UsageError(
                f"{path}: {seen[label]!r} and {name!r} would both be called {label!r}; tell them apart"
            )
        seen[label] = name


def left_out(analysis: Analysis, labels: Labels) -> list[Level]:
    """Return the variants that are not displayed, and are in all corrections nevertheless."""
    kept = shown(analysis, labels).variants
    return [name for name in analysis.variants if name not in kept]


def shown(analysis: Analysis, labels: Labels) -> Analysis:
    """Return an analysis with its variants in the order of the labels, and only those that are to be shown.

    No number changes: what is corrected together stays so, whatever is shown of it.
    """
    order = [v for name in labels.variants for v in analysis.variants if str(v) == name]
    rest = [] if labels.only else [v for v in analysis.variants if v not in order]
    chosen = [v for v in (*order, *rest) if v != analysis.baseline]
    kept = {*chosen, analysis.baseline}
    by_place = {variant: place for place, variant in enumerate(chosen)}
    comparisons = [c for c in analysis.comparisons if c.contrast.compared in kept]
    comparisons.sort(key=lambda c: by_place.get(c.contrast.compared, len(by_place)))
    contrasts = [c for c in analysis.contrasts if {*c.contrast.plus, *c.contrast.minus} <= kept]
    curves = analysis.curves
    return replace(
        analysis,
        variants=(analysis.baseline, *chosen),
        comparisons=tuple(comparisons),
        contrasts=tuple(contrasts),
        parts=tuple(c for c in analysis.parts if c.contrast.compared in kept),
        arms=_rows(analysis.arms, kept),
        runs=_rows(analysis.runs, kept),
        tasks=_rows(analysis.tasks, kept),
        part_means=_rows(analysis.part_means, kept),
        curves=replace(curves, points=tuple(x for x in curves.points if x.variant in kept)),
        source=replace(analysis.source, facts=tuple(x for x in analysis.facts if x.variant in kept)),
    )


def _rows(table: pd.DataFrame, kept: Iterable[Level]) -> pd.DataFrame:
    return table[table["variant"].isin(list(kept))].reset_index(drop=True) if len(table) else table
