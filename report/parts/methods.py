"""How the numbers were made, and what they do not say."""

from __future__ import annotations

from collections.abc import Iterator

from report.analysis import Analysis
from report.document.markdown import listed, span, title, unit_name
from report.part import Page, Part, Section
from report.statistics.looks import PlannedLooks
from report.statistics.welch import one_sided_level
from scores.suites import asks_for_classes


def section(analysis: Analysis, has_methods: bool, page: Page) -> Section:
    """Say how the numbers were made, then what they do not say."""
    remarks = analysis.source.remarks
    limits = "**Limits**\n\n" + "\n".join(f"- {line}" for line in _limits(analysis))
    return Section(
        title="Methods and limits", summary="", body="\n\n".join([*remarks, methods_text(analysis), limits])
    )


def methods_text(analysis: Analysis) -> str:
    """One paragraph: how this study is judged, what it does otherwise, and where the rule is explained."""
    rule = (
        "The whole rule, and how often it errs: docs/how-a-difference-is-judged.md and docs/error-rates.md; "
        "what tuning adds: docs/statistics.md, *Equal tuning*."
    )
    sentences = (*judgement(analysis), analysis.source.design.changed, rule)
    return " ".join(filter(None, sentences))


def judgement(analysis: Analysis) -> list[str]:
    """Say in sentences what the unit, the intervals, the correction and the margins are.

    Works are cited as in "(Lan and DeMets 1983)"; ``report/references.bib`` has them as ``lan1983``.
    """
    how = analysis.inference
    moderated = ", of variances that are moderated (Smyth 2004) where a family has six arms or more"
    sentences = (
        "The unit of replication is the run: items, tasks and fine-tunings of one run are averaged first. "
        "An average gives each family the same weight; losses of different objectives have none.",
        "Intervals and p are those of Welch's t (Welch 1947) with Satterthwaite's degrees of freedom "
        f"(Satterthwaite 1946){'' if how.paired else moderated}.",
        _correction(analysis),
        _looks(analysis),
        _tuned(analysis),
        f"Equivalence is two one-sided tests (Schuirmann 1987) at {how.level:.2g} each"
        f"{_where_tuned(analysis)}, in every family (Berger 1982), corrected by Holm's method (Holm 1979). "
        f"Margins: {_margins(analysis)}.",
        _pairing(analysis),
    )
    return [sentence for sentence in sentences if sentence]


def _correction(analysis: Analysis) -> str:
    """Say what is corrected together, how, and at which error rate."""
    if not analysis.primary:
        return "No metric is primary: all comparisons are exploratory."
    how = (
        f"a bootstrap of {analysis.inference.num_draws:,} whole studies without any difference, each judged "
        "as this study is, in the step-down min-p procedure (Westfall and Young 1993; Romano and Wolf 2005)"
        if analysis.is_drawn
        else "Holm's correction"
    )
    return (
        f"The {len(analysis.claims)} primary comparisons are on {listed(map(title, analysis.primary))}: "
        f"{how} runs over all of them. Its aim is that {analysis.inference.level:.0%} of studies falsely "
        f"call any of them different; intervals are simultaneous at {analysis.inference.confidence:.0%}. "
        "All other comparisons are exploratory."
    )


def _pairing(analysis: Analysis) -> str:
    if analysis.is_of_heads:
        return "Scores of one family and seed are compared with each other, as heads share a model."
    if analysis.inference.paired:
        return "Runs of one family and seed are compared with each other."
    return "Seeds are treated as independent, not as pairs."


def _margins(analysis: Analysis) -> str:
    """Every metric with its margin, those of one margin together."""
    groups: dict[str, list[str]] = {}
    for benchmark in analysis.benchmarks:
        outcome = analysis.metric(benchmark)
        size = "none" if outcome.margin is None else f"{outcome.margin:g} {unit_name(outcome.unit)}".strip()
        size = "the default margin, " * outcome.is_default_margin + size
        groups.setdefault(size, []).append(title(benchmark))
    return "; ".join(f"{size} on {listed(names)}" for size, names in groups.items())


def _looks(analysis: Analysis) -> str:
    """Say what keeps the error rate over several looks at a study that grows."""
    looks = analysis.inference.looks
    if not isinstance(looks, PlannedLooks):
        return ""
    planned = ", ".join(map(str, looks.plan))
    return (
        f"The study was to be looked at with {planned} runs in every arm, and each comparison's level is "
        "spent over these looks as O'Brien and Fleming do (Lan and DeMets 1983): the error rates hold over "
        "all looks together, unless one follows the last planned."
    )


def _tuned(analysis: Analysis) -> str:
    """Say what the choice of rates adds, and to which outcome."""
    if analysis.tuned is None or not analysis.tuned.choices:
        return ""
    return (
        "The held-out loss is compared at each one's own best value, and the mean square of what that choice "
        "may miss is in its standard errors. Other metrics are compared "
        "at the chosen values as they are."
    )


def _where_tuned(analysis: Analysis) -> str:
    """Say at which level each side is tested where a choice may have missed (``statistics.equivalence``)."""
    level = one_sided_level(analysis.inference.level, 1.0)
    return f" ({level:.3g} on the held-out loss, as variants are tuned)" if analysis.is_tuned else ""


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
    unknown = [
        str(benchmark)
        for benchmark in analysis.benchmarks
        if asks_for_classes(benchmark.name) and analysis.metric(benchmark).chance is None
    ]
    if unknown:
        lines.append(
            f"What always giving one answer would score is not known ({listed(unknown)}); a model may be no "
            "better."
        )
    return lines


def checks(analysis: Analysis, result: object) -> Iterator[str]:
    """Say what of the study was changed after it began, and which look this is."""
    yield from filter(None, [analysis.source.design.changed])
    if analysis.inference.paired:
        yield "Runs of one seed are compared with each other."
    looks, runs = analysis.inference.looks, [c.fewest_runs for c in analysis.claims]
    if isinstance(looks, PlannedLooks) and runs:
        planned = ", ".join(map(str, looks.plan))
        yield f"This look is at {span(runs, '.0f')} runs in every arm, planned were looks at {planned}."
        if max(runs) > looks.plan[-1]:
            yield (
                "Beyond the last planned look the error rates do not hold: judge by the report at a planned "
                "number of runs, and name all looks beforehand."
            )


PART = Part(name="methods", section=section, checks=checks)
