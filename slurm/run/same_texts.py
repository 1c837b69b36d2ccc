"""Whether runs that are to be trained would read the texts that those before them read."""

from __future__ import annotations

import json
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.records import peek_record
from pretrain.config import DataConfig
from pretrain.data.prepare import tokens_fingerprint
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.recorded import recorded_texts
from slurm.run.todo import Todo
from slurm.study.cells import trained_cells
from slurm.study.study import Study


def check_same_texts(study: Study, todo: Todo) -> None:
    """Refuse to train more runs of a study whose texts are others than its finished runs were trained on.

    Files may have changed under their names, or the runs may have come from an archive. Finished runs of
    other seeds and variants than those that are asked for now count too.

    Raises:
        UsageError: Naming such a run and the corpus.
    """
    due = [cell for cell in trained_cells(todo.cells) if not RunFolder(cell.run_dir).is_complete]
    asked: dict[str, DataConfig] = {
        _corpus(cell.config.data.model_dump(mode="json")): cell.config.data for cell in due
    }
    now = {corpus: tokens_fingerprint(data) for corpus, data in asked.items()}
    finished = [run for run in StudyFolder(study.folder).run_folders() if run.is_complete] if due else []
    for run in finished:
        before = recorded_texts(run)
        own = now.get(_corpus_of(run)) if before else None
        if own and before != own:
            record = peek_record(run.provenance_file)
            raise UsageError(
                f"{run.path} was trained on other texts than {record.get('corpus', 'its corpus')} holds now "
                f"(fingerprint {before}, now {own}), so new runs could not be compared with it; put the "
                "texts back, or give the study another name"
            )


def _corpus_of(run: RunFolder) -> str:
    try:
        return _corpus(mapping(read_yaml(run.config_file).get("data")))
    except UsageError:
        return ""


def _corpus(data: dict[str, Any]) -> str:
    """What of a run's data decides its tokens; not how rows are cut, nor which part is held out."""
    return json.dumps(
        {name: value for name, value in data.items() if name not in ("validation_part", "block_size")}
    )
