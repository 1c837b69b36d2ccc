"""Minimal pairs: which suites there are, where their pairs come from, and how lm-eval scores them.

A suite has tasks, and a task has pairs of a good and a bad sentence. A model is right about a pair when the
good one scores higher. Seven pairs of BLiMP are identical: a tie counts one half, and ties are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from eval.config import EvalConfig
from eval.files import fingerprint, list_data_files, read_hub_rows, read_json_rows
from eval.paradigms import BLIMP_PARADIGMS, SUPPLEMENT_TASKS, phenomenon_name
from ffn_variants.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from eval.lm_models import TextScorer

PAIR_COLUMNS = ("sentence_good", "sentence_bad")
# The `pair_ID` of one supplement task repeats; there the row number is the id.
PAIR_ID_COLUMNS = ("pairID", "pair_id")
HUB_BLIMP = "nyu-mll/blimp"

# The folder of a suite below `blimp_dir`; the second name is that of the BabyLM 2023 pipeline's filter-data.
SUITE_FOLDERS: dict[str, tuple[str, str]] = {
    "blimp": ("full", "blimp"),
    "blimp-filtered": ("filtered", "blimp_filtered"),
    "blimp-supplement": ("supplement", "supplement_filtered"),
}
SUITE_TASKS = {
    "blimp": tuple(sorted(uid for uids in BLIMP_PARADIGMS.values() for uid in uids)),
    "blimp-filtered": tuple(sorted(BLIMP_PARADIGMS)),
    "blimp-supplement": SUPPLEMENT_TASKS,
}


@dataclass(frozen=True)
class PairTask:
    """One task of a suite.

    Attributes:
        source: What identifies the pairs: a fingerprint of their file, or the name and seed they come from.
        read: Reads all of them, as objects with at least ``PAIR_COLUMNS``.
    """

    suite: str
    name: str
    source: str
    read: Callable[[], list[dict]]


def find_pair_tasks(suite: str, config: EvalConfig) -> list[PairTask]:
    """List the tasks of a suite, without reading their pairs.

    Raises:
        UsageError: If the pairs' folder is needed and absent or empty.
    """
    if suite == "embedded-pairs":
        return _embedded_tasks(config)
    if config.blimp_dir is None:
        if suite == "blimp":
            source = f"hub:{HUB_BLIMP}"
            return [PairTask(suite, uid, source, partial(_read_hub, uid)) for uid in SUITE_TASKS[suite]]
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --blimp-dir FOLDER with "
            f"{SUITE_FOLDERS[suite][0]}/*.jsonl, which is {SUITE_FOLDERS[suite][1]} in filter-data of the "
            "BabyLM 2023 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2023)"
        )
    files = list_data_files(_suite_folder(suite, config.blimp_dir))
    if not files:
        raise UsageError(f"{_suite_folder(suite, config.blimp_dir)} holds no .jsonl or .jsonl.gz file")
    return [
        PairTask(suite, name, fingerprint([path]), partial(read_json_rows, path, PAIR_COLUMNS))
        for name, path in files.items()
    ]


def select_pair_tasks(tasks: list[PairTask], wanted: tuple[str, ...] | None) -> list[PairTask]:
    """Keep the tasks of those names, or all where no name is given.

    Raises:
        UsageError: For a name that no suite has; gives the closest match.
    """
    if wanted is None:
        return tasks
    names = [task.name for task in tasks]
    for name in wanted:
        if name not in names:
            raise unknown_name("minimal-pair task", name, names)
    return [task for task in tasks if task.name in wanted]


def read_pairs(task: PairTask, max_pairs: int | None) -> pd.DataFrame:
    """Read a task's pairs.

    Args:
        task: The task.
        max_pairs: Take so many, evenly spaced over the file, which is sorted by paradigm; None takes all.

    Returns:
        Columns sentence_good, sentence_bad, paradigm, phenomenon, pair_id, all text.

    Raises:
        UsageError: For a sentence that is not text or is empty; names the row.
    """
    rows = [_normalise(task, number, row) for number, row in enumerate(task.read(), start=1)]
    if max_pairs is not None and max_pairs < len(rows):
        rows = [rows[index * len(rows) // max_pairs] for index in range(max_pairs)]
    return pd.DataFrame(rows)


def _normalise(task: PairTask, number: int, row: dict) -> dict[str, str]:
    where = f"{task.suite}/{task.name}"
    for column in PAIR_COLUMNS:
        if not isinstance(row[column], str) or not row[column].strip():
            raise UsageError(f"{where}, row {number}: {column} is not a sentence: {row[column]!r}")
    named = (row[key] for key in PAIR_ID_COLUMNS if row.get(key) is not None)
    return {
        "sentence_good": row["sentence_good"],
        "sentence_bad": row["sentence_bad"],
        "paradigm": str(row.get("UID") or task.name),
        "phenomenon": phenomenon_name(str(row.get("linguistics_term") or task.name)),
        "pair_id": str(next(named, number - 1)),
    }


def score_pairs(task: PairTask, pairs: pd.DataFrame, lm: TextScorer) -> pd.DataFrame:
    """Score the pairs of one task through lm-eval.

    Returns:
        One row a pair: suite, task, phenomenon, paradigm, pair_id, score_good and score_bad (nats), margin
        (their difference), num_tokens_good and num_tokens_bad (scored tokens), tie, and correct (1, 0, or 0.5
        for a tie).

    Raises:
        UsageError: If a score is not a finite number.
    """
    from eval.lm_tasks import evaluate_pairs

    scores = evaluate_pairs(f"{task.suite}/{task.name}", pairs, lm)
    if not np.isfinite(scores).all():
        worst = pairs.iloc[int(np.argmin(np.isfinite(scores).all(axis=1)))]["sentence_good"]
        raise UsageError(f"{task.name}: the score of {worst!r} is not finite; did the training diverge?")
    good, bad = scores[:, 0], scores[:, 1]
    return pd.DataFrame(
        {
            "suite": task.suite,
            "task": task.name,
            "phenomenon": pairs["phenomenon"].to_numpy(),
            "paradigm": pairs["paradigm"].to_numpy(),
            "pair_id": pairs["pair_id"].to_numpy(),
            "score_good": good,
            "score_bad": bad,
            "margin": good - bad,
            "num_tokens_good": lm.count_tokens(pairs["sentence_good"].tolist()),
            "num_tokens_bad": lm.count_tokens(pairs["sentence_bad"].tolist()),
            "tie": good == bad,
            "correct": (good > bad) + 0.5 * (good == bad),
        }
    )


def task_group(items: pd.DataFrame) -> str:
    """Return the phenomenon of a task, which is its own name where its pairs have several or none."""
    phenomena = items["phenomenon"].unique()
    return phenomena[0] if len(phenomena) == 1 else items["task"].iloc[0]


def missing_tasks(suite: str, tasks: list[PairTask]) -> list[str]:
    """Return the tasks that a suite should have and that were not found; its mean is then another one."""
    found = {task.name for task in tasks}
    return [name for name in SUITE_TASKS.get(suite, ()) if name not in found]


def _suite_folder(suite: str, blimp_dir: Path) -> Path:
    names = SUITE_FOLDERS[suite]
    for name in names:
        if (blimp_dir / name).is_dir():
            return blimp_dir / name
    raise UsageError(f"no folder {blimp_dir / names[0]}; --blimp-dir must hold it for the suite {suite}")


def _read_hub(uid: str) -> list[dict]:
    instead = "without network pass --blimp-dir FOLDER with full/*.jsonl, or use --suites embedded-pairs"
    return read_hub_rows(HUB_BLIMP, uid, "train", instead)


def _embedded_tasks(config: EvalConfig) -> list[PairTask]:
    size, seed = config.embedded_pairs_per_paradigm, config.embedded_seed
    return [
        PairTask("embedded-pairs", uid, f"embedded:{size}:{seed}", lambda rows=rows: rows)
        for uid, rows in _embedded_pairs(size, seed).items()
    ]


@lru_cache(maxsize=2)
def _embedded_pairs(pairs_per_paradigm: int, seed: int) -> dict[str, list[dict]]:
    from pretrain.embedded import minimal_pairs

    return minimal_pairs(pairs_per_paradigm, seed)
