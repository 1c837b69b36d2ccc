"""Whether what is archived or brought back is whole: what a study asked and chose, the scores of a run."""

from __future__ import annotations

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.sealed_text import is_file_as_written
from eval.results.ledger import look
from eval.results.stages import MAIN, TUNE
from eval.results.tuning import missing_tuning, read_tuning
from pretrain.run.folders import RunFolder, StudyFolder
from slurm.archive.tar import is_run_id


def check_whole(study: StudyFolder, cure: str) -> list[str]:
    """Return the ids of a study's cells, unless its file is not as written, or what its tuning chose lacks.

    Args:
        study: Its folder, or that of its archives.
        cure: What to do then.

    Raises:
        UsageError: Naming the file.
    """
    if not is_file_as_written(study.study_file):
        raise UsageError(f"{study.study_file} is not as it was written: it was edited or damaged; {cure}")
    content = read_yaml(study.study_file)
    cells = content.get("cells")
    if not isinstance(cells, list) or not all(isinstance(one, str) and is_run_id(one) for one in cells):
        raise UsageError(f"{study.study_file} does not say which runs the study has; {cure}")
    stages = {name: set(run_ids) for name, run_ids in mapping(content.get("stages")).items()}
    tuning = stages.get(TUNE, set()) - stages.get(MAIN, set())
    has_chosen = bool(set(cells) - tuning)
    if read_tuning(study.path) is None and tuning and has_chosen:
        raise UsageError(missing_tuning(study.path))
    return cells


def wrong_scores(run: RunFolder) -> dict[str, str]:
    """Say by the name of a file what is wrong with a run's scores; without their ledger nobody can tell."""
    ledger, found = look(run)
    if ledger is None and run.score_files():
        return {f"{run.eval_dir.name}/{run.ledger_file.name}": "is missing or damaged, and scores need it"}
    return {f"{run.eval_dir.name}/{name}": why for name, why in found.items()}
