"""Whether runs that are to be trained would read the texts that those before them read."""

from __future__ import annotations

from base.errors import UsageError
from base.records import peek_record
from pretrain.data.prepare import tokens_fingerprint
from pretrain.run.folders import RunFolder
from slurm.cells import trained_cells
from slurm.study import Study
from slurm.todo import Todo


def check_same_texts(study: Study, todo: Todo) -> None:
    """Refuse to train more runs of a study whose texts are others than its finished runs were trained on.

    Files may have changed under their names, or the runs may have come from an archive.

    Raises:
        UsageError: Naming such a run and the corpus.
    """
    due = {cell.run_id for cell in todo.cells}
    now: dict[str, str] = {}
    for cell in trained_cells(study.cells) if trained_cells(todo.cells) else ():
        record = peek_record(RunFolder(cell.run_dir).provenance_file)
        before = str(record.get("data_fingerprint", "")).partition("-")[0]
        if cell.run_id in due or not before:
            continue
        data = cell.config.data
        key = data.model_dump_json()
        now[key] = now.get(key) or tokens_fingerprint(data)
        if before != now[key]:
            raise UsageError(
                f"{cell.run_dir} was trained on other texts than {record.get('corpus', 'its corpus')} holds "
                f"now (fingerprint {before}, now {now[key]}), so new runs could not be compared with it; put "
                "the texts back, or give the study another name"
            )
