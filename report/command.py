"""Write a report from scores: ``ffn-ablations report SOURCE --out DIR``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.run.folder_names import REPORT_NAME, StudyFolder
from base.sections import Section
from report.analysis import Request
from report.page import summary
from report.plan import Spread, plan, plan_like
from report.readers.reading import Reading, read_columns
from report.significance.comparison import Inference
from report.significance.factor import Factor
from report.statistics.looks import read_plan
from scores.declarations import Scale, named_numbers
from scores.metrics import Declared
from scores.published import PublishedSource, shipped_table
from scores.suites import USUAL_MARGINS


class ReportArgs(Section):
    """Say from scores which variants differ from the baseline, which equal it, and how sure one can be.

    Writes report.md (start there), report.html (one file to send), report.json with every number,
    tables/*.csv, figures/*.svg and figures/*.png.

    For a study: ffn-ablations report runs/quickstart

    For a table: ffn-ablations report scores.csv --out report --contrast "relu+silu - prelu+swish"

    For a tracker's export: ffn-ablations report export.csv --columns variant=ffn --scores eval/loss

    For results of lm-eval: ffn-ablations report results/ --names "{variant}-seed{seed}"

    For the heads of a study: ffn-ablations report runs/fr-kan-heads --factor head --baseline linear

    For a table with a column for the models' size: ffn-ablations report scores.csv --axis size

    For the seeds that a study needs, by the spread of a smaller one: ffn-ablations report runs/pilot --plan

    Beside published numbers: ffn-ablations report runs/thesis --published thesis

    Of a published table: ffn-ablations report thesis:table5

    Before anything is run: ffn-ablations report --plan --sd 1.1 --variants 8
    """

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
    a number alone is percentage points (default: the study's, else 1 point, .02 nats, .002 bits per byte)."""
    lower_is_better: tuple[str, ...] = ()
    """Outcomes of a table of which lower scores are better; a column lower_is_better says it too."""
    higher_is_better: tuple[str, ...] = ()
    """Outcomes of a table of which higher scores are better, where their name does not say it."""
    chance: tuple[str, ...] = ()
    """What guessing scores, "ewok=50"; shipped suites say theirs, and a table may in a column chance."""
    scale: Scale | None = None
    """Whether a table's percentages are written as fractions, to be taken times 100."""
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


def main(args: Sequence[str] | None = None) -> int:
    """Write one report and say where it is."""
    asked = parse_flags(ReportArgs, args, prog="ffn-ablations report")
    if asked.plan:
        print(_plan(asked))
        return 0
    if asked.source is None:
        _refuse_source_after_flag(asked)
        raise UsageError("name what to report on: a study's folder, a rows.parquet or a CSV of scores")
    from report.write import write_report  # matplotlib, which takes half a second

    out = asked.out or _usual_folder(asked.source)
    analysis = write_report(asked.source, out, request_of(asked))
    print("\n\n".join(filter(None, (summary(analysis), str(out / REPORT_NAME), _of_paper(out, asked.paper)))))
    return 0


def _usual_folder(source: Path) -> Path:
    """In a study's folder, else beside whoever asks: a folder named ``report`` is a package in a clone."""
    if source.is_dir():
        return StudyFolder(source).report_dir
    return Path(f"{shipped_table(source).stem}-report")


def _of_paper(out: Path, is_written: bool) -> str:
    """Say where the paper is, or that an earlier one was not written again."""
    folder = out / "paper"
    if is_written or not folder.is_dir():
        return str(folder) if is_written else ""
    return f"{folder} is of an earlier report; --paper writes it again"


def _refuse_source_after_flag(args: ReportArgs) -> None:
    """A flag with several values takes the source that stands behind it for one of them."""
    for name, values in args:
        if isinstance(values, tuple) and values and Path(values[-1]).exists():
            flag = name.replace("_", "-")
            raise UsageError(f"{values[-1]} was read as a value of --{flag}; write it before the flags")


def request_of(args: ReportArgs) -> Request:
    """Return what is asked of a report, without its source.

    Raises:
        UsageError: For values that cannot be used.
    """
    return Request(
        axes=args.axis,
        reading=Reading(columns=read_columns(args.columns, args.axis), scores=args.scores, names=args.names),
        factor=args.factor,
        head=args.head,
        baseline=args.baseline,
        primary=args.primary,
        contrasts=args.contrast,
        declared=_declared(args),
        scale=args.scale,
        paired=args.paired,
        looks=read_plan(args.looks, "--looks"),
        published=args.published,
        parts=args.part,
        paper=args.paper,
    )


def _plan(args: ReportArgs) -> str:
    if args.looks:
        raise UsageError("--plan reckons with a study that is read once; leave out --looks")
    for name in ("published", "part", "paper", "out"):
        if getattr(args, name):
            raise UsageError(f"--plan writes no report, which --{name} is about; leave out one of them")
    if args.source is not None:
        if args.sd is not None:
            raise UsageError("--plan takes the spread from SOURCE or from --sd; leave out one of them")
        return plan_like(args.source, request_of(args), args.variants, args.families)
    _refuse_source_after_flag(args)
    if args.sd is None or not 1e-9 < args.sd < 1e9:
        raise UsageError(
            "--plan needs a table or a study to read the spread over seeds from, or --sd, the one that you "
            "expect, above 0; 1 percentage point is usual"
        )
    declared = _declared(args)
    if declared.margins:
        raise UsageError("--plan --sd is about one outcome; write its margin without a name: --margin 1")
    spread = Spread(sd=args.sd, margin=declared.margin or USUAL_MARGINS["percent"], digits=_digits(args.sd))
    return plan(
        spread,
        2 if args.variants is None else args.variants,
        2 if args.families is None else args.families,
        Inference(),
    )


def _digits(sd: float) -> int:
    return max(2, 1 - math.floor(math.log10(sd)))


def _declared(args: ReportArgs) -> Declared:
    margins, margin = named_numbers(args.margin, "--margin")
    chances, alone = named_numbers(args.chance, "--chance")
    if alone is not None:
        raise UsageError(f"--chance {alone:g} names no outcome; write --chance NAME={alone:g}")
    if margin is not None and margin <= 0:
        raise UsageError(f"--margin {margin:g} is not a positive number of percentage points")
    if both := sorted({*args.lower_is_better} & {*args.higher_is_better}):
        raise UsageError(f"{both[0]} stands behind --lower-is-better and --higher-is-better; name it once")
    return Declared(
        lower_is_better=dict.fromkeys(args.lower_is_better, True)
        | dict.fromkeys(args.higher_is_better, False),
        chances=chances,
        margins=margins,
        margin=margin,
    )
