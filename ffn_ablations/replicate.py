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
ABOUT = """*Published* is what the source's scores come to: over single runs by this project's rule, corrected, and
then *its own runs* says whether they show the claim; else the mean over models and data sets, with a 95%
interval over these. *Verdict* is whether own runs reproduce the claim; the command brings what it rests on,
and with the study's runs in place this command says what they show."""


class ReplicateArgs(Section):
    """Say claim by claim what a source published and whether own runs reproduce or contradict it.

    ffn-ablations replicate thesis

    Trains nothing: each claim names the study that asks it again, and what is in --runs-dir of it is judged.
    """

    source: Positional[PublishedSource | None] = None
    """Which source (default: all)."""
    runs_dir: Path = Path("runs")
    """Folder of all runs, in which the studies are."""


def main(args: Sequence[str] | None = None) -> None:
    """Print recipe and claims."""
    options = parse_flags(ReplicateArgs, args, prog="ffn-ablations replicate")
    rows, last = [HEADER], list[str]()
    for name in [options.source] if options.source else get_args(PublishedSource):
        source = read_source_file(name)
        if options.source:
            print("\n".join([source.cited, f"Code: {source.code}.", *(f"- {x}" for x in source.recipe)]), "\n")
        studies = {answer.study for claim in source.claims for answer in claim.answers}
        analyses = {study: found for study in studies if (found := _analysis(options.runs_dir / study))}
        for record in records(name, analyses):
            claim = (name, f"{record['claim']} ({record['where']})", record["published"], record["rule"])
            place = f"{record['study']} {record['outcome']}".strip()
            told = [x or "-" for x in (*claim, place, record["own"], record["verdict"], record["command"])]
            rows.append(("",) * 4 + (*told[4:],) if told[:2] == last else (*told,))
            last = told[:2]
    print(f"{format_table([row[1:] for row in rows] if options.source else rows)}\n\n{ABOUT}")


def _analysis(folder: Path) -> Analysis | None:
    """Judge the runs of a study; None where there are none yet, or nothing to compare."""
    if not StudyFolder(folder).study_file.is_file():
        return None
    with suppress(UsageError):
        return analyse(read_source(folder))
    return None
