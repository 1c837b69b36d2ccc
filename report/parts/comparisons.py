"""Every comparison with its intervals and tests, the forest figures, and contrasts asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from base.printing import first_few
from report.analysis import Analysis
from report.document.markdown import (
    amount,
    difference,
    family_label,
    figure_names,
    interval,
    listed,
    p_value,
    signed,
    span,
    table,
    unit_name,
)
from report.figures.forest import draw_forest, draw_forests
from report.leaderboard import verdict
from report.part import Draw, Page, Part, Section
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison
from report.verdicts.findings import AtSharedRate, by_standing, place, shown_first

LARGE_SHARE = 0.5
"""Of a variance, from which on a reader is told where it comes from."""
TEXTS_NAMED = 2
TESTS = ("low", "high", "p", "p_sequential", "p_corrected", "level_simultaneous", "low_simultaneous",
         "high_simultaneous", "p_equivalence", "p_equivalence_everywhere", "p_equivalence_holm",
         "smallest_margin")  # fmt: skip
"""Columns that an exploratory comparison has no number in."""
Comparisons = tuple[Comparison, ...]


def compute(analysis: Analysis) -> Comparisons:
    """Return every comparison with the baseline."""
    return analysis.comparisons


def section(analysis: Analysis, comparisons: Comparisons, page: Page) -> Section:
    """Every comparison with its tests, a metric at a time, and the contrasts asked for."""
    parts = [_legend(analysis)]
    figures = figure_names("forest", analysis.benchmarks)
    for benchmark in by_standing(analysis):
        parts += [f"**{_heading(analysis, benchmark)}**", page.figure(figures[benchmark])]
        compared = [c for scope in analysis.scopes(benchmark) for c in analysis.of(benchmark, scope)]
        parts += _tables(analysis, compared, lambda c: f"`{c.contrast.compared}`")
    if analysis.contrasts:
        parts += [
            "**Contrasts asked for**",
            f"{analysis.strata.capitalize()} weigh the same, and so do the {analysis.noun}s of a group. They "
            "are corrected with all primary comparisons.",
            *_tables(
                analysis, analysis.contrasts, lambda c: f"{place(analysis, c.benchmark)}: `{c.contrast}`"
            ),
        ]
    if dropped := sorted({name for c in (*comparisons, *analysis.contrasts) for name in c.dropped}):
        parts.append(f"Without a partner of the same seed, and left out of some pair: {', '.join(dropped)}.")
    title = f"Every comparison with `{analysis.baseline}`"
    return Section(title=title, summary="", body="\n\n".join(filter(None, parts)))


def checks(analysis: Analysis, comparisons: Comparisons) -> Iterable[str]:
    """Say how large the study is, and what most of its uncertainty comes from."""
    primary = analysis.arms[analysis.arms.benchmark.isin(analysis.primary)]
    sizes = [x.num_parameters / 1e6 for x in analysis.facts if x.num_parameters]
    tokens = [x.curve[-1].tokens / 1e6 for x in analysis.facts if x.curve and x.curve[-1].tokens]
    scale = [f"{span(sizes, '.2f')}M parameters"] if sizes else []
    scale += [f"{span(tokens, '.1f')}M tokens{_of_corpus(analysis)}"] if tokens else []
    tuning = f" and its own {fields}" if (fields := _tuned_fields(analysis)) else ""
    of_size = f" ({' and '.join(scale)})" if scale else ""
    if len(primary):
        seeds = f"{span(primary.n, 'g')} seed{'s' * (max(primary.n) > 1)}"
        pairs = [c.fewest_runs for c in comparisons if c.is_primary] if analysis.inference.paired else []
        paired = f", of which {span(pairs, 'g')} have a pair" if {*pairs} - {*primary.n} else ""
        yield f"Each {analysis.noun} has {seeds}{paired}{of_size}{tuning}."
    if analysis.facts and not tuning:
        yield "Nothing was tuned: at its own learning rate a variant may do better, and the order change."
    choices = [(c.choice_error / c.standard_error) ** 2 for c in comparisons
               if c.is_primary and c.choice_error and c.standard_error]  # fmt: skip
    if choices and median(choices) > LARGE_SHARE:
        yield (
            f"{median(choices):.0%} of the variance of these differences comes from the choice of the "
            f"{_tuned_fields(analysis)}, which more seeds do not lessen and more tuning seeds do."
        )


def _of_corpus(analysis: Analysis) -> str:
    """Name the texts by their files, without folders; nothing where runs had different ones."""
    corpora = {x.corpus for x in analysis.facts}
    if len(corpora) > 1 or "" in corpora:
        return ""
    (corpus,) = corpora
    files = [Path(text) for text in corpus.split(", ")]
    are_files = all(file.suffix for file in files)
    return f" of {first_few([file.name for file in files], TEXTS_NAMED) if are_files else corpus}"


def _tuned_fields(analysis: Analysis) -> str:
    """Name what was tuned, without the sections of the config: ``learning rate``."""
    fields = analysis.tuned.plan.plan.fields if analysis.tuned else ()
    names = dict.fromkeys(field.rpartition(".")[2].replace("_", " ") for field in fields)
    return listed(names) if names else ""


def figures(analysis: Analysis, comparisons: Comparisons) -> Mapping[str, Draw]:
    """Draw the forest of the page, and one of each metric that is not in it."""
    return {"forest": partial(draw_forests, analysis)} | {
        name: partial(draw_forest, analysis, benchmark)
        for benchmark, name in figure_names("forest", analysis.benchmarks).items()
        if benchmark not in shown_first(analysis)
    }


def tables(analysis: Analysis, comparisons: Comparisons) -> Mapping[str, pd.DataFrame]:
    """Return every number of every comparison, and those at the rate that is shared."""
    return {
        "comparisons": comparison_table(comparisons),
        "contrasts": comparison_table(analysis.contrasts),
        "shared_rate": pd.DataFrame(map(_at_shared_rate, analysis.at_shared_rate)),
    }


def _heading(analysis: Analysis, benchmark: Benchmark) -> str:
    outcome = analysis.metric(benchmark)
    unit = unit_name(outcome.unit)
    joint = "as" if unit == "bits per byte" else "in"  # perplexity is no number of bits
    return f"{place(analysis, benchmark)}{f' {joint} {unit}' if unit else ''}, {outcome.better} is better"


def _legend(analysis: Analysis) -> str:
    rule = "a bootstrap of whole studies (step-down min-p)" if analysis.is_drawn else "Holm's correction"
    return (
        f"Interval and p are those after {rule} over all {len(analysis.claims)} primary comparisons; "
        "per-comparison intervals are in tables/comparisons.csv. "
        "*Equivalence*: p of two one-sided tests at the margin, on average and in every family, after Holm; "
        "*smallest margin*: at which they would pass by themselves. *g*: Hedges' standardised difference. "
        "*Runs*: of the two arms. Differences that are opposite or not the same between families: by Welch's "
        "test over families, after Holm over variants."
    )


def _tables(
    analysis: Analysis, comparisons: Sequence[Comparison], name: Callable[[Comparison], str]
) -> Iterator[str]:
    """Write primary comparisons with their tests, then sizes of exploratory ones."""
    primary = [c for c in comparisons if c.is_primary]
    if primary:
        header = ["difference", "simultaneous interval", "p", "p (equivalence)", "smallest margin", "g",
                  "runs", "verdict"]  # fmt: skip
        rows = [[name(c), family_label(c.family), *_test_cells(c)] for c in primary]
        yield table([analysis.noun, analysis.stratum, *header], rows)
    if exploratory := [c for c in comparisons if not c.is_primary]:
        rows = [
            [name(c), family_label(c.family), difference(c), signed(c.hedges_g), _runs(c)]
            for c in exploratory
        ]
        yield table([f"{analysis.noun}, exploratory", analysis.stratum, "difference", "g", "runs"], rows)


def _test_cells(comparison: Comparison) -> list[str]:
    return [
        difference(comparison),
        interval(comparison),
        p_value(comparison.p_corrected),
        p_value(comparison.p_equivalence_holm),
        amount(comparison.smallest_margin, comparison),
        signed(comparison.hedges_g),
        _runs(comparison),
        verdict(comparison),
    ]


def _runs(comparison: Comparison) -> str:
    return f"{comparison.num_runs_plus} / {comparison.num_runs_minus}"


def comparison_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return one record for each comparison; an exploratory one has no interval, test or verdict."""
    return pd.DataFrame(map(_fields, comparisons))


def _fields(comparison: Comparison) -> dict[str, Any]:
    fields = {**vars(comparison), "families": "+".join(map(str, comparison.families))}
    fields |= {"unit": comparison.unit, "better": comparison.metric.better}
    fields |= {"p_sequential": comparison.p_sequential}
    if comparison.choice_error is None:
        fields.pop("choice_error")
    for name in ("metric", "look"):
        fields.pop(name, None)
    fields |= {"dropped": ", ".join(comparison.dropped), "verdict": comparison.verdict}
    if not comparison.is_primary:
        fields |= dict.fromkeys(TESTS, math.nan) | {"verdict": None}
    return fields


def _at_shared_rate(both: AtSharedRate) -> dict[str, Any]:
    """Describe a difference at the shared rate, in ``unit``, with its per-comparison interval."""
    names = ("benchmark", "contrast", "family", "unit", "estimate", "low", "high", "p")
    return {name: getattr(both.shared, name) for name in names}


PART = Part(
    name="comparisons", compute=compute, section=section, figures=figures, tables=tables, checks=checks
)
