"""The page of a report: answer card, leaderboard, forest figure, warnings, then every part folded away."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.card import make_card
from eval.report.document.markdown import escape
from eval.report.leaderboard import leaderboard
from eval.report.part import Page
from eval.report.parts import PARTS

WARNINGS_ON_TOP = 6


def blocks(analysis: Analysis, page: Page) -> tuple[str, ...]:
    """Return the page's Markdown, a block after the other."""
    sections = [
        part.section(analysis, result, page) for part in PARTS if (result := part.of(analysis)) is not None
    ]
    first = [
        make_card(analysis).markdown,
        leaderboard(analysis),
        page.figure("forest"),
        legend(analysis),
        warnings(analysis),
    ]
    folded = [section.markdown for section in sections if section is not None]
    return tuple(block for block in (*first, *folded) if block)


def legend(analysis: Analysis) -> str:
    """Say how table and figure are read."""
    return (
        f"Differences to `{analysis.baseline}`; ↑ higher is better, ↓ lower. Intervals hold together at "
        f"{analysis.confidence:.0%} over all {len(analysis.claims)} primary comparisons. *Better*, *worse*: "
        "significantly different. *Equivalent*: the difference is smaller than the margin, also after "
        "correction; *within margin*: uncorrected. *Inconclusive*: every value in the interval remains "
        "possible."
    )


def warnings(analysis: Analysis) -> str:
    """What is wrong with the scores, each naming its rows."""
    lines = [escape(note) for note in warning_notes(analysis)]
    if len(lines) > WARNINGS_ON_TOP:
        more = len(lines) - WARNINGS_ON_TOP + 1
        lines = [*lines[: WARNINGS_ON_TOP - 1], f"{more} more are under *Design and data checks*."]
    return "> [!WARNING]\n" + "\n".join(f"> - {line}" for line in lines) if lines else ""


def warning_notes(analysis: Analysis) -> tuple[str, ...]:
    """Return missing scores and every other warning."""
    num = sum(len(seeds.split(", ")) for seeds in analysis.missing.seeds)
    missing = [f"{num} score{'s are' if num > 1 else ' is'} missing"] if num else []
    return (*missing, *analysis.warnings)


def summary(analysis: Analysis) -> str:
    """Return what a screen shows of a report: its card, and how many warnings it has."""
    number = len(warning_notes(analysis))
    warned = f"{number} warning{'s' * (number > 1)} about these scores: see the top of the report."
    return "\n\n".join([make_card(analysis).markdown, *[warned] * bool(number)])
