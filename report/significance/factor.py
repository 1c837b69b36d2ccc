"""The factor whose levels are compared: the FFN, the classification head, both, or an axis of the study.

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

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from base.errors import UsageError, unknown_name
from base.families import BASELINE
from report.significance.axes import (
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
from scores.columns import of_each_row
from scores.heads.registry import DEFAULT_HEAD, FROZEN, head_name
from scores.rows import NO_HEAD
from scores.suites.registry import is_graded

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
    return {"ffn": "variant", "head": "head", "both": "combination", SIZE: "size"}.get(factor, "level")


def check_factor(text: str, axes: Iterable[str], what: str = "--factor") -> Factor:
    """Return a factor that there is.

    Args:
        text: As the user wrote it.
        axes: Names of the study's axes.
        what: What the message calls it.

    Raises:
        UsageError: If it is neither one that every table may have nor an axis.
    """
    if text not in (known := (*FACTORS, *axes)):
        raise unknown_name(what, text, known)
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
    written = {str(level).lower(): level for level in reversed(present)}  # somebody's GELU is gelu, too
    found = (written.get(str(level).lower()) for level in usual)
    return str(next((level for level in found if level is not None), (*usual, *present)[0]))


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
    named = finetune.get("head") or (DEFAULT_HEAD,)
    is_frozen = bool(finetune.get("freeze_backbone"))
    texts = [named] if isinstance(named, str) else named
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
        if factor in OF_HEADS and of_heads.empty:
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
        found = {
            str(benchmark): _wanted([*heads, *sorted(rows_of["head"].unique())], head)
            for benchmark, rows_of in with_heads.groupby("benchmark")
        }
        ffns = {*variants, *(of_heads if factor in OF_HEADS else rows)["variant"]}
        families = tuple(dict.fromkeys(map(plain, rows["family"].unique())))
        return cls(factor, found, len(ffns) > 1, head, axes or {}, families)

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what is compared, in the order in which it stands, as the factor names it."""
        is_headless = rows["head"] == NO_HEAD
        if self.factor in OF_HEADS:
            chosen = rows[~is_headless]
        else:
            chosen = rows if self.head is None else rows[is_headless | (rows["head"] == self.head)]
        # One object for all its rows, which grouping then tells at once.
        named = of_each_row(chosen[["benchmark", "head", "metric"]], self.benchmark)
        chosen = _with(chosen, "benchmark", list(named))
        if self.factor != "ffn":
            names = chosen[["family", "variant", "head"]]
            models = of_each_row(names[["family", "variant"]], self.family)
            chosen = _with(chosen, "variant", list(of_each_row(names, self.level)))
            chosen = _with(chosen, "family", list(models))
        # A graded metric stands for its task in an outcome of its own.
        has_own = np.array([bool(benchmark.metric) for benchmark in chosen["benchmark"]], bool)
        return chosen.assign(primary=chosen["primary"] | has_own).reset_index(drop=True)

    def benchmark(self, benchmark: str, head: str = NO_HEAD, metric: str = "") -> Benchmark:
        """Name what a benchmark's scores under one head in one metric are scores of."""
        has_several = self.factor not in OF_HEADS and len(self.heads.get(benchmark, ())) > 1
        own = metric if is_graded(benchmark, metric) else ""
        return Benchmark(benchmark, head if has_several else NO_HEAD, own)

    def benchmarks(self, benchmark: str) -> tuple[Benchmark, ...]:
        """Return all that a benchmark's scores are scores of."""
        heads = self.heads.get(benchmark, (NO_HEAD,))
        return tuple(dict.fromkeys(self.benchmark(benchmark, head) for head in heads))

    def family(self, family: Family, variant: Level) -> Family:
        """Name what a difference is averaged over for the runs of an FFN variant in a family or setting."""
        if self.factor in ("ffn", "both"):
            return family
        places = tuple(place for place in places_of(family) if place[0] != self.factor)
        own = str(variant) if self.has_several_ffns else ""
        return Settings(self.families, self.axes).setting(plain(family), places, own)

    def level(self, family: Family, variant: Level, head: str = NO_HEAD) -> Level:
        """Name what is compared, of the scores of an FFN variant in a family or setting under a head."""
        if self.factor == "ffn":
            return variant
        if self.factor == "head":
            return head
        return (
            Combination(str(variant), head) if self.factor == "both" else dict(places_of(family))[self.factor]
        )


def _with(rows: pd.DataFrame, column: str, values: Sequence[object]) -> pd.DataFrame:
    return rows.assign(**{column: pd.Series(list(values), rows.index, dtype="object")})


def _wanted(heads: Iterable[str], head: str | None) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(heads) if head is None or name in (head, NO_HEAD))
