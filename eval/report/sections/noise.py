"""The section of the report that says where the noise is."""

from __future__ import annotations

from collections.abc import Sequence

from eval.report.document.markdown import details, interval_alone, signed, table
from eval.report.document.names import family_label
from eval.report.scores.noise import SPREAD_OVER_SEEDS, ItemAnalysis, ItemComparison, NoiseSource
from eval.significance.comparison import Comparison


def noise_section(items: ItemAnalysis, comparisons: Sequence[Comparison]) -> str:
    """Write where scores vary, and intervals over seeds and items beside those over seeds.

    Args:
        items: What the items tell.
        comparisons: Where the intervals over seeds come from.

    Returns:
        Markdown; empty for a source without items.
    """
    if not items.benchmarks:
        return ""
    parts = [_sources(items.components), *_differences(items, comparisons)]
    body = "\n\n".join(part for part in parts if part)
    return f"## Where the noise is\n\n{details('Seeds, phenomena, tasks and items', body)}" if body else ""


def _sources(components: Sequence[NoiseSource]) -> str:
    if not components:
        return ""
    benchmarks = list(dict.fromkeys(entry.benchmark for entry in components))
    cells = {(entry.source, entry.benchmark): _source_cell(entry) for entry in components}
    rows = []
    for source in dict.fromkeys(entry.source for entry in components):
        shown = [cells[source, benchmark] for benchmark in benchmarks]
        rows.append([source, *shown])
    return (
        "How far scores vary within a family and variant, in percentage points: standard deviation of the "
        "effect → what it adds to one run's score. Seed effects add up, squared, to the *spread over seeds*, "
        "on which verdicts rest (a variance estimated below zero is shown as 0, so with few seeds parts may "
        "exceed it). All runs answer the same items, so that spread does not hold what other items would "
        "change.\n\n"
        + table(["source", *map(str, benchmarks)], rows)
        + "\n\nTasks and phenomena are fixed by the benchmark: how much they differ in difficulty adds "
        "nothing. -: the benchmark has one phenomenon, or one task in each, which then stands for both."
    )


def _source_cell(entry: NoiseSource) -> str:
    added = "" if entry.sd_of_score is None else f"{entry.sd_of_score:.2f}"
    if entry.source == SPREAD_OVER_SEEDS:
        return f"**{added}**"
    if entry.sd is None:
        return "-"
    return f"{entry.sd:.1f} → {added}" if added else f"{entry.sd:.1f}"


def _differences(items: ItemAnalysis, comparisons: Sequence[Comparison]) -> list[str]:
    """One folded table a benchmark, under the sentences that say what it shows."""
    if not items.comparisons:
        return []
    over_seeds = {(c.benchmark, c.contrast, c.family): c for c in comparisons}
    confidence = f"{items.comparisons[0].confidence:.0%}"
    header = ["contrast", "scope", "difference", f"{confidence} over seeds"]
    header += [f"{confidence} over seeds and items", "se over seeds", "se over items"]
    parts = [
        "Differences when the items, too, might have been others. This is another question than that of the "
        "verdicts and changes none of them: would a difference be found again with other seeds *and* other "
        "items of the same kinds? se is the standard error: over seeds on these items, and over items with "
        "these runs, within tasks. The interval is Student's, of both together."
    ]
    for benchmark in items.benchmarks:
        chosen = [c for c in items.comparisons if c.benchmark == benchmark]
        rows = [
            [
                f"`{c.contrast}`",
                *_difference_cells(c, over_seeds.get((benchmark, c.contrast, c.family))),
            ]
            for c in chosen
        ]
        if rows:
            summary = f"{benchmark}: seeds and items ({chosen[0].num_items:,} items)"
            parts.append(details(summary, table(header, rows)))
    return parts


def _difference_cells(found: ItemComparison, over_seeds: Comparison | None) -> list[str]:
    digits = over_seeds.digits if over_seeds else 2
    low, high = signed(found.low, digits), signed(found.high, digits)
    seeds = found.standard_error_seeds
    return [
        family_label(found.family),
        signed(found.estimate, digits),
        "-" if over_seeds is None else interval_alone(over_seeds),
        "-" if found.low is None else f"[{low}, {high}]",
        "-" if seeds is None else f"{seeds:.{digits}f}",
        f"{found.standard_error_items:.{digits}f}",
    ]
