"""What the FFNs of trained models learned: ``ffn-ablations inspect RUN...``, or a study."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from base.command_line import Positional, parse_flags
from base.errors import UsageError, as_usage_error, first_line
from base.printing import ProgressBar
from base.run.folders import RunFolder, StudyFolder
from base.sections import Section
from eval.command import find_runs
from inside.ffn.measure import by_arm, inspect_run
from inside.ffn.record import RunInspection
from report.document.document import refuse_file, write_document

PAGE_NAME = "inspection"
DEFAULT_OUT = Path("inspection")


class InspectArgs(Section):
    """Inspect trained models: what learned activations and KAN edges became, and what can be pruned.

    A study:  ffn-ablations inspect runs/learned-functions

    One run:  ffn-ablations inspect runs/learned-functions/gpt_neo/kan/seed1-*

    Writes inspection.html (open it), inspection.md, inspection.json with every number, figures/ and tables/.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs, runs/<study>/<family>/<variant>/<run>, or of studies, runs/<study>."""
    out: Path | None = None
    """Folder to write into (null: inspection in the folder of a study, where one is named, else here)."""
    text_file: Path | None = None
    """Held-out text to read, .txt, .jsonl or .parquet (null: what each run's training held out)."""
    tokens: int = 8_192
    """Of that text, from documents evenly spaced over all of it."""
    trust_remote_code: bool = False
    """Run FFN variants that the runs bring as code; read it before. Such runs are refused otherwise."""


def main(args: Sequence[str] | None = None) -> int:
    """Measure the runs, write the page and its files, and say where it is."""
    words = sys.argv[1:] if args is None else args
    options = parse_flags(InspectArgs, words, prog="ffn-ablations inspect")
    _check(options)
    out = _out(options)
    paths, notes = find_runs(options.runs)
    runs, failures = _inspect_all(paths, options)
    errors = [_named(path, error) for path, error in failures]
    for line in errors:
        print(f"error: {line}", file=sys.stderr)
    if runs:
        from inside.ffn.page import document

        arms, repeated = by_arm(runs)
        notes = [*notes, *repeated, *errors]
        title = options.runs[0].resolve().name if len(options.runs) == 1 else f"{len(runs)} runs"
        command = shlex.join(["ffn-ablations", "inspect", *words])
        print(write_document(document(arms, notes, title, command), out, PAGE_NAME).with_suffix(".html"))
    if any(not isinstance(error, UsageError) for _, error in failures):
        return 1
    return 2 if failures else 0


def _named(path: Path, error: Exception) -> str:
    line = first_line(error)
    return line if str(path) in line else f"{path}: {line}"


def _check(options: InspectArgs) -> None:
    if options.tokens < 1:
        raise UsageError(f"--tokens is {options.tokens}; it must be 1 or more")
    if options.text_file is not None and not options.text_file.is_file():
        raise UsageError(
            f"no file {options.text_file}; --text-file names held-out text (.txt, .jsonl, .parquet)"
        )


def _out(options: InspectArgs) -> Path:
    out = options.out or DEFAULT_OUT
    if options.out is None and len(options.runs) == 1:
        study = StudyFolder(options.runs[0])
        if study.run_folders() and not RunFolder(study.path).is_run:
            out = study.inspection_dir
    refuse_file(out)
    return out


def _inspect_all(
    paths: Sequence[Path], options: InspectArgs
) -> tuple[list[tuple[Path, RunInspection]], list[tuple[Path, Exception]]]:
    """Measure every run; one that fails is told of at the end, and the others go on."""
    runs, failures = [], []
    bar = ProgressBar(len(paths), "run", name="inspecting", to_stderr=True)
    try:
        for path in paths:
            try:
                run = inspect_run(path, options.text_file, options.tokens, options.trust_remote_code)
                runs.append((path, run))
            except Exception as error:
                failures.append((path, as_usage_error(error)))
            bar.advance()
    finally:
        bar.close()
    return runs, failures
