"""What holds over runs: every summary against its control, all corrected together.

Each run gives one number, so runs are what is counted and no edge, channel or token. A control of the same
run, such as the same model untrained, is subtracted run by run; another variant's runs are a second sample
(Welch). All p-values of the page are corrected together (Holm), and all intervals hold together (Bonferroni):
of a study in which nothing is to be found, at most 5% of pages find something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eval.results.inspection import Finding, RunInspection
from eval.significance.statistics.corrections import Holm
from eval.significance.statistics.welch import NO_SPREAD, Welch, welch

LEVEL = 0.05
DIFFERS, NOT_SHOWN, EQUAL, ONE_RUN = "differs", "not shown", "equal", "one run"

SAME = 1e-5
"""Differences below are what float32 rounds, in whatever unit: no spread over runs makes them a finding."""

Arms = Mapping[tuple[str, str], Sequence[RunInspection]]
"""Runs by family and variant."""


@dataclass(frozen=True)
class Question:
    """One thing that is asked of a variant, before any statistics.

    Attributes:
        part: Of the page.
        name: What is measured, in words.
        unit: Of the numbers.
        control: What it is held against, in words.
        values: Of the variant's runs.
        control_values: Of the same runs, or of the control's own where they are other runs.
        is_paired: Whether they are the same runs.
    """

    part: str
    family: str
    variant: str
    name: str
    unit: str
    control: str
    values: tuple[float, ...]
    control_values: tuple[float, ...]
    is_paired: bool = True


RESETS = {
    "start": "loss with the start given back",
    "refitted": "loss with the start given back and the next layers refitted",
}
EXCESSES = {
    "dimension": ("shapes of the edges, beyond random functions", "shapes"),
    "nonlinearity": ("nonlinearity of the edges, beyond random functions", ""),
    "named": ("edges with a closed form, beyond random functions", ""),
}
STEADINESS = {
    "gradient_spread": ("spread of the gradient's norm", "decades"),
    "largest_gradient": ("largest gradient over the median", ""),
}
RANK = "effective_rank"
BY_ACTIVITY, BY_CHANCE, NEURONS = (
    "pruning edges by activity, half",
    "pruning edges by random, half",
    "pruning neurons by activity, half",
)


def arms(runs: Sequence[RunInspection]) -> dict[tuple[str, str], list[RunInspection]]:
    """Group runs by family and variant, in the order in which they come."""
    found: dict[tuple[str, str], list[RunInspection]] = {}
    for run in runs:
        found.setdefault((run.family, run.variant), []).append(run)
    return found


def find_all(runs: Sequence[RunInspection], baseline: str) -> list[Finding]:
    """Ask everything that can be asked of these runs, and judge it together."""
    grouped = arms(runs)
    questions = [
        question
        for ask in (of_activations, of_edges, _of_pruning, _of_stability)
        for place in grouped
        for question in ask(grouped, place, baseline)
    ]
    return judge(questions)


def judge(questions: Sequence[Question]) -> list[Finding]:
    """Test every question, correct all p-values together, and give each an interval that fits its verdict."""
    tested = [_test(question) for question in questions]
    p_values = [p for *_, p in tested]
    corrected, levels = Holm().adjust(p_values), Holm().levels(p_values, LEVEL)
    return [
        _finding(question, differences, p, level)
        for question, (differences, _), p, level in zip(questions, tested, corrected, levels, strict=True)
    ]


def _test(question: Question) -> tuple[list[np.ndarray], float | None]:
    """The samples whose signed means add up to the estimate, and the p-value alone."""
    values, control = np.array(question.values), np.array(question.control_values)
    samples = [values - control] if question.is_paired else [values, control]
    if min(map(len, samples)) < 2 or _are_same(samples):
        return samples, None
    p = float(_inference(samples, 1 - LEVEL).p)
    return samples, p if np.isfinite(p) else None


def _are_same(samples: Sequence[np.ndarray]) -> bool:
    """Whether nothing differs but by rounding: differences of pairs from 0, else all values."""
    return bool(
        np.abs(samples[0]).max() < SAME if len(samples) == 1 else np.ptp(np.concatenate(samples)) < SAME
    )


def _inference(samples: Sequence[np.ndarray], confidence: float) -> Welch:
    scale = max(1.0, *(float(np.abs(x).max()) for x in samples))
    variances = [x.var(ddof=1) if np.ptp(x) > NO_SPREAD * scale else 0.0 for x in samples]
    weights = [1.0, -1.0][: len(samples)]
    return welch([x.mean() for x in samples], variances, [len(x) for x in samples], weights, confidence)


def _finding(
    question: Question, samples: Sequence[np.ndarray], p: float | None, level: float | None
) -> Finding:
    estimate = float(samples[0].mean() - (samples[1].mean() if len(samples) > 1 else 0.0))
    low = high = None
    if level is not None:
        found = _inference(samples, 1 - level)
        low, high = float(found.low), float(found.high)
    verdict = _verdict(samples, p)
    if verdict == DIFFERS and low is not None and high is not None and low < 0 < high:
        # Holm shows what Bonferroni's interval does not; it ends at zero then.
        low, high = (0.0, high) if estimate > 0 else (low, 0.0)
    differences = samples[0] - (samples[1].mean() if len(samples) > 1 else 0.0)
    return Finding(
        question=question.part,
        family=question.family,
        variant=question.variant,
        name=question.name,
        unit=question.unit,
        control=question.control,
        runs=len(question.values),
        mean=float(np.mean(question.values)),
        control_mean=float(np.mean(question.control_values)),
        estimate=estimate,
        low=low,
        high=high,
        p=p,
        verdict=verdict,
        repeats=int((np.sign(differences) == np.sign(estimate)).sum()) if estimate else 0,
    )


def _verdict(samples: Sequence[np.ndarray], p: float | None) -> str:
    if min(map(len, samples)) < 2:
        return ONE_RUN
    if p is None:  # no spread, or nothing but rounding
        return EQUAL if _are_same(samples) else NOT_SHOWN
    return DIFFERS if p < LEVEL else NOT_SHOWN


def _values(runs: Sequence[RunInspection], name: str, kind: str = "trained") -> tuple[float, ...] | None:
    """A summary of every run; None where one of them has none, or one that is not finite."""
    found = [run.summaries.get(name, {}).get(kind) for run in runs]
    known = tuple(value for value in found if value is not None and math.isfinite(value))
    return known if known and len(known) == len(found) else None


def of_activations(grouped: Arms, place: tuple[str, str], _: str = "") -> list[Question]:
    """Ask whether what a variant's activations learned is used."""
    runs = grouped[place]
    return [
        Question("activations", *place, text, "nats", "the trained model", values, (0.0,) * len(values))
        for name, text in RESETS.items()
        if (values := _values(runs, f"reset {name}"))
    ]


def of_edges(grouped: Arms, place: tuple[str, str], _: str = "") -> list[Question]:
    """Ask what training made of a variant's edges, beyond random functions and its start."""
    questions = []
    for name, (text, unit) in EXCESSES.items():
        kinds = ("trained", "random", "untrained", "untrained random")
        found = [_values(grouped[place], f"edges {name}", kind) for kind in kinds]
        if None in found:
            continue
        trained, chance, untrained, chance_before = (np.array(values) for values in found)
        after, before = tuple(trained - chance), tuple(untrained - chance_before)
        questions.append(Question("edges", *place, text, unit, "the same model untrained", after, before))
    return questions


def _of_pruning(grouped: Arms, place: tuple[str, str], baseline: str) -> list[Question]:
    runs = grouped[place]
    half = _values(runs, BY_ACTIVITY)
    if half is None or not any(run.num_edges for run in runs):
        return []
    questions = []
    if (chance := _values(runs, BY_CHANCE)) is not None:
        name = "loss without the less active half of the edges"
        questions.append(Question("pruning", *place, name, "nats", "without any half", half, chance))
    other = grouped.get((place[0], baseline))
    for summary, what in ((BY_ACTIVITY, "edges"), (NEURONS, "neurons")):
        values = _values(other, summary) if other and place[1] != baseline else None
        if values is not None:
            name = "rise of the loss without the less active half of the edges"
            control = f"{baseline} without the less active half of its {what}"
            questions.append(Question("pruning", *place, name, "nats", control, half, values, False))
    return questions


def _of_stability(grouped: Arms, place: tuple[str, str], baseline: str) -> list[Question]:
    other = grouped.get((place[0], baseline))
    if not other or place[1] == baseline:
        return []
    asked = [(f"stability {name}", *said) for name, said in STEADINESS.items()]
    asked.append((f"layer {RANK}", "effective rank of the FFN's output", ""))
    questions = []
    for summary, text, unit in asked:
        values, control = _values(grouped[place], summary), _values(other, summary)
        if values is not None and control is not None:
            questions.append(Question("stability", *place, text, unit, baseline, values, control, False))
    return questions
