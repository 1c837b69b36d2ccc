"""``ffn-ablations replicate``: what a source published, claim by claim, and what came out here."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.run.folder_names import StudyFolder
from base.sections import Section
from report.analysis import Analysis
from report.claims import records
from report.compute import analyse
from report.inputs.sources import read_source
from scores.published import PublishedSource, read_source_file


class ReplicateArgs(Section):
    """Say claim by claim what a source published and whether own runs reproduce or contradict it.

    ffn-ablations replicate thesis

    Trains nothing: each claim names a study that asks it again, and what --runs-dir has of it is judged.

    "published" is what the source's scores come to: single runs by this project's rule, corrected, and then
    "its own runs" says whether they show the claim; else the mean over models and data sets, with a 95%
    interval over these. Behind each study stands whether own runs reproduce the claim, and what brings them.
    """

    source: Positional[PublishedSource | None] = None
    """Which source (default: all)."""
    runs_dir: Path = Path("runs")
    """Folder of all runs, in which the studies are."""


def main(args: Sequence[str] | None = None) -> None:
    """Print recipe and claims."""
    options = parse_flags(ReplicateArgs, args, prog="ffn-ablations replicate")
    above = ("", "")
    for name in [options.source] if options.source else get_args(PublishedSource):
        source = read_source_file(name)
        if options.source:
            recipe = map("- {}".format, source.recipe)
            print(*map(_wrapped, (source.cited, f"Code: {source.code}.", *recipe)), sep="\n")
        studies = {answer.study for claim in source.claims for answer in claim.answers}
        analyses = {study: analysis for study in studies if (analysis := _analysis(options.runs_dir / study))}
        for x in records(name, analyses):
            if above != (name, x["claim"]):
                above = (name, x["claim"])
                own_runs = f"; its own runs: {x['rule']}" * bool(x["rule"])
                print("", _wrapped(f"{name}: {x['claim']} ({x['where']})"), sep="\n")
                print(_wrapped(f"published: {x['published'] or 'no number'}{own_runs}", "  "))
            place = f"{x['study']} {x['outcome']}".strip() or "here"
            words = ", ".join(filter(None, (x["own"], x["verdict"])))
            print(_wrapped(f"{place}: {words}; {x['command']}", "  "))


def _wrapped(text: str, indent: str = "") -> str:
    """Break a text at the terminal's width, of which the further lines begin further in."""
    width = shutil.get_terminal_size().columns  # 80 where it is not known
    how = {"initial_indent": indent, "subsequent_indent": f"{indent}    ", "break_on_hyphens": False}
    return textwrap.fill(text, width, break_long_words=False, **how)


def _analysis(folder: Path) -> Analysis | None:
    """Judge the runs of a study; None where there are none yet, or nothing to compare."""
    with suppress(UsageError):
        return analyse(read_source(folder)) if StudyFolder(folder).study_file.is_file() else None
    return None
