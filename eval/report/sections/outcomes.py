"""What this study could see: signal and noise of every outcome, and the seeds that verdicts take."""

from __future__ import annotations

from collections.abc import Sequence

from eval.report.analysis import Analysis
from eval.report.document.markdown import amount, details, difference, table
from eval.report.document.names import family_label, title
from eval.report.scores.outcome_table import OutcomeRow
from eval.report.scores.power import Power
from eval.report.verdicts.findings import place
from eval.report.verdicts.ranking import by_standing
from eval.significance.statistics.power import MAX_RUNS, POWER


def outcomes_section(analysis: Analysis) -> str:
    """One row for every outcome; families and variants folded away."""
    first = {benchmark: analysis.scopes(benchmark)[0] for benchmark in analysis.benchmarks}
    order = by_standing(analysis)
    rows = sorted(analysis.outcome_rows, key=lambda row: order.index(row.benchmark))
    primary = [row for row in rows if row.family == first[row.benchmark]]
    if not any(row.power for row in primary):
        return ""
    families = [row for row in rows if row.family != first[row.benchmark]]
    labelled = [[place(analysis, row.benchmark), *_cells(row)] for row in primary]
    header = [
        "outcome", f"between {analysis.noun}s", "between seeds", "ratio (of equals)", "detectable",
        "in margins", "seeds for half / all" if analysis.others[1:] else "seeds", "chance",
    ]  # fmt: skip
    parts = ["## What could this study see?", table(header, labelled), _legend(analysis)]
    if families:
        labelled = [[f"{title(row.benchmark)}, {family_label(row.family)}", *_cells(row)] for row in families]
        parts.append(details(f"Each {analysis.stratum}", table(header, labelled)))
    parts.append(details(f"Each {analysis.noun}", _of_variants(primary, analysis.noun)))
    return "\n\n".join(parts)


def _legend(analysis: Analysis) -> str:
    noun = analysis.noun
    return (
        f"*Between {noun}s*: the largest difference between two means (signal). *Between seeds*: standard "
        "deviation of one seed's score (noise; Heineman et al. 2025 take it over checkpoints). Their ratio "
        f"stands beside what it would be if all {noun}s were equal; it has no unit, so that outcomes are "
        "compared by it. *Detectable*: the smallest true difference found with "
        f"{POWER:.0%} power under Holm's correction, for the middle {noun}. *Seeds*: how many in every arm "
        f"give half of the {noun}s, or all, a verdict, by finding the difference seen or, if it is within "
        "the margin, by showing equivalence. *At chance*: no arm is shown to score more than the margin "
        "above guessing; degrees are also where the right answers are. Where few runs "
        "tell the spread, these are orders of magnitude."
    )


def _cells(row: OutcomeRow) -> list[str]:
    unit = row.comparisons[0]
    spreads, in_margins = row.spreads, row.detectable_in_margins
    return [
        amount(spreads.signal, unit) if spreads else "-",
        amount(spreads.noise, unit) if spreads else "-",
        f"{spreads.ratio:.1f} ({spreads.ratio_of_equals:.1f})" if spreads else "-",
        amount(row.detectable, unit),
        "-" if in_margins is None else f"{in_margins:.1f}",
        _seeds_of(row),
        _chance(row),
    ]


def _seeds_of(row: OutcomeRow) -> str:
    if not row.power or row.is_at_chance:
        return "-"
    half, every = (seeds_text(row.seeds_for(share)) for share in (0.5, 1.0))
    return half if len(row.power) == 1 else f"{half} / {every}"


def _chance(row: OutcomeRow) -> str:
    chance = row.comparisons[0].outcome.chance
    if chance is None:
        return "-"
    if row.is_at_chance:
        return f"{chance:.4g}: **at chance**"
    above = "all" if row.num_above_chance == row.num_arms else f"{row.num_above_chance} of {row.num_arms}"
    return f"{chance:.4g}: {above} above"


def _of_variants(rows: Sequence[OutcomeRow], noun: str) -> str:
    header = ["outcome", noun, "difference", "sd", "detectable", "seeds to find it", "seeds for equivalence"]
    return table(header, [_variant_cells(power) for row in rows for power in row.power])


def _variant_cells(power: Power) -> list[str]:
    found = power.comparison
    return [
        title(found.benchmark),
        f"`{found.contrast.compared}`",
        difference(found),
        amount(power.sd, found),
        amount(power.detectable, found),
        seeds_text(power.seeds_to_detect),
        "-" if found.margin is None else seeds_text(power.seeds_for_equivalence),
    ]


def seeds_text(seeds: int | None) -> str:
    """Write a number of seeds."""
    return f"over {MAX_RUNS}" if seeds is None else str(seeds)
