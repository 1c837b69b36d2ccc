"""What a user asks of a report: the flags of the command and the arguments of ``compare`` in Python.

A flag that is not there takes the study's choice, else the default. A study that pairs its seeds stays
paired, as that was chosen before the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from base.command_line import Positional
from base.errors import UsageError, unknown_name
from base.other_names import OtherNames
from base.sections import Section
from report.significance.factor import Factor
from report.statistics.looks import Plan, read_plan
from scores.declarations import Scale, named_values, number, scale
from scores.metrics import Declared
from scores.published import PublishedSource
from scores.rows import ROW_COLUMNS

NAME = "name"
"""What ``--columns`` calls the column that a run's name stands in."""
DECLARATIONS = ("lower_is_better", "unit", "chance")
"""Further columns that a table of scores may have."""


class Request(Section):
    """Say from scores which variants differ from the baseline, which equal it, and how sure one can be.

        ffn-ablations report quickstart                  # what is in runs/quickstart
        ffn-ablations report scores.csv --out report --contrast "relu+silu - prelu+swish"
        ffn-ablations report export.csv --columns variant=ffn --scores eval/loss
        ffn-ablations report runs/pilot --plan           # seeds that a study needs
        ffn-ablations report thesis:table5               # a published table

    Writes report.md (start there), report.html (one file to send), report.json, tables and figures.
    """

    common: ClassVar = (
        *("source", "out", "baseline", "margin", "primary", "contrast", "columns", "scores", "factor"),
        *("axis", "paired", "paper", "plan"),
    )

    hints: ClassVar = OtherNames("report")

    source: Positional[Path | None] = None
    """A study's folder; a rows.parquet; a CSV with family,variant,seed,benchmark,score (percent) or with a
    column for each benchmark; a file or folder of results of lm-eval; or a published table,
    thesis:table5 or thesis:all-seeds."""
    columns: tuple[str, ...] = ()
    """What a table calls its columns, "variant=Activation seed=config.seed"; "name=Run" is the one that names
    runs."""
    scores: tuple[str, ...] = ()
    """Columns of a table that are scores, one benchmark each, where it has no column score."""
    names: str | None = None
    """How names of runs or models are made up, "{family}-{variant}-seed{seed}"; {_} stands for anything."""
    sheet: str | None = None
    """Which sheet of an Excel file; those with the same columns are one table if a flag says what sheets are,
    --columns seed=sheet."""
    axis: tuple[str, ...] = ()
    """A column of a table that tells runs apart as family and seed do, such as size; may be given several
    times. Differences are then averaged over families at each of its levels. A study names its own."""
    factor: Factor | None = None
    """What is compared: FFN variants (ffn), classification heads (head), both, or the levels of an axis
    (default: the study's, else ffn)."""
    head: str | None = None
    """With --factor ffn: of scores under several heads keep those under this one, "fourier-kan frozen"."""
    out: Path | None = None
    """Folder to write into (default: SOURCE/report for a folder, ./NAME-report for a file NAME)."""
    baseline: str | None = None
    """What the others are compared with (default: the study's, else gelu, of heads linear)."""
    primary: tuple[str, ...] = ()
    """Outcomes that claims are made about, corrected together; the others are explored (default: the study's,
    else all)."""
    contrast: tuple[str, ...] = ()
    """A further comparison, "a+b - c+d"; may be given several times."""
    margin: tuple[str, ...] = ()
    """What was named negligible before the results, by outcome and in its unit: "held-out-loss=0.02 blimp=1";
    a number alone is percentage points, or, below 0.1, of the one outcome (default: the study's, else 1
    point, .02 nats, .002 bits per byte)."""
    lower_is_better: tuple[str, ...] = ()
    """Outcomes of a table of which lower scores are better; a column lower_is_better says it too."""
    higher_is_better: tuple[str, ...] = ()
    """Outcomes of a table of which higher scores are better, where their name does not say it."""
    chance: tuple[str, ...] = ()
    """What guessing scores, "ewok=50"; shipped suites say theirs, and a table may in a column chance."""
    scale: tuple[str, ...] = ()
    """How a table's percentages are written: fraction, to be taken times 100, or percent; by outcome:
    "acc=fraction blimp=percent"."""
    paired: bool = False
    """Compare runs of one family and seed with each other, which share data order and first weights."""
    looks: tuple[str, ...] = ()
    """Numbers of runs in every arm at which the study was to be looked at, "3 6 10"."""
    published: PublishedSource | None = None
    """Set own scores and effects beside those of a source (docs/sources.md): a section of its own, in which
    nothing is claimed."""
    part: tuple[str, ...] = ()
    """A part of your own, as a Python file and a name in it: mine.py:PART (docs/adding-a-part.md). The file
    is run. May be given several times."""
    paper: bool = False
    """Write OUT/paper, too: the comparisons as a LaTeX table (booktabs), the figures as PDF, a paragraph on
    methods, and its references (docs/paper.md)."""
    plan: bool = False
    """Write no report: say what studies of several sizes would find, at the spread over seeds of SOURCE."""
    sd: float | None = None
    """With --plan and no SOURCE: standard deviation over seeds within one family and variant, in the unit of
    --margin, which is then one number (default: 1 percentage point)."""
    variants: int | None = None
    """With --plan: number of variants, the baseline included (default: those of SOURCE, else 2)."""
    families: int | None = None
    """With --plan: number of families averaged over (default: those of SOURCE, else 2)."""

    @cached_property
    def names_of_columns(self) -> Mapping[str, str]:
        """A column of rows, or ``name``, to what the table calls it.

        Raises:
            UsageError: For columns that cannot be meant.
        """
        return read_columns(self.columns, self.axis)

    @property
    def table_flags(self) -> list[str]:
        """The flags that say how a table is to be read."""
        return [
            f"--{name}" for name in ("axis", "columns", "scores", "names", "sheet") if getattr(self, name)
        ]

    @cached_property
    def planned_looks(self) -> Plan | None:
        """Numbers of runs at which the study is read; None where it is read once.

        Raises:
            UsageError: For numbers that are no plan.
        """
        return read_plan(self.looks, "--looks")

    @cached_property
    def scales(self) -> Mapping[str, Scale]:
        """How percentages are written, by outcome; ``""`` is about all others.

        Raises:
            UsageError: For a word that is no scale.
        """
        return named_values(self.scale, "--scale", scale)

    @cached_property
    def declared(self) -> Declared:
        """Directions, chance levels and margins of outcomes, which go before those of the source.

        Raises:
            UsageError: For values that cannot be used.
        """
        margins = named_values(self.margin, "--margin", number)
        margin = margins.pop("", None)
        chances = named_values(self.chance, "--chance", number)
        if "" in chances:
            raise UsageError(
                f"--chance {chances['']:g} names no outcome; write --chance NAME={chances['']:g}"
            )
        if margin is not None and margin <= 0:
            raise UsageError(f"--margin {margin:g} is not a positive number of percentage points")
        lower = dict.fromkeys(self.lower_is_better, True)
        higher = dict.fromkeys(self.higher_is_better, False)
        if both := sorted(lower.keys() & higher):
            raise UsageError(
                f"{both[0]} stands behind --lower-is-better and --higher-is-better; name it once"
            )
        return Declared(lower_is_better=lower | higher, chances=chances, margins=margins, margin=margin)


def read_columns(texts: Iterable[str], axes: Iterable[str] = ()) -> dict[str, str]:
    """Read ``variant=Model seed=config.seed``.

    Args:
        texts: As written after ``--columns``.
        axes: Further columns of rows.

    Raises:
        UsageError: For a text without ``=``, a column that rows have not, or one named twice.
    """
    allowed = (*ROW_COLUMNS, *DECLARATIONS, NAME, *axes)
    columns: dict[str, str] = {}
    for text in texts:
        column, equals, theirs = text.partition("=")
        if not equals or not column or not theirs:
            raise UsageError(f"--columns {text!r} is no pair; write --columns variant=THEIR_COLUMN")
        if column not in allowed and theirs in allowed:
            raise UsageError(f"--columns {text!r} has them the wrong way; write --columns {theirs}={column}")
        if column not in allowed:
            raise unknown_name("column in --columns", column, allowed)
        if column in columns:
            raise UsageError(f"--columns names {column} twice; name each column once")
        columns[column] = theirs
    return columns
