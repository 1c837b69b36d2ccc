"""Whether what is archived or brought back is whole: what a study asked and chose, the scores of a run."""

from __future__ import annotations

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from eval.results.stages import MAIN, TUNE, is_cut_off
from eval.results.store import read_scores
from eval.results.tuning import missing_tuning, read_tuning
from pretrain.run.folders import RunFolder, StudyFolder
from slurm.archive.tar import is_run_id


def check_whole(study: StudyFolder, cure: str) -> list[str]:
    """Return the ids of a study's cells, unless its file does not name them, or what its tuning chose lacks.

    Args:
        study: Its folder, or that of its archives.
        cure: What to do then.

    Raises:
        UsageError: Naming the file.
    """
    content = read_yaml(study.study_file)
    cells = content.get("cells")
    is_list = isinstance(cells, list) and not is_cut_off(content)
    if not is_list or not all(isinstance(one, str) and is_run_id(one) for one in cells):
        raise UsageError(f"{study.study_file} does not say which runs the study has; {cure}")
    stages = {name: set(run_ids) for name, run_ids in mapping(content.get("stages")).items()}
    tuning = stages.get(TUNE, set()) - stages.get(MAIN, set())
    has_chosen = bool(set(cells) - tuning)
    if read_tuning(study.path) is None and tuning and has_chosen:
        raise UsageError(missing_tuning(study.path))
    return cells


def wrong_scores(run: RunFolder) -> dict[str, str]:
    """Say by the name of a file what is wrong with a run's scores; without their ledger nobody can tell."""
    scores = read_scores(run, with_items=True)
    if scores.ledger is None and run.score_files():
        return {f"{run.eval_dir.name}/{run.ledger_file.name}": "is missing or damaged, and scores need it"}
    return {f"{run.eval_dir.name}/{name}": why for name, why in scores.wrong.items()}
