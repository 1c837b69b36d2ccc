"""A source seen by one factor: its rows and what was meant to be run, renamed alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from base.families import FAMILIES
from report.document.markdown import listed
from report.inputs.run_facts import RunFacts
from report.inputs.sources import Source
from report.inputs.study_checks import FailedRun
from report.inputs.study_design import Design
from report.significance.axes import Benchmark
from report.significance.factor import OF_HEADS, Relabelling, is_paired, levels
from scores.head_descriptions import DEFAULT_HEAD
from scores.rows import NO_HEAD

Run = TypeVar("Run", RunFacts, FailedRun)


def seen_by(source: Source, labels: Relabelling) -> Source:
    """Relabel a source; what its study says of another factor's levels is left out."""
    return replace(
        source,
        rows=labels.rows(source.rows),
        design=_design(source, labels),
        factor=labels.factor,
        facts=tuple(
            _without_model(facts) if labels.factor in OF_HEADS else _renamed(facts, labels)
            for facts in source.facts
        ),
        # A pretraining that failed says nothing of the heads that its model would have got.
        failed=() if labels.factor in OF_HEADS else tuple(_renamed(run, labels) for run in source.failed),
        remarks=tuple(_remarks(source, labels)),
    )


def _design(source: Source, labels: Relabelling) -> Design:
    design, factor = source.design, labels.factor
    heads, ffns = design.heads or _kept(labels), list(map(str, design.variants))
    headless = set(source.rows["benchmark"]) - set(labels.heads)
    names = [benchmark.name for benchmark in design.benchmarks]
    compared = [name for name in names if factor not in OF_HEADS or name not in headless]
    families = [labels.family(family, variant) for family in design.families for variant in ffns]
    others = {} if factor == design.report.factor else {"baseline": None, "primary": (), "contrasts": ()}
    paired = design.report.paired or is_paired(factor)
    return replace(
        design,
        families=tuple(dict.fromkeys(families)),
        variants=levels(factor, ffns, heads, source.axes),
        benchmarks=tuple(benchmark for name in compared for benchmark in _expected(name, labels)),
        report=design.report.model_copy(update={**others, "paired": paired}),
    )


def _renamed(run: Run, labels: Relabelling) -> Run:
    family, variant = labels.family(run.family, run.variant), labels.level(run.family, run.variant)
    return replace(run, family=family, variant=variant)


def _expected(benchmark: str, labels: Relabelling) -> tuple[Benchmark, ...]:
    """Scores that name no head are not asked for again where others do."""
    heads = [head for head in labels.heads.get(benchmark, ()) if head != NO_HEAD] or [NO_HEAD]
    return tuple(dict.fromkeys(labels.benchmark(benchmark, head) for head in heads))


def _kept(labels: Relabelling) -> tuple[str, ...]:
    heads = dict.fromkeys(head for heads in labels.heads.values() for head in heads if head != NO_HEAD)
    return tuple(heads)


def _without_model(facts: RunFacts) -> RunFacts:
    """Keep who a run is and what made it: its size, cost and training are the same for all heads."""
    return RunFacts(
        run_id=facts.run_id,
        family=facts.family,
        variant=facts.variant,
        seed=facts.seed,
        trained_with=facts.trained_with,
    )


def _remarks(source: Source, labels: Relabelling) -> Iterable[str]:
    """Say what stands behind the names of benchmarks, families and variants."""
    split = [name for name in sorted(labels.heads) if len(labels.benchmarks(name)) > 1]
    if split:
        name, head = split[0], _kept(labels)[0]
        yield (
            f"{listed(split)} {'was' if len(split) == 1 else 'were'} scored under several classification "
            "heads, each of which counts as a benchmark of its own: "
            f"*{labels.benchmark(name, head)}* is {name} under the head `{head}`."
        )
    elif labels.factor not in OF_HEADS and labels.heads and (labels.head or _kept(labels) != (DEFAULT_HEAD,)):
        yield f"Scores of classification are those under the head `{_kept(labels)[0]}`."
    if labels.factor in ("head", *labels.axes) and labels.has_several_ffns:
        yield (
            "A family is here one FFN variant of one family, such as `kan` in GPT-Neo; their models count as "
            "independent, although those of one seed share the order of data."
        )
    if axes := [name for name in labels.axes if name != labels.factor]:
        yield (
            f"A setting is one family at one level of {listed(axes)}; what is said of families holds of "
            "settings. Runs of several settings are trained apart and count as independent, although those "
            "of one seed share the order of data."
        )
    if labels.factor in labels.axes:
        paired = "" if source.design.report.paired else ", and those of one seed are not taken for pairs"
        yield f"A variant is a level of the axis `{labels.factor}`, whose runs are trained apart{paired}."
    if labels.factor in OF_HEADS:
        left_out = sorted(set(source.rows["benchmark"]) - set(labels.heads))
        if left_out:
            yield f"Left out, as no head has part in it: {', '.join(left_out)}."
    of_heads = source.rows[source.rows["head"] != NO_HEAD]
    if foreign := sorted(set(of_heads["family"]) - set(FAMILIES)):
        yield (
            f"Seeds of {listed(foreign)}, which this project has not pretrained, are seeds of fine-tuning: "
            "what is said holds for that one pretrained model, not for another pretraining of it."
        )
