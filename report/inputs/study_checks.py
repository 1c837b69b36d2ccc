"""What a study's folders tell of its scores: cells that failed, and scores that were not measured alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.files import mapping
from base.printing import first_few
from base.records import peek_record
from base.run.folder_names import RunFolder, StudyFolder
from base.text.text_files import describe_overlap
from report.inputs.run_facts import RunFacts
from report.significance.axes import Family, Level

SHOWN = 4


@dataclass(frozen=True)
class FailedRun:
    """A run that ended without a result."""

    run_id: str
    family: Family
    variant: Level
    has_diverged: bool
    """Else it ended with another error."""
    problem: str = ""
    """What went wrong, and where."""


def failed_runs(folder: Path, run_ids: frozenset[str] | None) -> tuple[FailedRun, ...]:
    """Return the runs of a study that diverged or ended with an error, in the order of their names.

    What was never started, or is gone without a result, is to be run yet.

    Args:
        folder: The study's folder.
        run_ids: Its cells; None takes every run that is there.
    """
    study = StudyFolder(folder)
    problems: dict[str, tuple[bool, str]] = {}
    for run_id, path in study.cell_files().items():
        state = peek_record(path)
        if state.get("name") == "failed":
            problems[run_id] = False, state.get("error") or "no message"
    for run in study.run_folders():
        if run.has_diverged and not run.has_marker:
            record = peek_record(run.failure_marker)
            problem = f"{record.get('problem', 'the loss diverged')} at step {record.get('step', '?')}"
            problems[run.run_id] = True, problem
    failed = sorted(run_id for run_id in problems if run_ids is None or run_id in run_ids)
    names = ((run_id, *run_id.split("/")) for run_id in failed)
    return tuple(
        FailedRun(run_id, family, variant, *problems[run_id]) for run_id, family, variant, _ in names
    )


def failed_notes(failed: Sequence[FailedRun]) -> Iterator[str]:
    """Name the runs of a study that ended without a result, and the reason of each."""
    diverged, others = ([run for run in failed if run.has_diverged == kind] for kind in (True, False))
    if diverged:
        yield f"diverged in pretraining: {', '.join(f'{run.run_id} ({run.problem})' for run in diverged)}"
    yield from (f"failed: {run.run_id} ({run.problem})" for run in others[:SHOWN])
    if others[SHOWN:]:
        yield f"and {len(others) - SHOWN} more cells failed"


def protocol_notes(
    runs: Mapping[str, RunFolder], family_of: Callable[[str, str], Family] = lambda _, name: name
) -> list[str]:
    """Name tasks that were not scored alike in all runs of a family: another protocol, data or version.

    Args:
        runs: By run id.
        family_of: From a run's id and the name of its family to what it is compared within.
    """
    # Families have protocols of their own: a masked model is not scored as a causal one is.
    protocols: dict[tuple[Family, str], dict[str, dict]] = {}
    for run_id, run in runs.items():
        for task, protocol in mapping(peek_record(run.ledger_file).get("tasks")).items():
            of_task = protocols.setdefault((family_of(run_id, run.family), task), {})
            of_task[run_id] = _without_seeds(mapping(protocol))
    tasks: dict[str, list[str]] = {}
    for (family, task), by_run in protocols.items():
        groups: dict[str, list[str]] = {}
        for run_id, protocol in by_run.items():
            groups.setdefault(json.dumps(protocol, sort_keys=True), []).append(run_id)
        if len(groups) > 1:
            rarest = ", ".join(sorted(min(groups.values(), key=len))[:SHOWN])
            sentence = f"{family}, {_differing(list(by_run.values()))}: {rarest} against the other runs"
            tasks.setdefault(sentence, []).append(task)
    return [
        f"scored differently in {sentence} ({first_few(names, SHOWN)})" for sentence, names in tasks.items()
    ]


def _without_seeds(protocol: dict) -> dict:
    """Keep how many seeds of fine-tuning there are: with ``seeds: run`` each run has one of its own."""
    seeds = protocol.get("seeds")
    return {**protocol, "seeds": len(seeds)} if isinstance(seeds, list) else protocol


def _differing(protocols: list[dict]) -> str:
    names = sorted({name for protocol in protocols for name in protocol})
    return ", ".join(n for n in names if len({json.dumps(p.get(n)) for p in protocols}) > 1)


def precision_notes(facts: Sequence[RunFacts]) -> Iterator[str]:
    """Say that runs of one setting differ in precision, as on machines of which one multiplies bf16."""
    of_name = {name: {run.family for run in facts if run.precision == name} for name in ("bf16", "no")}
    mixed = [run for run in facts if run.family in set.intersection(*of_name.values())]
    narrow, full = ([run.run_id for run in mixed if run.precision == name] for name in of_name)
    if narrow and full:
        yield (
            f"{len(narrow)} runs were trained in bf16 ({first_few(sorted(narrow), 2)}), {len(full)} in full "
            f"precision ({first_few(sorted(full), 2)}): losses shift by some thousandths of a nat; give "
            "train.mixed_precision, and train those of the other anew"
        )


def overlap_notes(facts: Sequence[RunFacts]) -> Iterator[str]:
    """Say of which texts at least 1% of the held-out documents are also trained on."""
    for corpus, (shared, held_out) in dict.fromkeys((run.corpus, run.overlap) for run in facts):
        if shared and shared >= held_out / 100:
            yield f"{corpus}: {describe_overlap(shared, held_out)}, and train anew"


def of_newest_sources(facts: Sequence[RunFacts]) -> tuple[list[RunFacts], list[str]]:
    """Leave out runs of a variant whose source was another than that of its newest run.

    Args:
        facts: Who the runs are; of those that ended in one second the last is the newest.

    Returns:
        What is left, those without a known source included, and sentences that name the others. Sources that
        compute the same count as one.
    """
    earlier, notes = set[int](), list[str]()
    for variant in dict.fromkeys(run.variant for run in facts):
        newest, *others = _by_source([run for run in facts if run.variant == variant]) or [[]]
        earlier |= {id(run) for runs in others for run in runs}
        for runs in others:
            names = first_few(sorted(run.run_id for run in runs), 2)
            notes.append(
                f"left out: {len(runs)} run{'s' * (len(runs) > 1)} of {variant} through source "
                f"{runs[0].source.fingerprint} ({names}), as the newest is through "
                f"{newest[0].source.fingerprint}; train seeds that are missing, or, if both compute the "
                "same, add the former to earlier_sources of the spec"
            )
    return [run for run in facts if id(run) not in earlier], notes


def _by_source(facts: Sequence[RunFacts]) -> list[list[RunFacts]]:
    """Runs of each source, the newest first; those of which none is known are left out."""
    alike: list[set[str]] = []
    for source in (run.source for run in facts):
        same = {source.fingerprint, *source.earlier} - {""}
        touched = [names for names in alike if names & same]
        alike = [names for names in alike if not names & same] + [same.union(*touched)]
    newest_first = sorted(facts, key=lambda run: run.ended)[::-1]
    parts = [[run for run in newest_first if run.source.fingerprint in names] for names in alike]
    return sorted(filter(None, parts), key=lambda runs: newest_first.index(runs[0]))
