"""``ffn-ablations replicate``: what a source published, claim by claim, and what came out here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import get_args

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.printing import format_table
from base.run.folder_names import StudyFolder
from base.sections import Section
from report.analysis import Analysis
from report.claims import records
from report.compute import analyse
from report.inputs.sources import read_source
from scores.published import PublishedSource, read_source_file

HEADER = ("source", "claim", "published", "its own runs", "asked of", "here", "verdict", "command")


class ReplicateArgs(Section):
    """Say claim by claim what a source published and whether own runs reproduce or contradict it.

    ffn-ablations replicate thesis

    Trains nothing: each claim names a study that asks it again, and what --runs-dir has of it is judged.

    "published" is what the source's scores come to: single runs by this project's rule, corrected, and then
    "its own runs" says whether they show the claim; else the mean over models and data sets, with a 95%
    interval over these. "verdict" is whether own runs reproduce the claim, and the command brings them.
    """

    source: Positional[PublishedSource | None] = None
    """Which source (default: all)."""
    runs_dir: Path = Path("runs")
    """Folder of all runs, in which the studies are."""


def main(args: Sequence[str] | None = None) -> None:
    """Print recipe and claims."""
    options = parse_flags(ReplicateArgs, args, prog="ffn-ablations replicate")
    rows, above = [HEADER], ("", "")
    for name in [options.source] if options.source else get_args(PublishedSource):
        source = read_source_file(name)
        if options.source:
            print(source.cited, f"Code: {source.code}.", *(f"- {x}" for x in source.recipe), "", sep="\n")
        studies = {answer.study for claim in source.claims for answer in claim.answers}
        analyses = {study: analysis for study in studies if (analysis := _analysis(options.runs_dir / study))}
        for x in records(name, analyses):
            place = f"{x['study']} {x['outcome']}".strip()
            claim = (name, f"{x['claim']} ({x['where']})", x["published"] or "-", x["rule"] or "-")
            cells = (place or "-", x["own"] or "-", x["verdict"], x["command"])
            rows.append((claim if claim[:2] != above else ("",) * 4) + cells)
            above = claim[:2]
    print(format_table([row[1:] for row in rows] if options.source else rows))


def _analysis(folder: Path) -> Analysis | None:
    """Judge the runs of a study; None where there are none yet, or nothing to compare."""
    with suppress(UsageError):
        return analyse(read_source(folder)) if StudyFolder(folder).study_file.is_file() else None
    return None
