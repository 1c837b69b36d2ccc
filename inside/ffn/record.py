"""What ``ffn-ablations inspect`` measures of one run."""

from __future__ import annotations

from dataclasses import dataclass

Numbers = list[float]
KINDS = ("trained", "untrained")
"""A run's model, and the one with the weights that its training began with."""


@dataclass(frozen=True, kw_only=True)
class ActivationLayer:
    """One elementwise function of a model, over its channels.

    Attributes:
        layer: Number of the transformer layer, from 1.
        is_learnable: Whether it has parameters.
        points: Inputs at which the curves are drawn, even between the 0.5% and 99.5% quantiles.
        bands: The 5, 25, 50, 75 and 95% quantiles over channels at the points.
        initial: The median over channels before training.
        density: Share of all inputs around each point.
        moved: Root mean square change of its outputs on its inputs, in percent of their size at the start.
    """

    layer: int
    is_learnable: bool
    points: Numbers
    bands: list[Numbers]
    initial: Numbers
    density: Numbers
    moved: float


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One edge, drawn without its mean.

    Attributes:
        output: Number of its output, from 0.
        input: Number of its input, from 0.
        points: Quantiles of its input.
        values: Its outputs there.
        initial: The same of the untrained model.
    """

    output: int
    input: int
    points: Numbers
    values: Numbers
    initial: Numbers


@dataclass(frozen=True, kw_only=True)
class EdgeLayer:
    """The edges of one KAN layer; an edge's importance is the variance of its outputs on held-out text.

    Attributes:
        layer: Number of the transformer layer, from 1.
        num_edges: How many edges it has.
        carried: By ``KINDS`` the share of all importance that the most important edges carry, at
            ``edges.SHARES`` of the edges.
        needed: By ``KINDS`` the smallest share of edges that carries 90% of the importance.
        nonlinear: By ``KINDS`` the share of all variance that no straight line of an edge's input gives.
        strongest: The most important edges, the first one first.
    """

    layer: int
    num_edges: int
    carried: dict[str, Numbers]
    needed: dict[str, float]
    nonlinear: dict[str, float]
    strongest: list[Edge]


@dataclass(frozen=True, kw_only=True)
class PruningCurve:
    """Held-out loss against the share removed from every layer.

    Attributes:
        what: ``edges`` or ``units``.
        order: ``importance``, the least important first, or ``random``.
        shares: Removed, from 0 to 1.
        loss: In nats a token.
    """

    what: str
    order: str
    shares: Numbers
    loss: Numbers

    @property
    def rises(self) -> Numbers:
        """Nats by which each loss is above that of the whole model."""
        return [loss - self.loss[0] for loss in self.loss]


@dataclass(frozen=True, kw_only=True)
class RunInspection:
    """Everything that is measured of one run.

    Attributes:
        ffn_parameters: Learnable numbers of the FFNs.
        num_tokens: Of held-out text that was read.
        loss: Held-out, in nats a token.
        start_back: Nats by which the loss rises where learnable activations get the parameters of their
            start; None without such activations.
    """

    run_id: str
    family: str
    variant: str
    seed: int
    ffn_parameters: int
    num_tokens: int
    loss: float
    activations: list[ActivationLayer]
    start_back: float | None
    edges: list[EdgeLayer]
    pruning: list[PruningCurve]

    @property
    def summaries(self) -> dict[str, float]:
        """One number for each column of the page's table, by name; means over layers, percent for shares."""
        summaries = {"loss": self.loss}
        if learnable := [one.moved for one in self.activations if one.is_learnable]:
            summaries["moved"] = _mean(learnable)
        if self.start_back is not None:
            summaries["start back"] = self.start_back
        for kind in KINDS if self.edges else ():
            summaries[f"edges needed, {kind}"] = 100 * _mean([x.needed[kind] for x in self.edges])
            summaries[f"nonlinear, {kind}"] = 100 * _mean([x.nonlinear[kind] for x in self.edges])
        for curve in self.pruning:
            half = curve.rises[curve.shares.index(0.5)]
            summaries[f"half of the {curve.what}, {curve.order}"] = half
        return summaries


def _mean(values: Numbers) -> float:
    return sum(values) / len(values)


def rounded(values: list[float]) -> Numbers:
    """Numbers for a file, to six digits, which is more than a figure shows."""
    return [float(f"{value:.6g}") for value in values]
