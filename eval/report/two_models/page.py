"""The page on two models: what their items say, and what they cannot say."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

import matplotlib
from matplotlib.figure import Figure

from eval.report.document.markdown import arrow, listed, p_value, signed, table, unit_name
from eval.report.figures.style import (
    BLUE,
    GREY,
    SMALL,
    STYLE,
    WIDTH_IN,
    filled,
    new_figure,
    settle,
    text_width,
)
from eval.report.two_models.compare import ItemDifference, TwoModels
from eval.results.outcome import Outcome

LEVEL = 0.05
SHOWN_PARTS = 24
"""Parts of a benchmark that the figure and its table show: those that differ most."""
FIGURE = "parts"


def answer(found: TwoModels) -> str:
    """Say in a few sentences what the items tell of these two models, and of nothing else."""
    told = [x for x in found.wholes if x.p_corrected is not None and x.p_corrected < LEVEL]
    untold = [x for x in found.wholes if x not in told]
    sentences = [_told(found, x) for x in told]
    if untold:
        names = listed([str(x.outcome.name) for x in untold])
        sentences.append(f"The items of {names} do not tell them apart.")
    return " ".join([*sentences, _caution(found)])


def _told(found: TwoModels, x: ItemDifference) -> str:
    is_better = x.paired.estimate * x.outcome.sign > 0
    better, worse = (found.second, found.first) if is_better else (found.first, found.second)
    size = f"{abs(x.paired.estimate):.{_digits(x)}f} {unit_name(x.outcome.unit)}".strip()
    low, high = sorted((abs(x.paired.low), abs(x.paired.high)))
    reach = f" [{low:.{_digits(x)}f}, {high:.{_digits(x)}f}]" if _has_interval(x) else ""
    return (
        f"On {x.outcome.name}, {better.name} is ahead of {worse.name} by {size}{reach} on items like these "
        f"{x.num_items:,}."
    )


def _has_interval(x: ItemDifference) -> bool:
    return math.isfinite(x.paired.low)


def _caution(found: TwoModels) -> str:
    one, other = found.first.training, found.second.training
    if one and one[:2] == other[:2] and one[2] != other[2]:
        return (
            f"Both are {' '.join(one[:2])}, trained with different seeds: whatever differs here is what "
            "another seed does."
        )
    return (
        "This is about these two models. Nothing follows for another training of either: a seed moves such "
        "scores, too, and one training each cannot say by how much."
    )


def page(found: TwoModels, figure_alt: str | None, command: str) -> str:
    """Write the page as markdown."""
    parts = [
        f"# {found.second.name} against {found.first.name}, item by item",
        answer(found),
        _table(found.wholes, found),
        f"Differences are {found.second.name} minus {found.first.name}; ↑ higher is better, ↓ lower. *p* is "
        "corrected over all rows (Holm). The interval is that of the row alone, for other items like these: "
        "items of one cluster are not independent, so that differences are added up within clusters first "
        "(Miller 2024). *As if independent* is the standard error without that. *Detectable*: the smallest "
        "true difference that would be found with 80% power. *McNemar* counts items that only one of them "
        "has right, and takes items for independent. Where all clusters differ by the same, no spread is "
        "left for an interval, and *p* is the exact one of flipping signs.",
        "\n".join(f"- {note}" for note in found.notes),
    ]
    if shown := most_different(found.parts):
        parts += [
            "## Where they differ",
            f"![{figure_alt}]({FIGURE}.svg)" if figure_alt else "",
            _table(shown, found),
            "Explored: *p* is corrected over the parts of a benchmark (Benjamini and Hochberg).",
        ]
    parts += [
        "## What this cannot say",
        "Whether the architecture, the recipe or the data of one is better than that of the other. That is a "
        "question about trainings, and here is one of each. Train each with several seeds, score them on the "
        "same tasks, and give the results to `ffn-ablations report`: five seeds each are a start, and "
        "`ffn-ablations report SOURCE --plan` says how many it takes.",
        f"## Reproduce\n\n```bash\n{command}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def most_different(parts: Sequence[ItemDifference]) -> list[ItemDifference]:
    """Return the parts whose difference is largest against its standard error, of every benchmark alike."""
    by_size = sorted(parts, key=lambda x: -_size(x))
    return sorted(by_size[:SHOWN_PARTS], key=lambda x: (str(x.outcome.name), -x.paired.estimate))


def _size(x: ItemDifference) -> float:
    error = x.paired.standard_error
    return abs(x.paired.estimate) / error if error > 0 else 0.0


def _table(rows: Iterable[ItemDifference], found: TwoModels) -> str:
    header = ["outcome", found.first.name, found.second.name, "difference", "95% interval", "p", "items",
              "clusters", "as if independent", "detectable", "only one right", "McNemar"]  # fmt: skip
    return table(header, [_row(x) for x in rows])


def _row(x: ItemDifference) -> list[str]:
    digits, paired = _digits(x), x.paired
    name = f"{x.outcome.name} {arrow(x.outcome)}" + (f"<br>{x.part}" if x.part else "")
    right = x.right
    return [
        name,
        *(f"{mean:.{digits}f}" for mean in x.means),
        signed(paired.estimate, digits),
        f"[{signed(paired.low, digits)}, {signed(paired.high, digits)}]" if _has_interval(x) else "-",
        p_value(x.p_corrected if paired.df else None),
        f"{x.num_items:,}",
        f"{x.num_clusters:,} {x.cluster}s",
        f"{paired.standard_error_items:.{digits}f} (clustered {paired.standard_error:.{digits}f})",
        f"{paired.detectable:.{digits}f}" if _has_interval(x) else "-",
        f"{right.only_first:,} / {right.only_second:,}" if right else "-",
        p_value(right.p_exact) if right else "-",
    ]


def _digits(x: ItemDifference) -> int:
    return 2 if _is_points(x.outcome) else 4


def _is_points(outcome: Outcome) -> bool:
    return outcome.is_percentage


def draw_parts(found: TwoModels) -> tuple[Figure, str] | None:
    """Draw the differences of the parts that differ most; None where no benchmark has several parts."""
    shown = most_different(found.parts)
    if not shown:
        return None
    outcomes = list(dict.fromkeys(str(x.outcome.name) for x in shown))
    with matplotlib.rc_context(STYLE):
        labels = {x.part: filled(x.part.replace("_", " "), 34) for x in shown}
        extra = max(map(text_width, labels.values()))
        heights = [0.2 * sum(str(x.outcome.name) == name for x in shown) + 0.75 for name in outcomes]
        figure = new_figure(sum(heights), max(WIDTH_IN, extra + 4))
        drawn = figure.subplots(len(outcomes), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, name in zip(drawn, outcomes, strict=True):
            rows = [x for x in shown if str(x.outcome.name) == name]
            for y, x in enumerate(reversed(rows)):
                reach = [[x.paired.estimate - x.paired.low], [x.paired.high - x.paired.estimate]]
                axes.errorbar(x.paired.estimate, y, xerr=reach, fmt="o", color=BLUE, ms=3.5, lw=1.2)
            axes.axvline(0, color=GREY, lw=0.8, zorder=0)
            axes.set_yticks(range(len(rows)), [labels[x.part] for x in reversed(rows)], fontsize=SMALL)
            axes.set_ylim(-0.6, len(rows) - 0.4)
            axes.set_title(name, loc="left")
            axes.set_xlabel(
                f"{found.second.name} minus {found.first.name}"
                + (f" ({unit})" if (unit := unit_name(rows[0].outcome.unit)) else "")
            )
        settle(figure)
    told = "; ".join(f"{x.outcome.name}, {x.part} {signed(x.paired.estimate, _digits(x))}" for x in shown)
    return figure, f"Differences of {found.second.name} to {found.first.name} with 95% intervals: {told}"


def command_of(words: Iterable[str]) -> str:
    """Write the command that makes the page again."""
    return shlex.join(["python", "-m", "eval.compare_items", *words])
