"""Look inside trained models: ``ffn-ablations inspect RUN...``, or a study."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from base.command_line import Positional, parse_flags, typed_command
from base.config_input import read_yaml
from base.errors import UsageError, first_line
from base.names import BASELINE
from base.progress import ProgressBar, duration
from base.records import write_record
from base.sections import Section
from base.system import num_cores
from eval.inspection.measure import Settings, inspect_runs
from eval.inspection.settings import each_once, told_apart
from eval.results.inspection import InspectionSummary, RunInspection
from eval.runner.find_runs import find_runs
from pretrain.run.folders import INSPECTION_SUMMARY, RunFolder, StudyFolder

PAGE_NAME = "inspection"
DEFAULT_OUT = Path("inspection")


class InspectArgs(Section):
    """Look inside trained models: what learned activations and KAN edges became, and whether it is used.

    A study:  ffn-ablations inspect runs/learned-functions

    One run:  ffn-ablations inspect runs/learned-functions/gpt_neo/kan/seed1-*

    Writes inspection.html (open it), inspection.md, inspection.json with every number, figures/ and tables/.
    With several seeds of each variant every summary has an interval over them, and a verdict against its
    control. What was measured of a run is kept in its folder, so that the same command again only draws.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs, runs/<study>/<family>/<variant>/<run>, or of studies, runs/<study>."""
    out: Path | None = None
    """Folder to write into (null: inspection in the folder of a study, where one is named, else here)."""
    baseline: str | None = None
    """Variant that pruning and stability are held against (null: that of the study's report, else gelu)."""
    text_file: Path | None = None
    """Held-out text to read, .txt, .jsonl or .parquet (null: what each run's training held out)."""
    tokens: int = 8_192
    """Of that text, from documents evenly spaced over all of it."""
    pairs: str = "embedded-pairs"
    """Suite of minimal pairs that pruned models are scored on; none for no pairs."""
    pairs_dir: Path | None = None
    """Folder of that suite's data, where it needs one."""
    max_pairs: int = 20
    """Pairs of each of its tasks."""
    save_pruned: bool = True
    """Save of each run the model without the edges that it hardly needs, as eval/pruned in its folder."""
    paper: bool = False
    """Write every figure as PDF, too, with fonts that can be searched."""
    workers: int | None = None
    """Runs that are looked into at the same time, each by a process with one thread (null: one a core)."""
    trust_remote_code: bool = False
    """Run FFN variants that the runs bring as code; read it before. Such runs are refused otherwise."""


def main(args: Sequence[str] | None = None) -> int:
    """Measure the runs, write the page and its files, and print what can be taken away."""
    asked = parse_flags(InspectArgs, args, prog="ffn-ablations inspect")
    settings, out = _settings(asked), _out(asked)
    paths, notes = find_runs(asked.runs)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    began = time.monotonic()
    found, failures = _look(paths, settings, asked)
    if not found:
        return _status(failures)
    found, repeated = each_once(found)
    for note in repeated:
        print(f"note: {note}", file=sys.stderr)
    notes += [*repeated, *(f"{path}: {first_line(error)}" for path, error in failures)]
    notes += [f"{run.run_id}: {note}" for run in found for note in run.notes]
    _write(asked, out, found, notes, time.monotonic() - began)
    return _status(failures)


def _settings(asked: InspectArgs) -> Settings:
    from eval.suites.registry import SUITES

    pairs = "" if asked.pairs == "none" else asked.pairs
    known = [name for name, spec in SUITES.items() if spec.kind == "minimal pairs"]
    if pairs and pairs not in known:
        from base.errors import unknown_name

        raise unknown_name("suite of minimal pairs", pairs, ["none", *known])
    for name, value in (("tokens", asked.tokens), ("max-pairs", asked.max_pairs), ("workers", asked.workers)):
        if value is not None and value < 1:
            raise UsageError(f"--{name} is {value}; it must be 1 or more")
    if asked.text_file is not None and not asked.text_file.is_file():
        raise UsageError(
            f"no file {asked.text_file}; --text-file names held-out text (.txt, .jsonl, .parquet)"
        )
    if pairs:
        from eval.config import EvalConfig
        from eval.zero_shot.suites import find_suite_tasks

        given = {"blimp_dir": asked.pairs_dir, "babylm25_dir": asked.pairs_dir}
        find_suite_tasks(pairs, EvalConfig(suites=(), **given))  # before any run is read
    return Settings(
        text_file=asked.text_file,
        num_tokens=asked.tokens,
        pairs=pairs,
        pairs_dir=asked.pairs_dir,
        max_pairs=asked.max_pairs,
        save_pruned=asked.save_pruned,
    )


def _out(asked: InspectArgs) -> Path:
    out = asked.out
    if out is None:
        studies = [
            path for path in asked.runs if StudyFolder(path).run_folders() and not RunFolder(path).is_run
        ]
        out = StudyFolder(studies[0]).inspection_dir if len(asked.runs) == len(studies) == 1 else DEFAULT_OUT
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; --out names a folder")
    return out


def _look(
    paths: Sequence[Path], settings: Settings, asked: InspectArgs
) -> tuple[list[RunInspection], list[tuple[Path, Exception]]]:
    """What was found of every run, in the order asked for, and what failed."""
    number = asked.workers or num_cores()
    found: dict[Path, RunInspection] = {}
    failures = []
    bar = ProgressBar(len(paths), "run", name="looking inside", to_stderr=True)
    try:
        for path, outcome in inspect_runs(paths, settings, number, asked.trust_remote_code):
            bar.advance()
            if isinstance(outcome, Exception):
                failures.append((path, outcome))
                continue
            found[path], is_new = outcome
            run = found[path]
            bar.say(f"[{len(found) + len(failures)}/{len(paths)}] {run.run_id} "
                    + (f"looked into in {duration(run.seconds)}" if is_new else "known already"))  # fmt: skip
    finally:
        bar.close()
    known = told_apart([(path, found[path]) for path in paths if path in found])
    return sorted(known, key=lambda run: run.variant != _baseline(asked)), failures


def _status(failures: Sequence[tuple[Path, Exception]]) -> int:
    for path, error in failures:
        told = str(error) if str(path) in str(error) else f"{path}: {error}"
        print(f"error: {told.splitlines()[0]}", file=sys.stderr)
    if any(not isinstance(error, UsageError) for _, error in failures):
        return 1
    return 2 if failures else 0


def _baseline(asked: InspectArgs) -> str:
    if asked.baseline is not None:
        return asked.baseline
    for path in asked.runs:
        file = StudyFolder(path).study_file
        if file.is_file():
            report = read_yaml(file).get("report") or {}
            return str(report.get("baseline") or BASELINE) if isinstance(report, dict) else BASELINE
    return BASELINE


def _write(
    asked: InspectArgs, out: Path, runs: list[RunInspection], notes: list[str], seconds: float
) -> None:
    from eval.inspection.figures import draw_all
    from eval.inspection.findings import find_all
    from eval.inspection.page import Page, document
    from eval.inspection.sentences import three_sentences
    from eval.report.document.document import write_document, write_files
    from eval.report.figures.style import to_pdf
    from eval.report.write import installed_versions

    findings = find_all(runs, _baseline(asked))
    page = Page(
        runs=runs,
        findings=findings,
        figures=draw_all(runs),
        versions=installed_versions() | {name: version(name) for name in ("torch", "transformers")},
        cost=(
            f"Measured in {duration(sum(run.seconds for run in runs))} of one core in all, "
            f"{max(run.seconds for run in runs):.0f} s and {max(run.peak_mb for run in runs):,.0f} MiB at "
            "most for a run."
        ),
        notes=notes,
    )
    if asked.paper:
        pdfs = {f"figures/{name}.pdf": to_pdf(figure) for name, (figure, _) in page.figures.items()}
        write_files(out, pdfs)
    sentences = three_sentences(runs, findings)
    summary = InspectionSummary(sentences=sentences, findings=findings, runs=len(runs), notes=notes)
    write_record(out / INSPECTION_SUMMARY, asdict(summary))
    title = asked.runs[0].resolve().name if len(asked.runs) == 1 else f"{len(runs)} runs"
    path = write_document(document(page, title, _command(asked, out)), out, PAGE_NAME)
    print("\n".join(sentences), f"\n{path.with_suffix('.html')} ({duration(seconds)})", sep="\n")


def _command(asked: InspectArgs, out: Path) -> str:
    """The command with every choice that was made for it; how many processes measured changes nothing."""
    choices = {"out": out, "baseline": _baseline(asked), "workers": None}
    return typed_command("ffn-ablations inspect", asked.model_copy(update=choices))
