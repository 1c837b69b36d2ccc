"""Adding tuning runs to a study that is done: those that would decide most of what is undecided."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from base.config_input import SEED_END
from base.errors import UsageError
from report.analyse import analyse
from report.inputs.sources import read_source
from report.parts.tuning import Narrowing, most_decisive
from report.tuning.choices import MORE_SEEDS, TUNED_BY
from scores.tuning import Further, Tuning
from slurm.run.todo import unfinished
from slurm.study.axes.points import write_value
from slurm.study.study import Study


def with_further(study: Study, number: int) -> Study:
    """Return a study with further tuning runs, and say which; where some have not ended, as it is.

    Args:
        study: A study that was tuned, whose cells are done.
        number: How many tunings are added, each of one variant; of none nothing happens.

    Raises:
        UsageError: If the study tunes nothing, adds seeds by looks, or is not done.
    """
    if not number:
        return study
    _check(study)
    tuning = study.tuning
    assert tuning is not None
    if tuning.awaits_further:
        print("tuning runs that were added before have not ended; this command goes on with them")
        return study
    if left := [cell for cell, state in unfinished(study) if state.name != "failed"]:
        raise UsageError(
            f"--decide: {len(left)} of {len(study.cells)} cells of {study.config.name} are not done, so "
            "nobody knows what is undecided; give the command without --decide first"
        )
    found = analyse(read_source(study.folder))
    undecided = [c for c in found.comparisons if c.benchmark == TUNED_BY]
    added = most_decisive(found.tuned, undecided)[:number] if found.tuned else []
    if not added:
        print(
            "no tuning run is added: where something is undecided on the held-out loss, the choice of a "
            "value adds nothing to it, or fewer than three numbers were tried, which no further seed helps"
        )
        return study
    for each in added:
        print(
            f"to be tuned further: {each.tuned}, {each.lines[0].field} "
            f"{', '.join(map(write_value, each.values))}, "
            f"{each.num_runs} runs; if means stay as they are, the "
            f"interval of {each.compared} narrows to {each.share:.0%}"
        )
    further = [one for each in added for one in _further(each, tuning, study.config.all_seeds)]
    return replace(study, tuning=replace(tuning, further=(*tuning.further, *further)))


def _check(study: Study) -> None:
    name = study.config.name
    if study.config.tune is None:
        raise UsageError(f"--decide adds tuning runs, and {name} tunes nothing; leave it out")
    if study.config.looks:
        raise UsageError(
            f"--decide would change what the looks at {name} decided with the tuning as it was; leave it out"
        )


def _further(added: Narrowing, tuning: Tuning, main_seeds: Sequence[int]) -> list[Further]:
    """Return the runs of each setting, at the next seeds that nobody has."""
    found = []
    for line in added.lines:
        choice = line.choice
        taken = {*main_seeds, *tuning.plan.seeds}
        taken |= {seed for each in tuning.further_of(choice) for seed in each.seeds}
        first = max(taken - set(main_seeds)) + 1
        numbers = itertools.chain(range(first, SEED_END), range(first))
        free = (seed for seed in numbers if seed not in taken)
        found.append(
            Further(
                family=choice.family,
                places=choice.places,
                variant=choice.variant,
                field=line.field,
                values=line.of_curve,
                seeds=tuple(itertools.islice(free, MORE_SEEDS)),
            )
        )
    return found
