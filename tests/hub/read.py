"""What this project reads of a hub, as a command: ``python -m tests.hub.read split PATH SPLIT``.

It prints the rows, or the files of a model, as JSON.
"""

import hashlib
import json
import sys

from base.errors import run_cli
from base.hub import download_model
from base.hub_datasets import load_split
from eval.classification.examples import read_task_rows
from eval.classification.find_tasks import GLUE_TASKS
from eval.config import EvalConfig
from eval.zero_shot.text_task import find_suite_tasks


def main() -> None:
    """Read what the command line names."""
    kind, *args = sys.argv[1:]
    print(json.dumps({"split": split, "model": model, "suite": suite}[kind](*args)))


def split(path: str, split: str, name: str = "", revision: str = "", data_dir: str = "") -> list[dict]:
    """The rows of a split."""
    whole = load_split(path, split, "name a folder", name or None, revision or None, data_dir or None)
    return whole.to_list()


def model(name: str) -> dict[str, str]:
    """The SHA-256 of each file of a model."""
    files = sorted(path for path in download_model(name).rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def suite(name: str) -> list[dict]:
    """The rows of the first task of a suite that scores texts, or those reported on of a task of GLUE."""
    glue = GLUE_TASKS.get(name)
    config = EvalConfig()
    return (
        read_task_rows(glue, "validation", config)[0]
        if glue
        else find_suite_tasks(name, config)[0].load_rows()
    )


if __name__ == "__main__":
    run_cli(main)
