"""COMPS (Misra et al. 2023, https://aclanthology.org/2023.eacl-main.213) as in BabyLM 2025.

Of two things one has a property: "A beaver has a flat tail", "A gorilla has a flat tail". What is scored is
the property given the thing, so that its words are the same in both. In the tasks of ``wugs`` the thing has a
made-up name that the text before gives it, with or without a distractor. Chance is 50%.
"""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from eval.config import EvalConfig
from eval.files import list_data_files
from eval.suites.registry import SUITES
from eval.zero_shot.babylm25 import data_folder, find_data
from eval.zero_shot.conditional_pairs import ConditionalPair, conditional_task
from eval.zero_shot.task import TextTask

COMPS_COLUMNS = ("prefix_acceptable", "prefix_unacceptable", "property_phrase")
FILES = {
    "base": "comps_base",
    "wugs": "comps_wugs",
    "wugs_dist_before": "comps_wugs_dist-before",
    "wugs_dist_in_between": "comps_wugs_dist-in-between",
}
"""The files of the tasks, without their suffix."""


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks: one for each of the four files.

    Raises:
        UsageError: If their data are absent.
    """
    folder = find_data(data_folder(suite, config), suite, "comps")
    files = list_data_files(folder) if folder.is_dir() else {}
    if absent := [name for name in FILES.values() if name not in files]:
        raise UsageError(f"{folder} must be a folder with {absent[0]}.jsonl, which {suite} needs")
    return [
        conditional_task(suite, name, files[FILES[name]], COMPS_COLUMNS, comps_pair, config.max_pairs)
        for name in SUITES[suite].tasks
    ]


def comps_pair(row: dict) -> ConditionalPair:
    """Return the property of both things."""
    phrase = f" {row['property_phrase']}"
    return ConditionalPair((row["prefix_acceptable"], phrase), (row["prefix_unacceptable"], phrase))
