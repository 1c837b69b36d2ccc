"""How heads were tuned in fine-tuning: how many candidates each had, and which were kept on held-out data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eval.report.inputs.sources import Source
from eval.results.chosen import chosen_settings
from eval.results.rows import NO_HEAD
from eval.results.store import read_ledger
from pretrain.run.folders import RunFolder

TRIED = ("head_learning_rates", "init_scales")
"""Settings of which each value is a candidate (``eval.classification.config.Finetuning``)."""


@dataclass(frozen=True, kw_only=True)
class HeadTrials:
    """One head of a study."""

    head: str
    num_trials: tuple[int, ...]
    """Fine-tunings of which the best was kept, for each run, task and seed; several where they differ."""
    chosen: Mapping[str, int]
    """What was kept to how often, over runs, tasks and seeds; empty where the items do not tell."""


def head_trials(source: Source) -> tuple[HeadTrials, ...]:
    """Read from ledgers and items how the heads of a study were tuned; nothing where none was.

    Args:
        source: A study, as it was read.
    """
    rows = source.rows[source.rows["head"] != NO_HEAD]
    if source.kind != "study folder" or rows.empty:
        return ()
    runs = {run_id: RunFolder(source.path / run_id) for run_id in rows["run_id"].unique()}
    trials: dict[str, set[int]] = {}
    for run in runs.values():
        ledger = read_ledger(run)
        for protocol in (ledger.tasks if ledger else {}).values():
            if isinstance(head := protocol.get("head"), str):
                trials.setdefault(head, set()).add(_num_trials(protocol))
    if max((most for counts in trials.values() for most in counts), default=1) == 1:
        return ()
    asked = {runs[run_id].path: own for run_id, own in rows.groupby("run_id")}
    counts = chosen_settings(asked)
    return tuple(
        HeadTrials(
            head=head,
            num_trials=tuple(sorted(trials.get(head, ()))),
            chosen=counts[counts["head"] == head].groupby("chosen", sort=False)["times"].sum().to_dict(),
        )
        for head in _in_order(rows["head"], source.design.heads)
    )


def _num_trials(protocol: Mapping[str, Any]) -> int:
    """Every learning rate with every scale; a setting without candidates has one value."""
    number = 1
    for name in TRIED:
        values = protocol.get(name)
        number *= max(1, len(values)) if isinstance(values, list) else 1
    return number


def _in_order(present: Iterable[str], wanted: Iterable[str]) -> list[str]:
    known = dict.fromkeys(present)
    return [*(head for head in wanted if head in known), *(head for head in known if head not in set(wanted))]
