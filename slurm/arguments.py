"""What ``ffn-ablations study run`` is given, and what of it ``study status`` knows too."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from base.command_line import Positional
from base.config_input import shipped
from base.errors import UsageError
from base.other_names import OtherNames
from base.sections import Section
from base.text.text_files import TextSplit

AtLeastOne = Annotated[int, Field(ge=1)]


class SubmitArgs(Section):
    """Run the cells of a study that are not done yet, then write its report.

        ffn-ablations study run quickstart --workers 2
        ffn-ablations study run thesis --cluster slurm --preset one-gpu
        ffn-ablations study run real-small --texts stories.jsonl --add mine.py:SPEC --dry-run

    The same command again repeats nothing and goes on with what is unfinished. With --cluster slurm it
    returns at once, and the study ends with its report. study status STUDY says where it stands.
    """

    common: ClassVar = (
        *("study", "dry_run", "texts", "validation_texts", "txt_split", "workers", "cells_per_job", "seeds"),
        *("variants", "add", "device", "cluster", "preset", "runs_dir", "trust_remote_code"),
    )

    hints: ClassVar = OtherNames("study run")

    study: Positional[Path]
    """The study's YAML file, or the name of a shipped one."""
    cluster: Literal["local", "slurm"] = "local"
    """Where the cells run: on this machine, or as jobs of the SLURM cluster whose login node this is."""
    preset: Path | None = None
    """With slurm: what the site wants to be told: a YAML file, or a shipped one (list studies)."""
    max_running: AtLeastOne | None = None
    """With slurm: jobs that run at the same time (default: the preset's, else all)."""
    workers: AtLeastOne = 2
    """With local: cells that run at the same time; cores and GPUs are shared among them."""
    device: Literal["cpu", "cuda"] | None = None
    """With local: compute on the CPU, or on GPUs, which must be there; without, on GPUs if there are some."""
    cells_per_job: AtLeastOne | None = None
    """Cells that share one job or process, which saves its start (default: 4 here, fewer at the end; 1 on a
    cluster)."""
    cells_at_once: AtLeastOne = 1
    """With slurm: of the cells of a job, how many run at the same time on its GPU."""
    texts: tuple[str, ...] = ()
    """Train on these files or folders (.jsonl, .parquet, .txt, also .gz) in place of the study's texts, in
    full. They belong to the study as its config does: give them each time."""
    validation_texts: tuple[str, ...] = ()
    """Held-out files or folders for --texts (default: a share of the training documents)."""
    txt_split: TextSplit | None = None
    """What ends a document of a .txt of --texts: endoftext, lines, blank-lines or file (the file alone)."""
    runs_dir: Path | None = None
    """Folder for all runs, instead of the one in the config (runs/)."""
    include_path: tuple[Path, ...] = ()
    """Folders of task files that the study names and you trust: lm-eval's task files may run code."""
    trust_remote_code: bool = False
    """Run the files of FFN variants that the study names in other folders than its own, as in variants:
    [gelu, ../theirs.py:SPEC], and those that its backbones bring. Read them before."""
    variants: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """These variants instead of those in the file, as for a sitting that has time for some of them, and those
    that were tuned in sittings before it; the same command without it goes on with all."""
    seeds: tuple[str, ...] = ()
    """These seeds instead of those in the file: 1-2, or 1 2 5."""
    add: tuple[str, ...] = ()
    """A variant beside those that the study names, as it would stand there: relu2, "kan grid_size=3" or
    mine.py:SPEC. What is finished stays; a newcomer is tuned and trained like the others, and all are judged.
    May be given several times."""
    retry_failed: bool = False
    """Also try cells again that ended with an error of their own."""
    dry_run: bool = False
    """Show what is to run, what is missing and what it costs, and stop; nothing is written. With --cluster
    slurm the sbatch script too."""
    list_cells: bool = False
    """With --dry-run: list every cell, also where they are many."""
    report: bool = True
    """Write the report after the last cell. Without it no job follows on SLURM, and a tuning waits after
    each of its rounds until the command is given again."""

    @model_validator(mode="before")
    @classmethod
    def _preset_is_of_slurm(cls, values: dict[str, Any]) -> dict[str, Any]:
        place = str(values.get("cluster"))
        if "preset" in values or not (place.endswith((".yaml", ".yml")) or place in shipped("preset")):
            return values
        return values | {"cluster": "slurm", "preset": place}

    @model_validator(mode="after")
    def _flags_fit_cluster(self) -> SubmitArgs:
        flags = {"local": ("workers", "device"), "slurm": ("preset", "max_running", "cells_at_once")}
        other = "local" if self.cluster == "slurm" else "slurm"
        for name in flags[other]:
            if name in self.model_fields_set:
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(f"{flag} has no effect here; add --cluster {other}, or leave it out")
        return self

    @property
    def cells_per_process(self) -> int:
        """How many cells share one: of a cluster's jobs each its own, as they run side by side."""
        return self.cells_per_job or (4 if self.cluster == "local" else 1)


def flags(options: SubmitArgs, *names: str) -> list[str]:
    """Return these flags as they are typed, those that were."""
    typed = {name: value for name in names if (value := getattr(options, name))}
    return [
        f"--{name.replace('_', '-')} {shlex.join(map(str, value if isinstance(value, tuple) else [value]))}"
        for name, value in typed.items()
    ]


def overrides(options: SubmitArgs) -> dict[str, Any]:
    """Return what flags set in the config of every run.

    Raises:
        UsageError: For a flag about texts without texts.
    """
    alone = "--validation-texts" if options.validation_texts else "--txt-split" if options.txt_split else ""
    if alone and not options.texts:
        raise UsageError(f"{alone} is about the files of --texts; name these too")
    if not options.texts:
        return runs_dir_override(options.runs_dir)
    data: dict[str, Any] = {"train_files": options.texts, "validation_files": options.validation_texts}
    # What picks texts of another source has no meaning for these.
    data |= {"source": "files", "tinystories_dir": None, "max_documents": None}
    if options.txt_split:
        data["txt_split"] = options.txt_split
    return {"data": data} | runs_dir_override(options.runs_dir)


def runs_dir_override(runs_dir: Path | None) -> dict[str, Any]:
    """Return what ``--runs-dir`` sets in the config of every run."""
    return {"output": {"runs_dir": str(runs_dir)}} if runs_dir else {}
