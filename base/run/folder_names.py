"""What lies in the folder of a run and in that of a study: every name and every pattern, once.

    <runs_dir>/<study>/<family>/<variant>/<run>/

Here is where things are; what stands in a file is known to the module that writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from base.model_folders import VARIANT_COPY

RUN_NAME = re.compile(r"seed(?P<seed>\d+)-(?P<hash>[0-9a-f]{8})")
"""Of a run's folder, where its user chose none: the hash is that of the configuration."""
REPORT_NAME = "report.md"
"""The document that a report's folder is opened for; written last."""


def may_be(run_id: str, family: str, variant: str, seed: int) -> bool:
    """Whether an id may be that of a run: one that its user chose may be of any."""
    match = RUN_NAME.fullmatch(run_id.rpartition("/")[2])
    return match is None or (run_id, int(match["seed"])) == (f"{family}/{variant}/{match[0]}", seed)


@dataclass(frozen=True)
class Inside:
    """A place below a folder; read from an instance it is the whole path."""

    name: str

    def __get__(self, folder: RunFolder | StudyFolder, kind: type | None = None) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class Present:
    """Whether a file is there; read from an instance of its folder it is that."""

    name: str

    def __get__(self, folder: RunFolder | StudyFolder, kind: type | None = None) -> bool:
        return (folder.path / self.name).is_file()


@dataclass(frozen=True)
class RunFolder:
    """A run's folder; its name is ``seed<N>-<hash>``, or what the user chose with ``--run-name``."""

    path: Path

    config_file = Inside("config.yaml")
    """The resolved configuration, a valid input of the training command."""
    provenance_file = Inside("provenance.json")
    """Code, versions, device and data, a session each time that the training was started; its results."""
    metrics_file = Inside("metrics.jsonl")
    """An object for each logged step or evaluation."""
    checkpoints_dir = Inside("checkpoints")
    logs_dir = Inside("logs")
    """Of a tracker."""
    name_file = Inside("variant-name.txt")
    """What the variant was called last by who trained it from Python, where that is not its own name."""
    variant_file = Inside(VARIANT_COPY)
    """Of a variant of the user's own: what was run (see ``ffn_variants.variant_files``)."""
    model_dir = Inside("model")
    """The trained model with its tokenizer and card."""
    completion_marker = Inside("COMPLETED")
    """Written last; a run without it is unfinished."""
    archive_marker = Inside("ARCHIVED")
    """In place of a model that was left out: whose scores they are (see ``base.run.manifest``)."""
    failure_marker = Inside("FAILED")
    """Of a run that diverged: the step and what was wrong with it (see ``pretrain.training.stopping``)."""
    lock_file = Inside(".lock")
    """Held by the one process that writes here (see ``pretrain.run.run_folder``)."""
    backbone_file = Inside("backbone.yaml")
    """In place of a configuration: the pretrained model of elsewhere whose scores lie here."""

    eval_dir = Inside("eval")
    """Everything below is in it."""
    rows_file = Inside("eval/rows.parquet")
    """Every score."""
    rows_csv_file = Inside("eval/rows.csv")
    """The same for whoever opens it by hand."""
    items_dir = Inside("eval/items")
    ledger_file = Inside("eval/done.json")
    """Under which protocol each task was scored, and on which weights."""
    baselines_file = Inside("eval/baselines.json")
    """What constant answers score."""
    classifiers_dir = Inside("eval/classifiers")
    """What fine-tuning changed, where somebody looked into a classifier."""
    explanations_dir = Inside("eval/explanations")
    """What a look into a classifier found: pages, tables and plots."""

    def items_file(self, benchmark: str) -> Path:
        """How the run did on every item of a benchmark."""
        return self.items_dir / f"{benchmark}.parquet"

    def score_files(self) -> list[Path]:
        """The rows in both formats, and the items."""
        tables = (self.rows_file, self.rows_csv_file)
        return [*(path for path in tables if path.is_file()), *sorted(self.items_dir.glob("*.parquet"))]

    def lasting_files(self) -> list[Path]:
        """What of a run a report reads, and nothing that is large: no model, no checkpoint, no log."""
        single = (
            self.config_file,
            self.provenance_file,
            self.metrics_file,
            self.variant_file,
            self.completion_marker,
            self.failure_marker,
            self.archive_marker,
            self.ledger_file,
            self.baselines_file,
        )
        return [*(path for path in single if path.is_file()), *self.score_files()]

    @property
    def study(self) -> StudyFolder:
        """The study that a run at its own place belongs to; of one that lies elsewhere, any folder."""
        return StudyFolder(self.path.parent.parent.parent)

    @property
    def run_id(self) -> str:
        """``<family>/<variant>/<run>``, by its place."""
        return "/".join(self.path.parts[-3:])

    @property
    def family(self) -> str:
        """The family, by its place."""
        return self.path.parts[-3]

    is_run = Present(config_file.name)
    """Whether a training was begun here."""
    has_marker = Present(completion_marker.name)
    """Whether the training has ended; ``pretrain.run.run_folder.is_finished`` looks at the model too."""
    has_diverged = Present(failure_marker.name)
    """Whether the training ended because its loss diverged."""
    has_model = Present("model/config.json")
    """Whether there is a trained model."""
    is_backbone = Present(backbone_file.name)
    """Whether it is no run, but holds the scores of a pretrained model of elsewhere."""
    is_scored = Present(rows_file.name)
    """Whether there are scores."""

    @property
    def is_archived(self) -> bool:
        """Whether its model was left out when the run was archived."""
        return self.archive_marker.is_file() and not self.has_model


@dataclass(frozen=True)
class StudyFolder:
    """A study's folder, which need not have a file: whatever runs were trained into it are in it."""

    path: Path

    study_file = Inside("study.yaml")
    """What ``study run`` was asked to run."""
    tuning_file = Inside("tuning.json")
    """What its tuning tried and chose, where each variant is tuned (see ``scores.tuning_trials``)."""
    code_dir = Inside("code")
    """Copies of this project's code, which jobs run."""
    jobs_dir = Inside("jobs")
    """What jobs run, and what submitit writes, logs included."""
    cells_dir = Inside("cells")
    """Where every cell stands."""
    submit_lock_file = Inside(".submit.lock")
    """Held by the command that runs or submits the study, as long as it does."""
    inspection_dir = Inside("inspection")
    """The page of what the FFNs learned, with figures and tables."""
    report_dir = Inside("report")
    report_file = Inside(f"report/{REPORT_NAME}")

    def run(self, run_id: str) -> RunFolder:
        """The folder of a run by its id."""
        return RunFolder(self.path / run_id)

    def run_folders(self, family: str = "*", variant: str = "*") -> list[RunFolder]:
        """Every folder where a run has its place, in the order of their names, whatever is in it."""
        paths = sorted(self.path.glob(f"{family}/{variant}/*"))
        return [RunFolder(path) for path in paths if path.is_dir()]

    def lasting_files(self) -> list[Path]:
        """What the report of a study reads beside its runs."""
        files = (self.study_file, self.tuning_file)
        return [path for path in files if path.is_file()]

    def cell_file(self, run_id: str) -> Path:
        """Where a cell stands."""
        return self.cells_dir / f"{run_id.replace('/', '--')}.json"

    def cell_lock_file(self, run_id: str) -> Path:
        """Held by the process that has a cell, as long as it does."""
        return self.cell_file(run_id).with_suffix(".lock")

    def cell_files(self) -> dict[str, Path]:
        """By run id the file of every cell that was begun, in the order of their names."""
        return {path.stem.replace("--", "/", 2): path for path in sorted(self.cells_dir.glob("*.json"))}
