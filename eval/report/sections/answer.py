"""The sentences that a report opens with: what the outcomes that can tell show, and which cannot tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval.report.analysis import Analysis
from eval.report.markdown import amount, effect, listed, margin, p_value
from eval.report.names import family_label
from eval.report.sections.context import loss_of, place
from eval.report.standing import by_standing, can_tell, families_differ, is_at_chance
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import EQUIVALENT, INCONCLUSIVE, NEGLIGIBLE, NOT_ESTIMABLE, Comparison

NAMED = 4
"""Variants named in one list; the table below has all."""
DETAILED = 1
"""Disagreements of families told with their numbers."""
FAMILIES_NAMED = 3


def answer(analysis: Analysis) -> tuple[str, ...]:
    """Return the opening sentences: the leading outcome, the others that can tell, those that cannot."""
    order = by_standing(analysis)
    telling = [name for name in order if can_tell(analysis, name)]
    said = [
        _leading(analysis, telling),
        _others(analysis, telling[1:]),
        _cannot_tell(analysis, order[len(telling) :]),
    ]
    return tuple(f"{text[0].upper()}{text[1:]}." for text in [*said, _not_estimable(analysis)] if text)


def _leading(analysis: Analysis, telling: Sequence[Benchmark]) -> str:
    if not telling:
        averaged = _averaged(analysis, None) if len(analysis.families) > 1 else ""
        return (
            f"no {analysis.noun} was shown to differ from `{analysis.baseline}` on any outcome, nor to be "
            f"equivalent to it{averaged}"
        )
    scope = analysis.scopes(telling[0])[0]
    clauses = _clauses(analysis, telling[0], is_brief=False)
    return f"on {place(analysis, telling[0])}{_averaged(analysis, scope)}, {'; '.join(clauses)}"


def _averaged(analysis: Analysis, scope: Family | None) -> str:
    if scope is not None:
        return ""
    labels = [family_label(family) for family in analysis.families]
    return f", averaged over {listed(labels) if len(labels) <= FAMILIES_NAMED else f'{len(labels)} families'}"


def _others(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> str:
    return "; ".join(
        f"on {place(analysis, name)}, {', '.join(_clauses(analysis, name, is_brief=True))}"
        for name in benchmarks
    )


def _clauses(analysis: Analysis, benchmark: Benchmark, is_brief: bool) -> list[str]:
    """Say what is shown: differences, equivalences, disagreements, differences within one family."""
    primary = analysis.primary(benchmark)
    shown = [c for c in primary if c.is_different]
    equivalent = [c for c in primary if c.verdict == EQUIVALENT]
    disputed = sorted(
        (c for c in primary if families_differ(analysis, c)), key=lambda c: c.p_interaction or 0.0
    )
    clauses = _in_words(analysis, shown)
    if not shown and not equivalent and not is_brief:
        clauses.append(f"no {analysis.noun} is shown to differ from `{analysis.baseline}`")
    if equivalent:
        names = f"every {analysis.noun}" if len(equivalent) == len(primary) > 1 else _quoted(equivalent)
        verb = "are" if 1 < len(equivalent) < len(primary) else "is"
        clauses.append(f"{names} {verb} equivalent to `{analysis.baseline}` (within {margin(equivalent[0])})")
    if (shown or equivalent) and not is_brief:
        clauses += _open([c for c in primary if c.verdict == INCONCLUSIVE])
    told, others = _split(analysis, disputed, is_brief)
    clauses += _disagreements(analysis, told, others)
    if is_brief and (shown or equivalent):
        return clauses  # the table has the rest
    settled = {c.contrast for c in (*shown, *told)}
    for family in analysis.scopes(benchmark)[1:]:
        rest = [c for c in analysis.of(benchmark, family) if c.is_different and c.contrast not in settled]
        clauses += [f"within {family_label(family)} {text}" for text in _in_words(analysis, rest)]
    return clauses


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
    return [f"{_quoted(comparisons)} {verb} {INCONCLUSIVE} (up to {reach} remain possible)"]


def _size(comparison: Comparison) -> str:
    size = amount(abs(comparison.estimate or 0.0), comparison)
    return f"{size} (negligible)" if comparison.verdict == NEGLIGIBLE else size


def _split(
    analysis: Analysis, disputed: Sequence[Comparison], is_brief: bool
) -> tuple[list[Comparison], list[Comparison]]:
    """Part disagreements into those told with numbers, as some family shows a difference, and the others."""
    shown = [c for c in disputed if any(x.is_different for x in _within(analysis, c))]
    told = [] if is_brief else shown[:DETAILED]
    return told, [c for c in disputed if c not in told]


def _disagreements(analysis: Analysis, told: Sequence[Comparison], others: Sequence[Comparison]) -> list[str]:
    """Say where families differ in a difference."""
    clauses = [_disagreement(analysis, c, _within(analysis, c)) for c in told]
    if others:
        also = "also " if clauses else ""
        p = f" (interaction p {p_value(others[0].p_interaction)})" if len(others) == 1 else ""
        clauses.append(f"the families {also}differ on {_quoted(others)}{p}")
    return clauses


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
        f"(interaction p {p_value(comparison.p_interaction)}): "
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
    how = f"Holm p {p_value(comparison.p_holm)}" if comparison.is_different else comparison.verdict
    return f"{effect(comparison)} in {family_label(comparison.family)} ({' against '.join(values)}, {how})"


def _cannot_tell(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> str:
    """Name the outcomes on which nothing is shown, with what remains possible."""
    said, at_chance = [], []
    for benchmark in benchmarks:
        reach = [c for c in analysis.primary(benchmark) if c.largest_remaining is not None]
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


def _not_estimable(analysis: Analysis) -> str:
    """Name the variants that cannot be compared, outcomes of the same variants together."""
    found: dict[str, list[str]] = {}
    for benchmark in analysis.benchmarks:
        if chosen := [c for c in analysis.primary(benchmark) if c.verdict == NOT_ESTIMABLE]:
            found.setdefault(_quoted(chosen), []).append(place(analysis, benchmark))
    return "; ".join(f"{NOT_ESTIMABLE} on {listed(places)}: {names}" for names, places in found.items())


def _quoted(comparisons: Iterable[Comparison]) -> str:
    # A variant may be called "none", which a sentence would swallow.
    names = [f"`{c.contrast.compared}`" for c in comparisons]
    return listed(names) if len(names) <= NAMED else ", ".join(names[:NAMED]) + _more(len(names) - NAMED)


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
