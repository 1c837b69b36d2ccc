"""The page of a report: answer card, leaderboard, forest figure, warnings, then every part folded away.

The card says what is shown, whether it can be believed, and what to run next.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from base.config_input import shipped
from base.printing import duration
from report.analysis import Analysis
from report.document.markdown import amount, counted, difference, escape, family_label, listed, margin
from report.leaderboard import leaderboard
from report.part import NextStep, Page
from report.significance.axes import Benchmark, Family
from report.significance.comparison import EQUIVALENT, NEGLIGIBLE, NOT_ESTIMABLE, OPEN, SHOWN, Comparison
from report.significance.factor import FACTORS
from report.statistics.looks import OneLook
from report.verdicts.findings import (
    Findings,
    are_opposite,
    asked_beside,
    by_standing,
    is_at_chance,
    place,
    uneven,
)
from scores.suites import SUITES

NAMED = 3
"""Variants named in one list; the table has all."""
FAMILIES_NAMED = 3
STEPS = 3
"""Proposals on a card."""
WARNINGS_ON_TOP = 6
ELSEWHERE = """All is decided at this size, on these texts. To see whether it holds elsewhere, copy the
study's file under another name, with a larger size (`families: {gpt_neo: small-gpt-neo}`) or other texts:
`ffn-ablations study run COPY.yaml --texts FILES`, on a cluster with `--cluster slurm`.""".replace("\n", " ")


def blocks(analysis: Analysis, page: Page) -> tuple[str, ...]:
    """Return the page's Markdown, a block after the other."""
    sections = [part.section(analysis, result, page) for part, result in analysis.told]
    first = [
        card(analysis),
        f"**The study's own note.** {escape(note)}" if (note := analysis.source.design.report.note) else "",
        leaderboard(analysis),
        page.figure("forest"),
        legend(analysis),
        warnings(analysis),
    ]
    folded = [section.markdown for section in sections if section is not None]
    return tuple(block for block in (*first, *folded) if block)


def legend(analysis: Analysis) -> str:
    """Say how table and figure are read, and what the suites ask."""
    names = dict.fromkeys(benchmark.name for benchmark in analysis.primary)
    suites = [(name, SUITES[name]) for name in names if name in SUITES and SUITES[name].label]
    return (
        f"Differences to `{analysis.baseline}`; ↑ higher is better, ↓ lower. Intervals hold together at "
        f"{analysis.confidence:.0%} over all {len(analysis.claims)} primary comparisons"
        f"{', contrasts included' if analysis.contrasts else ''}. *Better*, *worse*: significantly "
        "different. *Equivalent*: the difference is smaller than the margin, also after correction; *within "
        "margin*: uncorrected. *Undecided*: none of these, the interval holds zero."
        + "".join(f" *{name}*: {suite.kind}, {suite.label}." for name, suite in suites)
    )


def warnings(analysis: Analysis) -> str:
    """What is wrong with the scores, each naming its rows."""
    lines = [escape(note) for note in warning_notes(analysis)]
    if len(lines) > WARNINGS_ON_TOP:
        more = len(lines) - WARNINGS_ON_TOP + 1
        lines = [*lines[: WARNINGS_ON_TOP - 1], f"{more} more are under *Design and data checks*."]
    return "> [!WARNING]\n" + "\n".join(f"> - {line}" for line in lines) if lines else ""


def warning_notes(analysis: Analysis) -> tuple[str, ...]:
    """Return missing scores and every other warning."""
    num = sum(len(seeds.split(", ")) for seeds in analysis.missing.seeds)
    missing = [f"{num} score{'s are' if num > 1 else ' is'} missing"] if num else []
    return (*missing, *analysis.warnings)


def summary(analysis: Analysis) -> str:
    """Return what a screen shows of a report: its card, and its first warnings."""
    notes = warning_notes(analysis)
    more = [f"{len(notes) - NAMED} more: see the report, below its table"] if len(notes) > NAMED else []
    warned = "\n".join(f"- {note}" for note in [*notes[:NAMED], *more])
    return "\n\n".join([card(analysis), *[f"**Warnings.**\n{warned}"] * bool(notes)])


def card(analysis: Analysis) -> str:
    """Return the first thing that a reader sees: the answer, and what the parts say of it."""
    checks = [check for part, result in analysis.told for check in part.checks(analysis, result)]
    paragraphs = {
        "Answer.": answer(analysis), "Can it be believed?": checks, "What next?": next_steps(analysis),
    }  # fmt: skip
    return "\n\n".join(f"**{head}** {' '.join(text)}" for head, text in paragraphs.items() if text)


def _step(analysis: Analysis, step: NextStep) -> str:
    """Say what would be shown, how surely, at which cost, and by which command."""
    hours = [x.train_hours for x in analysis.facts if x.train_hours]
    cost = f", about {duration(3600 * step.num_runs * sum(hours) / len(hours))} of training" if hours else ""
    design, title = analysis.source.design, analysis.source.title
    study = design.typed or (title if title in shipped("study") else "STUDY.yaml")  # of an earlier version
    is_study = design.written and step.command
    command = f": `ffn-ablations study run {study} {step.command}`" if is_study else ""
    goal, premise = "a difference", "the observed one is the true one"
    if step.is_equivalence:
        goal, premise = "the equivalence", "there is no difference"
    return (
        f"{step.text} ({step.num_runs:,} runs{cost}) would show {goal} of {step.compared} in "
        f"at least {step.power:.0%} of studies, if {premise}{command}."
    )


def next_steps(analysis: Analysis) -> list[str]:
    """Propose in sentences what to run next, what decides most first."""
    steps = [step for part, result in analysis.told for step in part.steps(analysis, result)]
    decisive = sorted((step for step in steps if step.is_decisive), key=lambda step: -step.worth)
    proposed = [_step(analysis, step) for step in decisive[:STEPS]]
    if proposed and isinstance(analysis.inference.looks, OneLook):
        proposed.append("Added runs are a second reading (docs/statistics.md).")
    is_decided = bool(analysis.claims) and all(c.verdict in SHOWN for c in analysis.claims)
    if not proposed and is_decided and analysis.source.design.written:
        proposed.append(ELSEWHERE)
    return proposed


def answer(findings: Findings) -> tuple[str, ...]:
    """Return one sentence for each primary metric, and one for all that are at chance."""
    metrics = [name for name in by_standing(findings) if name in findings.primary]
    if not metrics:
        return (f"No primary metric has scores yet, so nothing is concluded about any {findings.noun}.",)
    if _is_one_run_each(findings):
        return (
            f"Every {findings.noun} has one run, which tells nothing of another training of it, so nothing "
            "is concluded. Train several seeds of each.",
        )
    at_chance = [name for name in metrics if is_at_chance(findings, name)]
    sentences = [
        sentence for name in metrics if name not in at_chance for sentence in _of_metric(findings, name)
    ]
    if at_chance:
        names = listed([place(findings, name) for name in at_chance])
        where = _averaged(findings, findings.scopes(at_chance[0])[0]).removeprefix(", averaged over ")
        verb = "is" if len(at_chance) == 1 else "are"
        sentences.append(f"{names} {verb} at chance{f' in {where}' if where else ''}, without a verdict")
    return tuple(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def _of_metric(findings: Findings, benchmark: Benchmark) -> Iterator[str]:
    """Say what is concluded on average, or over all families where there is no average."""
    scopes = findings.scopes(benchmark)
    assumed = ""
    if findings.of(benchmark, scopes[0])[0].metric.is_assumed:
        assumed = f", taken as higher is better (else say --lower-is-better {shlex.quote(str(benchmark))})"
    if scopes[0] is None or len(scopes) == 1:
        where = f"{place(findings, benchmark)}{assumed}{_averaged(findings, scopes[0])}"
        clauses = _clauses(findings, findings.of(benchmark, scopes[0]))
    else:
        where, clauses = f"{place(findings, benchmark)}{assumed}", _without_average(findings, benchmark)
    yield f"on {where}, {'; '.join(clauses)}"
    if differing := uneven(findings, benchmark):
        yield f"between {findings.strata}, {'; '.join(map(_between, differing.values()))}"
    if contrasts := [c for c in asked_beside(findings) if c.benchmark == benchmark]:
        yield f"of the other contrasts, {'; '.join(_of_contrasts(contrasts))}"


def _between(comparisons: Sequence[Comparison]) -> str:
    """Say how far apart the differences of one variant are, of families from the lowest to the highest."""
    how = "is opposite" if are_opposite(comparisons) else "is not the same"
    ends = [f"{difference(c)} in {family_label(c.family)}" for c in (comparisons[0], comparisons[-1])]
    return f"the difference of {_named(comparisons[0])} {how}: {' and '.join(ends)}"


def _without_average(findings: Findings, benchmark: Benchmark) -> Iterator[str]:
    """Say in which families a variant differs, and count what else is found."""
    scopes = findings.scopes(benchmark)
    comparisons = [c for scope in scopes for c in findings.of(benchmark, scope)]
    for variant in findings.others:
        of_variant = [c for c in comparisons if c.contrast.plus == (variant,)]
        for word, is_better in (("better", True), ("worse", False)):
            if different := _different(of_variant, is_better):
                several = f" or more in {len(different)} of {len(scopes)} {findings.strata}"
                where = several if len(different) > 1 else f" in {family_label(different[0].family)}"
                than = f"{_named(different[0])} is {word} than `{findings.baseline}`"
                yield f"{than} by {_size(different[-1])}{where}"
    if not any(c.is_different for c in comparisons):
        yield f"no {findings.noun} is shown to differ from `{findings.baseline}`"
    if equivalent := [c for c in comparisons if c.verdict == EQUIVALENT]:
        within = f"equivalent (within {margin(equivalent[0])})"
        yield f"{_share(equivalent, comparisons)} {within}"
    for word, widest, group in _open(comparisons):
        largest = f"{amount(widest.largest_remaining, widest)} in {family_label(widest.family)}"
        yield f"{_share(group, comparisons)} {word} ({_named(widest)} may still differ by up to {largest})"
    if unknown := [c for c in comparisons if c.verdict == NOT_ESTIMABLE]:
        reasons = _first_listed([*dict.fromkeys(c.reason or "" for c in unknown)])
        yield f"{_share(unknown, comparisons)} {NOT_ESTIMABLE} ({reasons})"


def _of_contrasts(contrasts: Sequence[Comparison]) -> Iterator[str]:
    """Say what is shown of contrasts that are no comparison with the baseline."""
    for c in sorted((c for c in contrasts if c.is_different), key=_size_first):
        side = "better" if c.is_better else "worse"
        yield f"{_named(c)} is {side} than `{'+'.join(map(str, c.contrast.minus))}` by {_size(c)}"
    for word in (EQUIVALENT, *OPEN, NOT_ESTIMABLE):
        if group := [f"`{c.contrast}`" for c in contrasts if c.verdict == word]:
            yield f"{word}: {listed(group)}"


def _clauses(findings: Findings, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Count and name the better, the worse, the equivalent and the undecided, the largest first."""
    better, worse = (_different(comparisons, is_better) for is_better in (True, False))
    yield from _differences(findings, better, "better")
    yield from _differences(findings, worse, "worse")
    if worse and not better:
        yield f"no {findings.noun} is better"
    if not worse and not better:
        yield f"no {findings.noun} is shown to differ from `{findings.baseline}`"
    if equivalent := [c for c in comparisons if c.verdict == EQUIVALENT]:
        verb = "is" if len(equivalent) == 1 else "are"
        within = f"equivalent to `{findings.baseline}` (within {margin(equivalent[0])})"
        yield f"{_names(equivalent)} {verb} {within}"
    yield from _undecided(comparisons)
    yield from _not_estimable(comparisons)


def _different(comparisons: Iterable[Comparison], is_better: bool) -> list[Comparison]:
    """Return those that are shown to be better, or worse, the largest difference first."""
    different = (c for c in comparisons if c.is_different and c.is_better is is_better)
    return sorted(different, key=_size_first)


def _differences(findings: Findings, different: Sequence[Comparison], word: str) -> Iterator[str]:
    than = f"{word} than `{findings.baseline}`"
    if len(different) == 1:
        yield f"{_named(different[0])} is {than} by {_size(different[0])}"
    elif different:
        names = _first_listed([f"{_named(c)} by {_size(c)}" for c in different])
        yield f"{len(different)} {findings.noun}s are {than}: {names}"


def _size_first(comparison: Comparison) -> float:
    return -abs(comparison.estimate or 0.0)


def _undecided(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Say how large a difference may still be, and whose it is."""
    for word, widest, group in _open(comparisons):
        largest = f"may still differ by up to {amount(widest.largest_remaining, widest)}"
        if len(group) == 1:
            yield f"{_named(widest)} is {word} (it {largest})"
        else:
            who = listed(map(_named, group)) if len(group) <= NAMED else len(group)
            yield f"{who} are {word} ({_named(widest)} {largest})"


def _open(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, Comparison, list[Comparison]]]:
    """Return each verdict that shows nothing, its comparison with the widest interval, and all of them."""
    for word in OPEN:
        if group := [c for c in comparisons if c.verdict == word]:
            yield word, max(group, key=lambda c: c.largest_remaining or 0.0), group


def _share(group: Sequence[Comparison], comparisons: Sequence[Comparison]) -> str:
    return f"{len(group)} of {len(comparisons)} comparisons {'is' if len(group) == 1 else 'are'}"


def _not_estimable(comparisons: Sequence[Comparison]) -> Iterator[str]:
    for word, has_runs in ((NOT_ESTIMABLE, True), ("not run", False)):
        unknown = [c for c in comparisons if c.verdict == NOT_ESTIMABLE]
        if group := [c for c in unknown if bool(c.num_runs_plus) is has_runs]:
            why = f" ({group[0].reason})" if has_runs and len({c.reason for c in group}) == 1 else ""
            yield f"{word}{why}: {_names(group)}"


def _averaged(findings: Findings, scope: Family | None) -> str:
    """Say over what it is averaged."""
    if scope is not None:
        return ""
    if findings.stratum == "setting" or findings.factor not in FACTORS:
        return f", averaged over {counted(findings.families)}"
    labels = [family_label(family) for family in findings.families]
    return f", averaged over {listed(labels) if len(labels) <= FAMILIES_NAMED else f'{len(labels)} families'}"


def _size(comparison: Comparison) -> str:
    size = amount(abs(comparison.estimate or 0.0), comparison)
    return f"{size} (negligible)" if comparison.verdict in NEGLIGIBLE else size


def _is_one_run_each(findings: Findings) -> bool:
    """Whether no arm has two runs, as in a table of checkpoints."""
    within = [c for c in findings.comparisons if c.family is not None]
    return bool(within) and all(max(c.num_runs_plus, c.num_runs_minus) <= 1 for c in within)


def _names(comparisons: Sequence[Comparison]) -> str:
    return _first_listed([_named(c) for c in comparisons])


def _first_listed(names: Sequence[str]) -> str:
    """List the first names, and count the others."""
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return listed([*names[:NAMED], *more])


def _named(comparison: Comparison) -> str:
    # A variant may be called "none", which a sentence would swallow.
    name = f"`{comparison.contrast.compared}`"
    return f"{name} (of surviving runs)" if comparison.num_failed else name
