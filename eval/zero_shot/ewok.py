"""EWoK (Ivanova et al. 2024, https://arxiv.org/abs/2405.09605) as in BabyLM 2025: which of two targets fits.

A row has two contexts and two targets, of which the first fits the first. Asked is whether the first target
is likelier than the second given the first context. The files have every row a second time with contexts and
targets exchanged, so both directions count, each as an item. Chance is 50%.
"""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from eval.config import EvalConfig
from eval.files import list_data_files
from eval.zero_shot.babylm25 import data_folder, find_data
from eval.zero_shot.conditional_pairs import ConditionalPair, conditional_task
from eval.zero_shot.task import TextTask

EWOK_COLUMNS = ("Context1", "Target1", "Target2")


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks: one for each domain, a file each.

    Raises:
        UsageError: If their data are absent.
    """
    folder = find_data(data_folder(suite, config), suite, "ewok_filtered", "ewok_fast")
    files = list_data_files(folder) if folder.is_dir() else {}
    if not files:
        raise UsageError(f"{folder} must be a folder with a .jsonl file for each domain of {suite}")
    return [
        conditional_task(suite, name, path, EWOK_COLUMNS, ewok_pair, config.max_pairs)
        for name, path in files.items()
    ]


def ewok_pair(row: dict) -> ConditionalPair:
    """Return both targets, each given the context that the first one fits."""
    context = row["Context1"]
    return ConditionalPair((context, f" {row['Target1']}"), (context, f" {row['Target2']}"))
