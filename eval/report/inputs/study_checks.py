"""What a study's folders tell of its scores: cells that failed, and scores that were not measured alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from base.files import mapping
from base.records import peek_record
from base.wording import first_few
from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import Family, Level
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.recorded import recorded_source, recorded_texts

SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run that ended without a result."""

    run_id: str
    has_diverged: bool
    """Else it ended with another error."""
    setting: Family | None = None
    """Its family; None takes the folder's."""
    level: Level | None = None
    """Its variant; None takes the folder's."""

    @property
    def family(self) -> Family:
        """By its study, else by its place."""
        return self.setting or self.run_id.split("/")[0]

    @property
    def variant(self) -> Level:
        """By its study, else by its place."""
        return self.level or self.run_id.split("/")[1]

    @property
    def seed(self) -> int | None:
        """As the run is called; None where somebody named it."""
        found = re.match(r"seed(\d+)-", self.run_id.split("/")[2])
        return int(found[1]) if found else None


def failed_runs(folder: Path, run_ids: frozenset[str] | None) -> tuple[FailedRun, ...]:
    """Return the runs of a study that diverged or ended with an error, in the order of their names.

    What was never started, or is gone without a result, is to be run yet.

    Args:
        folder: The study's folder.
        run_ids: Its cells; None takes every run that is there.
    """
    study = StudyFolder(folder)
    diverged = {run.run_id for run in study.run_folders() if run.has_diverged and not run.is_complete}
    files = study.cell_files().items()
    failed = {run_id for run_id, path in files if peek_record(path).get("name") == "failed"}
    return tuple(
        FailedRun(run_id=run_id, has_diverged=run_id in diverged)
        for run_id in sorted(diverged | failed)
        if run_ids is None or run_id in run_ids
    )


def diverged_notes(folder: Path, run_ids: frozenset[str] | None) -> list[str]:
    """Name the runs of a study that diverged, and where.

    Args:
        folder: The study's folder.
        run_ids: Its cells; None takes every run that is there.
    """
    said = []
    for run in StudyFolder(folder).run_folders():
        if run.has_diverged and (run_ids is None or run.run_id in run_ids):
            record = peek_record(run.failure_marker)
            problem = record.get("problem", "the loss diverged")
            said.append(f"{run.run_id} ({problem} at step {record.get('step', '?')})")
    return [f"diverged in pretraining: {', '.join(said)}"] if said else []


def failed_notes(folder: Path, run_ids: frozenset[str] | None) -> list[str]:
    """Name the cells of a study that ended with an error, and the error.

    Args:
        folder: The study's folder.
        run_ids: Its cells; None takes every cell that is there.
    """
    notes = []
    for run_id, path in StudyFolder(folder).cell_files().items():
        state = peek_record(path)
        if state.get("name") == "failed" and (run_ids is None or run_id in run_ids):
            notes.append(f"failed: {run_id} ({state.get('error') or 'no message'})")
    more = [f"and {len(notes) - SHOWN} more cells failed"] if len(notes) > SHOWN else []
    return [*notes[:SHOWN], *more]


def protocol_notes(
    runs: Mapping[str, RunFolder], family_of: Callable[[str, str], Family] = lambda _, name: name
) -> list[str]:
    """Name tasks that were not scored alike in all runs of a family: another protocol, data or version.

    Args:
        runs: By run id.
        family_of: From a run's id and the name of its family to what it is compared within.
    """
    # Families have protocols of their own: a masked model is not scored as a causal one is.
    by_task: dict[tuple[Family, str], dict[str, list[str]]] = {}
    fields: dict[tuple[Family, str], list[dict]] = {}
    for run_id, run in runs.items():
        for task, protocol in mapping(peek_record(run.ledger_file).get("tasks")).items():
            key, protocol = (family_of(run_id, run.family), task), _without_seeds(mapping(protocol))
            text = json.dumps(protocol, sort_keys=True)
            by_task.setdefault(key, {}).setdefault(text, []).append(run_id)
            fields.setdefault(key, []).append(protocol)
    different: dict[tuple[Family, str], list[str]] = {}
    for (family, task), found in by_task.items():
        if len(found) > 1:
            rarest = ", ".join(sorted(min(found.values(), key=len))[:SHOWN])
            said = f"{family}, {_differing(fields[family, task])}: {rarest} against the other runs"
            different.setdefault((family, said), []).append(task)
    return [
        f"scored differently in {said} ({first_few(tasks, SHOWN)})" for (_, said), tasks in different.items()
    ]


def _without_seeds(protocol: dict) -> dict:
    """Keep how many seeds of fine-tuning there are: with ``seeds: run`` each run has one of its own."""
    seeds = protocol.get("seeds")
    return {**protocol, "seeds": len(seeds)} if isinstance(seeds, list) else protocol


def _differing(protocols: list[dict]) -> str:
    names = sorted({name for protocol in protocols for name in protocol})
    return ", ".join(n for n in names if len({json.dumps(p.get(n)) for p in protocols}) > 1)


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
