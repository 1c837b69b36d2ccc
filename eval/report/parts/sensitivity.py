"""Whether a verdict is robust to leaving one run out, and which runs failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from base.wording import first_few
from eval.report.analysis import Analysis
from eval.report.document.markdown import difference, p_value, signed, table
from eval.report.document.names import family_label
from eval.report.part import Page, Part, Section
from eval.report.verdicts.failed_runs import FailureCount
from eval.report.verdicts.findings import place
from eval.results.rows import run_name
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark, Family, Level
from eval.significance.claims import Claims, Together
from eval.significance.compare import compare_arms
from eval.significance.comparison import INCONCLUSIVE, NOT_ESTIMABLE, SHOWN, WITHIN_MARGIN, Comparison
from eval.significance.contrasts import Contrast
from eval.significance.statistics.looks import Look

NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """One comparison over all families, made again without each of its runs in turn."""

    comparison: Comparison
    variant: Level
    lowest_estimate: float
    """Of all differences with one run left out, in percentage points."""
    highest_estimate: float
    changed: tuple[tuple[str, str], ...]
    """(run left out, the verdict without it), where that is another verdict."""
    num_left_out: int


Key = tuple[Benchmark, Contrast]


@dataclass(frozen=True)
class _Again:
    """The comparisons over all families of every outcome, to be made again with other runs."""

    claims: Claims
    baseline: Level
    variants: tuple[Level, ...]
    looks: Mapping[Key, Look]
    """Of the comparisons as reported: leaving out a run is no other look."""
    together: Together
    """The comparisons as reported."""
    places: Mapping[Key, int]
    """Of each among them."""

    def compare(self, arms: ArmTable, variants: Sequence[Level]) -> dict[Key, Comparison]:
        """Compare each by itself over all families, with other arms."""
        # Families are those of all runs: where one is left without any, the average cannot be had.
        scope = self.claims.tables[arms.benchmark].scopes()[0]
        how = self.claims.inference
        pairs = [Contrast((name,), (self.baseline,)) for name in variants]
        found = {
            (arms.benchmark, pair): compare_arms(arms, pair, scope, how, thorough=False) for pair in pairs
        }
        return {key: replace(c, look=self.looks.get(key, c.look)) for key, c in found.items()}

    def correct(self, changed: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
        """Correct those made again together with the reported ones of all others."""
        corrected = self.together.correct({self.places[key]: c for key, c in changed.items()})
        return dict(zip(changed, corrected.values(), strict=True))


def sensitivities(
    claims: Claims, comparisons: Sequence[Comparison], baseline: Level, variants: Sequence[Level]
) -> list[Sensitivity]:
    """Make every estimable comparison over all families again without each run in turn, each time corrected.

    Args:
        claims: What was compared, and how.
        comparisons: All that were corrected together, as reported.
        baseline: The variant that the others are compared with.
        variants: The others.
    """
    pairs = {Contrast((name,), (baseline,)) for name in variants}
    overall = {
        (c.benchmark, c.contrast): c
        for c in comparisons
        if c.family == claims.tables[c.benchmark].scopes()[0] and c.contrast in pairs
    }
    rest = [c for c in comparisons if overall.get((c.benchmark, c.contrast)) is not c]
    again = _Again(
        claims=claims,
        baseline=baseline,
        variants=tuple(variants),
        looks={key: c.look for key, c in overall.items()},
        together=Together(claims, [*overall.values(), *rest]),
        places={key: place for place, key in enumerate(overall)},
    )
    return [x for arms in claims.tables.values() for x in _of_outcome(again, arms, overall)]


def _of_outcome(again: _Again, arms: ArmTable, overall: Mapping[Key, Comparison]) -> Iterator[Sensitivity]:
    """Look at each comparison of one outcome that could be made at all."""
    left_out = list(_leave_one_out(again, arms))
    for variant in again.variants:
        comparison = overall[arms.benchmark, Contrast((variant,), (again.baseline,))]
        if comparison.p is None:
            continue
        others = {run: c for run, c in left_out if c.contrast == comparison.contrast}
        estimates = [c.estimate for c in others.values() if c.estimate is not None]
        yield Sensitivity(
            comparison=comparison,
            variant=variant,
            lowest_estimate=min(estimates),
            highest_estimate=max(estimates),
            changed=tuple(
                (run_name(run), c.verdict) for run, c in others.items() if c.verdict != comparison.verdict
            ),
            num_left_out=len(others),
        )


def _leave_one_out(again: _Again, arms: ArmTable) -> Iterator[tuple[tuple[Family, Level, int], Comparison]]:
    """Leave out each run in turn; of a variant's own run only its own comparison is another one."""
    for (family, variant), runs in arms.runs.items():
        affected = again.variants if variant == again.baseline else (variant,)
        for seed in runs.index:
            changed = again.compare(arms.without(family, variant, int(seed)), affected)
            for corrected in again.correct(changed).values():
                yield (family, variant, int(seed)), corrected


def fragile_because(found: Sensitivity, level: float) -> tuple[str, ...]:
    """Say in a few words each what a verdict hangs on; nothing where it stands.

    Args:
        found: The comparison, and how it looks without one run.
        level: Of the tests.
    """
    return tuple(_reasons(found, level))


def _reasons(found: Sensitivity, level: float) -> Iterator[str]:
    comparison = found.comparison
    if without := {run for run, verdict in found.changed if _is_other(verdict, comparison)}:
        one = next(iter(without)) if len(without) == 1 else "one run"
        yield f"not robust to leaving out {one}"
    if _disagrees(comparison, level):
        yield "permutation p disagrees"
    yield from separation(comparison, level)


def separation(comparison: Comparison, level: float) -> Iterator[str]:
    """Say where no run lies among those of the other arm, by more than chance, and still nothing is shown."""
    floor = comparison.permutation_floor
    is_whole = comparison.probability_of_superiority in (0.0, 1.0)
    is_open = comparison.verdict in (INCONCLUSIVE, WITHIN_MARGIN)
    if is_whole and is_open and (floor is None or floor < level):
        side = "above" if comparison.probability_of_superiority else "below"
        yield f"all runs {side} all of the baseline's"


def _is_other(verdict: str, comparison: Comparison) -> bool:
    """Whether another claim would be made, or one where there is none; what is explored changes often."""
    known = comparison.verdict
    return verdict not in (known, NOT_ESTIMABLE) and not {verdict, known}.isdisjoint(SHOWN)


def _disagrees(comparison: Comparison, level: float) -> bool:
    """Whether Welch's test and the permutation test, both uncorrected, fall on different sides."""
    p, other, floor = comparison.p, comparison.p_permutation, comparison.permutation_floor
    if p is None or other is None or floor is None or floor >= level:
        return False
    return (p < level) != (other < level)


Sensitivities = tuple[Sensitivity, ...]


def compute(analysis: Analysis) -> Sensitivities | None:
    """Compare again without each run in turn; None where nothing is estimable and no run failed."""
    found = tuple(sensitivities(analysis.claims_made, analysis.corrected, analysis.baseline, analysis.others))
    return found if found or analysis.failures else None


def section(analysis: Analysis, found: Sensitivities, page: Page) -> Section:
    """The same verdicts without one run, and the runs that failed."""
    rows = [
        [
            place(analysis, x.comparison.benchmark),
            f"`{x.variant}`",
            f"{difference(x.comparison)} {x.comparison.verdict}",
            _range(x),
            _changes(x),
        ]
        for x in found
    ]
    header = ["metric", analysis.noun, "as reported", "leaving one run out", "verdict without one run"]
    parts = [table(header, rows)] if rows else []
    parts += [text] if (text := failed_runs(analysis)) else []
    return Section(title="Sensitivity", summary=_stability(analysis, found), body="\n\n".join(parts))


def checks(analysis: Analysis, found: Sensitivities) -> Iterable[str]:
    """Count the verdicts on primary metrics that one run decides."""
    primary = [x for x in found if x.comparison.is_primary]
    shown = [x for x in primary if x.changed]
    if shown:
        names = first_few([f"`{x.variant}`" for x in shown], NAMED)
        verb = "is" if len(shown) == 1 else "are"
        yield f"{len(shown)} of {len(primary)} verdicts {verb} not robust to leaving one run out ({names})."
    elif primary:
        yield "Every verdict is robust to leaving any one run out."


def tables(analysis: Analysis, found: Sensitivities) -> Mapping[str, pd.DataFrame]:
    """Return every comparison without one run, and the counts of failed runs."""
    return {
        "sensitivity": pd.DataFrame(_record(x, analysis.inference.level) for x in found),
        "failures": pd.DataFrame(map(vars, analysis.failures)),
    }


def _record(x: Sensitivity, level: float) -> dict[str, Any]:
    return {
        "benchmark": x.comparison.benchmark,
        "contrast": x.comparison.contrast,
        "verdict": x.comparison.verdict,
        "lowest_estimate": x.lowest_estimate,
        "highest_estimate": x.highest_estimate,
        "num_left_out": x.num_left_out,
        "fragile": "; ".join(fragile_because(x, level)),
        "changed": "; ".join(f"{verdict} without {run}" for run, verdict in x.changed),
    }


def _stability(analysis: Analysis, sensitivities: Sensitivities) -> str:
    """Count the verdicts that hang on one run, and name them where they are few."""
    found = [x for x in sensitivities if x.changed]
    total = len(sensitivities)
    if not found:
        return f"all {total} verdicts hold whichever single run is left out"
    names = [f"`{x.variant}` on {place(analysis, x.comparison.benchmark)}" for x in found]
    return f"{len(found)} of {total} verdicts change without some single run: {first_few(names, NAMED)}"


def _range(x: Sensitivity) -> str:
    digits = x.comparison.digits
    return f"{signed(x.lowest_estimate, digits)} to {signed(x.highest_estimate, digits)}"


def _changes(x: Sensitivity) -> str:
    if not x.changed:
        return f"holds in all {x.num_left_out}"
    verdict = x.changed[0][1]
    runs = first_few([run for run, _ in x.changed], 1)
    return f"{len(x.changed)} of {x.num_left_out} change it: {verdict} without {runs}"


def failed_runs(analysis: Analysis) -> str:
    """Counts by variant with their tests."""
    counts = analysis.failures
    if not counts:
        return ""
    several = len(analysis.families) > 1
    shown = [c for c in counts if several or c.family is None]
    header = [
        analysis.noun,
        analysis.stratum,
        "runs",
        "diverged",
        "failed otherwise",
        "p against the baseline",
    ]
    return (
        "**Runs that failed**\n\n"
        f"{table(header, [_counted(c) for c in shown])}\n\n"
        "Runs that ended, in whatever way. *p*: Fisher's exact test of the share that diverged or failed, "
        f"after Holm's correction over the {analysis.noun}s. Every verdict is about runs with a score; where "
        "some of its runs failed and have none, it says *of surviving runs*."
    )


def _counted(count: FailureCount) -> list[str]:
    return [
        f"`{count.variant}`",
        "all" if count.family is None else family_label(count.family),
        str(count.num_runs),
        str(count.num_diverged),
        str(count.num_failed),
        "-" if count.p_corrected is None else p_value(count.p_corrected),
    ]


PART = Part(name="sensitivity", compute=compute, section=section, tables=tables, checks=checks)
