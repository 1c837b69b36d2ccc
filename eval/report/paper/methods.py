"""One paragraph that says how the numbers of a paper were made, with what it cites."""

from __future__ import annotations

import re

from eval.report.analysis import Analysis
from eval.report.markdown import listed, margin
from eval.report.paper.labels import Labels
from eval.report.paper.latex import escape
from eval.significance.axes import plain
from eval.significance.statistics.looks import AnyLooks, PlannedLooks


def methods(analysis: Analysis, labels: Labels, version: str) -> str:
    r"""Return the paragraph as LaTeX; citations are ``\citep``."""
    sentences = [
        _runs(analysis, labels),
        _unit(analysis),
        _test(analysis, labels),
        _claims(analysis, labels),
        _equivalence(analysis, labels),
        _looks(analysis),
        _tuning(analysis),
        rf"All numbers were computed with \texttt{{ffn-ablations}} {escape(version)}.",
    ]
    return "\\paragraph{Statistics.}\n" + "\n".join(sentence for sentence in sentences if sentence) + "\n"


def cited(text: str) -> list[str]:
    """Return the keys that a text cites, in order."""
    return [key for keys in re.findall(r"\\citep\{([^}]*)\}", text) for key in keys.split(",")]


def _runs(analysis: Analysis, labels: Labels) -> str:
    runs = analysis.runs.drop_duplicates(["family", "variant", "seed"])
    families = listed([escape(labels.family(family)) for family in analysis.families])
    where = f" in {families}" if any(plain(f) != "model" for f in analysis.families) else ""
    outcomes = [_cite(escape(labels.outcome(name)), name.name) for name in analysis.benchmarks]
    counts = sorted(set(analysis.arms["n"]))
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"We compare {len(analysis.variants)} {analysis.noun}s{where} by {listed(outcomes)}, with {seeds} "
        f"seeds each ({len(runs)} runs)."
    )


_SOURCES = {
    "blimp": "warstadt2020",
    "babylm23": "warstadt2020",
    "blimp-fast": "warstadt2020",
    "glue": "wang2018",
}


def _cite(text: str, suite: str) -> str:
    return rf"{text} \citep{{{_SOURCES[suite]}}}" if suite in _SOURCES else text


def _unit(analysis: Analysis) -> str:
    relative = any(c.is_relative for c in analysis.comparisons)
    return (
        "The unit of replication is the run: tasks, items and fine-tunings of one run are averaged first."
        + (
            " Losses of families with different objectives differ in scale, so their ratios to the baseline "
            "are averaged."
            if relative
            else ""
        )
    )


def _test(analysis: Analysis, labels: Labels) -> str:
    how, baseline = analysis.inference, escape(labels.variant(analysis.baseline))
    pairs = " on differences within seeds" if how.paired else ""
    test = (
        rf"Welch's test \citep{{welch1947}} with Satterthwaite's degrees of freedom "
        rf"\citep{{satterthwaite1946}}{pairs}"
        if how.method == "welch"
        else rf"the studentized bootstrap over runs \citep{{efron1993}}{pairs} ({how.resamples:,} resamples)"
    )
    average = ", averaged over families with equal weights" if len(analysis.families) > 1 else ""
    return f"Each is compared with {baseline} by {test}{average}."


def _claims(analysis: Analysis, labels: Labels) -> str:
    how = analysis.inference
    correction = (
        r"Holm's correction \citep{holm1979}"
        if how.correction == "holm"
        else r"the step-down max-$t$ procedure \citep{westfall1993,romano2005}"
    )
    if not analysis.primary:
        return "No outcome was declared primary, and nothing is claimed."
    names = listed([escape(labels.outcome(name)) for name in analysis.primary])
    return (
        f"The {len(analysis.claims)} comparisons on {names} are the claims of this study; {correction} over "
        "all of them keeps the probability of any false claim of a difference below "
        rf"{100 * how.level:g}\%, and intervals hold together at {100 * how.confidence:g}\%. Everything else "
        "is exploratory."
    )


def _equivalence(analysis: Analysis, labels: Labels) -> str:
    margins = [
        f"{margin(analysis.overall(b)[0])} on {labels.outcome(b)}"
        for b in analysis.primary
        if analysis.outcome(b).margin is not None and analysis.overall(b)
    ]
    if not margins:
        return ""
    return (
        r"A difference is called equivalent to none if two one-sided tests \citep{schuirmann1987} place it "
        f"within {escape(listed(margins))}, in every family, after the same correction."
    )


def _looks(analysis: Analysis) -> str:
    looks = analysis.inference.looks
    if isinstance(looks, PlannedLooks):
        plan = listed([str(number) for number in looks.plan])
        return (
            f"The study was planned with looks at {plan} runs in every arm; levels are spent over them after "
            r"\citet{lan1983}.".replace(r"\citet", r"\citep")
        )
    if isinstance(looks, AnyLooks):
        return r"Tests are anytime-valid \citep{lindon2022}, as runs were added until questions were decided."
    return ""


def _tuning(analysis: Analysis) -> str:
    if not analysis.is_tuned:
        return ""
    return (
        "Every variant was tuned with the same budget, on seeds and held-out text of its own, and standard "
        "errors of the held-out loss hold what the choice adds."
    )
