"""What a look inside found of one run, and of all runs together: the files' contents.

``<run>/eval/inside.json`` holds what was measured of a run, so that it is measured once.
``<study>/inspection/findings.json`` holds what its page says; the report of the study reads that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Numbers = list[float]


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One edge, drawn.

    Attributes:
        output: Number of its output, from 0.
        input: Number of its input.
        share: Of the variance of all edges of its layer.
        form: The closed form that it is called by.
        r2: Of that form, or of the best where none is good.
        points: Quantiles of its input.
        values: What it gives there.
    """

    output: int
    input: int
    share: float
    form: str
    r2: float
    points: Numbers
    values: Numbers


@dataclass(frozen=True, kw_only=True)
class EdgeLayer:
    """The edges of one KAN layer.

    Attributes:
        layer: Number of the transformer layer, from 1.
        place: Which of the layer's KAN layers, from 1.
        kind: What the functions are.
        num_edges: How many there are.
        bound: The most components that the basis can have.
        measures: By ``trained``, ``random`` (functions of the same basis with independent coefficients of the
            same spread), ``untrained`` and ``untrained random`` what was measured, by name.
        explained: By the same the shares of variance of the components.
        forms: By the same the share of the variance of edges that closed forms name.
        points: Coordinates that occur, evenly spaced in their distribution.
        shapes: The first components at them.
        density: Inputs at ``places``.
        places: Middles of even intervals.
        atlas: The strongest edges.
    """

    layer: int
    place: int
    kind: str
    num_edges: int
    bound: int
    measures: dict[str, dict[str, float | None]]
    explained: dict[str, Numbers]
    forms: dict[str, dict[str, float]]
    points: Numbers
    shapes: list[Numbers]
    density: Numbers
    places: Numbers
    atlas: list[Edge]


@dataclass(frozen=True, kw_only=True)
class ActivationLayer:
    """One elementwise function of a model, over its channels.

    Attributes:
        layer: Number of the transformer layer, from 1.
        place: Which of the layer's functions, from 1.
        is_learnable: Whether it has parameters.
        points: Inputs at which the curves are drawn, even between the 0.5% and 99.5% quantiles.
        bands: The 5, 25, 50, 75 and 95% quantiles over channels at the points.
        initial: The median over channels before training.
        density: Share of all inputs around each point.
        parameters: By name the same five quantiles over channels, before (``initial``) and after.
        moved: Root mean square change of what it gives on its inputs, in percent of what it gave before.
        dead: Share of channels whose output hardly moves.
        saturated: Share of channels whose slope is near zero at nearly all of their inputs.
    """

    layer: int
    place: int
    is_learnable: bool
    points: Numbers
    bands: list[Numbers]
    initial: Numbers
    density: Numbers
    parameters: dict[str, dict[str, Numbers]]
    moved: float
    dead: float
    saturated: float


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A model at one step of its training.

    Attributes:
        step: Updates done; 0 before the first.
        loss: On the held-out text, in nats.
        layers: By ``LAYER_MEASURES`` a number for each FFN.
        parameters: Of each learnable activation, by ``<layer>.<place> <name>``, five quantiles over channels.
        curves: Of each learnable activation, by ``<layer>.<place>``, the median over channels at its points;
            of a KAN layer, by the same, those of the strongest edges one after the other.
    """

    step: int
    loss: float
    layers: dict[str, list[float | None]]
    parameters: dict[str, Numbers] = field(default_factory=dict)
    curves: dict[str, list[Numbers]] = field(default_factory=dict)


LAYER_MEASURES = {
    "weight_rms": "root mean square of the weights of the FFN's layers of edges",
    "gradient_norm": "norm of the loss's gradient by them",
    "output_rms": "root mean square of the FFN's output",
    "effective_rank": "effective rank of the FFN's output",
    "dead": "share of inner channels that hardly move",
}
"""What is measured of every FFN along training, with its meaning."""


@dataclass(frozen=True, kw_only=True)
class PruningCurve:
    """Loss and accuracy against the share removed.

    Attributes:
        what: ``edges`` or ``neurons``.
        order: ``activity`` or ``random``.
        shares: Removed, from 0 to 1.
        loss: Held-out loss in nats.
        accuracy: On minimal pairs in percent; empty where none were scored.
        log_odds: Mean margin of the pairs in nats; empty likewise.
    """

    what: str
    order: str
    shares: Numbers
    loss: Numbers
    accuracy: Numbers
    log_odds: Numbers


@dataclass(frozen=True, kw_only=True)
class RunInspection:
    """Everything that was measured of one run.

    Attributes:
        key: Of the weights, the text, the settings and this format.
        ffn_parameters: Learnable numbers of the FFNs.
        loss: Held-out, in nats.
        summaries: One number a run each: by name, then by ``trained``, ``untrained``, ``random``.
        notes: What could not be measured, in words.
    """

    key: str
    run_id: str
    family: str
    variant: str
    seed: int
    ffn_parameters: int
    num_edges: int
    num_tokens: int
    loss: float
    seconds: float
    peak_mb: float
    edges: list[EdgeLayer]
    activations: list[ActivationLayer]
    moments: list[Moment]
    pruning: list[PruningCurve]
    resets: dict[str, float]
    gradient_norms: dict[str, Numbers]
    summaries: dict[str, dict[str, float]]
    pruned_model: str
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One summary over runs, held against its control.

    Attributes:
        question: Which part of the page it belongs to.
        variant: Of which FFN.
        name: What is measured, in words.
        unit: Of the numbers.
        control: What it is held against, in words.
        runs: How many runs, of the variant.
        mean: Of the variant's runs.
        control_mean: Of the control; 0 where the number itself is a difference.
        estimate: The difference.
        low: Lower end of its interval, simultaneous with all others on the page.
        high: Upper end.
        p: Corrected for all findings (Holm); None where there is no spread or one run.
        verdict: ``differs``, ``not shown``, ``equal`` or ``one run``.
        repeats: In how many runs the difference has the sign of the estimate.
    """

    question: str
    family: str
    variant: str
    name: str
    unit: str
    control: str
    runs: int
    mean: float
    control_mean: float
    estimate: float
    low: float | None
    high: float | None
    p: float | None
    verdict: str
    repeats: int


@dataclass(frozen=True, kw_only=True)
class InspectionSummary:
    """What the page of a study says first, for the report."""

    sentences: list[str]
    findings: list[Finding]
    runs: int
    notes: list[str]
