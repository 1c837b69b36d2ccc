"""The command ``ffn-ablations report SOURCE --out DIR``: writes a report, or plans a study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from base.command_line import parse_flags, refuse_position_behind_list
from base.config_input import find_study_folder
from base.errors import UsageError
from base.lazy_modules import without_collecting
from base.run.folder_names import REPORT_NAME, StudyFolder
from report.request import Request
from scores.published import shipped_table
from scores.suites import USUAL_MARGINS


def main(args: Sequence[str] | None = None) -> int:
    """Write one report and say where it is."""
    request = parse_flags(Request, args, prog="ffn-ablations report")
    if request.source is None:
        refuse_position_behind_list({f"--{name.replace('_', '-')}": value for name, value in request})
    if request.plan:
        print(_plan(request))
        return 0
    if request.source is None:
        raise UsageError("name what to report on: a study's folder, a rows.parquet or a CSV of scores")
    with without_collecting():
        from report.page import summary  # with matplotlib, a second after a mistake would be told
        from report.write import write_report

    source = find_study_folder(request.source)
    request = request.model_copy(update={"source": source})

    out = request.out or _usual_folder(source)
    analysis = write_report(source, out, request)
    said = (summary(analysis), str(out / REPORT_NAME), _of_paper(out, request.paper))
    print("\n\n".join(filter(None, said)))
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


def _plan(request: Request) -> str:
    from report.plan import Spread, plan, plan_like
    from report.significance.comparison import Inference

    if request.looks:
        raise UsageError("--plan reckons with a study that is read once; leave out --looks")
    for name in ("published", "part", "paper", "out"):
        if getattr(request, name):
            raise UsageError(f"--plan writes no report, which --{name} is about; leave out one of them")
    if request.source is not None:
        if request.sd is not None:
            raise UsageError("--plan takes the spread from SOURCE or from --sd; leave out one of them")
        return plan_like(request.source, request)
    if request.sd is None or not 1e-9 < request.sd < 1e9:
        raise UsageError(
            "--plan needs a table or a study to read the spread over seeds from, or --sd, the one that you "
            "expect, above 0; 1 percentage point is usual"
        )
    declared = request.declared
    if declared.margins:
        raise UsageError("--plan --sd is about one outcome; write its margin without a name: --margin 1")
    margin, digits = declared.margin or USUAL_MARGINS["percent"], 1 - math.floor(math.log10(request.sd))
    spread = Spread(sd=request.sd, margin=margin, digits=max(2, digits))
    return plan(
        spread,
        2 if request.variants is None else request.variants,
        2 if request.families is None else request.families,
        Inference(),
    )
