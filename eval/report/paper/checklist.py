"""What conferences ask of experiments, answered where the runs can answer it."""

from __future__ import annotations

from collections.abc import Sequence

from eval.report.analysis import Analysis
from eval.report.paper.labels import Labels
from eval.report.paper.methods import training_settings
from eval.suites.registry import HELD_OUT

LICENCES = {
    "tinystories": "TinyStories: CDLA-Sharing-1.0",
    "blimp": "BLiMP: CC BY",
    "babylm23": "BLiMP: CC BY",
    "glue": "GLUE: each task has its own",
    "embedded": "embedded texts and tasks: MIT, part of the software",
}
"""By the beginning of a suite's name or of a source of texts, as their publishers state them."""
UNKNOWN = "Not known to the report; say it yourself."


def checklist(analysis: Analysis, labels: Labels, command: str) -> str:
    """Return the block as markdown: the items of NeurIPS and of ACL's responsible NLP checklist."""
    items: list[tuple[str, str, str]] = [
        (
            "Statistical significance",
            "NeurIPS: experiment statistical significance; ACL: C3",
            _error_bars(analysis),
        ),
        ("Number of runs", "ACL: C3", _runs(analysis, labels)),
        (
            "Hyperparameters, and how they were chosen",
            "NeurIPS: experimental setting; ACL: C2",
            _tuning(analysis),
        ),
        ("Model sizes", "ACL: C1", _sizes(analysis, labels)),
        ("Compute", "NeurIPS: compute resources; ACL: C1", _compute(analysis)),
        ("Software and versions", "ACL: C4", _software(analysis)),
        ("Failed runs", "NeurIPS: compute resources (full research project)", _failed(analysis)),
        ("Reproduction", "NeurIPS: experimental result reproducibility", f"This report: `{command}`"),
        ("Settings of training", "NeurIPS: experimental setting; ACL: C2", _settings(analysis)),
        (
            "Data and their licences",
            "NeurIPS: licenses for existing assets; ACL: B1, B2",
            _licences(analysis),
        ),
        ("Broader impact, risks, human subjects", "NeurIPS; ACL: A2, D", "The report has nothing on it."),
    ]
    blocks = [f"### {name}\n\n*{asked}.* {answer}" for name, asked, answer in items]
    return "\n\n".join(["# Answers to checklists", *blocks]) + "\n"


def _error_bars(analysis: Analysis) -> str:
    how = analysis.inference
    correction = "max-t" if analysis.is_drawn else "Holm"
    return (
        f"Yes. Error bars are {how.confidence:.0%} confidence intervals over training seeds by Welch's test, "
        "with the run as the unit; ± in tables is the standard deviation over seeds. "
        f"{len(analysis.claims)} claims are corrected together ({correction}, family-wise error rate "
        f"{how.level:.0%}). "
        "The variability covered is that of initialisation and of the order of data; that of the choice of "
        "items is not in it."
    )


def _runs(analysis: Analysis, labels: Labels) -> str:
    runs = analysis.runs.drop_duplicates(["family", "variant", "seed"])
    counts = runs.groupby(["family", "variant"]).size()
    low, high = counts.min(), counts.max()
    return (
        f"{len(runs)} runs: {low if low == high else f'{low} to {high}'} seeds of each of "
        f"{len(analysis.variants)} {analysis.noun}s in {_plural(len(analysis.families), analysis.stratum)}. "
        f"Seeds: {', '.join(map(str, sorted(analysis.runs.seed.unique())))}."
    )


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else {'family': 'families'}.get(noun, f'{noun}s')}"


def _tuning(analysis: Analysis) -> str:
    if analysis.tuned is None or not analysis.tuned.choices:
        return "No tuning is part of this study. The recipe stands in study.yaml; say how it was chosen."
    plan, runs = analysis.tuned.plan.plan, sum(analysis.tuned.num_runs.values())
    tried = "; ".join(f"{name} at {', '.join(map(str, values))}" for name, values in plan.fields.items())
    return (
        f"{runs} tuning runs (grid of {tried}; {len(plan.seeds)} seeds). "
        "Every variant was tuned with as many runs, on seeds and held-out text that the comparison does "
        "not use; the report's section *Tuning* has every value and loss."
    )


def _sizes(analysis: Analysis, labels: Labels) -> str:
    sizes = {
        f"{labels.family(x.family)} {labels.variant(x.variant)} {x.num_parameters / 1e6:.2f}M"
        for x in analysis.facts
        if x.num_parameters
    }
    return f"{', '.join(sorted(sizes))}." if sizes else UNKNOWN


def _compute(analysis: Analysis) -> str:
    hours = [x.train_hours for x in analysis.facts if x.train_hours]
    if not hours:
        return UNKNOWN
    flops = [x.train_flops for x in analysis.facts if x.train_flops]
    more = f", {sum(flops):.2g} FLOPs" if flops else ""
    of_all = "" if len(hours) == len(analysis.facts) else f" ({len(hours)} of {len(analysis.facts)} tell it)"
    return (
        f"{sum(hours):.2g} hours of pretraining in all{of_all}{more}, {max(hours):.2g} hours at most for one "
        f"run; on what is said below. Preliminary and failed experiments are not counted."
    )


def _software(analysis: Analysis) -> str:
    found: Sequence[str] = sorted({x.trained_with for x in analysis.facts if x.trained_with})
    return f"{'; '.join(found)}." if found else UNKNOWN


def _settings(analysis: Analysis) -> str:
    found = training_settings(analysis)
    said = [
        f"{name.replace('_', ' ')} {', '.join(map(str, values[:6]))}" + " and others" * (len(values) > 6)
        for name, values in found.items()
    ]
    return f"{'; '.join(said)}." if said else UNKNOWN


def _licences(analysis: Analysis) -> str:
    """Name those that are known of what is used, and what nothing is known of."""
    used = dict.fromkeys([x.name for x in analysis.benchmarks if x.name not in (HELD_OUT, "perplexity")])
    used |= dict.fromkeys(map(str, training_settings(analysis).get("source", [])))
    of = {name: next((LICENCES[x] for x in LICENCES if name.startswith(x)), None) for name in used}
    known = dict.fromkeys(text for text in of.values() if text)
    unknown = [name for name, text in of.items() if text is None]
    said = f"{'; '.join(known)} (as their publishers state them; check before you print). " if known else ""
    return (said + (f"{', '.join(unknown)}: {UNKNOWN}" if unknown else "")).strip() or UNKNOWN


def _failed(analysis: Analysis) -> str:
    failed = len(analysis.source.failed)
    if analysis.source.kind != "study folder":
        return UNKNOWN
    return f"{failed} runs failed; the report says of which variants." if failed else "No run failed."
