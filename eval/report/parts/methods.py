"""How the numbers were made, and what they do not say."""

from __future__ import annotations

import math

from eval.report.analysis import Analysis
from eval.report.document.markdown import listed, share, unit_name
from eval.report.document.names import family_label
from eval.report.part import Page, Part, Section
from eval.significance.arms import Key
from eval.significance.statistics.looks import PlannedLooks
from eval.suites.registry import asks_for_classes


def compute(analysis: Analysis) -> bool:
    """Every report has methods."""
    return True


def section(analysis: Analysis, has_methods: bool, page: Page) -> Section:
    """Say how the numbers were made, then what they do not say."""
    remarks = analysis.source.remarks
    limits = "**Limits**\n\n" + "\n".join(f"- {line}" for line in _limits(analysis))
    return Section(
        title="Methods and limits", summary="", body="\n\n".join([*remarks, methods_text(analysis), limits])
    )


def methods_text(analysis: Analysis) -> str:
    """One paragraph: unit, interval, correction, margin, resamples, versions."""
    how = analysis.inference
    return (
        "The unit of replication is the run: items, tasks and fine-tunings of one run are "
        "averaged first and never counted as replicates. A difference is the variant's mean minus the "
        "baseline's within a family; the average gives each family the same weight, and losses of different "
        f"objectives have none. {_intervals(analysis)}, alone and, as verdicts rest on "
        "them, together. P-values are two-sided and come "
        f"from the same statistic. {_claims(analysis)}{_looks(analysis)}{_tuned(analysis)} "
        "Benjamini and Hochberg's correction runs over all differences by phenomenon, whose intervals keep "
        "the false coverage rate. Equivalence is two "
        f"one-sided tests at {how.level:.2g} each (the {1 - 2 * how.level:.0%} interval lies within the "
        f"margin), of an average in every family too, at the margin of each outcome ({_margins(analysis)}); "
        f"it is corrected like differences, and *within margin* is not. {_pairing(analysis)}"
        f"{_known_to(analysis)} "
        "An outcome is at chance where no arm is shown to score more than the margin above guessing. Nothing "
        "is inferred from an arm with one run, which has no spread."
    )


def _claims(analysis: Analysis) -> str:
    """Say what is corrected together, and at which error rate."""
    names = listed(map(str, analysis.primary)) if analysis.primary else "no outcome"
    declared = "declared" if len(analysis.primary) < len(analysis.benchmarks) else "all outcomes"
    return (
        f"Claims are the {len(analysis.claims)} comparisons over all families on {names} ({declared}): "
        f"{_correction(analysis)} runs over all of them, so that the chance of any false difference among "
        f"them is at most {analysis.inference.level:.0%}. Everything else is "
        f"exploratory and corrected over the {analysis.noun}s of one outcome and scope."
    )


def _intervals(analysis: Analysis) -> str:
    how = analysis.inference
    moderated = (
        ""
        if how.paired
        else "; where six arms or more tell what is usual, one that spreads less than its own runs and that "
        "suggest has the moderated variance (Smyth 2004) and its degrees of freedom"
    )
    return (
        f"Intervals are {how.confidence:.0%} Welch intervals with Satterthwaite's degrees of freedom, each "
        f"family and variant with its own variance (stratified for the average){moderated}"
    )


def _known_to(analysis: Analysis) -> str:
    """Say how far what is drawn at random can be trusted."""
    how = analysis.inference
    if not analysis.is_drawn:
        return ""
    error = math.sqrt(how.level * (1 - how.level) / how.num_draws)
    return (
        f" What is drawn at random, from one fixed sequence, knows a p of {how.level:.2g} to "
        f"{2 * error:.1g}; where a corrected p lies nearer to it than {4 * error:.1g}, {how.most_draws:,} "
        "studies are drawn."
    )


def _correction(analysis: Analysis) -> str:
    if not analysis.is_drawn:
        return "Holm's correction"
    return (
        f"a bootstrap of {analysis.inference.num_draws:,} whole studies without any difference (step-down "
        "max-t: Westfall and Young 1993; Romano and Wolf 2005), of normal runs with the correlation of "
        "outcomes that was seen, arms that spread as seen or about what is usual, and what the choice of "
        "rates adds, each judged as this study is,"
    )


def _looks(analysis: Analysis) -> str:
    """Say what keeps the error rate over several looks at a study that grows."""
    looks = analysis.inference.looks
    if not isinstance(looks, PlannedLooks):
        return ""
    planned = ", ".join(map(str, looks.plan))
    return (
        f" The study was to be looked at with {planned} runs in every arm, and each comparison's level is "
        "spent over these looks as O'Brien and Fleming do (Lan and DeMets 1983): the error rates named hold "
        "over all looks together. What is corrected are sequential p-values; p alone and the intervals alone "
        "are those of this look."
    )


def _tuned(analysis: Analysis) -> str:
    """Say what the choice of rates adds, and to which outcome."""
    if analysis.tuned is None or not analysis.tuned.choices:
        return ""
    return (
        " The held-out loss is compared at each one's own best, and what the choice adds to the uncertainty "
        "is in its standard errors: the mean square of the regret, integrated over the curves that the "
        "tuning leaves open, with the variance of each variant's own runs, drawn to what is usual among them "
        "(docs/statistics.md, *Equal tuning*). Its equivalence is tested at half the level on each side, as "
        "what a choice misses has a direction. Other outcomes are compared at the rates that were chosen."
    )


def _pairing(analysis: Analysis) -> str:
    left_out = "runs without a partner are left out, and named under Differences."
    if analysis.is_of_heads:
        return (
            "Scores of one family and seed are always compared with each other (`--paired`), as heads share "
            f"a pretrained model; {left_out}"
        )
    if analysis.inference.paired:
        return f"Runs of one family and seed are compared with each other (`--paired`); {left_out}"
    return "Seeds are treated as independent, not as pairs."


def _margins(analysis: Analysis) -> str:
    """Every outcome with what was named negligible, those of one margin together."""
    groups: dict[str, list[str]] = {}
    for benchmark in analysis.benchmarks:
        found = analysis.outcome(benchmark)
        said = "none" if found.margin is None else f"{found.margin:g} {unit_name(found.unit)}".strip()
        groups.setdefault(said, []).append(str(benchmark))
    return "; ".join(f"{said} on {listed(names)}" for said, names in groups.items())


def _limits(analysis: Analysis) -> list[str]:
    """What not to conclude."""
    smallest = int(analysis.arms["n"].min())
    lines = [
        f"The smallest arm has {smallest} run{'s' if smallest > 1 else ''}. With few runs intervals are "
        "wide, and the test leans on scores being roughly normal over seeds.",
        "Verdicts hold for the model sizes, data and training length of these runs.",
    ]
    if analysis.is_of_heads:
        lines.append(
            "Where all runs are fine-tuned with the same seeds, a head begins with the same weights in each "
            "of them and sees examples in the same order: what others would change is not in the intervals."
        )
    if len(analysis.comparisons) > len(analysis.claims):
        lines.append(
            "Only claims are corrected against one another; among what is explored some differences are "
            "chance."
        )
    at_chance = [str(b) for b in analysis.benchmarks if any(c.is_at_chance for c in analysis.overall(b))]
    if at_chance:
        lines.append(f"A verdict *at chance* ({listed(at_chance)}) says nothing about what was learnt.")
    unknown = [
        str(found)
        for found in analysis.benchmarks
        if asks_for_classes(found.name) and analysis.outcome(found).chance is None
    ]
    if unknown:
        lines.append(
            f"What always giving one answer would score is not known ({listed(unknown)}); a model may be no "
            "better."
        )
    if sizes := _size_differences(analysis):
        lines.append(f"Variants are not matched in parameters ({sizes}): size is part of the difference.")
    return lines


def _size_differences(analysis: Analysis) -> str:
    sizes: dict[Key, int] = {
        (x.family, x.variant): x.num_parameters for x in analysis.facts if x.num_parameters
    }
    said = []
    for (family, variant), size in sorted(sizes.items()):
        base = sizes.get((family, analysis.baseline))
        if base and abs(size / base - 1) > 0.01:
            said.append(f"{variant} {share(size, base)} in {family_label(family)}")
    return ", ".join(said)


PART = Part(name="methods", compute=compute, section=section)
