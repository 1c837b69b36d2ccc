"""The words of the report: Markdown that renders on GitHub, made from an analysis and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.report.analysis import PAIR_BENCHMARKS, Analysis
from eval.report.format import escape, interval, listed, share, signed, table
from eval.report.names import family_label, file_name
from eval.report.sections import (
    budget_section,
    design_section,
    differences_section,
    scores_section,
    seeds_section,
    tasks_section,
    training_section,
)
from eval.significance import DIFFERENT, INCONCLUSIVE, NOT_ESTIMABLE, Comparison

NOTES_ON_TOP = 5


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a report says beside its numbers."""

    command: str
    versions: Mapping[str, str]
    figures: Mapping[str, str]
    """Figure file name without suffix, mapped to its alt text."""

    def figure(self, name: str) -> str:
        """Link a figure, or nothing if it was not drawn."""
        return f"![{escape(self.figures[name])}](figures/{name}.svg)" if name in self.figures else ""


def render(analysis: Analysis, context: Context) -> str:
    """Write the whole report as Markdown."""
    sections = [
        f"# Report: {analysis.source.title}",
        " ".join(answer(analysis)),
        _verdicts(analysis),
        _warnings(analysis),
        *(context.figure(file_name("forest", name)) for name in analysis.benchmarks),
        scores_section(analysis),
        *(context.figure(file_name("seeds", name)) for name in analysis.benchmarks),
        f"Dots are seeds, bars their means; the dashed line is the mean of `{analysis.baseline}`, a dotted "
        "one (where it fits) chance.",
        seeds_section(analysis),
        differences_section(analysis),
        tasks_section(analysis),
        training_section(analysis, context.figure("held-out-loss")),
        budget_section(analysis),
        design_section(analysis),
        _methods(analysis, context),
        _limits(analysis),
        f"## Reproduce\n\n```bash\n{context.command}\n```",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def answer(analysis: Analysis) -> tuple[str, str]:
    """The two sentences a report opens with: what differs from the baseline, what the runs cannot tell."""
    return _what_differs(analysis), _what_is_open(analysis)


def _what_differs(analysis: Analysis) -> str:
    """Name the shown differences by benchmark, then those shown in one family but not on average."""
    start = "After Holm's correction"
    if len(analysis.families) > 1:
        start = f"Averaged over {listed(map(family_label, analysis.families))} and after Holm's correction"
    found, within = [], []
    for benchmark in analysis.benchmarks:
        primary = analysis.primary(benchmark)
        if names := _different(analysis, primary):
            found.append(f"on {_place(analysis, benchmark)} {listed(names)}")
        settled = {c.contrast for c in primary if c.verdict == DIFFERENT}
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
        f"`{c.contrast.removesuffix(f' - {analysis.baseline}')}` ({signed(c.estimate)})"
        for c in comparisons
        if c.verdict == DIFFERENT
    ]


def _what_is_open(analysis: Analysis) -> str:
    """Name the inconclusive and the impossible, benchmarks with the same list of variants together."""
    open_: dict[tuple[str, ...], dict[str, float]] = {}
    impossible: dict[tuple[str, ...], list[str]] = {}
    for benchmark in analysis.benchmarks:
        comparisons = dict(zip(analysis.others, analysis.primary(benchmark), strict=True))
        place = _place(analysis, benchmark)
        names = tuple(name for name, c in comparisons.items() if c.verdict == INCONCLUSIVE)
        if names:
            reach = max(comparisons[name].largest_remaining or 0.0 for name in names)
            open_.setdefault(names, {})[place] = reach
        if names := tuple(name for name, c in comparisons.items() if c.verdict == NOT_ESTIMABLE):
            impossible.setdefault(names, []).append(place)
    parts = []
    for names, reaches in open_.items():
        limits = [
            f"{reach:.2f}" + (f" ({place})" if len(reaches) > 1 else "") for place, reach in reaches.items()
        ]
        parts.append(
            f"inconclusive on {listed(reaches)}: {_quoted(names)}, with no difference shown; "
            f"differences up to {listed(limits)} points remain possible"
        )
    parts += [f"not estimable on {listed(places)}: {_quoted(names)}" for names, places in impossible.items()]
    said = "; ".join(parts) or "no comparison is inconclusive"
    return f"{said[0].upper()}{said[1:]}."


def _quoted(names: Sequence[str]) -> str:
    # A variant may be called "none", which a sentence would swallow.
    return listed(f"`{name}`" for name in names)


def _verdicts(analysis: Analysis) -> str:
    primary = {name: analysis.primary(name) for name in analysis.benchmarks}
    rows = [
        [f"`{variant}`", *(_verdict_cell(primary[name][place]) for name in analysis.benchmarks)]
        for place, variant in enumerate(analysis.others)
    ]
    return (
        table(["variant", *(_place(analysis, name) for name in analysis.benchmarks)], rows)
        + f"\n\nDifference to `{analysis.baseline}` in percentage points with its {analysis.confidence:.0%} "
        f"interval; positive is better. *Different*: Holm-corrected p below {1 - analysis.confidence:.2g}. "
        "*Inconclusive* does not mean the same: every value in the interval remains possible. An interval "
        "is not corrected for the number of variants, so it can exclude zero while the verdict stays "
        "inconclusive."
    )


def _verdict_cell(comparison: Comparison) -> str:
    if comparison.verdict == NOT_ESTIMABLE:
        return f"not estimable: {comparison.reason}"
    word = f"**{DIFFERENT}**" if comparison.verdict == DIFFERENT else comparison.verdict
    return f"{word} {signed(comparison.estimate)} {interval(comparison)}"


def _warnings(analysis: Analysis) -> str:
    lines = []
    if missing := sum(len(seeds.split(", ")) for seeds in analysis.missing.seeds):
        lines.append(
            f"{missing} score{'s are' if missing > 1 else ' is'} missing, named under [Design](#design)."
        )
    lines += [escape(note) for note in analysis.notes[:NOTES_ON_TOP]]
    if len(analysis.notes) > NOTES_ON_TOP:
        lines.append(f"{len(analysis.notes) - NOTES_ON_TOP} more notes are under [Design](#design).")
    return "> [!WARNING]\n" + "\n".join(f"> - {line}" for line in lines) if lines else ""


def _methods(analysis: Analysis, context: Context) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in context.versions.items())
    margin = (
        f"Differences within ±{analysis.margin:.1f} points were named negligible beforehand (shaded in the "
        "figures); equivalence is not tested here. "
        if analysis.margin is not None
        else ""
    )
    return (
        "## Methods\n\nThe unit of replication is the run: items, tasks and fine-tunings of one run are "
        "averaged first and never counted as replicates. A difference is the variant's mean minus the "
        "baseline's within a family; the average gives each family the same weight and is the primary "
        f"comparison. Intervals are {analysis.confidence:.0%} Welch intervals with Satterthwaite's degrees "
        "of freedom, each family and variant with its own variance (stratified for the average); they are "
        "not corrected for the number of comparisons. P-values are two-sided and come from the same "
        "statistic; Holm's correction runs over the variants within each benchmark, for the average and for "
        "each family separately. Seeds are treated as independent, not as pairs. An arm with one run has no "
        f"spread, so nothing is inferred from it. {margin}Versions: {versions}."
    )


def _limits(analysis: Analysis) -> str:
    smallest = int(analysis.cells["n"].min())
    lines = [
        f"The smallest cell has {smallest} run{'s' if smallest > 1 else ''}. With few runs intervals are "
        "wide, and the test leans on scores being roughly normal over seeds.",
        "Verdicts hold for the model sizes, data and training length of these runs.",
    ]
    if len(analysis.benchmarks) > 1:
        lines.append("Benchmarks are not corrected against one another.")
    if pairs := [name for name in analysis.benchmarks if name in PAIR_BENCHMARKS]:
        lines.append(
            f"Chance is 50% on {listed(pairs)}: a difference between variants near chance says little."
        )
    if any("glue" in name for name in analysis.benchmarks):
        lines.append(
            "Where a fine-tuned model is no better than a constant answer (under Tasks), a difference "
            "between variants says little."
            if analysis.source.baselines
            else "What always giving one answer would score is not known here; a model may be no better."
        )
    if sizes := _size_differences(analysis):
        lines.append(f"Variants are not matched in parameters ({sizes}): size is part of the difference.")
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in lines)


def _size_differences(analysis: Analysis) -> str:
    sizes = {(x.family, x.variant): x.num_parameters for x in analysis.facts if x.num_parameters}
    said = []
    for (family, variant), size in sorted(sizes.items()):
        base = sizes.get((family, analysis.baseline))
        if base and abs(size / base - 1) > 0.01:
            said.append(f"{variant} {share(size, base)} in {family_label(family)}")
    return ", ".join(said)


def _place(analysis: Analysis, benchmark: str) -> str:
    """A benchmark's name, with the family when only one of several was scored on it."""
    scope = analysis.scopes(benchmark)[0]
    return f"{benchmark} ({family_label(scope)} only)" if scope and len(analysis.families) > 1 else benchmark
