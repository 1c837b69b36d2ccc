"""Whether the runs that a report compares were trained on the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from base.sentences import first_few
from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import Family
from pretrain.run.folders import RunFolder
from pretrain.run.recorded import recorded_texts


def text_notes(facts: Sequence[RunFacts], runs: Mapping[str, RunFolder]) -> tuple[str, ...]:
    """Name the families whose runs were trained on texts that changed under one name.

    Args:
        facts: Who the runs are.
        runs: Their folders by run id.
    """
    found: dict[Family, dict[str, list[RunFacts]]] = {}
    for run in facts:
        if texts := recorded_texts(runs[run.run_id]):
            found.setdefault(run.family, {}).setdefault(texts, []).append(run)
    return tuple(_note(family, parts) for family, parts in found.items() if len(parts) > 1)


def _note(family: Family, parts: Mapping[str, Sequence[RunFacts]]) -> str:
    said = "; ".join(
        f"{len(part)} of {_variants(part)} on those of fingerprint {texts}"
        for texts, part in sorted(parts.items(), key=lambda each: -len(each[1]))
    )
    return (
        f"{family}: runs were trained on {len(parts)} different texts: {said}; what they differ by may be "
        "the texts; train those of one of them anew, or under another study's name"
    )


def _variants(part: Sequence[RunFacts]) -> str:
    names = list(dict.fromkeys(str(run.variant) for run in part))
    return first_few(names, 3)
