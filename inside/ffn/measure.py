"""Everything that is measured of one run, and which runs are seeds of one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from base.errors import UsageError
from base.families import family_label
from base.run.folders import RunFolder
from eval.identity import admit_run, identify_run
from inside.ffn.activations import measure_activations, start_back
from inside.ffn.edges import measure_edges
from inside.ffn.functions import ffns_of
from inside.ffn.probe import Probe, open_model, read_held_out, untrained
from inside.ffn.pruning import pruning_curves
from inside.ffn.record import RunInspection
from pretrain.resolution import resolve
from pretrain.run.run_dir import RESULT_NEUTRAL, read_run

Arms = dict[str, list[RunInspection]]
"""By a name for a reader the runs that differ in the seed alone."""
FOLLOWS = ("family", "seed", "model.ffn", "model.paired_intermediate_size", "model.max_position_embeddings")
"""Fields that are named anyway, or follow from others."""


def inspect_run(
    path: Path, text_file: Path | None, num_tokens: int, trust_remote_code: bool
) -> RunInspection:
    """Measure a run.

    Args:
        path: The run's folder.
        text_file: Held-out text; None takes what the run's training held out.
        num_tokens: To read of it.
        trust_remote_code: Whether to run an FFN variant that the run brings.

    Raises:
        UsageError: If the run has no model, or the text is unusable.
    """
    run = RunFolder(path)
    admit_run(path, trust_remote_code)
    identity, config = identify_run(path), read_run(path)
    text = read_held_out(run, config, text_file, num_tokens)
    model = open_model(run, config, trust_remote_code)
    start = untrained(config, model)
    probe, before = (Probe(one, config.family, text) for one in (model, start))
    loss = probe.loss()
    if not math.isfinite(loss):
        raise UsageError(f"{path}: its held-out loss is {loss}, and there is nothing to inspect")
    return RunInspection(
        run_id=identity.run_id,
        family=identity.family,
        variant=identity.variant,
        seed=identity.seed,
        ffn_parameters=sum(p.numel() for parts in ffns_of(model) for x in parts for p in x.parameters()),
        num_tokens=text.num_tokens,
        loss=loss,
        activations=measure_activations(probe, start),
        start_back=start_back(probe, start),
        edges=measure_edges(probe, before),
        pruning=pruning_curves(probe, config.seed),
    )


def by_arm(runs: Sequence[tuple[Path, RunInspection]]) -> tuple[Arms, list[str]]:
    """Group runs whose configurations differ in the seed alone.

    Runs of a variant that differ in other fields too are named by those: ``kan grid_size=3``. Of a seed that
    was trained twice one run counts, as the other is no further evidence.

    Args:
        runs: Folders and what was measured.

    Returns:
        The groups in the order of the runs, and a line for each run that is left out.
    """
    several = len({run.family for _, run in runs}) > 1
    fields = [_fields(path) for path, _ in runs]
    arms: Arms = {}
    notes = []
    for (_, run), values in zip(runs, fields, strict=True):
        alike = [
            other_values
            for (_, other), other_values in zip(runs, fields, strict=True)
            if (other.family, other.variant) == (run.family, run.variant)
        ]
        names = sorted({name for other in alike for name in other})
        differing = [name for name in names if any(x.get(name) != values.get(name) for x in alike)]
        name = " ".join([run.variant, *(f"{_short(field)}={values.get(field)}" for field in differing)])
        arm = arms.setdefault(f"{name}, {family_label(run.family)}" if several else name, [])
        if any(other.seed == run.seed for other in arm):
            notes.append(f"{run.run_id}: left out, as the same training is there already")
        else:
            arm.append(run)
    return arms, notes


def _fields(path: Path) -> dict[str, str]:
    """Every field that decides a run's result, as text, by its name in full."""
    config = resolve(read_run(path)).model_dump(mode="json", exclude=RESULT_NEUTRAL)
    flat = pd.json_normalize(config).iloc[0]
    return {str(name): str(value) for name, value in flat.items() if name not in FOLLOWS}


def _short(name: str) -> str:
    return name.removeprefix("model.ffn_options.").removeprefix("model.")
