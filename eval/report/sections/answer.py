"""The sentences that a report opens with: what is claimed, and apart from it what is only explored.

Nothing stands in the claims but what survived the correction over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eval.report.analysis import Analysis
from eval.report.markdown import amount, effect, listed, margin, p_value
from eval.report.names import family_label
from eval.report.sections.context import loss_of, place
from eval.report.standing import by_standing, can_tell, families_differ, is_at_chance
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import (
    EQUIVALENT,
    FAMILIES_DIFFER,
    INCONCLUSIVE,
    NEGLIGIBLE,
    NOT_ESTIMABLE,
    WITHIN_MARGIN,
    Comparison,
)

NAMED = 4
"""Variants named in one list; the table below has all."""
DETAILED = 1
"""Disagreements of families told with their numbers."""
FAMILIES_NAMED = 3
EXPLORED = 5
"""Findings told beside the claims."""


def answer(analysis: Analysis) -> tuple[str, ...]:
    """Return the claims in sentences: the leading outcome, the others that can tell, those that cannot."""
    order = [name for name in by_standing(analysis) if name in analysis.primary]
    if not order:
        return (f"No primary outcome has scores yet, so nothing is claimed about any {analysis.noun}.",)
    telling = [name for name in order if can_tell(analysis, name)]
    said = [
        _leading(analysis, telling),
        _others(analysis, telling[1:]),
        _cannot_tell(analysis, order[len(telling) :]),
        _not_estimable(analysis, order),
    ]
    return tuple(f"{text[0].upper()}{text[1:]}." for text in said if text)


def explored(analysis: Analysis) -> str:
    """Return what stands out beside the claims, or nothing: no claim, as so much was looked at."""
    found = [
        *_disagreements(analysis),
        *_further(analysis),
        *_within_margin(analysis),
        *_within_families(analysis),
    ]
    if not found:
        return ""
    more = f"; {len(found) - EXPLORED} more below" if len(found) > EXPLORED else ""
    level = f"{analysis.inference.level:.0%}"
    return f"Exploratory, each outcome and family at its own {level}: {'; '.join(found[:EXPLORED])}{more}."


def _leading(analysis: Analysis, telling: Sequence[Benchmark]) -> str:
    if not telling:
        averaged = _averaged(analysis, None) if len(analysis.families) > 1 else ""
        where = (
            "on any outcome" if len(analysis.primary) == len(analysis.benchmarks) else "on a primary outcome"
        )
        return (
            f"no {analysis.noun} was shown to differ from `{analysis.baseline}` {where}, nor to be "
            f"equivalent to it{averaged}"
        )
    benchmark = telling[0]
    overall, scope = analysis.overall(benchmark), analysis.scopes(benchmark)[0]
    clauses = _claimed(analysis, benchmark)
    if not any(c.is_different for c in overall):
        clauses = [f"no {analysis.noun} is shown to differ from `{analysis.baseline}`", *clauses]
    clauses += _open([c for c in overall if c.verdict in (INCONCLUSIVE, WITHIN_MARGIN, FAMILIES_DIFFER)])
    return f"on {place(analysis, benchmark)}{_averaged(analysis, scope)}, {'; '.join(clauses)}"


def _averaged(analysis: Analysis, scope: Family | None) -> str:
    if scope is not None:
        return ""
    labels = [family_label(family) for family in analysis.families]
    return f", averaged over {listed(labels) if len(labels) <= FAMILIES_NAMED else f'{len(labels)} families'}"


def _others(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> str:
    return "; ".join(
        f"on {place(analysis, name)}, {', '.join(_claimed(analysis, name))}" for name in benchmarks
    )


def _claimed(analysis: Analysis, benchmark: Benchmark) -> list[str]:
    """Say what is shown over all families: differences, then equivalences."""
    overall = analysis.overall(benchmark)
    equivalent = [c for c in overall if c.verdict == EQUIVALENT]
    clauses = _in_words(analysis, [c for c in overall if c.is_different])
    if equivalent:
        names = f"every {analysis.noun}" if len(equivalent) == len(overall) > 1 else _quoted(equivalent)
        verb = "are" if 1 < len(equivalent) < len(overall) else "is"
        clauses.append(f"{names} {verb} equivalent to `{analysis.baseline}` (within {margin(equivalent[0])})")
    return clauses


def _further(analysis: Analysis) -> Iterator[str]:
    """Say what is shown on outcomes that no claim is about."""
    for name in by_standing(analysis):
        if name not in analysis.primary and can_tell(analysis, name):
            yield f"on {place(analysis, name)}, {', '.join(_claimed(analysis, name))}"


def _within_margin(analysis: Analysis) -> Iterator[str]:
    """Say what is within the margin by its own test alone, and how often such a list has an error."""
    for name in analysis.primary:
        overall = analysis.overall(name)
        found = [c for c in overall if c.verdict == WITHIN_MARGIN]
        if found:
            tests = sum(c.p_equivalence_everywhere is not None for c in overall)
            wrong = 1 - (1 - analysis.inference.level) ** tests
            verb = "is" if len(found) == 1 else "are"
            many = f"; of {tests} such tests one or more is wrong in up to {wrong:.0%} of studies"
            yield (
                f"on {place(analysis, name)}, {_quoted(found)} {verb} within {margin(found[0])} of "
                f"`{analysis.baseline}`{many if tests > 1 else ''}"
            )


def _disagreements(analysis: Analysis) -> Iterator[str]:
    """Say where families differ in a difference: the clearest with its numbers, the others by outcome."""
    disputed = [c for name in by_standing(analysis) for c in analysis.overall(name) if families_differ(c)]
    clear = sorted(
        (c for c in disputed if any(x.is_different for x in _within(analysis, c))),
        key=lambda c: c.p_interaction_holm or 0.0,
    )
    told = clear[:DETAILED]
    for comparison in told:
        where = place(analysis, comparison.benchmark)
        yield f"on {where}, {_disagreement(analysis, comparison, _within(analysis, comparison))}"
    for name in by_standing(analysis):
        if rest := [c for c in disputed if c.benchmark == name and c not in told]:
            also = "also " if any(c.benchmark == name for c in told) else ""
            p = f" (interaction p {p_value(rest[0].p_interaction_holm)})" if len(rest) == 1 else ""
            yield f"on {place(analysis, name)}, the families {also}differ on {_quoted(rest)}{p}"


def _within_families(analysis: Analysis) -> Iterator[str]:
    """Say differences within one family that neither the average nor a disagreement has told."""
    for name in by_standing(analysis):
        told = {c.contrast for c in analysis.overall(name) if c.is_different or families_differ(c)}
        for family in analysis.scopes(name)[1:]:
            rest = [c for c in analysis.of(name, family) if c.is_different and c.contrast not in told]
            for text in _in_words(analysis, rest):
                yield f"on {place(analysis, name)} within {family_label(family)}, {text}"


def _in_words(analysis: Analysis, comparisons: Sequence[Comparison]) -> list[str]:
    """Say differences, the better and the worse apart, the largest first."""
    clauses = []
    for is_better in (True, False):
        chosen = [c for c in comparisons if c.is_better is is_better]
        chosen.sort(key=lambda c: -abs(c.estimate or 0.0))
        if not chosen:
            continue
        first, *others = chosen
        than = "" if first.is_relative else f" than `{analysis.baseline}`"
        of_loss = f" of `{analysis.baseline}`'s {loss_of(first.outcome)}" if first.is_relative else ""
        word = "better" if is_better else "worse"
        text = f"`{first.contrast.compared}` is {word}{than} by {_size(first)}{of_loss}"
        text += "".join(f", `{c.contrast.compared}` by {_size(c)}" for c in others[: NAMED - 1])
        clauses.append(text + _more(len(others) - NAMED + 1))
    return clauses


def _open(comparisons: Sequence[Comparison]) -> list[str]:
    if not comparisons:
        return []
    widest = max(comparisons, key=lambda c: c.largest_remaining or 0.0)
    verb = "is" if len(comparisons) == 1 else "are"
    reach = amount(widest.largest_remaining, widest)
    return [f"{_quoted(comparisons)} {verb} {INCONCLUSIVE} (differences up to {reach} remain possible)"]


def _size(comparison: Comparison) -> str:
    size = amount(abs(comparison.estimate or 0.0), comparison)
    return f"{size} (negligible)" if comparison.verdict == NEGLIGIBLE else size


def _within(analysis: Analysis, comparison: Comparison) -> list[Comparison]:
    return [
        c
        for family in analysis.scopes(comparison.benchmark)[1:]
        for c in analysis.of(comparison.benchmark, family)
        if c.contrast == comparison.contrast
    ]


def _disagreement(analysis: Analysis, comparison: Comparison, within: Sequence[Comparison]) -> str:
    word = "disagree" if len({c.is_better for c in within}) > 1 else "differ in how much"
    shown = within if len(within) <= FAMILIES_NAMED else [c for c in within if c.is_different]
    return (
        f"the families {word} on `{comparison.contrast.compared}` "
        f"(interaction p {p_value(comparison.p_interaction_holm)}): "
        + ", ".join(_in_family(analysis, c) for c in shown)
    )


def _in_family(analysis: Analysis, comparison: Comparison) -> str:
    """Say a difference within one family, from which mean to which, and whether it is shown."""
    own = analysis.arms[
        (analysis.arms.benchmark == comparison.benchmark) & (analysis.arms.family == comparison.family)
    ]
    means = dict(zip(own.variant, own["mean"], strict=True))
    values = [
        f"{means[name]:.{comparison.digits}f}" for name in (comparison.contrast.compared, analysis.baseline)
    ]
    how = f"p {p_value(comparison.p_holm)}" if comparison.is_different else comparison.verdict
    return f"{effect(comparison)} in {family_label(comparison.family)} ({' against '.join(values)}, {how})"


def _cannot_tell(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> str:
    """Name the outcomes on which nothing is shown, with what remains possible."""
    said, at_chance = [], []
    for benchmark in benchmarks:
        reach = [c for c in analysis.overall(benchmark) if c.largest_remaining is not None]
        if is_at_chance(analysis, benchmark):
            at_chance.append(place(analysis, benchmark))
        elif reach:
            widest = max(reach, key=lambda c: c.largest_remaining or 0.0)
            up_to = f"up to {amount(widest.largest_remaining, widest)}"
            said.append(
                f"{place(analysis, benchmark)} ({up_to if said else f'differences {up_to} remain possible'})"
            )
    said += [f"{listed(at_chance)} (at chance)"] if at_chance else []
    return f"cannot tell: {', '.join(said)}" if said else ""


def _not_estimable(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> str:
    """Name the variants that cannot be compared, outcomes of the same variants together."""
    found: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        if chosen := [c for c in analysis.overall(benchmark) if c.verdict == NOT_ESTIMABLE]:
            found.setdefault(_quoted(chosen), []).append(place(analysis, benchmark))
    return "; ".join(f"{NOT_ESTIMABLE} on {listed(places)}: {names}" for names, places in found.items())


def _quoted(comparisons: Iterable[Comparison]) -> str:
    # A variant may be called "none", which a sentence would swallow.
    names = [f"`{c.contrast.compared}`" for c in comparisons]
    return listed(names) if len(names) <= NAMED else ", ".join(names[:NAMED]) + _more(len(names) - NAMED)


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
