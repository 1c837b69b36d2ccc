"""The page of an inspection: one table, at most three figures, and how they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from inside.ffn.measure import KINDS, REMOVED, SHARES, ActivationLayer, EdgeLayer, RunInspection
from report.document.document import Document, Drawing
from report.document.markdown import details, figure, spread, table
from report.figures import style

Groups = dict[str, list[RunInspection]]
"""By a name for a reader the runs that differ in the seed alone."""
Styles = dict[str, style.VariantStyle]
ROW_IN = 1.15
PANEL_IN = 2.3
MOST_RISE = 4.0
"""Nats beyond which a model is broken anyway."""
COLUMNS = {
    "loss": ("held-out loss", 3),
    "moved": ("activation moved (%)", 1),
    "edges needed, trained": ("edges needed (%)", 1),
    "edges needed, untrained": ("untrained (%)", 1),
    "half of the edges, importance": ("half of edges removed", 3),
    "half of the edges, random": ("a random half", 3),
}
"""Header and digits of each summary of a run."""
MEANINGS = """- *Activation moved*: root mean square change of a learnable activation's outputs on its inputs.
- *Edges needed*: share of the edges of a KAN that carries 90% of their variance on held-out text, the most
  important first; of edges chosen at random it is 90%.
- *Half of edges removed*: rise of the loss without the less important half, or a random half.
- *Untrained*: the same model with the weights that its training began with."""
METHODS = """An edge is a function of one input that is added to one output. Its importance is the variance
of its outputs over the tokens, computed from the covariance of its input's basis functions. A weight of a
linear layer is an edge, too: a straight line. The same share is removed from every layer and nothing is
trained afterwards. Removed edges give zero and not their mean, which costs more where a basis has a large
mean. Shares are means over layers.""".replace("\n", " ")
EXPLANATIONS = {
    "functions": "Activations over their channels, and the most important edges of KANs, as they are now and "
    "as they started.",
    "importance": "How much of all variance the most important edges carry, beside the untrained model and "
    "edges chosen at random.",
    "pruning": "What the loss rises by when a share of every FFN is removed.",
}


def document(groups: Groups, notes: Sequence[str], title: str, command: str) -> Document:
    """Make the page of measured runs.

    Args:
        groups: What was measured.
        notes: What was left out.
        title: Of what.
        command: That makes the page again.
    """
    runs = [run for group in groups.values() for run in group]
    drawings = draw_all(groups)
    lead = (
        f"{len(runs)} runs of {len(groups)} variants on {max(run.num_tokens for run in runs):,} tokens of "
        "held-out text. Numbers are mean ± standard deviation over seeds, losses are in nats per token. They "
        "describe these runs: nothing is tested here."
    )
    return Document(
        title=f"What the FFNs of {title} learned",
        blocks=(
            lead,
            _table(groups),
            details("What the columns mean", MEANINGS),
            *(f"{EXPLANATIONS[name]}\n\n{figure(name, alt)}" for name, (_, alt) in drawings.items()),
            details("Methods", METHODS),
            "\n".join(f"- {note}" for note in notes),
        ),
        figures=drawings,
        tables={"summaries": _summaries(groups)},
        record={"runs": [asdict(run) for run in runs], "notes": list(notes)},
        command=command,
    )


def _summaries(groups: Groups) -> pd.DataFrame:
    """A row for each run and summary."""
    rows = [
        (run.run_id, name, run.seed, summary, value)
        for name, group in groups.items()
        for run in group
        for summary, value in run.summaries.items()
    ]
    return pd.DataFrame(rows, columns=["run_id", "variant", "seed", "summary", "value"])


def _table(groups: Groups) -> str:
    """The one table, without columns that no variant has."""
    by_variant = _summaries(groups).groupby(["variant", "summary"])["value"]
    means, deviations = by_variant.mean(), by_variant.std()
    columns = [name for name in COLUMNS if name in means.index.get_level_values("summary")]

    def cell(variant: str, name: str) -> str:
        if (place := (variant, name)) not in means.index:
            return "-"
        digits = COLUMNS[name][1]
        return f"{means[place]:.{digits}f}{spread(deviations[place], digits)}"

    header = ["variant", "runs", "FFN parameters", *(COLUMNS[name][0] for name in columns)]
    rows = [
        [f"`{variant}`", str(len(group)), f"{group[0].ffn_parameters:,}",
         *(cell(variant, name) for name in columns)]
        for variant, group in groups.items()
    ]  # fmt: skip
    return table(header, rows)


def draw_all(groups: Groups) -> dict[str, Drawing]:
    """Draw what these runs have; by name a figure and its alternative text."""
    styles: Styles = style.variant_styles(list(groups))  # type: ignore[bad-assignment]
    drawings = {}
    with matplotlib.rc_context(style.STYLE):
        for name, measured, draw in (
            ("functions", "layers", draw_functions),
            ("importance", "edges", draw_importance),
            ("pruning", "pruning", draw_pruning),
        ):
            if having := {each: runs for each, runs in groups.items() if getattr(runs[0], measured)}:
                drawings[name] = draw(having, styles)
        for drawing, _ in drawings.values():
            style.settle(drawing)
    return drawings


def draw_functions(groups: Groups, styles: Styles) -> Drawing:
    """Draw a row of panels for each variant, one for each activation or KAN layer."""
    columns = max(len(group[0].layers) for group in groups.values())
    drawing = style.new_figure(ROW_IN * len(groups) + 0.5)
    grid = drawing.subplots(len(groups), columns, squeeze=False)
    for row, (name, group) in zip(grid, groups.items(), strict=True):
        of_runs = list(zip(*(run.layers for run in group), strict=True))
        for axes in row[len(of_runs) :]:
            axes.remove()
        for place, (axes, layers) in enumerate(zip(row, of_runs, strict=False)):
            _draw_layer(axes, layers, styles[name].colour)
            number_in_layer = 1 + sum(other[0].layer == layers[0].layer for other in of_runs[:place])
            axes.set_title(f"layer {layers[0].layer}, {number_in_layer}", fontsize=8, pad=2)
        row[0].set_ylabel(style.filled(name, 14), fontsize=style.SMALL)
    style.add_legend(drawing, [
        _line("median channel, or top edge, of each run", "black"), _line("start", style.GREY, "--"),
        _line("5 and 95% of channels, or further edges", style.GREY, "-", 0.8),
    ])  # fmt: skip
    return drawing, (
        f"Functions inside {', '.join(groups)}: a row for each variant, a panel for each function or KAN "
        "layer by its number and place in the transformer layer, with the start dashed"
    )


def _draw_layer(axes: Axes, layers: Sequence[ActivationLayer | EdgeLayer], colour: str) -> None:
    """Draw the first function of each run's layer; of the first run the others, too, and the start."""
    for layer in layers:
        axes.plot(layer.curves[0].points, layer.curves[0].values, color=colour, lw=1.1)
    first, *others = layers[0].curves
    for curve in others:
        axes.plot(curve.points, curve.values, color=colour, lw=0.7, alpha=0.4)
    axes.plot(first.points, first.initial, color=style.GREY, lw=1.1, ls="--", zorder=4)
    axes.tick_params(labelsize=7, pad=1.5, length=2)
    axes.locator_params(nbins=3)


def draw_importance(groups: Groups, styles: Styles) -> Drawing:
    """Draw for each KAN the share of all variance that a share of its edges carries."""
    drawing, grid = style.panels(len(groups), PANEL_IN, columns=3, sharey=True)
    shares = 100 * np.array(SHARES)
    for axes, (name, group) in zip(grid, groups.items(), strict=True):
        for kind, colour, dashes in zip(KINDS, (styles[name].colour, style.GREY), ("-", "--"), strict=True):
            carried = [layer.carried[kind] for run in group for layer in run.edges]
            axes.plot(shares, 100 * np.mean(carried, 0), lw=1.5, color=colour, ls=dashes)
        axes.plot(shares, shares, color="black", ls=":", lw=1)
        axes.set_title(style.filled(name, 28))
    grid[0].set_ylabel("variance carried (%)")
    drawing.supxlabel("most important edges (%)", fontsize=9.5)
    style.add_legend(drawing, [
        _line("trained", "black"), _line("untrained", style.GREY, "--"),
        _line("chosen at random", "black", ":", 1),
    ])  # fmt: skip
    return drawing, (
        "Share of the variance of all edges that the most important edges carry, mean over layers and runs: "
        "trained, untrained, and of edges chosen at random, which carry their share on average"
    )


def draw_pruning(groups: Groups, styles: Styles) -> Drawing:
    """Draw the rise of the loss against the share of edges that is removed."""
    drawing, (axes,) = style.panels(1, 1.2 * PANEL_IN, columns=1)
    shares = 100 * np.array(REMOVED)
    for name, group in groups.items():
        for order, dashes, width in (("importance", "-", 1.6), ("random", ":", 1)):
            rises = np.array([run.pruning[order] for run in group])
            rises -= rises[:, :1]
            axes.plot(shares, rises.mean(0), color=styles[name].colour, ls=dashes, lw=width)
            if order == "importance":
                area = (shares, rises.min(0), rises.max(0))
                axes.fill_between(*area, color=styles[name].colour, alpha=0.12, lw=0)
    axes.axhline(0, color=style.GREY, lw=0.8, zorder=0)
    axes.set(xlabel="edges removed (%)", ylabel="rise of the loss (nats)")
    axes.set_ylim(-0.1, min(MOST_RISE, axes.get_ylim()[1]))
    handles = [_line(name, styles[name].colour) for name in groups]
    style.add_legend(drawing, [*handles, _line("in random order", "black", ":", 1)])
    return drawing, (
        "Rise of the held-out loss against the share of edges removed, the least important first, mean and "
        "range over runs; dotted, in random order"
    )


def _line(label: str, colour: str, dashes: str = "-", width: float = 1.7) -> Line2D:
    return Line2D([], [], color=colour, ls=dashes, lw=width, label=label)
