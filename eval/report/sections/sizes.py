"""Across sizes: who shrinks, and what power laws say."""

from __future__ import annotations

from collections.abc import Sequence

from eval.report.analysis import Analysis
from eval.report.curves.sizes import SizeLaw, SizeVerdict
from eval.report.document.markdown import details, listed, p_value, signed, table, unit_name
from eval.report.document.names import family_label, title
from eval.report.sections.context import Context
from eval.report.verdicts.ranking import by_standing
from eval.significance.axes import Benchmark
from eval.significance.statistics.scaling_laws import at_end
from eval.significance.statistics.size_trends import CANNOT_TELL, CHANGES_SIGN, GROWS, HOLDS, SHRINKS

TOLD = (SHRINKS, GROWS, CHANGES_SIGN, HOLDS)
NAMED = 4


def sizes_sentence(analysis: Analysis) -> str:
    """Say what goes with size on the leading outcome; empty without two sizes. It is no claim."""
    found = _leading(analysis)
    if not found:
        return ""
    clauses = []
    for verdict in TOLD:
        chosen = [x for x in found if x.verdict == verdict]
        if chosen:
            named = [f"`{x.variant}` ({_ends(analysis, x)}{_from_to(x, analysis)})" for x in chosen[:NAMED]]
            more = f" and {len(chosen) - NAMED} more" if len(chosen) > NAMED else ""
            clauses.append(f"{verdict} for {listed(named)}{more}")
    open_ones = [f"`{x.variant}`" for x in found if x.verdict == CANNOT_TELL]
    if open_ones:
        names = listed(open_ones) if len(open_ones) <= NAMED else f"{len(open_ones)} {analysis.noun}s"
        clauses.append(f"cannot tell for {names}")
    sizes = analysis.sizes.levels
    return (
        f"Across sizes ({sizes[0]} to {sizes[-1]}, exploratory), the difference to `{analysis.baseline}` on "
        f"{title(found[0].benchmark)} {'; '.join(clauses)}."
    )


def sizes_section(analysis: Analysis, context: Context) -> str:
    """Verdicts and laws with their figures; empty without two sizes."""
    sizes = analysis.sizes
    left_out = f"Across sizes is not told of {'; '.join(sizes.notes)}." if sizes.notes else ""
    if not sizes.differences:
        return f"## Across sizes\n\n{left_out}" if left_out else ""
    leading = _order(analysis)[0]
    parts = ["## Across sizes", sizes_sentence(analysis), left_out, context.figure("across-sizes")]
    parts += [_verdicts(analysis, leading), _verdict_text(analysis)]
    parts += [context.figure("size-laws"), _laws(analysis), _others(analysis)]
    return "\n\n".join(part for part in parts if part)


def _order(analysis: Analysis) -> list[Benchmark]:
    present = {x.benchmark for x in analysis.sizes.differences}
    return [name for name in by_standing(analysis) if name in present]


def _leading(analysis: Analysis) -> list[SizeVerdict]:
    order = _order(analysis)
    return [x for x in analysis.sizes.verdicts if x.benchmark == order[0]] if order else []


def _digits(analysis: Analysis, benchmark: Benchmark) -> int:
    return analysis.tables[benchmark].digits(analysis.families)


def _ends(analysis: Analysis, found: SizeVerdict) -> str:
    """``+0.12 to +0.02 nats``."""
    digits, unit = _digits(analysis, found.benchmark), unit_name(analysis.outcome(found.benchmark).unit)
    return f"{signed(found.first, digits)} to {signed(found.last, digits)} {unit}".strip()


def _verdicts(analysis: Analysis, benchmark: Benchmark) -> str:
    found = [x for x in analysis.sizes.verdicts if x.benchmark == benchmark]
    if not found:
        return f"No {analysis.noun} has two runs at two sizes, so no trend of {title(benchmark)} can be told."
    digits, sizes = _digits(analysis, benchmark), analysis.sizes.levels
    rows = [
        [
            f"`{x.variant}`{_few(x, sizes)}",
            f"{'**' * (x.verdict != CANNOT_TELL)}{x.verdict}{'**' * (x.verdict != CANNOT_TELL)}",
            _at(x.first, x.sizes[0], sizes[0], digits),
            _at(x.last, x.sizes[-1], sizes[-1], digits),
            f"{signed(x.change, digits)}{_interval(x.change_low, x.change_high, digits)}",
            p_value(x.p_change),
            p_value(x.p_bend),
        ]
        for x in found
    ]
    unit = unit_name(analysis.outcome(benchmark).unit)
    header = [analysis.noun, "with size, the difference", f"at {sizes[0]}", f"at {sizes[-1]}"]
    header += ["change", "p of the change", "p of a bend"]
    told = {x.variant for x in found}
    untold = [f"`{name}`" for name in analysis.others if name not in told]
    said = f"\n\nNo trend without two runs at two sizes: {listed(untold)}." if untold else ""
    if any(x.sizes != tuple(sizes) for x in found):
        said += "\n\n*Alone*: elsewhere it or the baseline has fewer than two runs, which tell no spread."
    return f"On {title(benchmark)}{f', in {unit}' if unit else ''}:\n\n{table(header, rows)}{said}"


def _few(found: SizeVerdict, sizes: Sequence[str]) -> str:
    """Mark a line that does not go through all sizes."""
    return "" if found.sizes == tuple(sizes) else f" ({' and '.join(found.sizes)} alone)"


def _at(value: float, size: str, of_column: str, digits: int) -> str:
    """Write the end of a line, with its size where it is not the column's."""
    return signed(value, digits) + (f" (at {size})" if size != of_column else "")


def _from_to(found: SizeVerdict, analysis: Analysis) -> str:
    sizes, own = analysis.sizes.levels, found.sizes
    return "" if (own[0], own[-1]) == (sizes[0], sizes[-1]) else f", {own[0]} to {own[-1]}"


def _interval(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or high is None else f" [{signed(low, digits)}, {signed(high, digits)}]"


def _verdict_text(analysis: Analysis) -> str:
    level = f"{analysis.inference.level:.0%}"
    return (
        f"Differences to `{analysis.baseline}` along a line of least squares in the logarithm of its "
        "parameters, averaged over all that stands beside size. *Shrinks*: the line is nearer to zero at the "
        "largest size than at the smallest; *grows*: farther; *changes sign*: it is told from zero at both "
        "ends, with opposite signs; *holds*: its change is below the margin; else one *cannot tell*. "
        f"Each kind of verdict is wrong somewhere in at most {level} of studies (Welch's contrasts, Holm "
        f"over the {analysis.noun}s of an outcome); intervals and p stand by themselves. *p of a bend* says "
        "whether a line describes three sizes or more. None of this is among the claims, and nothing is "
        "said of sizes outside the range."
    )


def _laws(analysis: Analysis) -> str:
    found = analysis.sizes.laws
    if not found:
        return ""
    several = len({x.family for x in found}) > 1
    header = [*(["family"] if several else []), analysis.noun, "exponent", "floor E (nats)"]
    header += ["predicted (nats)", "measured", "error", "in spreads", "step to it"]
    rows = [[*([family_label(x.family)] if several else []), f"`{x.variant}`", *_law_cells(x)] for x in found]
    return f"{table(header, rows)}\n\n{_law_text(found)}"


def _law_cells(law: SizeLaw) -> list[str]:
    if not law.is_law:
        cells = [_no_law(law), "-"]
    else:
        cells = [_exponent(law)]
        cells += [_with_interval(law.floor, law.floor_interval, 2) if law.has_floor else "not fitted"]
    found = law.prediction
    if found is None:
        return [*cells, "-", f"{law.losses[-1]:.3f}", "-", "-", "-"]
    return [
        *cells,
        f"{found.predicted:.3f}",
        f"{found.observed:.3f}",
        f"{found.error:+.3f}{_interval(*(found.error_interval or (None, None)), 3)}",
        f"{found.in_spreads:+.1f}" if found.spread > 0 else "-",
        f"{found.observed - found.next_smaller:+.3f}",
    ]


def _no_law(law: SizeLaw) -> str:
    if not law.is_falling:
        return "losses do not fall"
    return "losses rise again" if law.rises_between else "not determined"


def _exponent(law: SizeLaw) -> str:
    if law.exponent_interval and any(map(at_end, law.exponent_interval)):
        return f"{law.exponent:.3f} [not determined]"
    return _with_interval(law.exponent, law.exponent_interval, 3)


def _with_interval(value: float, interval: tuple[float, float] | None, digits: int) -> str:
    ends = "" if interval is None else f" [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"
    return f"{value:.{digits}f}{ends}"


def _law_text(found: Sequence[SizeLaw]) -> str:
    sizes = max(len(x.sizes) for x in found)
    said = (
        "Power laws of held-out loss in parameters, embeddings included, each through the means of one "
        "variant: L = E + A N^-exponent (Huber loss of log residuals, Hoffmann et al. 2022); intervals are "
        "Student's, by how far each number moves with the means. "
    )
    said += {
        2: "Two sizes hold only the law without E, and leave no size to test it with.",
        3: "Three sizes determine E, A and the exponent with nothing left over to test the law. The two "
        "smaller ones can only predict without E, by a straight line in logarithms, which is too low "
        "wherever losses near a floor.",
    }.get(sizes, "")
    if not all(x.is_law for x in found):
        said += (
            " No exponent is given where the largest models do not end lower, nor where a step in size adds "
            "more loss than both means are uncertain by, nor where any large one would do (*not determined*)."
        )
    if sizes > 2:
        said += (
            " *Predicted*: the loss at the largest size by the law through the smaller ones, which have not "
            "seen it; *in spreads*: the error over the standard deviation of seeds there; *step to it*: what "
            "the last step in size brought, for comparison."
        )
    return said


def _others(analysis: Analysis) -> str:
    """The other outcomes, folded away."""
    parts = [
        _verdicts(analysis, name)
        for name in _order(analysis)[1:]
        if any(x.benchmark == name for x in analysis.sizes.verdicts)
    ]
    return details("Other outcomes across sizes", "\n\n".join(parts)) if parts else ""
