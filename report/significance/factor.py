"""What is compared: the levels of a factor (FFN, head, both, or an axis of the study), and contrasts of them.

Comparisons know a family, a variant, a seed and a benchmark. Rows of scores are relabelled once, before
anything is computed, so that the levels of the factor are the variants (``report.significance.axes``):

- ``ffn``: as they are. A benchmark scored under several heads is one ``Benchmark`` for each of them.
- ``head``: the head is the variant. Where there are several FFN variants, the models of each are a family of
  their own, a ``Setting``: a head's effect is averaged over them and tested for differing between them.
- ``both``: a variant is a ``Combination``.
- An axis, such as ``size``: its level is the variant, and FFN variants stand in the ``Setting`` as with
  heads.

``head`` and ``both`` keep the scores that a head has part in, and compare within a seed (``is_paired``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from base.errors import UsageError, unknown_name
from base.families import BASELINE
from report.significance.axes import (
    RECIPE,
    SIZE,
    Axes,
    Benchmark,
    Combination,
    Family,
    Level,
    Settings,
    places_of,
    plain,
)
from scores.head_descriptions import DEFAULT_HEAD, FROZEN, head_name
from scores.rows import NO_HEAD, of_each_row
from scores.suites import is_graded

Factor = str
"""``ffn``, ``head``, ``both``, or the name of an axis of the study."""
FACTORS: tuple[Factor, ...] = ("ffn", "head", "both")
"""Those that every table may have."""
OF_HEADS: tuple[Factor, ...] = ("head", "both")
"""Those of which several levels are scores of one pretrained model."""
DEFAULT_HEADS = ("linear", f"linear {FROZEN}", DEFAULT_HEAD, f"{DEFAULT_HEAD} {FROZEN}")
"""Heads that others are compared with unless another is named: the first that is there."""


def noun(factor: Factor) -> str:
    """Name what sentences call a level."""
    nouns = {"ffn": "variant", "both": "combination"}
    return nouns.get(factor, factor if factor in ("head", SIZE, RECIPE) else "level")


def check_factor(text: str, axes: Iterable[str], what: str = "--factor") -> Factor:
    """Return a factor that there is.

    Args:
        text: As the user wrote it.
        axes: Names of the study's axes.
        what: What the message calls it.

    Raises:
        UsageError: If it is neither one that every table may have nor an axis.
    """
    factors = (*FACTORS, *axes)
    if text not in factors:
        raise unknown_name(what, text, factors)
    return text


def levels(
    factor: Factor, variants: Iterable[str], heads: Sequence[str], axes: Axes | None = None
) -> tuple[Level, ...]:
    """Name every level of a factor.

    Args:
        factor: Which one.
        variants: The FFN variants.
        heads: The heads as ``parse_head`` writes them.
        axes: Those of the study.
    """
    if factor == "head":
        return tuple(heads)
    if factor == "both":
        return tuple(Combination(variant, head) for variant in variants for head in heads)
    return tuple(variants) if factor == "ffn" else tuple((axes or {}).get(factor, ()))


def default_baseline(factor: Factor, present: Sequence[Level], axes: Axes | None = None) -> str:
    """Name the level that others are compared with where nobody named one: of an axis the first."""
    usual = levels(factor, (BASELINE,), DEFAULT_HEADS, axes)
    by_label = {str(level).lower(): level for level in reversed(present)}  # somebody's GELU is gelu, too
    matches = [by_label[label] for level in usual if (label := str(level).lower()) in by_label]
    return str((*matches, *usual, *present)[0])


def is_paired(factor: Factor) -> bool:
    """Whether only scores of one seed may be compared.

    Heads share a pretrained model. A mean over several heads of one model has fewer independent scores than
    it has scores, so an interval that takes them as independent would be too narrow. Runs at several levels
    of an axis are trained apart; what they share at a seed is for the study to say.
    """
    return factor in OF_HEADS


def listed_heads(finetune: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the heads of a study's ``evaluation.finetune`` as rows do.

    Raises:
        UsageError: For a head that does not exist.
    """
    head = finetune.get("head") or (DEFAULT_HEAD,)
    is_frozen = bool(finetune.get("freeze_backbone"))
    texts = [head] if isinstance(head, str) else head
    heads = [head_name(f"{text} {FROZEN}" if is_frozen else str(text)) for text in texts]
    return tuple(dict.fromkeys(heads))


def find_level(factor: Factor, text: str, present: Sequence[Level], what: str | None = None) -> Level:
    """Return the level that a user means, however its head is written.

    Args:
        factor: Whose level.
        text: As the user wrote it.
        present: Every level that there is.
        what: What the message calls it; None takes the factor's noun.

    Raises:
        UsageError: If it is not among them.
    """
    labels = [str(level) for level in present]
    for level, label in zip(present, labels, strict=True):
        if label == text:
            return level
    for level in present if factor in OF_HEADS else ():
        if _is_meant(level, text):
            return level
    raise unknown_name(what or noun(factor), text, labels)


def _is_meant(level: Level, text: str) -> bool:
    """Whether a text names a level, with its head's options in any order and at their defaults."""
    if isinstance(level, Combination):
        start = str(Combination(level.variant, ""))
        return text.startswith(start) and _is_meant(level.head, text.removeprefix(start))
    with suppress(UsageError):  # which would tell of all heads, not of those that are present
        return head_name(text) == level
    return False


@dataclass(frozen=True)
class Relabelling:
    """How rows are relabelled; made from all of them, so that parts of them get the same names.

    Attributes:
        factor: Whose levels are the variants.
        heads: Those of each benchmark that has any; ``NO_HEAD`` among them where some of its scores name
            none, as those from before there was a choice.
        has_several_ffns: Whether an FFN variant has to be named beside a family.
        head: The only one kept; None keeps all.
        axes: Those of the study.
        families: All families, by name.
    """

    factor: Factor
    heads: Mapping[str, tuple[str, ...]]
    has_several_ffns: bool = False
    head: str | None = None
    axes: Axes = field(default_factory=dict)
    families: tuple[str, ...] = ()

    @classmethod
    def of_rows(
        cls,
        rows: pd.DataFrame,
        factor: Factor,
        head: str | None = None,
        listed: tuple[Sequence[str], Sequence[str]] = ((), ()),
        origin: str = "rows",
        axes: Axes | None = None,
    ) -> Relabelling:
        """Find out which names tell apart everything that is compared.

        Args:
            rows: What ``normalise_rows`` returns.
            factor: Whose levels are to be the variants.
            head: Keep the scores of this one, and those that no head has part in.
            listed: The FFN variants and the heads of a study, which may not all have scores yet.
            origin: Where the rows come from, named in errors.
            axes: Those of the study.

        Raises:
            UsageError: For an unknown factor, heads that are not there, or a head to keep where heads are
                compared.
        """
        check_factor(factor, axes or {}, f"factor in {origin}")
        of_heads = rows[rows["head"] != NO_HEAD]
        if (head or factor in OF_HEADS) and of_heads.empty:
            raise UsageError(
                f"{origin}: no score names its classification head, so heads cannot be compared; score runs "
                "under several with: ffn-ablations eval RUN... --head linear fourier-kan"
            )
        if head is not None and factor in OF_HEADS:
            raise UsageError(
                f"--head keeps one head and --factor {factor} compares heads; give one of the two"
            )
        if head is not None:
            head = str(find_level("head", head, sorted(of_heads["head"].unique()), f"head in {origin}"))
        variants, heads = listed
        with_heads = rows[rows["benchmark"].isin(of_heads["benchmark"])]
        heads_of = {
            str(benchmark): tuple(
                name
                for name in dict.fromkeys([*heads, *sorted(part["head"].unique())])
                if head is None or name in (head, NO_HEAD)
            )
            for benchmark, part in with_heads.groupby("benchmark")
        }
        ffns = {*variants, *(of_heads if factor in OF_HEADS else rows)["variant"]}
        families = tuple(dict.fromkeys(map(plain, rows["family"].unique())))
        return cls(factor, heads_of, len(ffns) > 1, head, axes or {}, families)

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what is compared, in the order in which it stands, as the factor names it."""
        is_headless = rows["head"] == NO_HEAD
        if self.factor in OF_HEADS:
            compared = rows[~is_headless]
        else:
            compared = rows if self.head is None else rows[is_headless | (rows["head"] == self.head)]
        # One object for all its rows, which grouping then tells at once.
        columns = {"benchmark": of_each_row(compared[["benchmark", "head", "metric"]], self.benchmark)}
        if self.factor != "ffn":
            columns["variant"] = of_each_row(compared[["family", "variant", "head"]], self.level)
            columns["family"] = of_each_row(compared[["family", "variant"]], self.family)
        # A graded metric stands for its task as a benchmark of its own.
        is_graded_one = np.array([bool(benchmark.metric) for benchmark in columns["benchmark"]], bool)
        series = {name: pd.Series(list(x), compared.index, dtype="object") for name, x in columns.items()}
        primary = compared["primary"] | is_graded_one
        return compared.assign(**series, primary=primary).reset_index(drop=True)

    def benchmark(self, benchmark: str, head: str = NO_HEAD, metric: str = "") -> Benchmark:
        """Name what a benchmark's scores under one head in one metric are scores of."""
        has_several = self.factor not in OF_HEADS and len(self.heads.get(benchmark, ())) > 1
        graded = metric if is_graded(benchmark, metric) else ""
        return Benchmark(benchmark, head if has_several else NO_HEAD, graded)

    def benchmarks(self, benchmark: str) -> tuple[Benchmark, ...]:
        """Return all that a benchmark's scores are scores of."""
        heads = self.heads.get(benchmark, (NO_HEAD,))
        return tuple(dict.fromkeys(self.benchmark(benchmark, head) for head in heads))

    def family(self, family: Family, variant: Level) -> Family:
        """Name what a difference is averaged over for the runs of an FFN variant in a family or setting."""
        if self.factor in ("ffn", "both"):
            return family
        places = tuple(place for place in places_of(family) if place[0] != self.factor)
        ffn = str(variant) if self.has_several_ffns else ""
        return Settings(self.families, self.axes).setting(plain(family), places, ffn)

    def level(self, family: Family, variant: Level, head: str = NO_HEAD) -> Level:
        """Name what is compared, of the scores of an FFN variant in a family or setting under a head."""
        if self.factor == "ffn":
            return variant
        if self.factor == "head":
            return head
        return (
            Combination(str(variant), head) if self.factor == "both" else dict(places_of(family))[self.factor]
        )


@dataclass(frozen=True)
class Contrast:
    """Two groups of variants, written ``relu+silu - prelu+swish``; within a group variants weigh the same."""

    plus: tuple[Level, ...]
    minus: tuple[Level, ...]

    def __str__(self) -> str:
        return f"{self.compared} - {'+'.join(map(str, self.minus))}"

    @property
    def compared(self) -> str:
        """The first group, written out: what is compared with the baseline, where the second one is that."""
        return "+".join(map(str, self.plus))

    def weights(self) -> dict[Level, float]:
        """Weight of each variant: +1 shared over the first group, -1 over the second."""
        return {name: sign / len(arm) for arm, sign in ((self.plus, 1.0), (self.minus, -1.0)) for name in arm}


def parse_contrast(
    text: str, variants: Sequence[Level], baseline: Level | None = None, factor: Factor = "ffn"
) -> Contrast:
    """Read ``a+b - c+d``; ``a`` alone means minus the baseline. Names hold hyphens: spaces around the minus.

    Args:
        text: What to read.
        variants: Every name that there is.
        baseline: What a single group is compared with.
        factor: What a variant is; with ``head`` and ``both``, heads may be written with options in any order
            and at their defaults.

    Raises:
        UsageError: For an unknown variant, an empty side, or a variant named twice.
    """
    groups = re.split(r"\s+[-\u2013\u2212]\s+", text.strip())  # word processors make dashes of it
    sides = [[name.strip() for name in group.split("+")] for group in groups]
    if (meant := re.sub(r"\s+(vs\.?|versus|minus)\s+", " - ", text)) != text and len(sides) == 1:
        raise UsageError(f"contrast {text!r}: write {meant!r}")
    if len(sides) == 1 and baseline is not None:
        sides.append([str(baseline)])
    if len(sides) != 2 or not all(name for side in sides for name in side):
        raise UsageError(f"contrast {text!r} is not of the form 'a+b - c+d' (a minus with spaces around it)")
    plus, minus = (tuple(find_level(factor, name, variants) for name in side) for side in sides)
    if len({*plus, *minus}) < len(plus) + len(minus):
        raise UsageError(f"contrast {text!r} names a {noun(factor)} twice; each may stand on one side only")
    return Contrast(plus, minus)
