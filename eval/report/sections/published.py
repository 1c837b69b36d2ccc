"""Own scores beside published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eval.report.document.markdown import details, listed, signed, table
from eval.report.document.names import family_label
from eval.report.scores.published import BesidePublished, Interval, Published
from eval.report.sections.context import Context
from eval.results.published import CITED

MOST_OPEN = 40
"""Lines of a table that is not folded away."""
Number = Callable[[float], str]


def published_section(published: Published | None, context: Context) -> str:
    """What own runs score beside a source's, and what variants or heads change; empty unless asked for."""
    if published is None:
        return ""
    parts = ["## Beside the published numbers", _reading(published)]
    if published.effects:
        parts += [
            f"### Effects: minus `{published.baseline}`",
            context.figure("published"),
            _folded("Effects", _table(published.effects, signed, True)),
        ]
    if published.levels:
        parts += ["### Levels", _folded("Levels", _table(published.levels, _plain, False))]
    return "\n\n".join(part for part in (*parts, _alone(published)) if part)


def _reading(published: Published) -> str:
    said = (
        f"Beside {CITED[published.source]}. **To look at, not to conclude from: no verdict rests on it, and "
        "nothing is corrected.**"
    )
    if not published.levels:
        return f"{said} No score here has a counterpart in its tables."
    said += (
        " Levels depend on a model's size, its data and the recipe, so effects stand beside effects, each "
        f"against `{published.baseline}`. Intervals (95%) are Welch's, of effects of heads those of "
        "differences within a seed; a single own run has none."
    )
    if any(x.num_published == 1 for x in published.levels):
        said += (
            " Where the source has one number (1), the interval is Student's of the own runs about it; how "
            "far that number itself may be off is not known, and not in it."
        )
    if any(x.models.startswith("mean of") for x in published.levels):
        said += " *Mean of*: the source has no such family, and its number is the mean over its own."
    return said


def _folded(name: str, lines: str) -> str:
    return details(name, lines) if lines.count("\n") > MOST_OPEN else lines


def _table(rows: Sequence[BesidePublished], number: Number, with_ends: bool) -> str:
    has_variants, has_heads = (any(getattr(x.model, name) for x in rows) for name in ("variant", "head"))
    header = ["outcome", "family", *(["variant"] * has_variants), *(["head"] * has_heads)]
    header += ["own (runs)", "published (runs)", "published of", "difference"]
    return table(header, [_cells(x, number, with_ends, has_variants, has_heads) for x in rows])


def _cells(
    row: BesidePublished, number: Number, with_ends: bool, has_variants: bool, has_heads: bool
) -> list[str]:
    model, write = row.model, _with_ends if with_ends else _without_ends
    named = [f"`{model.variant}`"] * has_variants + [f"`{model.head}`" if model.head else "-"] * has_heads
    return [
        str(row.outcome),
        family_label(model.family),
        *named,
        f"{write(row.own, number)} ({row.num_own})",
        f"{write(row.published, number)} ({row.num_published})",
        f"{family_label(row.models)}, {row.table}",
        _with_ends(row.difference, signed),
    ]


def _with_ends(found: Interval, number: Number) -> str:
    if found.low is None or found.high is None:
        return number(found.estimate)
    return f"{number(found.estimate)} [{number(found.low)}, {number(found.high)}]"


def _without_ends(found: Interval, number: Number) -> str:
    return number(found.estimate)


def _plain(value: float) -> str:
    return f"{value:.2f}"


def _alone(published: Published) -> str:
    said = []
    if published.own_alone:
        said.append(f"Here, and not in its tables: {listed(published.own_alone)}.")
    if published.published_alone:
        said.append(f"In its tables, and not here: {listed(published.published_alone)}.")
    return " ".join(said)
