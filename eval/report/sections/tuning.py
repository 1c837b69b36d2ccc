"""What tuning found: verdicts at the shared rate and at each one's own, and what a wrong rate costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from eval.report.analysis import Analysis
from eval.report.document.markdown import details, difference, interval, listed, table
from eval.report.document.names import family_label
from eval.report.sections.answer import in_a_word, left_of
from eval.report.sections.context import Context
from eval.report.tuning.choices import MORE_SEEDS, TUNED_BY, Line, Tuned
from eval.report.tuning.decisive import most_decisive
from eval.report.verdicts.ranking import EDGE
from eval.results.tuning_rules import Point
from eval.significance.statistics.tuning import Estimate

DIGITS = 4
"""Decimals of a loss in nats."""


def tuning_section(analysis: Analysis, context: Context) -> str:
    """Budget, both verdicts side by side, figure, sensitivity, best-of-k; empty where nothing is tuned."""
    tuned, parts = analysis.tuned, []
    if tuned is not None:
        parts = [
            _budget(analysis, tuned),
            _side_by_side(analysis, tuned),
            _which_hold_the_choice(analysis),
            context.figure("tuning"),
            _sensitivity(analysis, tuned),
            _most_decisive(analysis, tuned),
            _best_of(analysis, tuned),
        ]
    parts = [part for part in (*parts, _heads(analysis)) if part]
    return "\n\n".join(["## Tuning", *parts]) if parts else ""


def _heads(analysis: Analysis) -> str:
    """Say how many candidates each head had in fine-tuning, and which were kept."""
    if not analysis.head_trials:
        return ""
    rows = [
        [
            f"`{found.head}`",
            listed([str(number) for number in found.num_trials], "or") if found.num_trials else "-",
            ", ".join(f"{name} ({times}x)" for name, times in _most_first(found.chosen)) or "-",
        ]
        for found in analysis.head_trials
    ]
    counts = {found.num_trials for found in analysis.head_trials}
    uneven = (
        " Heads had unequal numbers of candidates, which favours those with more." if len(counts) > 1 else ""
    )
    return (
        "In fine-tuning, the learning rate or the first weights of a head were chosen among candidates, for "
        "each run, task and seed by itself, on a part of the training set that no score is of."
        f"{uneven} As each chooses for itself, the luck of its choice is in the spread over runs; a best "
        f"value between candidates is not.\n\n{table(['head', 'candidates', 'kept'], rows)}"
    )


def _most_first(chosen: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(chosen.items(), key=lambda pair: -pair[1])


def _budget(analysis: Analysis, tuned: Tuned) -> str:
    """Say what each variant was given, and that it was the same for all."""
    plan = tuned.plan.plan
    fields = listed([f"`{name}` over {_values(values)}" for name, values in plan.fields.items()])
    counts = sorted(set(tuned.num_runs.values()))
    runs = f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    per = "" if len({family for family, _ in tuned.num_runs}) == 1 else " in each setting"
    seeds = f"seed{'s' if len(plan.seeds) > 1 else ''} {listed(map(str, plan.seeds))}"
    return (
        f"Every {analysis.noun} was tuned alike{per}: {fields}, {seeds}, {runs}{_rounds(tuned)}. The best "
        f"mean held-out loss was chosen, on seeds and held-out text that no main run has.{_further(tuned)}"
    )


def _further(tuned: Tuned) -> str:
    """Say which runs were added, and that they chose nothing."""
    counts = Counter[str]()
    for (_, variant), number in tuned.num_further.items():
        counts[str(variant)] += number
    told = [f"{number} about that of `{name}`" for name, number in counts.items() if number]
    if not told:
        return ""
    return f" Then runs were added, {listed(told)}: they choose nothing, and narrow what the choice adds."


def _values(values: Sequence[object]) -> str:
    return listed([f"{value:g}" if isinstance(value, float) else str(value) for value in values])


def _rounds(tuned: Tuned) -> str:
    rounds = max(tuned.num_rounds.values(), default=1)
    return f", the grid widened {'once' if rounds == 2 else f'{rounds - 1} times'}" if rounds > 1 else ""


def _side_by_side(analysis: Analysis, tuned: Tuned) -> str:
    if not analysis.at_shared_rate:
        return ""
    rows = [
        [
            *([family_label(x.own.family)] if len(analysis.families) > 1 else []),
            f"`{x.own.contrast.compared}`",
            f"{difference(x.shared)} {interval(x.shared)}",
            in_a_word(x.shared) + left_of(x),
            *([_rate(tuned, x.own.families, x.own.contrast.compared)]),
            f"{difference(x.own)} {interval(x.own)}",
            in_a_word(x.own),
            "same runs" if x.has_same_runs else "**changed**" if x.is_changed else "same",
        ]
        for x in analysis.at_shared_rate
    ]
    header = [analysis.noun, "at the shared rate", "verdict", "own rate", "at its own", "verdict", ""]
    changed = sum(x.is_changed for x in analysis.at_shared_rate)
    said = (
        f"{changed} of {len(rows)} verdicts on held-out loss change between one rate for all, the best of "
        f"`{tuned.plan.plan.baseline}` ({_shared(tuned)}), and each one's own. Both are corrected alike, "
        "with the other claims. At its own rate the interval holds what the choice adds, also where that "
        "rate is the shared one and the runs are the same."
    )
    return f"{said}\n\n{table([*(['family'] if len(analysis.families) > 1 else []), *header], rows)}"


def _which_hold_the_choice(analysis: Analysis) -> str:
    """Say which numbers of the report the uncertainty of the choice is in, and which not."""
    if not analysis.is_tuned:
        return ""
    return (
        "What the choice adds is in every difference of held-out loss that rests on Welch's test: verdicts, "
        "intervals, p, equivalence, power and trends. It is not in the permutation test and learning curves, "
        "nor in anything of another outcome: these are given the values that were chosen."
    )


def _shared(tuned: Tuned) -> str:
    points = list(map(_point, tuned.shared_points.values()))
    return points[0] if len(set(points)) == 1 else "by setting"


def _point(point: Point) -> str:
    values = [f"{value:g}" if isinstance(value, float) else str(value) for value in point.values()]
    return (
        values[0] if len(values) == 1 else ", ".join(f"{n} {v}" for n, v in zip(point, values, strict=True))
    )


def _rate(tuned: Tuned, families: Iterable[object], variant: object) -> str:
    points = [_point(point) for (f, v), point in tuned.points.items() if v == variant and f in families]
    return ", ".join(dict.fromkeys(points)) or "-"


def _sensitivity(analysis: Analysis, tuned: Tuned) -> str:
    """What each choice is worth: its optimum, how sure it is, and what missing it costs."""
    several = len(analysis.families) > 1
    many = len(tuned.plan.plan.fields) > 1
    rows = [
        [
            *([family_label(line.family)] if several else []),
            f"`{line.variant}`",
            *([f"`{line.field}`"] if many else []),
            _value(line) + (f" {EDGE}" if line.is_at_edge else ""),
            _optimum(line),
            "-" if line.share is None else f"{line.share:.0%}",
            _cost(line.curve.lower if line.curve else None),
            _cost(line.curve.higher if line.curve else None),
            "-" if line.selection is None else f"{math.sqrt(line.selection.variance):.{DIGITS}f}",
        ]
        for line in tuned.lines
    ]
    header = [analysis.noun, *(["field"] if many else []), "chosen", "optimum", "chosen again",
              "a third of the optimum costs", "three times it costs", "choice adds"]  # fmt: skip
    text = (
        "Optimum and costs are those of a curve through the chosen value and its nearest neighbours, five in "
        "all, in nats, "
        f"with {analysis.confidence:.0%} intervals over what the tuning leaves open; an optimum without one "
        "is the end of what was searched; - where the grid does not reach. *Chosen again*: with other tuning "
        "seeds. *Choice adds*: root of the expected square of the regret, which is in the standard error of "
        "every comparison of held-out loss; more tuning seeds and a finer grid lessen it, and more seeds of "
        "the main runs do not. It is integrated over the curves that the tuning leaves open. Nothing is "
        "drawn, so no digit depends on a random number."
    )
    return f"{table([*(['family'] if several else []), *header], rows)}\n\n{text}"


MOST_DECISIVE = 3


def _most_decisive(analysis: Analysis, tuned: Tuned) -> str:
    """Say which further tuning runs would narrow undecided intervals most."""
    best = most_decisive(tuned, analysis.overall(TUNED_BY))[:MOST_DECISIVE]
    if not best:
        return ""
    rows = [
        [
            f"`{each.tuned}`",
            ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in each.values),
            str(each.num_runs),
            f"`{each.compared}`",
            f"{each.share:.0%}",
        ]
        for each in best
    ]
    header = ["tuned further", "at", "runs", "narrows", "to, of today's width"]
    first = best[0]
    return (
        f"**Which tuning runs would decide most**, of what is undecided on the held-out loss: {MORE_SEEDS} "
        f"more tuning seeds at {listed(rows[0][1].split(', '))} of `{first.tuned}` would narrow the interval "
        f"of `{first.compared}` to {first.share:.0%} of its width, if means stay as they are. The study's "
        f"command with `--decide 1` runs them, with `--decide {len(best)}` all of these rows; nothing is "
        f"chosen anew.\n\n{table(header, rows)}"
    )


def _value(line: Line) -> str:
    value = line.values[line.chosen]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _optimum(line: Line) -> str:
    if line.curve is None:
        return "-"
    return _estimate(line.curve.optimum.exp, ".2g")


def _cost(cost: Estimate | None) -> str:
    return "-" if cost is None else _estimate(cost, ".3f")


def _estimate(found: Estimate, form: str) -> str:
    ends = found.interval
    return f"{found.value:{form}}" + (f" [{ends[0]:{form}}, {ends[1]:{form}}]" if ends else "")


def _best_of(analysis: Analysis, tuned: Tuned) -> str:
    """What tuning fewer points would have found (Dodge et al. 2019)."""
    most = max((len(losses) for losses in tuned.best_of.values()), default=0)
    several = len(analysis.families) > 1
    rows = [
        [
            *([family_label(family)] if several else []),
            f"`{variant}`",
            *(f"{x:.{DIGITS}f}" if np.isfinite(x) else "-" for x in losses),
            *["-"] * (most - len(losses)),
        ]
        for (family, variant), losses in tuned.best_of.items()
    ]
    numbers = [f"{number} tried" for number in range(1, most + 1)]
    header = [*(["family"] if several else []), analysis.noun, *numbers]
    text = (
        "Expected lowest mean loss of the tuning, in nats, had only so many of the points been tried, drawn "
        "without replacement (Dodge et al. 2019; Tang et al. 2020); - where one of them may have diverged."
    )
    return details("What a smaller budget would have found", f"{table(header, rows)}\n\n{text}")
