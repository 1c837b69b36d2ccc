"""The standing table: variants in the order of their scores, what they cost, and who cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from eval.report.analysis import Analysis
from eval.report.curves.equal_cost import fastest
from eval.report.document.markdown import anchor, arrow, count, difference, interval, listed, millions, table
from eval.report.document.names import family_label, title
from eval.report.inputs.run_facts import RunFacts
from eval.report.sections.answer import in_a_word
from eval.report.sections.context import Context, decimals_of
from eval.report.verdicts.ranking import EDGE, Place, Ranking

MOST_NAMED = 8
"""Variants that a sentence lists."""
MET = "of them met by a token"


def ranking_section(analysis: Analysis, context: Context) -> str:
    """A sentence and a table of the leading outcome for each family; empty for few variants."""
    if not analysis.rankings:
        return ""
    parts = [
        "\n\n".join([_sentence(analysis, x), _table(analysis, x), *_pairs(x)]) for x in analysis.rankings
    ]
    return "\n\n".join(["## Standing", context.figure("ranking"), *parts, _text(analysis)])


def ranking_table(analysis: Analysis) -> pd.DataFrame:
    """A row for each family and variant: its place, its letters, and whom it is shown to be better than."""
    return pd.DataFrame(
        {
            "benchmark": ranking.benchmark,
            "family": ranking.family,
            "place": number,
            "variant": place.variant,
            "mean": place.mean,
            "num_runs": place.num_runs,
            "letters": place.letters,
            "is_at_edge": place.is_at_edge,
            "better_than": ", ".join(map(str, place.better_than)),
        }
        for ranking in analysis.rankings
        for number, place in enumerate(ranking.places, start=1)
    )


def _sentence(analysis: Analysis, ranking: Ranking) -> str:
    """Say who is first and who is not told from it."""
    first, *tied = ranking.leaders
    best = "highest" if analysis.outcome(ranking.benchmark).better == "higher" else "lowest"
    where = f"**{family_label(ranking.family)}, {title(ranking.benchmark)}.** "
    said = f"{where}`{first}` has the {best} mean of {len(ranking.places)} {analysis.noun}s"
    out = [f"`{name}`" for name in ranking.left_out]
    end = f" Not in it, with fewer than two runs: {listed(out)}." if out else ""
    if not tied:
        return f"{said}, and is told apart from every other.{end}"
    if len(tied) > MOST_NAMED:
        return f"{said}; {len(tied)} others cannot be told from it.{end}"
    return f"{said}; {listed(f'`{name}`' for name in tied)} cannot be told from it.{end}"


def _table(analysis: Analysis, ranking: Ranking) -> str:
    outcome, digits = (
        analysis.outcome(ranking.benchmark),
        decimals_of(analysis, ranking.benchmark, ranking.family),
    )
    facts = {x.variant: _facts(analysis, ranking, x.variant) for x in ranking.places}
    header = ["", analysis.noun, f"{title(ranking.benchmark)} {arrow(outcome)}"]
    header += ["not told apart" if ranking.has_letters else "told apart from"]
    header += [*(["runs"] if _runs_differ(ranking) else []), f"against `{analysis.baseline}`", "verdict"]
    costs = _known_costs([run for runs in facts.values() for run in runs])
    speeds = {variant: fastest(analysis.source, runs) for variant, runs in facts.items()}
    usual = speeds.get(analysis.baseline)
    rows = [
        [
            str(number),
            f"`{x.variant}`" + (f" {EDGE}" if x.is_at_edge else ""),
            f"{x.mean:.{digits}f}",
            x.letters if ranking.has_letters else _told_from(ranking, x),
            *([str(x.num_runs)] if _runs_differ(ranking) else []),
            *_against(x),
            *(_costs(facts[x.variant], speeds[x.variant], usual)[name] for name in costs),
        ]
        for number, x in enumerate(ranking.places, 1)
    ]
    return table([*header, *costs], rows)


def _told_from(ranking: Ranking, place: Place) -> str:
    found = ((len(ranking.ahead_of(place)), "better"), (len(place.better_than), "worse"))
    return ", ".join(f"{number} {word}" for number, word in found if number) or "none"


def _pairs(ranking: Ranking) -> list[str]:
    """Name all pairs, where letters are too many to find them by."""
    if ranking.has_letters:
        return []
    lines = [
        f"- `{x.variant}` is better than {listed(f'`{name}`' for name in x.better_than)}"
        for x in ranking.places
        if x.better_than
    ]
    body = "\n".join(lines)
    return [f"<details><summary>Which pairs are told apart</summary>\n\n{body}\n\n</details>"]


def _runs_differ(ranking: Ranking) -> bool:
    """Whether some have fewer: a mean is then one of survivors, which a reader must see."""
    return len({x.num_runs for x in ranking.places}) > 1


def _against(place: Place) -> list[str]:
    found = place.comparison
    return ["-", "-"] if found is None else [f"{difference(found)} {interval(found)}", in_a_word(found)]


def _facts(analysis: Analysis, ranking: Ranking, variant: object) -> Sequence[RunFacts]:
    return [x for x in analysis.facts if (x.family, x.variant) == (ranking.family, variant)]


def _known_costs(runs: Sequence[RunFacts]) -> list[str]:
    """Columns: none for a table of scores; parameters of one token only where they are fewer somewhere."""
    if not runs:
        return []
    differ = any(x.num_active_parameters != x.num_parameters for x in runs)
    return ["parameters", *([MET] if differ else []), "MFLOP a token", "time"]


def _costs(runs: Sequence[RunFacts], speed: float | None, usual: float | None) -> dict[str, str]:
    first = runs[0] if runs else RunFacts(run_id="", family="", variant="", seed=0)
    return {
        "parameters": count(first.num_parameters),
        MET: count(first.num_active_parameters),
        "MFLOP a token": millions(first.flops_per_token),
        "time": f"{usual / speed:.2f}x" if speed and usual else "-",
    }


def _text(analysis: Analysis) -> str:
    link = "#" + anchor(f"Differences to `{analysis.baseline}`")
    with_letters = any(x.has_letters for x in analysis.rankings)
    meant = [f"*Not told apart*: {analysis.noun}s that share a letter."] if with_letters else []
    if not all(x.has_letters for x in analysis.rankings):
        meant.append(f"*Told apart from*: how many {analysis.noun}s are better, and worse.")
    said = [
        "Sorted by the mean over seeds.",
        *meant,
        "Every pair is compared by Welch's test, corrected by Holm over all pairs of the table at "
        f"{analysis.confidence:.0%}. Intervals and verdicts against `{analysis.baseline}` are those of [all "
        f"differences]({link}), with a correction of their own, so that a verdict may say of a pair what "
        "this order does not, or the other way round: each holds at its own error rate.",
        f"*Time*: that of one training token over that of `{analysis.baseline}`, by the fastest run of each, "
        "those of a tuning included: others may have shared the machine.",
    ]
    if any(map(_runs_differ, analysis.rankings)):
        said.append(
            "*Runs*: those that a mean is of; runs that failed are in none. With unlike numbers of runs more "
            "than 5% of such orders may tell some pair apart falsely (docs/error-rates.md)."
        )
    if any(x.is_at_edge for ranking in analysis.rankings for x in ranking.places):
        said.append(
            f"*{EDGE}*: its best value lies at the edge of what was tuned, so it may be better than here; "
            "no interval holds that."
        )
    return " ".join(said)
