"""What the FFNs of trained models learned: ``ffn-ablations inspect RUN...``, or a study."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd
from pydantic import Field

from base.command_line import Positional, parse_flags
from base.errors import as_usage_error, exit_status, first_line
from base.families import family_label
from base.printing import ProgressBar
from base.run.folder_names import RunFolder, StudyFolder
from base.sections import Section
from eval.command import find_runs
from inside.ffn.measure import RunInspection, inspect_run
from inside.ffn.page import Groups, document
from pretrain.run.run_folder import RESULT_NEUTRAL, read_run
from report.document.document import refuse_file, write_document

PROG, PAGE_NAME = "ffn-ablations inspect", "inspection"
FOLLOWS = ("family", "seed", "model.ffn", "model.paired_intermediate_size", "model.max_position_embeddings")
"""Fields that are named anyway, or follow from others."""


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
    tokens: int = Field(8_192, ge=1)
    """Of the text that each run's training held out, from documents evenly spaced over all of it."""
    trust_remote_code: bool = False
    """Run FFN variants that the runs bring as code; read it before. Such runs are refused otherwise."""


def main(args: Sequence[str] | None = None) -> int:
    """Measure the runs, write the page and its files, and say where it is."""
    words = sys.argv[1:] if args is None else args
    options = parse_flags(InspectArgs, words, prog=PROG)
    out = options.out or _default_folder(options.runs)
    refuse_file(out)
    paths, notes = find_runs(options.runs)
    runs, failures = _inspect_all(paths, options)
    for line in failures:
        print(f"error: {line}", file=sys.stderr)
    if runs:
        groups, repeated = group_runs(runs)
        title = options.runs[0].resolve().name if len(options.runs) == 1 else f"{len(runs)} runs"
        command = shlex.join([*PROG.split(), *words])
        page = document(groups, [*notes, *repeated, *failures], title, command)
        print(write_document(page, out, PAGE_NAME).with_suffix(".html"))
    return exit_status(failures.values())


def _default_folder(paths: Sequence[Path]) -> Path:
    study = StudyFolder(paths[0]) if len(paths) == 1 else None
    is_study = study is not None and study.run_folders() and not RunFolder(study.path).is_run
    return study.inspection_dir if study is not None and is_study else Path(PAGE_NAME)


def _inspect_all(
    paths: Sequence[Path], options: InspectArgs
) -> tuple[list[tuple[Path, RunInspection]], dict[str, Exception]]:
    """Measure every run; one that fails is named with its error, and the others go on."""
    runs, failures = [], {}
    with closing(ProgressBar(len(paths), "run", name="inspecting", to_stderr=True)) as bar:
        for path in paths:
            try:
                runs.append((path, inspect_run(path, options.tokens, options.trust_remote_code)))
            except Exception as error:
                reason = as_usage_error(error)
                line = first_line(reason)
                failures[line if str(path) in line else f"{path}: {line}"] = reason
            bar.advance()
    return runs, failures


def group_runs(runs: Sequence[tuple[Path, RunInspection]]) -> tuple[Groups, list[str]]:
    """Group runs whose configurations differ in the seed alone.

    Runs of a variant that differ in other fields too are named by those: ``kan grid_size=3``. Of a seed that
    was trained twice one run counts, as the other is no further evidence.

    Args:
        runs: Folders and what was measured.

    Returns:
        The groups in the order of the runs, and a line for each run that is left out.
    """
    fields = pd.concat([_fields(path) for path, _ in runs], ignore_index=True).fillna("None")
    variants = pd.Series([(run.family, run.variant) for _, run in runs])
    has_families = len({run.family for _, run in runs}) > 1
    groups: Groups = {}
    notes = []
    for number, (_, run) in enumerate(runs):
        alike = fields[variants == variants[number]]
        differing = alike.columns[alike.nunique() > 1].sort_values()
        settings = (f"{field.removeprefix('model.')}={alike[field][number]}" for field in differing)
        name = " ".join([run.variant, *(each.removeprefix("ffn_options.") for each in settings)])
        group = groups.setdefault(f"{name}, {family_label(run.family)}" if has_families else name, [])
        if any(other.seed == run.seed for other in group):
            notes.append(f"{run.run_id}: left out, as the same training is there already")
        else:
            group.append(run)
    return groups, notes


def _fields(path: Path) -> pd.DataFrame:
    """A row of all fields that decide a run's result, by their names in full."""
    config = read_run(path).model_dump(mode="json", exclude=RESULT_NEUTRAL)
    return pd.json_normalize(config).drop(columns=[*FOLLOWS], errors="ignore").astype(str)
