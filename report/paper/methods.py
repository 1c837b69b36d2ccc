"""One paragraph in LaTeX that says how a report's numbers were made, and the references that it cites."""

from __future__ import annotations

import re
from importlib.resources import files

from base.config_input import read_yaml
from base.errors import UsageError
from base.families import FAMILIES
from base.files import mapping
from base.run.folders import RunFolder
from report.analysis import Analysis
from report.document.markdown import listed, margin
from report.document.names import family_label, title
from report.significance.axes import Benchmark, Family, plain
from report.statistics.looks import PlannedLooks
from scores.suites import SUITES

_ESCAPED = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$",
    '"': "''", "\N{MINUS SIGN}": "$-$", "\N{INFINITY}": r"$\infty$",
    "\n": " ", "\t": " ",
})  # fmt: skip
_ENTRY = re.compile(r"^@\w+\{(\w+),\n  keywords = \{([^}]*)\}", re.MULTILINE)


def escape(text: object) -> str:
    """Write a text so that LaTeX prints it; letters beyond T1, such as Greek ones, need LuaLaTeX."""
    return str(text).translate(_ESCAPED)


def read_references() -> str:
    """Return the shipped bibliography: BibTeX entries, with what each is the reference of as keywords."""
    return (files("report.paper") / "references.bib").read_text(encoding="utf-8")


def methods(analysis: Analysis, version: str) -> str:
    r"""Return the paragraph as LaTeX; citations are natbib's ``\citep``.

    Args:
        analysis: The report's numbers.
        version: Of this software.
    """
    sentences = (
        _compared(analysis),
        _trained_on(analysis),
        _scored_by(analysis),
        _tested(analysis),
        _corrected(analysis),
        _equivalent(analysis),
        _interim(analysis),
        _tuned(analysis),
        rf"All numbers were computed with \texttt{{ffn-ablations}} {escape(version)}.",
    )
    return "\\paragraph{Statistics.}\n" + "\n".join(filter(None, sentences)) + "\n"


def _cite(text: str, *subjects: str) -> str:
    r"""Write a text with the references of models, suites, tasks or corpora behind it."""
    keys = [
        key
        for key, keywords in _ENTRY.findall(read_references())
        if not set(subjects).isdisjoint(keywords.split(", "))
    ]
    return rf"{escape(text)} \citep{{{','.join(keys)}}}" if keys else escape(text)


def _compared(analysis: Analysis) -> str:
    runs = analysis.runs.drop_duplicates(["family", "variant", "seed"])
    families = [_family(analysis, family) for family in analysis.families if plain(family) != "model"]
    where = f" in {listed(families)}" if families else ""
    metrics = listed([_metric(analysis, benchmark) for benchmark in analysis.benchmarks])
    fewest, most = analysis.arms["n"].min(), analysis.arms["n"].max()
    seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"We compare {len(analysis.variants)} {analysis.noun}s{where} by {metrics}, with {seeds} seeds each "
        f"({len(runs)} runs)."
    )


def _family(analysis: Analysis, family: Family) -> str:
    """Name a family, with its reference where it stands first."""
    is_first = next(each for each in analysis.families if plain(each) == plain(family)) == family
    return _cite(family_label(family), *([plain(family)] if is_first else []))


def _metric(analysis: Analysis, benchmark: Benchmark) -> str:
    tasks = set(analysis.tasks[analysis.tasks.benchmark == benchmark].task)
    return _cite(title(benchmark), benchmark.name, *(f"{benchmark.name}/{task}" for task in tasks))


def _trained_on(analysis: Analysis) -> str:
    """Name the corpus, where all runs of a study have the same one."""
    corpora = set()
    for run_id in {facts.run_id for facts in analysis.facts}:
        try:
            config = read_yaml(RunFolder(analysis.source.path / run_id).config_file)
        except UsageError:  # the report's own checks name a damaged file
            continue
        corpora.add(str(mapping(config.get("data")).get("source")))
    return r"All are trained on TinyStories \citep{eldan2023}." if corpora == {"tinystories"} else ""


def _scored_by(analysis: Analysis) -> str:
    names = {plain(family) for family in analysis.families} & FAMILIES.keys()
    is_masked = any(FAMILIES[name].objective == "masked" for name in names)
    suites = [SUITES[benchmark.name] for benchmark in analysis.benchmarks if benchmark.name in SUITES]
    if not (analysis.facts and is_masked and any(suite.kind == "minimal pairs" for suite in suites)):
        return ""
    return r"Masked models score a sentence by its pseudo-log-likelihood \citep{salazar2020}."


def _tested(analysis: Analysis) -> str:
    is_paired = analysis.inference.paired
    pairs = " on differences within seeds" if is_paired else ""
    variances = r", variances moderated where six groups or more are there \citep{smyth2004}"
    average = ", averaged over families with equal weights" if len(analysis.families) > 1 else ""
    return (
        "The unit of replication is the run: tasks, items and fine-tunings of one run are averaged first. "
        rf"Each is compared with {escape(str(analysis.baseline))} by Welch's test \citep{{welch1947}} with "
        rf"Satterthwaite's degrees of freedom \citep{{satterthwaite1946}}{pairs}"
        f"{'' if is_paired else variances}{average}."
    )


def _corrected(analysis: Analysis) -> str:
    if not analysis.primary:
        return "No metric was declared primary; all comparisons are exploratory."
    inference = analysis.inference
    correction = (
        rf"A bootstrap of {inference.num_draws:,} whole studies by the step-down min-$p$ procedure "
        r"\citep{westfall1993,romano2005}"
        if analysis.is_drawn
        else r"Holm's correction \citep{holm1979}"
    )
    metrics = listed([escape(title(benchmark)) for benchmark in analysis.primary])
    return (
        f"The {len(analysis.claims)} comparisons on {metrics} are primary. {correction} over all of them "
        rf"aims at a family-wise error rate of {100 * inference.level:g}\%; intervals are simultaneous at "
        rf"{100 * inference.confidence:g}\%. All other comparisons are exploratory."
    )


def _equivalent(analysis: Analysis) -> str:
    margins = [
        f"{margin(analysis.overall(benchmark)[0])} on {title(benchmark)}"
        for benchmark in analysis.primary
        if analysis.metric(benchmark).margin is not None and analysis.overall(benchmark)
    ]
    if not margins:
        return ""
    everywhere = rf" in every {analysis.stratum} \citep{{berger1982}}" if len(analysis.families) > 1 else ""
    return (
        r"Variants are equivalent if two one-sided tests \citep{schuirmann1987} place their difference "
        f"within {escape(listed(margins))}{everywhere}, after the same correction."
    )


def _interim(analysis: Analysis) -> str:
    looks = analysis.inference.looks
    if not isinstance(looks, PlannedLooks):
        return ""
    planned = listed([str(number) for number in looks.plan])
    return (
        f"Interim analyses were planned at {planned} runs in every group; the error rate is spent over them "
        r"\citep{lan1983}."
    )


def _tuned(analysis: Analysis) -> str:
    if not analysis.is_tuned:
        return ""
    return (
        "Every variant was tuned with as many runs as any other, on seeds and held-out text of its own; "
        "standard errors of the held-out loss include the uncertainty of that choice."
    )
