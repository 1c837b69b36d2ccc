"""Suites in which a model prefers one of two continuations: one reader, and what differs as data.

A row of a suite's file becomes two options, each a context and a continuation of which log p(continuation |
context) is scored; the first is right. ``CONTEXTS`` says where rows have a context:

- BLiMP (Warstadt et al. 2020, https://aclanthology.org/2020.tacl-1.25) and all suites of minimal pairs: which
  of two sentences. Seven pairs are identical: a tie counts one half, and ties are counted.
- EWoK (Ivanova et al. 2024, https://arxiv.org/abs/2405.09605): which of two targets fits a context. The files
  have every row a second time with contexts and targets exchanged, so both directions are items.
- COMPS (Misra et al. 2023, https://aclanthology.org/2023.eacl-main.213): which of two things has a property;
  its words are the same in both. In the tasks of ``wugs`` the things have made-up names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from base.errors import UsageError
from base.printing import Tell
from base.text.text_files import absent
from eval.config import EvalConfig
from eval.data_files import fingerprint, list_data_files, read_rows
from eval.zero_shot.text_task import TaskResult, TextTask, data_folder, evenly_spaced, find_data
from pretrain.data.embedded import minimal_pairs
from scores.suites import SUITES, phenomenon_name

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

Options = tuple[tuple[str, str], tuple[str, str]]
"""(context, continuation) of each, the right one first, a space before a continuation.

A sentence without context begins with a space, as in lm-eval; the protocol decides whether it stays.
"""

PAIR_COLUMNS = ("sentence_good", "sentence_bad")
"""Of a suite without contexts."""
CONTEXTS: dict[str, tuple[str, str, str, str]] = {
    "ewok": ("Context1", "Target1", "Context1", "Target2"),
    "comps": ("prefix_acceptable", "property_phrase", "prefix_unacceptable", "property_phrase"),
}
"""Of the others the columns of context and continuation, of the right one and of the other."""


class Item(NamedTuple):
    """One item of a task: what tables say of it, and its options."""

    labels: dict[str, object]
    options: Options


@dataclass(frozen=True)
class ChoiceTask(TextTask):
    """Pairs whose options are compared; ``load_rows`` gives rows with the columns of the suite."""

    def all_options(self) -> list[tuple[str, str]]:
        """Return the options of all items, one after the other."""
        return [option for item in read_items(self) for option in item.options]

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        items = read_items(self)
        tell(f"{len(items)} items")
        options = self.all_options()
        scored = scorer.score_continuations(options)
        good, bad = scored.log_likelihood[::2], scored.log_likelihood[1::2]
        is_tie = good == bad
        labels = pd.DataFrame([item.labels for item in items])
        scores = {
            "score_good": good,
            "score_bad": bad,
            "margin": good - bad,
            "num_tokens_good": scored.num_tokens[::2],
            "num_tokens_bad": scored.num_tokens[1::2],
            "tie": is_tie,
            "correct": (good > bad) + 0.5 * is_tie,
        }
        if self.suite not in CONTEXTS:
            scores["num_tokens_differing"] = _differing(options, scorer)
        table = pd.DataFrame({"suite": self.suite, "task": self.name, **labels, **scores})
        group = self.suite if self.suite in CONTEXTS else phenomenon_of(table)
        return self.result(group, accuracy_and_ties(table), table)


# A study asks for the same items once a run, all 67 paradigms of BLiMP being 30 MB.
@lru_cache(maxsize=256)
def read_items(task: ChoiceTask) -> tuple[Item, ...]:
    """Read a task's items; those left out by ``max_items`` are checked too.

    Raises:
        UsageError: For a row without a text where there must be one; names the row.
    """
    columns, items = CONTEXTS.get(task.suite, PAIR_COLUMNS), []
    for index, row in enumerate(task.load_rows()):
        for column in columns:
            if not (isinstance(row[column], str) and row[column].strip()):
                raise UsageError(
                    f"{task.suite}/{task.name}, row {index + 1}: {column} is not a text: {row[column]!r}"
                )
        if task.suite in CONTEXTS:
            context, good, other, bad = (row[column] for column in columns)
            labels: dict[str, object] = {"pair_id": str(index)}
        else:
            context, good, other, bad = "", row["sentence_good"], "", row["sentence_bad"]
            labels = _pair_labels(task.name, row, index)
        items.append(Item(labels, ((context, f" {good}"), (other, f" {bad}"))))
    return tuple(evenly_spaced(items, task.max_items))


def _pair_labels(task: str, row: dict, index: int) -> dict[str, object]:
    # The `pair_ID` of one supplement task repeats; there the row number is the id.
    ids = (row[key] for key in ("pairID", "pair_id") if row.get(key) is not None)
    return {
        "phenomenon": phenomenon_name(str(row.get("linguistics_term") or task)),
        "paradigm": str(row.get("UID") or task),
        "pair_id": str(next(ids, index)),
    }


def accuracy_and_ties(items: pd.DataFrame) -> dict[str, float]:
    """Return the share of items that are right, and, where there are any, of those that tie, in percent."""
    ties = 100 * float(items["tie"].mean())
    return {"accuracy": 100 * float(items["correct"].mean()), **({"ties": ties} if ties else {})}


def _differing(options: list[tuple[str, str]], scorer: TextScorer) -> list[int]:
    """Count for each pair the tokens that differ; the tokens are those of the scoring just done."""
    tokens = [list(text.input_ids[text.start : text.end]) for text in scorer.encode(options)]
    return [count_differing(good, bad) for good, bad in zip(tokens[::2], tokens[1::2], strict=True)]


def count_differing(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the tokens in which two sequences differ: those between the common prefix and suffix.

    Of ``a b c d`` and ``a x y d`` two differ. Where one has more of them than the other, it is the larger
    number: of ``a b d`` and ``a d`` one differs. Equal sequences differ in none.
    """
    prefix = _num_shared(first, second)
    suffix = _num_shared(first[prefix:][::-1], second[prefix:][::-1])
    return max(len(first), len(second)) - prefix - suffix


def _num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the tokens with which both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


def phenomenon_of(items: pd.DataFrame) -> str:
    """Return the phenomenon of a task, which is its own name where its pairs have several or none."""
    phenomena = items["phenomenon"].unique()
    return phenomena[0] if len(phenomena) == 1 else items["task"].iloc[0]


FOLDERS_2025: dict[str, tuple[str, ...]] = {
    "blimp-filtered": ("blimp_filtered",),
    "blimp-supplement": ("supplement_filtered", "supplement_fast"),
    "ewok": ("ewok_filtered", "ewok_fast"),
}
"""Below ``babylm25_dir``: a folder with a file for each task, any of these."""
COMPS_FILES = {
    "base": "comps/comps_base",
    "wugs": "comps/comps_wugs",
    "wugs_dist_before": "comps/comps_wugs_dist-before",
    "wugs_dist_in_between": "comps/comps_wugs_dist-in-between",
}
"""There, by task."""
HUB_BLIMP = "nyu-mll/blimp"
HUB_BLIMP_REVISION = "877fba0801ffb7cbd8c39c1ff314a46f053f6036"
"""Pinned, so that a change on the hub cannot change a score."""
BLIMP_FOLDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "blimp": (("full", "blimp"),),
    "babylm23": (("filtered", "blimp_filtered"), ("supplement", "supplement_filtered")),
}
"""Below ``blimp_dir``; the second name is that of the BabyLM 2023 pipeline's filter-data."""


def _file_tasks(suite: str, files: dict[str, Path], config: EvalConfig) -> list[TextTask]:
    """Make the tasks whose items are the rows of files."""
    return [_file_task(suite, name, path, config) for name, path in files.items()]


def _file_task(suite: str, name: str, path: Path, config: EvalConfig) -> ChoiceTask:
    rows = partial(read_rows, path, tuple(dict.fromkeys(CONTEXTS.get(suite, PAIR_COLUMNS))))
    return ChoiceTask(suite, name, fingerprint([path]), rows, config.max_pairs)


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of a suite that BabyLM 2025 has a file each.

    Raises:
        UsageError: If their data are absent.
    """
    folder = data_folder(suite, config)
    if suite == "comps":
        files = {task: find_data(folder, suite, name) for task, name in COMPS_FILES.items()}
        return _file_tasks(suite, files, config)
    path = find_data(folder, suite, *FOLDERS_2025[suite])
    files = list_data_files(path) if path.is_dir() else {}
    if not files:
        raise UsageError(f"{path} must be a folder with a .jsonl file for each task of {suite}")
    return _file_tasks(suite, files, config)


def find_fast_blimp(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of ``blimp-fast``, which BabyLM 2025 has in one file, or in a file a paradigm.

    Raises:
        UsageError: If its data are absent.
    """
    path = find_data(data_folder(suite, config), suite, "blimp_fast")
    if path.is_dir():  # a file a paradigm, as in the pipeline
        return _file_tasks(suite, list_data_files(path), config)
    source = fingerprint([path])
    return [
        ChoiceTask(suite, uid, source, lambda uid=uid: _paradigms_of(path, source)[uid], config.max_pairs)
        for uid in _paradigms_of(path, source)
    ]


def find_blimp(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of ``blimp`` or ``babylm23``: a file each in ``blimp_dir``, or the hub's (blimp only).

    Raises:
        UsageError: If the folder is needed and absent, or holds no data.
    """
    if config.blimp_dir is None:
        if suite == "blimp":
            source, uids = f"hub:{HUB_BLIMP}", SUITES[suite].tasks
            return [ChoiceTask(suite, uid, source, partial(_read_hub, uid), config.max_pairs) for uid in uids]
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --blimp-dir FOLDER with filtered/*.jsonl and "
            "supplement/*.jsonl, which are blimp_filtered and supplement_filtered in filter-data of the "
            "BabyLM 2023 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2023)"
        )
    tasks: list[TextTask] = []
    for names in BLIMP_FOLDERS[suite]:
        folder = _one_of(config.blimp_dir, names, suite)
        files = list_data_files(folder)
        if not files:
            raise UsageError(f"{folder} holds no .jsonl or .jsonl.gz file")
        tasks += _file_tasks(suite, files, config)
    return tasks


def find_embedded(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List a task for each paradigm of the grammar; the seed and the number of pairs are the config's."""
    size, seed = config.embedded_pairs_per_paradigm, config.embedded_seed
    source = f"embedded:{size}:{seed}"
    return [
        ChoiceTask(suite, uid, source, lambda uid=uid: _embedded(size, seed)[uid], config.max_pairs)
        for uid in _embedded(size, seed)
    ]


def find_own(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List a task for each of the user's files, which are read where no run is at hand.

    Raises:
        UsageError: If there is none, or one cannot be used.
    """
    files = {path.name.split(".")[0]: path for path in config.pair_files}
    if not files or len(files) < len(config.pair_files):
        raise UsageError(
            "own-pairs needs --pair-files FILE..., each of another name, with columns sentence_good and "
            "sentence_bad"
        )
    if absent := [path for path in files.values() if not path.is_file()]:
        raise UsageError(f"no file {absent[0]}, which --pair-files names")
    tasks = [_file_task(suite, name, path, config) for name, path in files.items()]
    for task in tasks if run_dir is None else ():
        read_items(task)
    return [*tasks]


def _one_of(folder: Path, names: tuple[str, ...], suite: str) -> Path:
    for name in names:
        if (folder / name).is_dir():
            return folder / name
    must = f"--blimp-dir, in a study evaluation.blimp_dir, must hold it for the suite {suite}"
    raise absent(folder / names[0], f"no folder {folder / names[0]}; {must}")


def _read_hub(uid: str) -> list[dict]:
    from base.hub_datasets import load_split  # a second that nobody else should wait

    instead = "without network pass --blimp-dir FOLDER with full/*.jsonl, or use --suites embedded-pairs"
    return load_split(HUB_BLIMP, "train", instead, uid, HUB_BLIMP_REVISION).to_list()


# The source is in the key, so that a changed file is read again.
@lru_cache(maxsize=2)
def _paradigms_of(path: Path, source: str) -> dict[str, list[dict]]:
    paradigms: dict[str, list[dict]] = {}
    for row in read_rows(path, ("UID", *PAIR_COLUMNS)):
        paradigms.setdefault(str(row["UID"]), []).append(row)
    return dict(sorted(paradigms.items()))


_embedded = lru_cache(maxsize=2)(minimal_pairs)
