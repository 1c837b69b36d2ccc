"""Who gets somewhere sooner: learning curves, what the baseline's final loss costs, and the first plateau."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from eval.report.analysis import Analysis
from eval.report.curves.learning_curves import SPENDINGS, Speed
from eval.report.curves.plateaus import EARLY, LEAST_SPREAD, SPEED_EXPLAINS, Departure, Lead, Plateau
from eval.report.document.markdown import bold, details, listed, table
from eval.report.document.names import family_label
from eval.report.sections.context import Context
from eval.significance.axes import Family, Level

SHOWN_BELOW = 0.05
"""Corrected p below which a variant is shown to leave sooner or later."""


def learning_curves_section(analysis: Analysis, context: Context) -> str:
    """Figure, ratios and plateaus; empty where no finished run tells its curve."""
    said = [family_sentence(analysis, family) for family in analysis.families]
    shown = "\n".join(f"- {sentence}" for sentence in said if sentence)
    parts = [shown, context.figure("learning-curves"), *_ratios(analysis), _departures(analysis)]
    parts = [part for part in parts if part]
    return "\n\n".join(["## Learning curves", *parts]) if parts else ""


def ratio_text(speed: Speed) -> str:
    """Write a ratio as ``0.84x [0.79, 0.90]``; no number stands where the loss is not reached."""
    if speed.ratio is None:
        return "not reached" if speed.low is None else f"not reached, over {speed.low:.2f}x"
    ratio = f"under {speed.first:.2f}x" if speed.ratio == speed.first else f"{speed.ratio:.2f}x"
    if not speed.has_interval:
        return ratio
    low = f"under {speed.first:.2f}" if speed.low is None else f"{speed.low:.2f}"
    high = f"over {speed.last:.2f}" if speed.high is None else f"{speed.high:.2f}"
    return f"{ratio} [{low}, {high}]"


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
        if lead.p_holm < SHOWN_BELOW:
            shown["sooner" if lead.ratio < 1 else "later"].append(f"`{lead.variant}` ({_lead_text(lead)})")
    parts = [f"shown to leave {word}: {listed(names)}" for word, names in shown.items() if names]
    if parts:
        return "; ".join(parts)
    if any(x.had_left for x in plateau.departures if x.variant == baseline):
        return f"`{baseline}` had left by its first evaluation, so none is compared with it"
    return f"none is shown to leave sooner or later than `{baseline}`"


def _lead_text(lead: Lead) -> str:
    return f"{lead.ratio:.2f}x [{lead.low:.2f}, {lead.high:.2f}]"


def _ratios(analysis: Analysis) -> list[str]:
    """A table of ratios and one of losses at equal spending, with what they mean."""
    speeds = analysis.curves.speeds
    if not speeds:
        return []
    known = [spending for spending in SPENDINGS if any(x.spending == spending for x in speeds)]
    ratios, losses = [], []
    for family in analysis.families:
        for variant in analysis.others:
            found = [analysis.curves.speed(family, variant, spending) for spending in known]
            if any(found):
                start = [family_label(family), f"`{variant}`"]
                ratios.append([*start, *("-" if x is None else _ratio_cell(x) for x in found)])
                losses.append([*start, *("-" if x is None else _loss_cell(x) for x in found)])
    header = [analysis.stratum, analysis.noun]
    equal = (
        f"Held-out loss minus that of <code>{analysis.baseline}</code> in nats where both have spent as much "
        f"({analysis.confidence:.0%} interval)"
    )
    return [
        table([*header, *known], ratios),
        _what_ratios_say(analysis),
        details(equal, table([*header, *(f"at equal {name}" for name in known)], losses)),
    ]


def _what_ratios_say(analysis: Analysis) -> str:
    base, noun = f"`{analysis.baseline}`", analysis.noun
    return (
        f"What a {noun} spends until its mean curve meets the mean final loss of {base}, over what {base} "
        f"spent for it: below 1 is faster. The {analysis.confidence:.0%} interval holds every ratio at which "
        f"Welch's test does not tell the {noun}'s losses from the final losses of {base}, without "
        "correction. One that goes on behind the end of the curve (*over*) claims nothing about speed. FLOPs "
        "are those of forward passes; hours are those of whatever machine it ran on, without compiling, and "
        "never bold, as others may have shared it. While the learning rate still falls, a curve lies above "
        "that of a training that ends there, so ratios below 1 tend to be too high."
        + " What the tuning leaves open is in none of these intervals."
        * analysis.is_tuned
    )


def _ratio_cell(speed: Speed) -> str:
    is_shown = (speed.high is not None and speed.high < 1) or (speed.low is not None and speed.low > 1)
    is_of_the_model = speed.spending != "hours"
    return bold(ratio_text(speed), speed.ratio is not None and is_shown and is_of_the_model)


def _loss_cell(speed: Speed) -> str:
    shown = f"{speed.difference:+.3f}"
    if speed.difference_low is None:
        return shown
    return f"{shown} [{speed.difference_low:+.3f}, {speed.difference_high:+.3f}]"


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
