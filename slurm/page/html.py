"""The page of a study as one HTML file: no script, no second file, no network."""

from __future__ import annotations

import html
import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from eval.report.document.html import to_fragment
from eval.results.stages import MAIN, SHARED, STAGES, TUNE
from slurm.page.chart import Line, draw, style_of
from slurm.page.contents import Losses, PageCell, PageContents
from slurm.page.frame import FRAME
from slurm.state.cell_state import StateName, is_number

LETTERS: Mapping[StateName, str] = {
    "done": "d",
    "diverged": "x",
    "running": "r",
    "failed": "F",
    "missing": "m",
    "queued": "q",
    "waiting": "·",
}
"""A state is told by a letter as well as by a colour."""
STAGE_NAMES = {TUNE: "Tuning cells", MAIN: "Cells", SHARED: "Cells at the shared rate"}
MOST_PANELS = 12
MOST_FAILURES = 20
MOST_VERDICTS = 40
MOST_POINTS = 300
"""Of a line."""


def render(contents: PageContents, study_path: str, every_s: float) -> str:
    """Write the page.

    Args:
        contents: What it shows.
        study_path: The study's folder, as commands that it names are to be typed.
        every_s: Seconds after which a browser loads it again, while cells are at work or queued.

    Returns:
        One HTML document; the report beside it is linked, everything else is in it.
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(c.variant for c in contents.cells))}
    sections = [
        _head(contents),
        *(f'<p class="note">{html.escape(note)}</p>' for note in contents.notes),
        _failures(contents, study_path),
        _verdicts(contents),
        _losses(contents, places),
        _tuning(contents, places),
        *(_grid(contents, stage) for stage in STAGES),
    ]
    refresh = f'<meta http-equiv="refresh" content="{max(1, round(every_s))}">' if contents.is_running else ""
    return FRAME.substitute(
        title=html.escape(contents.title), refresh=refresh, body="\n".join(part for part in sections if part)
    )


def _head(contents: PageContents) -> str:
    counts = Counter(cell.state.name for cell in contents.cells)
    total, done = len(contents.cells), counts["done"]
    bar = "".join(
        f'<span class="{name}" style="flex-grow:{counts[name]}"></span>' for name in LETTERS if counts[name]
    )
    told = [f"{done} of {total} cells done"]
    told += [f"{counts[name]} {name}" for name in LETTERS if counts[name] and name != "done"]
    said = [", ".join(told), *([contents.left] if contents.left else []), *contents.progress]
    made = time.strftime("%Y-%m-%d %H:%M:%S")
    goes_on = "; it loads itself again while cells are at work" if contents.is_running else ""
    return (
        f"<h1>{html.escape(contents.title)}</h1>"
        f'<div class="bar" role="img" aria-label="{done} of {total} cells done">{bar}</div>'
        + "".join(f"<p>{html.escape(each)}.</p>" for each in said)
        + f'<p class="soft">Page of {made}{goes_on}.</p>'
    )


def _failures(contents: PageContents, study_path: str) -> str:
    failed = [cell for cell in contents.cells if cell.state.name in ("failed", "missing")]
    if not failed:
        return ""
    items = "".join(
        f"<li><b>{cell.state.name}</b> <code>{html.escape(cell.run_id)}</code> "
        f"{html.escape(_told(cell))}: {html.escape(cell.state.error or 'no reason was left')}"
        f'<br><span class="soft">log: {html.escape(cell.state.log or "none")}</span></li>'
        for cell in failed[:MOST_FAILURES]
    )
    more = f"<li>and {len(failed) - MOST_FAILURES} more</li>" if len(failed) > MOST_FAILURES else ""
    return (
        f"<h2>Not done</h2><ul>{items}{more}</ul><p>The command that ran the study continues what is "
        "missing; with <code>--retry-failed</code> it tries what failed again. "
        f"<code>ffn-ablations study status {html.escape(study_path)}</code> says the same in a terminal.</p>"
    )


def _told(cell: PageCell) -> str:
    return ", ".join([cell.variant, *(f"{axis} {level}" for axis, level in cell.places)])


def _verdicts(contents: PageContents) -> str:
    """The newest report's first words, and its claims."""
    if not contents.report or contents.reported_s is None:
        return ""
    answer = contents.report.get("answer")
    words = " ".join(map(str, answer)) if isinstance(answer, list) else ""
    rows = [row for row in _claims(contents.report) if row][:MOST_VERDICTS]
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(contents.reported_s))
    table = ""
    if rows:
        header = "<tr><th>comparison</th><th>outcome</th><th>difference</th><th>verdict</th></tr>"
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(x)}</td>' for x in row)}</tr>" for row in rows)
        table = f'<div class="wide"><table>{header}{cells}</table></div>'
    return (
        f'<h2>Newest verdicts</h2><p class="soft">Report of {made}: '
        f'<a href="report/report.html">all of it</a></p>{to_fragment(words)}{table}'
    )


def _claims(report: Mapping[str, object]) -> Iterable[tuple[str, ...]]:
    comparisons = report.get("comparisons")
    every = [one for one in (comparisons if isinstance(comparisons, list) else []) if isinstance(one, dict)]
    primary = [one for one in every if one.get("is_primary")]
    overall = [one for one in primary if one.get("family") is None]  # none where there is one family
    for one in overall or primary:
        yield str(one.get("contrast")), str(one.get("benchmark")), _difference(one), str(one.get("verdict"))


def _difference(one: Mapping[str, object]) -> str:
    """An estimate with its simultaneous interval, with which a verdict goes; of one alone, its own."""
    ends = [one.get("low_simultaneous"), one.get("high_simultaneous")]
    numbers = [
        one.get("estimate"),
        *(ends if all(map(is_number, ends)) else [one.get("low"), one.get("high")]),
    ]
    if not all(map(is_number, numbers)):
        return "-"
    sign = "%" if one.get("is_relative") else ""
    estimate, low, high = (f"{number:+.3g}{sign}" for number in numbers)
    unit = "" if sign else one.get("unit") or ""
    return f"{estimate} [{low}, {high}] {unit}".strip()


def _losses(contents: PageContents, places: Mapping[str, int]) -> str:
    """A panel for each setting: the mean over seeds of every variant, with plus and minus one sd."""
    begun = [cell for cell in contents.cells if cell.run_id in contents.losses]
    stage = MAIN if any(cell.stage == MAIN for cell in begun) else TUNE
    panels: dict[str, list[PageCell]] = defaultdict(list)
    for cell in begun:
        if cell.stage == stage:
            panels[cell.setting].append(cell)
    drawn = []
    for setting, cells in list(panels.items())[:MOST_PANELS]:
        is_held_out = any(len(contents.losses[cell.run_id].held_out) > 1 for cell in cells)
        lines = [line for name in places if (line := _mean_line(contents, cells, name, places, is_held_out))]
        if lines:
            kind = "held-out loss" if is_held_out else "training loss"
            drawn.append(_panel(f"{setting}: {kind}", draw(lines, "step")))
    if not drawn:
        return ""
    more = f"<p>{len(panels) - MOST_PANELS} more settings.</p>" if len(panels) > MOST_PANELS else ""
    told = "Nats a token, mean over the seeds that have come so far, with one standard deviation either side."
    heading = "Losses" if stage == MAIN else "Losses of the tuning"
    return f"<h2>{heading}</h2><p>{told}</p>{_legend(places)}<div class='panels'>{''.join(drawn)}</div>{more}"


def _mean_line(
    contents: PageContents,
    cells: Sequence[PageCell],
    variant: str,
    places: Mapping[str, int],
    is_held_out: bool,
) -> Line | None:
    values: dict[float, list[float]] = defaultdict(list)
    for cell in cells:
        if cell.variant == variant:
            found = contents.losses[cell.run_id]
            for step, loss in found.held_out if is_held_out else found.training:
                values[step].append(loss)
    if not values:
        return None
    thin = -(-len(values) // MOST_POINTS)
    steps = sorted(values, reverse=True)[::thin][::-1]  # with the newest
    means = [(step, statistics.fmean(values[step])) for step in steps]
    spread = [(step, mean, statistics.stdev(values[step])) for step, mean in means if len(values[step]) > 1]
    return Line(
        name=f"{variant}: {means[-1][1]:.3f} at step {means[-1][0]:,.0f}, runs: {len(values[means[-1][0]])}",
        place=places[variant],
        points=means,
        band=[(step, mean - sd, mean + sd) for step, mean, sd in spread],
    )


def _tuning(contents: PageContents, places: Mapping[str, int]) -> str:
    """Held-out loss of ended tuning runs against the first field that is tuned, a panel for each setting."""
    if not contents.tuned:
        return ""
    panels: dict[str, dict[str, dict[float, list[float]]]] = {}
    for cell in contents.cells:
        found = contents.losses.get(cell.run_id)
        value = _number(dict(cell.places).get(contents.tuned[0]))
        if cell.stage != TUNE or cell.state.name != "done" or found is None or found.last is None:
            continue
        if value is None:
            continue
        rest = [f"{axis} {level}" for axis, level in cell.places if axis not in contents.tuned[:1]]
        by_variant = panels.setdefault(", ".join([cell.family, *rest]), {})
        by_variant.setdefault(cell.variant, {}).setdefault(value, []).append(found.last)
    drawn = []
    for setting, variants in list(panels.items())[:MOST_PANELS]:
        lines = []
        for name, by_value in variants.items():
            points = [(value, statistics.fmean(by_value[value])) for value in sorted(by_value)]
            best = min(points, key=lambda point: point[1])
            told = f"{name}: best {best[1]:.3f} at {best[0]:g}"
            band = [(x, min(by_value[x]), max(by_value[x])) for x, _ in points if len(by_value[x]) > 1]
            lines.append(Line(name=told, place=places[name], points=points, band=band, mark=best))
        is_log = all(x > 0 for line in lines for x, _ in line.points)
        drawn.append(_panel(setting, draw(lines, contents.tuned[0], is_log=is_log)))
    if not drawn:
        return ""
    told = (
        "Held-out loss at the end of tuning runs, mean and range over tuning seeds; the dot is the best yet."
    )
    return f"<h2>Tuning</h2><p>{told}</p>{_legend(places)}<div class='panels'>{''.join(drawn)}</div>"


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _panel(title: str, chart: str) -> str:
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{chart}</figure>"


def _legend(places: Mapping[str, int]) -> str:
    keys = "".join(
        f'<span><svg viewBox="0 0 28 10" class="key"><polyline {style_of(place)} points="0,5 28,5"/></svg>'
        f"{html.escape(name)}</span>"
        for name, place in places.items()
    )
    return f'<p class="legend">{keys}</p>'


def _grid(contents: PageContents, stage: str) -> str:
    """A table of a stage's cells: a row a variant, a column a setting, a square a run."""
    cells = [cell for cell in contents.cells if cell.stage == stage]
    if not cells:
        return ""
    squares: dict[tuple[str, str], str] = defaultdict(str)
    for cell in cells:
        squares[cell.variant, cell.setting] += _square(cell, contents.losses.get(cell.run_id))
    settings = list(dict.fromkeys(cell.setting for cell in cells))
    header = "".join(f"<th>{html.escape(setting)}</th>" for setting in settings)
    lines = "".join(
        f"<tr><td>{html.escape(variant)}</td>"
        + "".join(f'<td class="squares">{squares.get((variant, setting), "")}</td>' for setting in settings)
        + "</tr>"
        for variant in dict.fromkeys(cell.variant for cell in cells)
    )
    letters = ", ".join(f"{letter} {name}" for name, letter in LETTERS.items())
    return (
        f"<h2>{STAGE_NAMES[stage]}</h2>"
        f'<p class="soft">A square is a run: {letters}; point at one for more.</p>'
        f'<div class="wide"><table class="cells"><tr><th></th>{header}</tr>{lines}</table></div>'
    )


def _square(cell: PageCell, losses: Losses | None) -> str:
    state = cell.state
    words = [f"{cell.seed}, {state.name}"]
    if state.name == "done":
        words.append(state.took)
    if state.name == "running":
        words += [cell.doing, f"on {state.host}"]
    if losses and losses.last is not None:
        words.append(f"held-out loss {losses.last:.3f}")
    if state.error:
        words.append(state.error)
    title = html.escape(f"{cell.run_id}: {', '.join(words)}")
    return f'<span class="cell {state.name}" title="{title}">{LETTERS[state.name]}</span>'
