"""The table of verdicts, and what is wrong with the scores."""

from __future__ import annotations

from base.wording import first_few
from eval.report.analysis import Analysis
from eval.report.document.markdown import arrow, bold, difference, escape, interval, table, unit_name
from eval.report.document.names import family_label
from eval.report.sections.answer import answer, explored
from eval.report.verdicts.findings import place
from eval.report.verdicts.ranking import by_standing, families_differ, is_at_chance
from eval.report.verdicts.sensitivity import fragile_because, separation
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import (
    DIFFERENT,
    EQUIVALENT,
    NEGLIGIBLE,
    NOT_ESTIMABLE,
    Comparison,
)

WARNINGS_ON_TOP = 6
SETTINGS_ON_TOP = 9
"""Settings that have a row each among the verdicts."""


def verdicts(analysis: Analysis) -> str:
    """One verdict for every variant and outcome that is not at chance; the longer list goes down the page."""
    order = by_standing(analysis)
    shown = [name for name in order if not is_at_chance(analysis, name)]
    return "\n\n".join(
        text for text in (_table(analysis, shown), _at_chance(analysis, order[len(shown) :])) if text
    )


def _table(analysis: Analysis, benchmarks: list[Benchmark]) -> str:
    if not benchmarks:
        return ""
    places = _places(analysis, benchmarks)
    rows = [[_cell(analysis, c) for c in analysis.of(*found)] for found in places]
    names = [_outcome(analysis, *found) for found in places]
    variants = [f"`{name}`" for name in analysis.others]
    if len(variants) <= len(places):
        return table(["outcome", *variants], [[name, *row] for name, row in zip(names, rows, strict=True)])
    columns = zip(*rows, strict=True)
    body = [[name, *column] for name, column in zip(variants, columns, strict=True)]
    return table([analysis.noun, *names], body)


def _places(analysis: Analysis, benchmarks: list[Benchmark]) -> list[tuple[Benchmark, Family | None]]:
    """List what has a row: each outcome as it is averaged, and a leading loss in each family too.

    Families have different objectives, so that what a loss says, it says within one. Settings are what a
    study was made to tell apart: the leading outcome has a row for each, where they are not too many.
    """
    few = analysis.stratum == "setting" and len(analysis.families) <= SETTINGS_ON_TOP
    found: list[tuple[Benchmark, Family | None]] = []
    for name in benchmarks:
        scopes = analysis.scopes(name)
        is_leading_loss = name == benchmarks[0] and analysis.overall(name)[0].is_relative
        is_told = few and name == benchmarks[0] if analysis.stratum == "setting" else is_leading_loss
        found += [(name, scope) for scope in (scopes if is_told else scopes[:1])]
    return found


def _outcome(analysis: Analysis, benchmark: Benchmark, scope: Family | None) -> str:
    """Name an outcome with its direction, its unit and its margin."""
    first = analysis.of(benchmark, scope)[0]
    unit = f"% of `{analysis.baseline}`'s" if first.is_relative else unit_name(first.unit)
    scale = [unit, "no margin" if first.margin is None else f"margin {first.margin:.2g}"]
    scale += [] if first.is_primary else ["explored"]
    is_part = scope != analysis.scopes(benchmark)[0]
    name = f"in {family_label(scope)}" if is_part else f"{place(analysis, benchmark)} {arrow(first.outcome)}"
    return f"{name}<br>{', '.join(filter(None, scale))}"


def _cell(analysis: Analysis, comparison: Comparison) -> str:
    if not comparison.num_runs_plus and not comparison.num_failed:
        return "-"  # never run on it
    if comparison.verdict == NOT_ESTIMABLE:
        said = [NOT_ESTIMABLE, comparison.reason or "", *_families_that_can(analysis, comparison)]
        return "<br>".join(said)
    return "<br>".join([*verdict_words(comparison), *_care(analysis, comparison)])


def _families_that_can(analysis: Analysis, comparison: Comparison) -> list[str]:
    """Where an average cannot be had, what the families say that can be compared."""
    level = analysis.inference.level
    return [
        "<br>".join([f"in {family_label(family)}:", *verdict_words(c), *map(_soft, separation(c, level))])
        for family in analysis.scopes(comparison.benchmark)[1:]
        for c in analysis.of(comparison.benchmark, family)
        if comparison.family is None and c.contrast == comparison.contrast and c.p is not None
    ]


def _care(analysis: Analysis, comparison: Comparison) -> list[str]:
    """Say what a verdict hides or hangs on."""
    said = ["of surviving runs"] if comparison.num_failed else []
    if families_differ(comparison) and comparison.verdict != comparison.disputed:
        said.append(comparison.disputed)
    for x in analysis.sensitivities:
        if x.comparison == comparison:
            said += fragile_because(x, analysis.inference.level)
    return list(map(_soft, said))


def _soft(text: str) -> str:
    return f"*{text}*"


def verdict_words(comparison: Comparison) -> list[str]:
    """Write a verdict with its difference and its interval."""
    word = bold(comparison.verdict, comparison.verdict in (NEGLIGIBLE, EQUIVALENT))
    if comparison.verdict == DIFFERENT:
        word = f"**{'better' if comparison.is_better else 'worse'}**"
    return [word, difference(comparison), interval(comparison)]


def _at_chance(analysis: Analysis, benchmarks: list[Benchmark]) -> str:
    if not benchmarks:
        return ""
    named = [(name, analysis.outcome(name)) for name in benchmarks]
    said = [
        place(analysis, name) + ("" if found.chance is None else f" (guessing scores {found.chance:g})")
        for name, found in named
    ]
    return (
        f"At chance, as no {analysis.noun} is shown to score more than the margin above guessing, or only by "
        f"degrees; so without a verdict: {', '.join(said)}."
    )


def reading(analysis: Analysis) -> str:
    """Say how the table and the plot are read."""
    how, claims = analysis.inference, analysis.claims
    relative = (
        f" A loss averaged over {analysis.strata} is in percent of `{analysis.baseline}`'s, as its scale "
        "differs between them."
        if any(c.is_relative for c in analysis.comparisons)
        else ""
    )
    is_several = any(c.p_interaction is not None for c in analysis.comparisons)
    in_families = f" in every {analysis.stratum}" if is_several else ""
    differ = (
        f" *{analysis.strata.capitalize()} differ*: in this difference (explored: interaction p below "
        f"{how.level:.2g}, corrected over the {analysis.noun}s)."
        if is_several
        else ""
    )
    return (
        f"Differences to `{analysis.baseline}`; ↑ higher is better, ↓ lower.{relative} Intervals hold "
        f"together at {how.confidence:.0%}: over all {len(claims)} claims, and over the {analysis.noun}s of "
        f"each outcome and {analysis.stratum} that is only *explored*. *Better*, *worse*: shown to differ, "
        f"the interval leaves out zero. *Equivalent*: shown to be smaller than the margin{in_families}, "
        f"corrected likewise; *within margin*: shown at its own {how.level:.0%} only.{differ} *At chance*: "
        f"nothing scores more than the margin above guessing. *Inconclusive*: none of these is shown, and "
        "every value in the interval remains possible."
    )


def warnings(analysis: Analysis) -> str:
    """What is wrong with the scores, each naming its rows."""
    lines = [escape(note) for note in (*_missing(analysis), *analysis.warnings)]
    if len(lines) > WARNINGS_ON_TOP:
        more = len(lines) - WARNINGS_ON_TOP + 1
        lines = [*lines[: WARNINGS_ON_TOP - 1], f"{more} more are under [Data checks](#data-checks)."]
    return "> [!WARNING]\n" + "\n".join(f"> - {line}" for line in lines) if lines else ""


def summary(analysis: Analysis) -> str:
    """Return what a screen shows of a report: its answer, what it explored, and how many warnings it has."""
    number = len(_missing(analysis)) + len(analysis.warnings)
    plural = "s" if number > 1 else ""
    warned = f"{number} warning{plural} about these scores: see the top of the report." if number else ""
    return "\n\n".join(filter(None, (" ".join(answer(analysis)), explored(analysis), warned)))


def _missing(analysis: Analysis) -> list[str]:
    num = sum(len(seeds.split(", ")) for seeds in analysis.missing.seeds)
    if not num:
        return []
    gaps: dict[str, None] = {}
    for row in analysis.missing.itertuples(index=False):
        gaps.setdefault(f"{row.family} {row.variant} seed {row.seeds}")
    shown = first_few(list(gaps), 3, "; ")
    return [f"{num} score{'s are' if num > 1 else ' is'} missing: {shown} ([Design](#design))"]
