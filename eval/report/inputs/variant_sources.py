"""Runs that bear the name of one variant and were trained through different sources of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import Family
from pretrain.run.folders import RunFolder
from pretrain.run.recorded import recorded_source


def source_notes(facts: Sequence[RunFacts], runs: Mapping[str, RunFolder]) -> tuple[str, ...]:
    """Name the variants whose runs are of several sources; those that compute the same count as one.

    Args:
        facts: Who the runs are.
        runs: Their folders by run id.
    """
    notes = []
    for variant in dict.fromkeys(run.variant for run in facts):
        parts = _by_source([run for run in facts if run.variant == variant], runs)
        if len(parts) > 1:
            said = ", ".join(f"{_named(of_part)} through {source}" for source, of_part in parts)
            notes.append(
                f"{variant}: {said}: they are {len(parts)} variants under one name; train those of the "
                "earlier source anew, or, if all compute the same, add it to earlier_sources of the spec"
            )
    return tuple(notes)


def _by_source(facts: Sequence[RunFacts], runs: Mapping[str, RunFolder]) -> list[tuple[str, list[RunFacts]]]:
    """Group runs by source; those of which none is known are left out."""
    known: list[tuple[set[str], str, list[RunFacts]]] = []
    for run in facts:
        recorded = recorded_source(runs[run.run_id])
        if not recorded.fingerprint:
            continue
        same = {recorded.fingerprint, *recorded.earlier}
        alike = [part for part in known if part[0] & same]
        known = [part for part in known if not part[0] & same]
        names, of_part = same.union(*(part[0] for part in alike)), [x for part in alike for x in part[2]]
        known.append((names, alike[0][1] if alike else recorded.fingerprint, [*of_part, run]))
    return sorted(((source, part) for _, source, part in known), key=lambda found: _order(found[1]))


def _order(part: Sequence[RunFacts]) -> tuple[int, Family]:
    return min((run.seed, run.family) for run in part)


def _named(part: Sequence[RunFacts]) -> str:
    """Name runs by their seeds, and by their families where these have different ones."""
    seeds = {family: sorted(run.seed for run in part if run.family == family) for family in _families(part)}
    if len(set(map(tuple, seeds.values()))) == 1:
        return _ranges(next(iter(seeds.values())))
    return " and ".join(f"{family} {_ranges(of_family)}" for family, of_family in seeds.items())


def _families(part: Iterable[RunFacts]) -> list[Family]:
    return list(dict.fromkeys(run.family for run in part))


def _ranges(seeds: Sequence[int]) -> str:
    """Seeds as people write them: ``seeds 1-3, 7``."""
    words = list(_words(sorted(set(seeds))))
    return f"seed{'s' if len(set(seeds)) > 1 else ''} {', '.join(words)}"


def _words(seeds: Sequence[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(seeds), key=lambda pair: pair[1] - pair[0]):
        first, *rest = [seed for _, seed in group]
        yield f"{first}-{rest[-1]}" if rest else str(first)
