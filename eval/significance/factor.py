"""The factor whose levels are compared: the FFN, the classification head, or both.

Comparisons know a family, a variant, a seed and a benchmark. Rows of scores are relabelled once, before
anything is computed, so that the levels of the factor are the variants (``eval.significance.axes``):

- ``ffn``: as they are. A benchmark scored under several heads is one ``Benchmark`` for each of them.
- ``head``: the head is the variant. Where there are several FFN variants, the ``Models`` of each are a family
  of their own: a head's effect is averaged over them and tested for differing between them.
- ``both``: a variant is a ``Combination``.

The last two keep the scores that a head has part in, and compare within a seed (``is_paired``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from base.baseline import BASELINE
from base.errors import UsageError, unknown_name
from eval.classification.heads.choice import FROZEN, head_name
from eval.classification.heads.registry import DEFAULT_HEAD
from eval.results.each import of_each_row
from eval.results.rows import NO_HEAD
from eval.significance.axes import Benchmark, Combination, Family, Level, Models
from eval.suites.registry import is_graded

Factor = Literal["ffn", "head", "both"]
NOUNS: Mapping[Factor, str] = {"ffn": "variant", "head": "head", "both": "combination"}
"""What sentences call a level."""
DEFAULT_HEADS = ("linear", f"linear {FROZEN}", DEFAULT_HEAD, f"{DEFAULT_HEAD} {FROZEN}")
"""Heads that others are compared with unless another is named: the first that is there."""


def levels(factor: Factor, variants: Iterable[str], heads: Sequence[str]) -> tuple[Level, ...]:
    """Name every level of a factor.

    Args:
        factor: Which one.
        variants: The FFN variants.
        heads: The heads as ``parse_head`` writes them.
    """
    if factor == "head":
        return tuple(heads)
    if factor == "both":
        return tuple(Combination(variant, head) for variant in variants for head in heads)
    return tuple(variants)


def default_baseline(factor: Factor, present: Sequence[Level]) -> str:
    """Name the level that others are compared with where nobody named one."""
    usual = levels(factor, (BASELINE,), DEFAULT_HEADS)
    return str(next((level for level in usual if level in present), usual[0]))


def is_paired(factor: Factor) -> bool:
    """Whether only scores of one seed may be compared.

    Heads share a pretrained model. A mean over several heads of one model has fewer independent scores than
    it has scores, so an interval that takes them as independent would be too narrow.
    """
    return factor != "ffn"


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
    for level in present if factor != "ffn" else ():
        if _is_meant(level, text):
            return level
    raise unknown_name(what or NOUNS[factor], text, labels)


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
    """

    factor: Factor
    heads: Mapping[str, tuple[str, ...]]
    has_several_ffns: bool = False
    head: str | None = None

    @classmethod
    def of_rows(
        cls,
        rows: pd.DataFrame,
        factor: Factor,
        head: str | None = None,
        listed: tuple[Sequence[str], Sequence[str]] = ((), ()),
        origin: str = "rows",
    ) -> Relabelling:
        """Find out which names tell apart everything that is compared.

        Args:
            rows: What ``normalise_rows`` returns.
            factor: Whose levels are to be the variants.
            head: Keep the scores of this one, and those that no head has part in.
            listed: The FFN variants and the heads of a study, which may not all have scores yet.
            origin: Where the rows come from, named in errors.

        Raises:
            UsageError: For heads that are not there, or a head to keep where heads are compared.
        """
        of_heads = rows[rows["head"] != NO_HEAD]
        if factor != "ffn" and of_heads.empty:
            raise UsageError(
                f"{origin}: no score names its classification head, so heads cannot be compared; score runs "
                "under several with: python -m eval RUN... --head linear fourier-kan"
            )
        if head is not None and factor != "ffn":
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
        return cls(factor, found, len({*variants, *of_heads["variant"]}) > 1, head)

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what is compared, in the order in which it stands, as the factor names it."""
        is_headless = rows["head"] == NO_HEAD
        if self.factor == "ffn":
            chosen = rows if self.head is None else rows[is_headless | (rows["head"] == self.head)]
            # One object for all its rows, which grouping then tells at once.
            named = of_each_row(chosen[["benchmark", "head", "metric"]], self.benchmark)
            chosen = _with(chosen, "benchmark", list(named))
        elif self.factor == "head":
            chosen = rows[~is_headless]
            names = zip(chosen["family"], chosen["variant"], strict=True)
            chosen = _with(chosen.assign(variant=chosen["head"]), "family", [self.family(*x) for x in names])
        else:
            chosen = rows[~is_headless]
            names = zip(chosen["variant"], chosen["head"], strict=True)
            chosen = _with(chosen, "variant", [Combination(*name) for name in names])
        if self.factor != "ffn":
            names = zip(chosen["benchmark"], chosen["metric"], strict=True)
            chosen = _with(chosen, "benchmark", [self.benchmark(name, metric=own) for name, own in names])
        # A graded metric stands for its task in an outcome of its own.
        has_own = np.array([bool(benchmark.metric) for benchmark in chosen["benchmark"]], bool)
        return chosen.assign(primary=chosen["primary"] | has_own).reset_index(drop=True)

    def benchmark(self, benchmark: str, head: str = NO_HEAD, metric: str = "") -> Benchmark:
        """Name what a benchmark's scores under one head in one metric are scores of."""
        has_several = self.factor == "ffn" and len(self.heads.get(benchmark, ())) > 1
        own = metric if is_graded(benchmark, metric) else ""
        return Benchmark(benchmark, head if has_several else NO_HEAD, own)

    def benchmarks(self, benchmark: str) -> tuple[Benchmark, ...]:
        """Return all that a benchmark's scores are scores of."""
        heads = self.heads.get(benchmark, (NO_HEAD,))
        return tuple(dict.fromkeys(self.benchmark(benchmark, head) for head in heads))

    def family(self, family: str, variant: str) -> Family:
        """Name the models over which a difference is averaged."""
        is_of_models = self.factor == "head" and self.has_several_ffns
        return Models(family, variant) if is_of_models else family


def _with(rows: pd.DataFrame, column: str, values: Sequence[object]) -> pd.DataFrame:
    return rows.assign(**{column: pd.Series(list(values), rows.index, dtype="object")})


def _wanted(heads: Iterable[str], head: str | None) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(heads) if head is None or name in (head, NO_HEAD))
