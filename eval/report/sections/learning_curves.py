"""Learning curves, and who left the first plateau when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from eval.report.analysis import Analysis
from eval.report.curves.plateaus import EARLY, LEAST_SPREAD, SPEED_EXPLAINS, Departure, Lead, Plateau
from eval.report.document.markdown import details, listed, table
from eval.report.document.names import family_label
from eval.report.sections.context import Context
from eval.significance.axes import Family, Level

SHOWN_BELOW = 0.05
"""Corrected p below which a variant is shown to leave sooner or later."""


def learning_curves_section(analysis: Analysis, context: Context) -> str:
    """Figure and plateaus; empty where no finished run tells its curve."""
    said = [family_sentence(analysis, family) for family in analysis.families]
    shown = "\n".join(f"- {sentence}" for sentence in said if sentence)
    parts = [shown, context.figure("learning-curves"), _departures(analysis)]
    parts = [part for part in parts if part]
    return "\n\n".join(["## Learning curves", *parts]) if parts else ""


def family_sentence(analysis: Analysis, family: Family) -> str | None:
    """Say what a family's losses tell, by when its runs left the first plateau; None if that is unknown."""
    plateau = next((x for x in analysis.curves.plateaus if x.family == family), None)
    return None if plateau is None else plateau_sentence(plateau, analysis.baseline)


def plateau_sentence(plateau: Plateau, baseline: Level) -> str:
    """Say when runs left the plateau of word frequencies, and what their final losses therefore tell."""
    num_runs, left = len(plateau.departures), plateau.left
    name, whole = family_label(plateau.family), f"{_tokens(plateau.tokens)} tokens"
    named = f"the plateau of word frequencies ({plateau.word_frequency_loss:.2f} nats)"
    if not left:
        return f"{name}: none of {num_runs} runs left {named} within {whole}, so its losses tell little."
    if len(left) < num_runs:
        staying = Counter(x.variant for x in plateau.departures if x.tokens is None)
        counts = listed(f"`{variant}` {count}" for variant, count in staying.items())
        return (
            f"{name}: {num_runs - len(left)} of {num_runs} runs ({counts}) did not leave {named} within "
            f"{whole}, so its losses say who leaves first, not where a variant ends."
        )
    said = f"{name}: all {num_runs} runs left {named}"
    if all(x.had_left for x in left):
        first = _tokens(left[-1].tokens)
        return f"{said} by their first evaluation ({first} of {whole}), so its losses compare levels."
    said += f" after {_range(left)} of {whole}"
    if plateau.is_early:
        return f"{said}, early in their training, so its losses compare levels."
    if plateau.spread < LEAST_SPREAD:
        return f"{said}, at about the same time, so its losses compare levels."
    if plateau.explained is None:
        return f"{said}."
    said += f", which explains {plateau.explained:.0%} of the variance of their final losses"
    if not plateau.is_about_speed:
        return f"{said}, so its losses compare levels more than who left first."
    shown = _shown_leads(plateau, baseline)
    return f"{said}, so these say who leaves first, not where a variant ends; {shown}."


def _shown_leads(plateau: Plateau, baseline: Level) -> str:
    """Name the variants shown to leave sooner or later than the baseline, after Holm's correction."""
    shown: dict[str, list[str]] = {"sooner": [], "later": []}
    for lead in plateau.leads:
        if lead.p_corrected < SHOWN_BELOW:
            shown["sooner" if lead.ratio < 1 else "later"].append(f"`{lead.variant}` ({_lead_text(lead)})")
    parts = [f"shown to leave {word}: {listed(names)}" for word, names in shown.items() if names]
    if parts:
        return "; ".join(parts)
    if any(x.had_left for x in plateau.departures if x.variant == baseline):
        return f"`{baseline}` had left by its first evaluation, so none is compared with it"
    return f"none is shown to leave sooner or later than `{baseline}`"


def _lead_text(lead: Lead) -> str:
    return f"{lead.ratio:.2f}x [{lead.low:.2f}, {lead.high:.2f}]"


def _departures(analysis: Analysis) -> str:
    """When the runs of each variant left the plateau, folded away."""
    plateaus = analysis.curves.plateaus
    rows = [
        [family_label(x.family), f"`{variant}`", *_departure_cells(x, variant)]
        for x in plateaus
        for variant in analysis.variants
        if any(y.variant == variant for y in x.departures)
    ]
    if not rows:
        return ""
    below = [x for x in plateaus if x.threshold is not None]
    limits = [f"{x.threshold:.2f} nats in {family_label(x.family)}" for x in below]
    text = (
        "The plateau is the loss of a model that knows only how frequent tokens are. A run has left it when "
        f"its loss is half of the way to the family's best final loss"
        f"{f' ({listed(limits)})' if below else ''}. Losses say who left first where some runs did not "
        f"leave, or left after {EARLY:.0%} of the training and that explains {SPEED_EXPLAINS:.0%} of their "
        "variance. *Against*: ratio of geometric means with its interval (Welch, not corrected)."
    )
    against = f"against `{analysis.baseline}`"
    header = [
        analysis.stratum,
        analysis.noun,
        "runs that left",
        "after so many tokens: mean (range)",
        against,
    ]
    return details("When runs left the plateau of word frequencies", f"{table(header, rows)}\n\n{text}")


def _departure_cells(plateau: Plateau, variant: Level) -> list[str]:
    runs = [x for x in plateau.departures if x.variant == variant]
    left = [x for x in plateau.left if x.variant == variant]
    if not left:
        return [f"0 of {len(runs)}", "-", "-"]
    if all(x.had_left for x in left):
        return [f"{len(left)} of {len(runs)}", f"by the first evaluation ({_tokens(left[-1].tokens)})", "-"]
    mean = float(np.mean([x.tokens for x in left if x.tokens is not None]))
    lead = next((_lead_text(x) for x in plateau.leads if x.variant == variant), "-")
    return [f"{len(left)} of {len(runs)}", f"{_tokens(mean)} ({_range(left)})", lead]


def _range(left: Sequence[Departure]) -> str:
    return f"{_tokens(left[0].tokens)} to {_tokens(left[-1].tokens)}"


def _tokens(count: float | None) -> str:
    """Write tokens in thousands, millions or billions."""
    assert count is not None
    if count >= 1e9:
        return f"{count / 1e9:.2f}B"
    return f"{count / 1e6:.2f}M" if count >= 1e6 else f"{count / 1e3:.0f}k"
