"""One paragraph that says how the numbers of a paper were made, with what it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.families import FAMILIES
from base.files import mapping
from eval.report.analysis import Analysis
from eval.report.document.markdown import listed, margin
from eval.report.paper.labels import Labels
from eval.report.paper.latex import escape
from eval.report.paper.references import OF_FAMILY, OF_SUITE, SUPERGLUE_TASKS
from eval.significance.axes import Benchmark, plain
from eval.significance.statistics.looks import PlannedLooks
from eval.suites.registry import SUITES
from pretrain.run.folders import RunFolder

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "data": ("source", "vocab_size", "block_size"),
    "model": ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    "optim": (
        *("optimizer", "learning_rate", "weight_decay", "lr_scheduler_type", "warmup_ratio", "warmup_steps"),
        *("max_grad_norm", "num_train_epochs", "max_steps"),
    ),
    "train": ("batch_size", "mixed_precision"),
}
"""Fields of a run's configuration that a paper states, by section."""


def training_settings(analysis: Analysis) -> dict[str, list[Any]]:
    """Return the values of each field over all runs that are compared, in order; empty for a table."""
    found: dict[str, list[Any]] = {}
    if analysis.source.kind != "study folder":
        return found
    for run_id in dict.fromkeys(x.run_id for x in analysis.facts):
        try:
            config = read_yaml(RunFolder(analysis.source.path / run_id).config_file)
        except UsageError:  # a damaged one is named in the report's checks
            continue
        for section, names in SETTINGS.items():
            for name in names:
                value = mapping(config.get(section)).get(name)
                values = found.setdefault(name, [])
                if value is not None and value not in values:
                    values.append(value)
    return {name: values for name, values in found.items() if values}


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
    families = listed(list(_families(analysis, labels)))
    where = f" in {families}" if any(plain(f) != "model" for f in analysis.families) else ""
    outcomes = [_outcome(analysis, labels, name) for name in analysis.benchmarks]
    counts = sorted(set(analysis.arms["n"]))
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"We compare {len(analysis.variants)} {analysis.noun}s{where} by {listed(outcomes)}, with {seeds} "
        f"seeds each ({len(runs)} runs).{_data(analysis)}"
    )


def _families(analysis: Analysis, labels: Labels) -> Iterator[str]:
    """Name families, each with its reference where it stands first."""
    seen: set[str] = set()
    for family in analysis.families:
        name = plain(family)
        key = OF_FAMILY.get(name) if name not in seen else None
        seen.add(name)
        yield _cite(escape(labels.family(family)), [key] if key else [])


def _data(analysis: Analysis) -> str:
    """Say what runs were trained on, where their configurations tell, and how masked models are scored."""
    is_tinystories = training_settings(analysis).get("source") == ["tinystories"]
    trained = r" All are trained on TinyStories \citep{eldan2023}." if is_tinystories else ""
    names = {plain(family) for family in analysis.families}
    is_masked = any(FAMILIES[name].objective == "masked" for name in names if name in FAMILIES)
    is_pairs = any(x.name in SUITES and SUITES[x.name].kind == "minimal pairs" for x in analysis.benchmarks)
    if not (is_masked and is_pairs and analysis.source.kind == "study folder"):
        return trained
    scored = r" Masked models score a sentence by its pseudo-log-likelihood \citep{salazar2020}."
    return f"{trained}{scored}"


def _outcome(analysis: Analysis, labels: Labels, benchmark: Benchmark) -> str:
    keys = list(OF_SUITE.get(benchmark.name, ()))
    tasks = set(analysis.tasks[analysis.tasks.benchmark == benchmark].task)
    if benchmark.name == "glue" and tasks & SUPERGLUE_TASKS:
        keys.append("wang2019")
    return _cite(escape(labels.outcome(benchmark)), keys)


def _cite(text: str, keys: Sequence[str]) -> str:
    return rf"{text} \citep{{{','.join(keys)}}}" if keys else text


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
        rf"\citep{{satterthwaite1946}}{pairs}{_variances(analysis)}"
    )
    average = ", averaged over families with equal weights" if len(analysis.families) > 1 else ""
    return f"Each is compared with {baseline} by {test}{average}."


def _variances(analysis: Analysis) -> str:
    if analysis.inference.paired:
        return ""
    return (
        r"; where six arms or more tell what is usual, a smaller variance of an arm is moderated "
        r"\citep{smyth2004}"
    )


def _claims(analysis: Analysis, labels: Labels) -> str:
    how = analysis.inference
    correction = (
        rf"a bootstrap of {how.num_draws:,} whole studies by the step-down max-$t$ procedure "
        r"\citep{westfall1993,romano2005}"
        if analysis.is_drawn
        else r"Holm's correction \citep{holm1979}"
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
        f"within {escape(listed(margins))}{_everywhere(analysis)}, after the same correction."
    )


def _everywhere(analysis: Analysis) -> str:
    return rf" in every {analysis.stratum} \citep{{berger1982}}" if len(analysis.families) > 1 else ""


def _looks(analysis: Analysis) -> str:
    looks = analysis.inference.looks
    if isinstance(looks, PlannedLooks):
        plan = listed([str(number) for number in looks.plan])
        return (
            f"The study was planned with looks at {plan} runs in every arm; levels are spent over them after "
            r"\citet{lan1983}.".replace(r"\citet", r"\citep")
        )
    return ""


def _tuning(analysis: Analysis) -> str:
    if not analysis.is_tuned:
        return ""
    return (
        "Every variant was tuned with the same budget, on seeds and held-out text of its own, and standard "
        "errors of the held-out loss hold what the choice adds."
    )
