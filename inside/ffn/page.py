"""The page of an inspection: one table, at most three figures, and how they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from inside.ffn import figures
from inside.ffn.measure import Arms
from inside.ffn.record import RunInspection
from report.document.document import Document, Drawing
from report.document.markdown import details, figure, table

COLUMNS = {
    "loss": ("held-out loss", 3),
    "moved": ("activation moved (%)", 1),
    "start back": ("start given back", 4),
    "edges needed, trained": ("edges needed (%)", 1),
    "edges needed, untrained": ("untrained (%)", 1),
    "nonlinear, trained": ("nonlinear (%)", 1),
    "nonlinear, untrained": ("untrained (%)", 1),
    "half of the edges, importance": ("half of edges removed", 3),
    "half of the edges, random": ("a random half", 3),
    "half of the units, importance": ("half of units removed", 3),
    "half of the units, random": ("a random half", 3),
}
"""Header and digits of each summary of a run."""
MEANINGS = (
    "*Activation moved*: root mean square change of a learnable activation's outputs on its inputs.",
    "*Start given back*: rise of the loss where learnable activations get the parameters of their start; a "
    "linear layer behind could have learned a part of it.",
    "*Edges needed*: share of the edges of a KAN that carries 90% of their variance on held-out text, the "
    "most important first; of edges chosen at random it is 90%.",
    "*Nonlinear*: share of that variance that no straight line of an edge's input gives.",
    "*Half of edges, units*: rise of the loss without the less important half, or a random half.",
    "*Untrained*: the same model with the weights that its training began with.",
)
METHODS = """An edge is a function of one input that is added to one output. Its importance is the variance
of its outputs over the tokens, computed from the covariance of its input's basis functions. A weight of a
linear layer is an edge, too: a straight line. A unit is the edges that leave one channel inside an FFN. The
same share is removed from every layer and nothing is trained afterwards. Removed edges give zero and not
their mean, which costs more where a basis has a large mean. Shares are means over layers.""".replace(
    "\n", " "
)
EXPLANATIONS = {
    "functions": "Activations over their channels, and the most important edges of KANs, as they are now and "
    "as they started.",
    "importance": "How much of all variance the most important edges carry, beside the untrained model and "
    "edges chosen at random.",
    "pruning": "What the loss rises by when a share of every FFN is removed.",
}


def document(arms: Arms, notes: Sequence[str], title: str, command: str) -> Document:
    """Make the page of measured runs.

    Args:
        arms: What was measured, by variant.
        notes: What was left out.
        title: Of what.
        command: That makes the page again.
    """
    drawings = figures.draw_all(arms)
    runs = [run for arm in arms.values() for run in arm]
    return Document(
        title=f"What the FFNs of {title} learned",
        blocks=(
            _lead(runs, arms),
            *_table(arms),
            *_figures(drawings),
            details("Methods", METHODS),
            _notes(notes),
        ),
        figures=drawings,
        tables={"summaries": _summaries(arms)},
        record={"runs": [asdict(run) for run in runs], "notes": list(notes)},
        command=command,
    )


def _lead(runs: Sequence[RunInspection], arms: Arms) -> str:
    return (
        f"{len(runs)} runs of {len(arms)} variants on {max(run.num_tokens for run in runs):,} tokens of "
        "held-out text. Numbers are mean ± standard deviation over seeds, losses are in nats per token. They "
        "describe these runs: nothing is tested here."
    )


def _table(arms: Arms) -> tuple[str, str]:
    """The one table, without columns that no variant has, and what they mean."""
    summaries = {name: [run.summaries for run in arm] for name, arm in arms.items()}
    columns = [name for name in COLUMNS if any(name in one for arm in summaries.values() for one in arm)]
    header = ["variant", "runs", "FFN parameters", *(COLUMNS[name][0] for name in columns)]
    rows = [
        [f"`{name}`", str(len(arm)), f"{arms[name][0].ffn_parameters:,}",
         *(_cell([one[column] for one in arm if column in one], COLUMNS[column][1]) for column in columns)]
        for name, arm in summaries.items()
    ]  # fmt: skip
    return table(header, rows), details("What the columns mean", "\n".join(f"- {x}" for x in MEANINGS))


def _cell(values: Sequence[float], digits: int) -> str:
    if not values:
        return "-"
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def _figures(drawings: dict[str, Drawing]) -> tuple[str, ...]:
    return tuple(f"{EXPLANATIONS[name]}\n\n{figure(name, alt)}" for name, (_, alt) in drawings.items())


def _notes(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def _summaries(arms: Arms) -> pd.DataFrame:
    """A row for each run and summary."""
    rows = [
        (run.run_id, name, run.seed, summary, value)
        for name, arm in arms.items()
        for run in arm
        for summary, value in run.summaries.items()
    ]
    return pd.DataFrame(rows, columns=["run_id", "variant", "seed", "summary", "value"])
