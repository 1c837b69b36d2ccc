"""The first screen: two sentences, the verdicts, and what is wrong with the scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval.report.analysis import Analysis
from eval.report.markdown import difference, escape, interval, listed, table
from eval.report.names import family_label
from eval.report.sections.context import place
from eval.significance.axes import Level
from eval.significance.comparison import (
    EQUIVALENT,
    INCONCLUSIVE,
    NEGLIGIBLE,
    NOT_ESTIMABLE,
    Comparison,
)

NAMES_SHOWN = 6
NAMED = 3
WARNINGS_ON_TOP = 6


def answer(analysis: Analysis) -> tuple[str, str]:
    """The two sentences a report opens with: what differs from the baseline, what is shown of the rest."""
    return _what_differs(analysis), _the_rest(analysis)


def _what_differs(analysis: Analysis) -> str:
    """Name the shown differences by benchmark, then those shown in one family but not on average."""
    start = "After Holm's correction"
    if len(analysis.families) > 1:
        start = f"Averaged over {listed(map(family_label, analysis.families))} and after Holm's correction"
    found, within = [], []
    for benchmark in analysis.benchmarks:
        primary = analysis.primary(benchmark)
        if names := _different(analysis, primary):
            found.append(f"on {place(analysis, benchmark)} {listed(names)}")
        settled = {c.contrast for c in primary if c.is_different}
        for family in analysis.scopes(benchmark)[1:]:
            rest = [c for c in analysis.of(benchmark, family) if c.contrast not in settled]
            if names := _different(analysis, rest):
                within.append(f"{listed(names)} on {benchmark} in {family_label(family)}")
    if found:
        said = f"{start}, these differ from `{analysis.baseline}` (in points): {'; '.join(found)}"
    else:
        places = listed(map(str, analysis.benchmarks), "or")
        said = f"{start}, no {analysis.noun} was shown to differ from `{analysis.baseline}` on {places}"
    if within:
        said += f"; within a single family, a difference is shown for {listed(within)}"
    return f"{said}."


def _different(analysis: Analysis, comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"`{c.contrast.compared}` ({difference(c)}" + (", negligible)" if c.verdict == NEGLIGIBLE else ")")
        for c in comparisons
        if c.is_different
    ]


def _the_rest(analysis: Analysis) -> str:
    """Name the equivalent and the impossible, and the inconclusive where they are few."""
    parts = [
        f"equivalent on {listed(places)}: {_quoted(names)}"
        for names, places in _by_names(analysis, EQUIVALENT).items()
    ]
    parts += _inconclusive(analysis)
    parts += [
        f"{NOT_ESTIMABLE} on {listed(places)}: {_quoted(names)}"
        for names, places in _by_names(analysis, NOT_ESTIMABLE).items()
    ]
    said = "; ".join(parts) or "no comparison is inconclusive"
    return f"{said[0].upper()}{said[1:]}."


def _by_names(analysis: Analysis, verdict: str) -> dict[tuple[Level, ...], list[str]]:
    """Benchmarks with the same list of variants together."""
    found: dict[tuple[Level, ...], list[str]] = {}
    for benchmark in analysis.benchmarks:
        comparisons = zip(analysis.others, analysis.primary(benchmark), strict=True)
        if names := tuple(name for name, c in comparisons if c.verdict == verdict):
            found.setdefault(names, []).append(place(analysis, benchmark))
    return found


def _inconclusive(analysis: Analysis) -> list[str]:
    """Name them, or count them where a sentence of names would hide the answer; the table has them all."""
    every = [c for benchmark in analysis.benchmarks for c in analysis.primary(benchmark)]
    open_ = [c for c in every if c.verdict == INCONCLUSIVE]
    if not open_:
        return []
    widest = max(open_, key=lambda c: c.largest_remaining or 0.0)
    reach = f"differences up to {widest.largest_remaining:.1f} points"
    if len(analysis.benchmarks) > 1:
        reach += f" (on {widest.benchmark})"
    groups = _by_names(analysis, INCONCLUSIVE)
    if len(groups) == 1:
        ((names, places),) = groups.items()
        if len(names) <= NAMED:
            return [f"{INCONCLUSIVE} on {listed(places)}: {_quoted(names)}, {reach} remain possible"]
    count = f"all {len(every)}" if len(open_) == len(every) else f"{len(open_)} of {len(every)}"
    return [f"{INCONCLUSIVE}: {count} comparisons, {reach} remain possible"]


def _quoted(names: Iterable[Level]) -> str:
    # A variant may be called "none", which a sentence would swallow.
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > NAMES_SHOWN:
        quoted = [*quoted[: NAMES_SHOWN - 1], f"{len(quoted) - NAMES_SHOWN + 1} more"]
    return listed(quoted)


def verdicts(analysis: Analysis) -> str:
    """One verdict for every variant and benchmark; the longer of the two lists goes down the page."""
    rows = [
        [_verdict_cell(comparison) for comparison in analysis.primary(benchmark)]
        for benchmark in analysis.benchmarks
    ]
    variants = [f"`{name}`" for name in analysis.others]
    benchmarks = [place(analysis, name) for name in analysis.benchmarks]
    if len(variants) < len(benchmarks):
        body = [[name, *row] for name, row in zip(benchmarks, rows, strict=True)]
        shown = table(["benchmark", *variants], body)
    else:
        columns = zip(*rows, strict=True)
        body = [[name, *column] for name, column in zip(variants, columns, strict=True)]
        shown = table([analysis.noun, *benchmarks], body)
    return (
        f"{shown}\n\nDifference to `{analysis.baseline}` in percentage points, positive is better, with its "
        f"{analysis.confidence:.0%} interval. *Different*: Holm-corrected p below {_level(analysis)}. "
        "*Equivalent*: shown to be smaller than the margin, which takes the "
        f"{1 - 2 * analysis.inference.level:.0%} interval. *Inconclusive*: neither is shown, and "
        "every value in the interval remains possible"
        + ("; more seeds would tell ([Power](#power))." if analysis.power else ".")
    )


def _level(analysis: Analysis) -> str:
    return f"{analysis.inference.level:.2g}"


def _verdict_cell(comparison: Comparison) -> str:
    if comparison.verdict == NOT_ESTIMABLE:
        return f"{NOT_ESTIMABLE}<br>{comparison.reason}"
    is_shown = comparison.verdict != INCONCLUSIVE
    word = f"**{comparison.verdict}**" if is_shown else comparison.verdict
    return f"{word}<br>{difference(comparison)} {interval(comparison)}"


def warnings(analysis: Analysis) -> str:
    """What is wrong with the scores, each naming its rows."""
    lines = [escape(note) for note in (*_missing(analysis), *analysis.warnings)]
    if len(lines) > WARNINGS_ON_TOP:
        more = len(lines) - WARNINGS_ON_TOP + 1
        lines = [*lines[: WARNINGS_ON_TOP - 1], f"{more} more are under [Data checks](#data-checks)."]
    return "> [!WARNING]\n" + "\n".join(f"> - {line}" for line in lines) if lines else ""


def _missing(analysis: Analysis) -> list[str]:
    num = sum(len(seeds.split(", ")) for seeds in analysis.missing.seeds)
    if not num:
        return []
    gaps: dict[str, None] = {}
    for row in analysis.missing.itertuples(index=False):
        gaps.setdefault(f"{row.family} {row.variant} seed {row.seeds}")
    shown = list(gaps)[:3]
    more = f" and {len(gaps) - 3} more" if len(gaps) > 3 else ""
    return [
        f"{num} score{'s are' if num > 1 else ' is'} missing: {'; '.join(shown)}{more} ([Design](#design))"
    ]
