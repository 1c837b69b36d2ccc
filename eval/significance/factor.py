"""The factor whose levels are compared: the FFN, the classification head, or both.

Comparisons know a family, a variant, a seed and a benchmark. Rows of scores are relabelled once, before
anything is computed, so that the levels of the factor are the variants:

- ``ffn``: as they are. A benchmark scored under several heads is one for each of them, ``glue (linear)``.
- ``head``: the head is the variant. Where there are several FFN variants, each is a family of its own,
  ``gpt_neo / kan``: a head's effect is averaged over them and tested for differing between them.
- ``both``: ``kan/linear`` is a variant.

The last two keep the scores that a head has part in, and compare within a seed (``is_paired``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from base.errors import UsageError, unknown_name
from eval.classification.heads.choice import FROZEN, head_name
from eval.classification.heads.registry import DEFAULT_HEAD
from eval.results.rows import NO_HEAD

if TYPE_CHECKING:
    import pandas as pd

Factor = Literal["ffn", "head", "both"]
NOUNS: Mapping[Factor, str] = {"ffn": "variant", "head": "head", "both": "combination"}
"""What sentences call a level."""
DEFAULT_FFN = "gelu"
DEFAULT_HEADS = ("linear", f"linear {FROZEN}", DEFAULT_HEAD, f"{DEFAULT_HEAD} {FROZEN}")
"""Heads that others are compared with unless another is named: the first that is there."""
_STRATUM, _COMBINATION, _HEAD = " / ", "/", " ("


def levels(factor: Factor, variants: Iterable[str], heads: Sequence[str]) -> tuple[str, ...]:
    """Name every level of a factor.

    Args:
        factor: Which one.
        variants: The FFN variants.
        heads: The heads as ``parse_head`` writes them.
    """
    if factor == "head":
        return tuple(heads)
    if factor == "both":
        return tuple(f"{variant}{_COMBINATION}{head}" for variant in variants for head in heads)
    return tuple(variants)


def default_baseline(factor: Factor, present: Sequence[str]) -> str:
    """Name the level that others are compared with where nobody named one."""
    usual = levels(factor, (DEFAULT_FFN,), DEFAULT_HEADS)
    return next((name for name in usual if name in present), usual[0])


def is_paired(factor: Factor) -> bool:
    """Whether only scores of one seed may be compared.

    Heads share a pretrained model. A mean over several heads of one model has fewer independent scores than
    it has scores, so an interval that takes them as independent would be too narrow.
    """
    return factor != "ffn"


def planned_heads(finetune: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the heads of a study's ``evaluation.finetune`` as rows do.

    Raises:
        UsageError: For a head that does not exist.
    """
    named = finetune.get("head") or (DEFAULT_HEAD,)
    is_frozen = bool(finetune.get("freeze_backbone"))
    texts = [named] if isinstance(named, str) else named
    heads = [head_name(f"{text} {FROZEN}" if is_frozen else str(text)) for text in texts]
    return tuple(dict.fromkeys(heads))


def find_level(factor: Factor, name: str, present: Sequence[str], what: str | None = None) -> str:
    """Return a level as it is written among those present, however a user wrote its head.

    Args:
        factor: Whose level.
        name: As the user wrote it.
        present: Every level that there is.
        what: What the message calls it; None takes the factor's noun.

    Raises:
        UsageError: If it is not among them.
    """
    if name not in present and factor != "ffn":
        variant, slash, head = name.rpartition(_COMBINATION) if factor == "both" else ("", "", name)
        with suppress(UsageError):  # which would tell of all heads, not of those that are present
            found = f"{variant}{slash}{head_name(head)}"
            name = found if found in present else name
    if name not in present:
        raise unknown_name(what or NOUNS[factor], name, present)
    return name


def benchmark_of(label: str) -> str:
    """Name the benchmark that a label is of, without its head."""
    return label.partition(_HEAD)[0]


@dataclass(frozen=True)
class Relabelling:
    """How rows are relabelled; made from all of them, so that parts of them get the same labels.

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
        planned: tuple[Sequence[str], Sequence[str]] = ((), ()),
        origin: str = "rows",
    ) -> Relabelling:
        """Find out which labels tell apart everything that is compared.

        Args:
            rows: What ``normalise_rows`` returns.
            factor: Whose levels are to be the variants.
            head: Keep the scores of this one, and those that no head has part in.
            planned: The FFN variants and the heads of a plan, which may not all have scores yet.
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
            head = find_level("head", head, sorted(of_heads["head"].unique()), f"head in {origin}")
        variants, heads = planned
        with_heads = rows[rows["benchmark"].isin(of_heads["benchmark"])]
        found = {
            str(benchmark): _wanted([*heads, *sorted(rows_of["head"].unique())], head)
            for benchmark, rows_of in with_heads.groupby("benchmark")
        }
        return cls(factor, found, len({*variants, *of_heads["variant"]}) > 1, head)

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what is compared, with its labels, in the order in which it stands."""
        is_headless = rows["head"] == NO_HEAD
        if self.factor == "ffn":
            chosen = rows if self.head is None else rows[is_headless | (rows["head"] == self.head)]
            names = zip(chosen["benchmark"], chosen["head"], strict=True)
            chosen = chosen.assign(benchmark=[self.benchmark(name, head) for name, head in names])
        elif self.factor == "head":
            chosen = rows[~is_headless]
            names = zip(chosen["family"], chosen["variant"], strict=True)
            chosen = chosen.assign(variant=chosen["head"], family=[self.family(*name) for name in names])
        else:
            chosen = rows[~is_headless]
            chosen = chosen.assign(variant=chosen["variant"] + _COMBINATION + chosen["head"])
        return chosen.reset_index(drop=True)

    def benchmark(self, benchmark: str, head: str) -> str:
        """Label a benchmark's scores of one head."""
        has_several = self.factor == "ffn" and len(self.heads.get(benchmark, ())) > 1
        return f"{benchmark}{_HEAD}{head})" if head and has_several else benchmark

    def benchmarks(self, benchmark: str) -> tuple[str, ...]:
        """Return every label of a benchmark."""
        heads = self.heads.get(benchmark, (NO_HEAD,))
        return tuple(dict.fromkeys(self.benchmark(benchmark, head) for head in heads))

    def family(self, family: str, variant: str) -> str:
        """Label the models over which a difference is averaged."""
        is_alone = self.factor != "head" or not self.has_several_ffns
        return stratum(family, "" if is_alone else variant)


def stratum(family: str, variant: str) -> str:
    """Label the models of one FFN variant in one family; those of a whole family where none is named."""
    return f"{family}{_STRATUM}{variant}" if variant else family


def split_family(label: str) -> tuple[str, str]:
    """Return the family of a label and the FFN variant that it names, if any."""
    family, _, variant = label.partition(_STRATUM)
    return family, variant


def _wanted(heads: Iterable[str], head: str | None) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(heads) if head is None or name in (head, NO_HEAD))
