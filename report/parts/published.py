"""Own scores and effects beside published ones: plain numbers, on which no verdict rests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.families import PRETRAINED
from report.analysis import Analysis
from report.claims import Record, claims_of
from report.document.markdown import family_label, records_table, signed
from report.part import Page, Part, Section
from report.significance.axes import Combination, Level
from report.significance.data_checks import clean_rows
from report.significance.factor import Factor, is_paired
from scores.declarations import said_scales
from scores.head_descriptions import head_name, parse_head
from scores.published import PublishedSource, read_published, read_source_file
from scores.rows import NO_HEAD, NO_METRIC
from scores.run_scores import SINGLE_TASK, run_scores

LEFT_OPEN = ("init_scale", "bias", "init")
"""Options of heads that the sources' texts do not say: they keep no score from its counterpart."""


class Place(NamedTuple):
    """What was scored, as the published tables name it."""

    benchmark: str
    task: str
    """``all`` for a mean over a benchmark."""
    metric: str
    family: str
    variant: str
    head: str
    """Empty where none has part in a score."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """Everything that stands beside a source's tables.

    Records have the fields of ``Place``; table and published_of (a family, or of how many the number is a
    mean); own, published and difference in the unit of the scores; num_own and num_published runs, of an
    effect those of the smaller group.
    """

    source: PublishedSource
    baseline: str
    levels: Sequence[Record]
    effects: Sequence[Record]
    """Each variant or head minus the baseline."""
    claims: Sequence[Record] = ()
    """Those that the runs say something of, once for each outcome (``report.claims``)."""


Term = tuple[float, np.ndarray]
"""Weight and scores of a group of runs."""
Families = Mapping[str, tuple[str, np.ndarray]]
"""Table and scores that a source printed of a family."""


def compute(analysis: Analysis) -> Published | None:
    """Set own scores beside those of the source that was asked for."""
    request, source = analysis.request, analysis.source_as_read
    name = request.published or analysis.source.design.report.published
    if name is None:
        return None
    rows, _ = clean_rows(source.rows)
    are_fractions = said_scales(rows, request.scales) == "fraction"
    rows = rows.assign(score=rows["score"].where(~are_fractions, 100 * rows["score"]))
    beside = beside_published(rows, name, analysis.source.factor, analysis.baseline)
    return replace(beside, claims=claims_of(name, analysis))


def beside_published(
    rows: pd.DataFrame, source: PublishedSource, factor: Factor, baseline: Level
) -> Published:
    """Set own scores beside a source's.

    Args:
        rows: What ``normalise_rows`` returns in percent, copies left out and not relabelled.
        source: Whose tables.
        factor: What is compared.
        baseline: With what.
    """
    printed = read_published(source)
    own, counterparts = _own_runs(rows), _counterparts(printed)
    pairs = {place: families for place in own if (families := _counterpart(counterparts, place))}
    levels = [_record(place, [(1.0, own[place].to_numpy())], [(1.0, x)]) for place, x in pairs.items()]
    effects = []
    for place in pairs:
        if (base := _baseline_of(place, factor, baseline)) in pairs and base != place:
            terms = _effect(own[place], own[base], is_paired(factor))
            effects.append(_record(place, terms, [(1.0, pairs[place]), (-1.0, pairs[base])]))
    levels, effects = ([*filter(None, each)] for each in (levels, effects))
    return Published(source=source, baseline=str(baseline), levels=levels, effects=effects)


def _own_runs(rows: pd.DataFrame) -> dict[Place, pd.Series]:
    """Return scores by seed: of each task in each metric, and of each benchmark's mean under each head."""
    means = [run_scores(part)[0].assign(head=head) for head, part in rows.groupby("head")]
    of_benchmarks = pd.concat(means).assign(task=SINGLE_TASK, metric=NO_METRIC)
    names = list(Place._fields)
    every = pd.concat([rows[rows.task != SINGLE_TASK], of_benchmarks])[[*names, "seed", "score"]]
    return {
        Place(*map(str, key)): part.set_index("seed").score.astype(float)
        for key, part in every.groupby(names, sort=False)
    }


def _counterparts(printed: pd.DataFrame) -> dict[tuple[str, ...], Families]:
    """Return what was printed of each benchmark, task, metric, variant and head, by family."""
    # Where a source names heads, a score without one is of a model that has none: no head stands beside it.
    with_heads = printed[printed["head"] != NO_HEAD]
    rows = printed if with_heads.empty else with_heads
    renamed = rows.assign(head=[_as_named(head) for head in rows["head"]])
    return {
        tuple(map(str, key)): {
            str(name): (str(part.table.iloc[0]), part.score.to_numpy(float))
            for name, part in of_key.groupby("family")
        }
        for key, of_key in renamed.groupby(["benchmark", "task", "metric", "variant", "head"])
    }


def _counterpart(counterparts: Mapping[tuple[str, ...], Families], place: Place) -> Families | None:
    """What a source says of a score; it names no variant, or no head, where it has but one."""
    keys = [
        (place.benchmark, place.task, place.metric, variant, head)
        for variant in (place.variant, "")
        for head in (_as_named(place.head), NO_HEAD)
    ]
    return next((counterparts[key] for key in keys if key in counterparts), None)


def _as_named(head: str) -> str:
    """A head without the options that the sources leave open."""
    if head:
        with suppress(UsageError):
            choice = parse_head(head)
            options = tuple(option for option in choice.options if option[0] not in LEFT_OPEN)
            return head_name(str(replace(choice, options=options)))
    return head


def _baseline_of(place: Place, factor: Factor, baseline: Level) -> Place:
    """The model that another one is compared with."""
    if isinstance(baseline, Combination):
        return place._replace(variant=baseline.variant, head=baseline.head)
    return place._replace(**{"head" if factor == "head" else "variant": str(baseline)})


def _published_of(families: Families, place: Place) -> tuple[str, str, np.ndarray]:
    """Return whose published scores, their table, and them: the model's family's, else one mean over all."""
    # The family of a study's backbone is told by its name, distilbert-base.
    words = re.findall("[a-z]+", place.variant.lower()) if place.family == PRETRAINED else []
    for family in (place.family, *words):
        if family in families:
            return family, *families[family]
    names = " and ".join(dict.fromkeys(name for name, _ in families.values()))
    mean = np.array([np.mean([scores.mean() for _, scores in families.values()])])
    return next(iter(families)) if len(families) == 1 else f"mean of {len(families)} models", names, mean


def _effect(runs: pd.Series, base: pd.Series, paired: bool) -> list[Term]:
    """Scores minus the baseline's: within each seed that both have, or of two groups."""
    if paired:
        return [(1.0, (runs - base).dropna().to_numpy())]
    return [(1.0, runs.to_numpy()), (-1.0, base.to_numpy())]


def _record(place: Place, own: list[Term], counterparts: list[tuple[float, Families]]) -> Record | None:
    """Set a score or an effect beside what was printed over the families that all counterparts have."""
    shared = set.intersection(*(set(families) for _, families in counterparts))
    if not shared or not len(own[0][1]):
        return None
    weights, every = zip(*counterparts, strict=True)
    printed = [_published_of({x: families[x] for x in families if x in shared}, place) for families in every]
    published = [(weight, scores) for weight, (_, _, scores) in zip(weights, printed, strict=True)]
    own_mean, published_mean = (sum(weight * x.mean() for weight, x in terms) for terms in (own, published))
    return {
        **place._asdict(),
        "table": " minus ".join(dict.fromkeys(name for _, name, _ in printed)),
        "published_of": printed[0][0],
        "own": float(own_mean),
        "published": float(published_mean),
        "difference": float(own_mean - published_mean),
        "num_own": min(len(x) for _, x in own),
        "num_published": min(len(x) for _, x in published),
    }


def section(analysis: Analysis, published: Published, page: Page) -> Section:
    """What own runs score beside a source's, and what variants or heads change."""
    parts = [f"Beside {read_source_file(published.source).cited}. Levels and effects are not tested."]
    if published.levels:
        parts[0] += (
            " Levels depend on a model's size, its data and the recipe, so effects stand beside effects. "
            "*Mean of*: the source has no such family."
        )
    if published.claims:
        columns = ("claim", "published", "outcome", "own", "verdict")
        heading = "**Claims**: whether these runs reproduce them, at the size and by the recipe of the study"
        parts += [
            heading,
            records_table({name: record[name] for name in columns} for record in published.claims),
        ]
    if published.effects:
        heading = f"**Effects**: minus `{published.baseline}`"
        parts += [heading, _table(published.effects, signed)]
    if published.levels:
        parts += ["**Levels**", _table(published.levels, "{:.2f}".format)]
    summary = "no score here is in their tables"
    if published.levels or published.claims:
        counts = Counter(record["verdict"] for record in published.claims)
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        summary = f"claims: {told}" if told else "no verdict rests on them"
    return Section(title="Published numbers", summary=summary, body="\n\n".join(filter(None, parts)))


def _table(records: Sequence[Record], number: Callable[[float], str]) -> str:
    return records_table(
        {
            "metric": _outcome(x),
            "model": family_label(x["family"]),
            "variant": f"`{x['variant']}`",
            "head": f"`{x['head']}`" if x["head"] else "-",
            "own (runs)": f"{number(x['own'])} ({x['num_own']})",
            "published (runs)": f"{number(x['published'])} ({x['num_published']})",
            "of": f"{family_label(x['published_of'])}, {x['table']}",
            "difference": signed(x["difference"]),
        }
        for x in records
    )


def _outcome(record: Record) -> str:
    """Benchmark, or task and metric."""
    if record["task"] == SINGLE_TASK:
        return record["benchmark"]
    return f"{record['task']} {record['metric'].replace('_', ' ')}"


def tables(analysis: Analysis, published: Published) -> Mapping[str, pd.DataFrame]:
    """Return levels, effects and claims."""
    parts = {"levels": published.levels, "effects": published.effects, "claims": published.claims}
    return {f"published_{name}": pd.DataFrame(part) for name, part in parts.items()}


PART = Part(name="published", compute=compute, section=section, tables=tables)
