"""The sentences that a report opens with: what is claimed, and apart from it what is only explored.

Nothing stands in the claims but what survived the correction over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eval.report.document.markdown import amount, effect, listed, margin, p_value
from eval.report.document.names import counted, family_label, loss_of
from eval.report.verdicts.findings import AtSharedRate, Findings, place
from eval.report.verdicts.ranking import by_standing, can_tell, families_differ, is_at_chance
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import (
    EQUIVALENT,
    INCONCLUSIVE,
    NEGLIGIBLE,
    NOT_ESTIMABLE,
    WITHIN_MARGIN,
    Comparison,
)
from eval.significance.factor import FACTORS

NAMED = 4
"""Variants named in one list; the table below has all."""
DETAILED = 1
"""Disagreements of families told with their numbers."""
FAMILIES_NAMED = 3
EXPLORED = 5
"""Findings told beside the claims."""


def answer(findings: Findings) -> tuple[str, ...]:
    """Return the claims in sentences: the leading outcome, the others that can tell, those that cannot."""
    order = [name for name in by_standing(findings) if name in findings.primary]
    if not order:
        return (f"No primary outcome has scores yet, so nothing is claimed about any {findings.noun}.",)
    if _is_one_run_each(findings):
        return (
            f"Every {findings.noun} has one run, which says nothing of another training of it, so nothing is "
            "claimed. Train several seeds of each.",
        )
    telling = [name for name in order if can_tell(findings, name)]
    said = [
        _leading(findings, telling),
        _others(findings, telling[1:]),
        _cannot_tell(findings, order[len(telling) :]),
        _not_estimable(findings, order),
        _at_shared_rate(findings),
        _given_the_choice(findings, telling),
    ]
    return tuple(f"{text[0].upper()}{text[1:]}." for text in said if text)


def explored(findings: Findings) -> str:
    """Return what stands out beside the claims, or nothing: no claim, as so much was looked at."""
    found = [
        *_disagreements(findings),
        *_further(findings),
        *_within_margin(findings),
        *_within_families(findings),
    ]
    if not found:
        return ""
    more = f"; {len(found) - EXPLORED} more below" if len(found) > EXPLORED else ""
    level = f"{findings.inference.level:.0%}"
    said = "; ".join(found[:EXPLORED])
    return f"Exploratory, each outcome and {findings.stratum} at its own {level}: {said}{more}."


def _leading(findings: Findings, telling: Sequence[Benchmark]) -> str:
    if not telling:
        averaged = _averaged(findings, None) if len(findings.families) > 1 else ""
        where = (
            "on any outcome" if len(findings.primary) == len(findings.benchmarks) else "on a primary outcome"
        )
        return (
            f"no {findings.noun} was shown to differ from `{findings.baseline}` {where}, nor to be "
            f"equivalent to it{averaged}"
        )
    benchmark = telling[0]
    overall, scope = findings.overall(benchmark), findings.scopes(benchmark)[0]
    clauses = _claimed(findings, benchmark)
    if not any(c.is_different for c in overall):
        clauses = [f"no {findings.noun} is shown to differ from `{findings.baseline}`", *clauses]
    clauses += _open([c for c in overall if c.verdict in (INCONCLUSIVE, WITHIN_MARGIN, c.disputed)])
    return f"on {place(findings, benchmark)}{_averaged(findings, scope)}, {'; '.join(clauses)}"


def _averaged(findings: Findings, scope: Family | None) -> str:
    if scope is not None:
        return ""
    if findings.stratum == "setting" or findings.factor not in FACTORS:
        return f", averaged over {counted(findings.families)}"
    labels = [family_label(family) for family in findings.families]
    return f", averaged over {listed(labels) if len(labels) <= FAMILIES_NAMED else f'{len(labels)} families'}"


def _others(findings: Findings, benchmarks: Sequence[Benchmark]) -> str:
    return "; ".join(
        f"on {place(findings, name)}, {', '.join(_claimed(findings, name))}" for name in benchmarks
    )


def _claimed(findings: Findings, benchmark: Benchmark) -> list[str]:
    """Say what is shown over all families: differences, then equivalences."""
    overall = findings.overall(benchmark)
    equivalent = [c for c in overall if c.verdict == EQUIVALENT]
    clauses = _in_words(findings, [c for c in overall if c.is_different])
    if equivalent:
        names = f"every {findings.noun}" if len(equivalent) == len(overall) > 1 else _quoted(equivalent)
        verb = "are" if 1 < len(equivalent) < len(overall) else "is"
        clauses.append(f"{names} {verb} equivalent to `{findings.baseline}` (within {margin(equivalent[0])})")
    return clauses


def _further(findings: Findings) -> Iterator[str]:
    """Say what is shown on outcomes that no claim is about."""
    for name in by_standing(findings):
        if name not in findings.primary and can_tell(findings, name):
            yield f"on {place(findings, name)}, {', '.join(_claimed(findings, name))}"


def _within_margin(findings: Findings) -> Iterator[str]:
    """Say what is within the margin by its own test alone, and how often such a list has an error."""
    for name in findings.primary:
        overall = findings.overall(name)
        found = [c for c in overall if c.verdict == WITHIN_MARGIN]
        if found:
            tests = sum(c.p_equivalence_everywhere is not None for c in overall)
            wrong = 1 - (1 - findings.inference.level) ** tests
            verb = "is" if len(found) == 1 else "are"
            many = f"; of {tests} such tests one or more is wrong in up to {wrong:.0%} of studies"
            yield (
                f"on {place(findings, name)}, {_quoted(found)} {verb} within {margin(found[0])} of "
                f"`{findings.baseline}`{many if tests > 1 else ''}"
            )


def _disagreements(findings: Findings) -> Iterator[str]:
    """Say where families differ in a difference: the clearest with its numbers, the others by outcome."""
    disputed = [c for name in by_standing(findings) for c in findings.overall(name) if families_differ(c)]
    clear = sorted(
        (c for c in disputed if any(x.is_different for x in _within(findings, c))),
        key=lambda c: c.p_interaction_holm or 0.0,
    )
    told = clear[:DETAILED]
    for comparison in told:
        where = place(findings, comparison.benchmark)
        yield f"on {where}, {_disagreement(findings, comparison, _within(findings, comparison))}"
    for name in by_standing(findings):
        if rest := [c for c in disputed if c.benchmark == name and c not in told]:
            also = "also " if any(c.benchmark == name for c in told) else ""
            p = f" (interaction p {p_value(rest[0].p_interaction_holm)})" if len(rest) == 1 else ""
            yield f"on {place(findings, name)}, the {findings.strata} {also}differ on {_quoted(rest)}{p}"


def _within_families(findings: Findings) -> Iterator[str]:
    """Say differences within one family that neither the average nor a disagreement has told."""
    for name in by_standing(findings):
        told = {c.contrast for c in findings.overall(name) if c.is_different or families_differ(c)}
        for family in findings.scopes(name)[1:]:
            rest = [c for c in findings.of(name, family) if c.is_different and c.contrast not in told]
            if rest:
                said = ", ".join(_in_words(findings, rest))
                yield f"on {place(findings, name)} within {family_label(family)}, {said}"


def _in_words(findings: Findings, comparisons: Sequence[Comparison]) -> list[str]:
    """Say differences, the better and the worse apart, the largest first."""
    clauses = []
    for is_better in (True, False):
        chosen = [c for c in comparisons if c.is_better is is_better]
        chosen.sort(key=lambda c: -abs(c.estimate or 0.0))
        if not chosen:
            continue
        first, *others = chosen
        than = "" if first.is_relative else f" than `{findings.baseline}`"
        of_loss = f" of `{findings.baseline}`'s {loss_of(first.outcome)}" if first.is_relative else ""
        word = "better" if is_better else "worse"
        text = f"{_named(first)} is {word}{than} by {_size(first)}{of_loss}"
        text += "".join(f", {_named(c)} by {_size(c)}" for c in others[: NAMED - 1])
        clauses.append(text + _more(len(others) - NAMED + 1))
    return clauses


def _open(comparisons: Sequence[Comparison]) -> list[str]:
    if not comparisons:
        return []
    verb = "is" if len(comparisons) == 1 else "are"
    return [f"{_quoted(comparisons)} {verb} {INCONCLUSIVE} (differences up to {_reach(comparisons)})"]


def _reach(comparisons: Sequence[Comparison]) -> str:
    """Say how large a difference may be, and of whom, where it is of one of several."""
    widest = max(comparisons, key=lambda c: c.largest_remaining or 0.0)
    whose = f", of {_named(widest)}," if len(comparisons) > 1 else ""
    return f"{amount(widest.largest_remaining, widest)}{whose} remain possible"


def _size(comparison: Comparison) -> str:
    size = amount(abs(comparison.estimate or 0.0), comparison)
    return f"{size} (negligible)" if comparison.verdict == NEGLIGIBLE else size


def _within(findings: Findings, comparison: Comparison) -> list[Comparison]:
    return [
        c
        for family in findings.scopes(comparison.benchmark)[1:]
        for c in findings.of(comparison.benchmark, family)
        if c.contrast == comparison.contrast
    ]


def _disagreement(findings: Findings, comparison: Comparison, within: Sequence[Comparison]) -> str:
    word = "disagree" if len({c.is_better for c in within}) > 1 else "differ in how much"
    shown = within if len(within) <= FAMILIES_NAMED else [c for c in within if c.is_different]
    rest = [c for c in within if c not in shown] if findings.stratum == "setting" else []
    return (
        f"the {findings.strata} {word} on `{comparison.contrast.compared}` "
        f"(interaction p {p_value(comparison.p_interaction_holm)}): "
        + ", ".join([*(_in_family(findings, c) for c in shown), *_by_verdict(rest)])
    )


def _by_verdict(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Say where no difference is shown, those of one verdict together."""
    for verdict in dict.fromkeys(c.verdict for c in comparisons):
        where = [family_label(c.family) for c in comparisons if c.verdict == verdict]
        yield f"{verdict} in {listed(where) if len(where) <= NAMED else f'{len(where)} others'}"


def _in_family(findings: Findings, comparison: Comparison) -> str:
    """Say a difference within one family, from which mean to which, and whether it is shown."""
    runs, contrast = findings.tables[comparison.benchmark].runs, comparison.contrast
    arms = [
        runs[family, name] for family in comparison.families for name in (*contrast.plus, *contrast.minus)
    ]
    values = [f"{arm.mean():.{comparison.digits}f}" for arm in arms]
    how = f"p {p_value(comparison.p_corrected)}" if comparison.is_different else comparison.verdict
    return f"{effect(comparison)} in {family_label(comparison.family)} ({' against '.join(values)}, {how})"


def _cannot_tell(findings: Findings, benchmarks: Sequence[Benchmark]) -> str:
    """Name the outcomes on which nothing is shown, with what remains possible."""
    said, at_chance = [], []
    for benchmark in benchmarks:
        reach = [c for c in findings.overall(benchmark) if c.largest_remaining is not None]
        if is_at_chance(findings, benchmark):
            at_chance.append(place(findings, benchmark))
        elif reach:
            said.append(f"{place(findings, benchmark)} (differences up to {_reach(reach)})")
    said += [f"{listed(at_chance)} (at chance)"] if at_chance else []
    return f"cannot tell: {', '.join(said)}" if said else ""


def _not_estimable(findings: Findings, benchmarks: Sequence[Benchmark]) -> str:
    """Name the variants that cannot be compared, outcomes of the same variants together."""
    found: dict[tuple[str, str], list[str]] = {}
    for benchmark in benchmarks:
        without = [c for c in findings.overall(benchmark) if c.verdict == NOT_ESTIMABLE]
        for said, has_runs in ((NOT_ESTIMABLE, True), ("not run", False)):
            if chosen := [c for c in without if bool(c.num_runs_plus) is has_runs]:
                found.setdefault((said, _quoted(chosen)), []).append(place(findings, benchmark))
    return "; ".join(f"{said} on {listed(places)}: {names}" for (said, names), places in found.items())


def _is_one_run_each(findings: Findings) -> bool:
    """Whether no arm has two runs, which is how a table of checkpoints looks."""
    within = [c for c in findings.comparisons if c.family is not None]
    return bool(within) and all(max(c.num_runs_plus, c.num_runs_minus) <= 1 for c in within)


def _at_shared_rate(findings: Findings) -> str:
    """Name the verdicts of a tuned study that one rate for all would have changed."""
    scopes = {findings.scopes(both.own.benchmark)[0] for both in findings.at_shared_rate}
    changed = [x for x in findings.at_shared_rate if x.is_changed and x.own.family in scopes]
    said = [
        f"{_named(x.own)} would be {in_a_word(x.shared)}{left_of(x)} instead of {in_a_word(x.own)}"
        for x in changed[:NAMED]
    ]
    more = _more(len(changed) - NAMED)
    return f"at one rate for all variants, {', '.join(said)}{more}" if said else ""


def _given_the_choice(findings: Findings, telling: Sequence[Benchmark]) -> str:
    """Say of what is claimed of other outcomes than the one that was tuned by how far it goes."""
    others = [name for name in telling if not findings.tables[name].choices]
    if not others or not findings.is_tuned:
        return ""
    named = listed([place(findings, name) for name in others])
    return f"what is said of {named} is given each one's chosen values: another tuning might choose others"


def left_of(both: AtSharedRate) -> str:
    """Say that runs at the shared rate are missing, as where they diverged."""
    left, of = both.shared.num_runs_plus, both.own.num_runs_plus
    return f" ({left} of {of} runs ended)" if left < of else ""


def in_a_word(comparison: Comparison) -> str:
    """Say a verdict, of a difference which way round and how much."""
    if not comparison.is_different:
        return comparison.verdict
    word = "better" if comparison.is_better else "worse"
    return f"{word} by {_size(comparison)}"


def _quoted(comparisons: Iterable[Comparison]) -> str:
    names = [_named(c) for c in comparisons]
    return listed(names) if len(names) <= NAMED else ", ".join(names[:NAMED]) + _more(len(names) - NAMED)


def _named(comparison: Comparison) -> str:
    # A variant may be called "none", which a sentence would swallow.
    name = f"`{comparison.contrast.compared}`"
    return f"{name} (of surviving runs)" if comparison.num_failed else name


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
