"""The first screen: two sentences, the verdicts, and what is wrong with the scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval.comparison import (
    EQUIVALENT,
    INCONCLUSIVE,
    NEGLIGIBLE,
    NOT_ESTIMABLE,
    Comparison,
)
from eval.report.analysis import Analysis
from eval.report.format import escape, interval, listed, signed, table
from eval.report.names import family_label
from eval.report.sections.context import place

NAMES_SHOWN = 6
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
        places = listed(analysis.benchmarks, "or")
        said = f"{start}, no variant was shown to differ from `{analysis.baseline}` on {places}"
    if within:
        said += f"; within a single family, a difference is shown for {listed(within)}"
    return f"{said}."


def _different(analysis: Analysis, comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"`{c.contrast.removesuffix(f' - {analysis.baseline}')}` ({signed(c.estimate)}"
        + (", negligible)" if c.verdict == NEGLIGIBLE else ")")
        for c in comparisons
        if c.is_different
    ]


def _the_rest(analysis: Analysis) -> str:
    """Name the equivalent, the inconclusive and the impossible."""
    parts = []
    for verdict in (EQUIVALENT, INCONCLUSIVE, NOT_ESTIMABLE):
        for names, places in _by_names(analysis, verdict).items():
            said = f"{verdict} on {listed(places)}: {_quoted(names)}"
            if verdict == EQUIVALENT:
                said = f"equivalent within {analysis.margin:g} on {listed(places)}: {_quoted(names)}"
            if verdict == INCONCLUSIVE:
                said += f", differences up to {_reach(analysis, names, places)} points remain possible"
            parts.append(said)
    said = "; ".join(parts) or "no comparison is inconclusive"
    return f"{said[0].upper()}{said[1:]}."


def _by_names(analysis: Analysis, verdict: str) -> dict[tuple[str, ...], list[str]]:
    """Benchmarks with the same list of variants together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for benchmark in analysis.benchmarks:
        comparisons = zip(analysis.others, analysis.primary(benchmark), strict=True)
        if names := tuple(name for name, c in comparisons if c.verdict == verdict):
            found.setdefault(names, []).append(place(analysis, benchmark))
    return found


def _reach(analysis: Analysis, names: Sequence[str], places: Sequence[str]) -> str:
    """The largest difference that remains possible, on each of the benchmarks or from where to where."""
    reaches = {}
    for benchmark in analysis.benchmarks:
        if place(analysis, benchmark) in places:
            comparisons = zip(analysis.others, analysis.primary(benchmark), strict=True)
            reaches[benchmark] = max(c.largest_remaining or 0.0 for name, c in comparisons if name in names)
    if len(reaches) == 1:
        return f"{next(iter(reaches.values())):.1f}"
    if len(reaches) == 2:
        return listed(f"{reach:.1f} ({name})" for name, reach in reaches.items())
    low, high = min(reaches, key=lambda x: reaches[x]), max(reaches, key=lambda x: reaches[x])
    return f"{reaches[low]:.1f} ({low}) to {reaches[high]:.1f} ({high})"


def _quoted(names: Iterable[str]) -> str:
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
        shown = table(["variant", *benchmarks], body)
    return (
        f"{shown}\n\nDifference to `{analysis.baseline}` in percentage points, positive is better, with its "
        f"{analysis.confidence:.0%} interval. *Different*: Holm-corrected p below {_level(analysis)}. "
        f"*Equivalent*: shown to be smaller than {analysis.margin:g}, which takes the "
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
    return f"{word}<br>{signed(comparison.estimate)} {interval(comparison)}"


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
    cells: dict[str, None] = {}
    for row in analysis.missing.itertuples(index=False):
        cells.setdefault(f"{row.family} {row.variant} seed {row.seeds}")
    shown = list(cells)[:3]
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    return [
        f"{num} score{'s are' if num > 1 else ' is'} missing: {'; '.join(shown)}{more} ([Design](#design))"
    ]
