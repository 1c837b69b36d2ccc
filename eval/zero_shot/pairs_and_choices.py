"""Suites in which a model chooses among continuations: one reader, and what differs between suites as data.

A row of a suite's file becomes options, each a context and a continuation of which log p(continuation |
context) is scored; the first is right. ``FORMS`` says how, and ``FILES_2025`` where BabyLM 2025 has files:

- BLiMP (Warstadt et al. 2020, https://aclanthology.org/2020.tacl-1.25) and all suites of minimal pairs: which
  of two sentences. Seven pairs are identical: a tie counts one half, and ties are counted.
- EWoK (Ivanova et al. 2024, https://arxiv.org/abs/2405.09605): which of two targets fits a context. The files
  have every row a second time with contexts and targets exchanged, so both directions are items.
- COMPS (Misra et al. 2023, https://aclanthology.org/2023.eacl-main.213): which of two things has a property;
  its words are the same in both. In the tasks of ``wugs`` the things have made-up names.
- Entity tracking (Kim and Schuster 2023, https://aclanthology.org/2023.acl-long.213): what is in a box after
  some operations, one of five options. Chance is 20%.
- Wug tests: which of two forms of a made-up word, against what people prefer. ``wug`` makes nouns of
  adjectives (Hofmann et al. 2024, https://arxiv.org/abs/2411.07990), ``wug-past`` past tenses of verbs
  (Weissweiler et al. 2023, https://arxiv.org/abs/2310.15113).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
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

Options = tuple[tuple[str, str], ...]
"""(context, continuation) of each, the right one first, a space before a continuation if there is one.

A sentence without context begins with a space, as in lm-eval; the protocol decides whether it stays.
"""


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the rows of a suite are read, and what is made of the scores of their options.

    Attributes:
        columns: What every row must have.
        options: The options of a row; raises ``ValueError`` for a faulty one.
        labels: What items say of a row besides scores, from the task's name, the row and its number from 0.
        scores: What items say of the (options,) scores and token counts of each row.
        group: Of the task in rows; None: the phenomenon, where its pairs have one, else the task's name.
        metrics: Of the items, in percent.
        compares_tokens: Whether items say in how many tokens both options differ.
    """

    columns: tuple[str, ...]
    options: Callable[[dict], Options]
    labels: Callable[[str, dict, int], dict[str, object]]
    scores: Callable[[Sequence[np.ndarray], Sequence[list[int]]], dict[str, object]]
    group: str | None = None
    metrics: Callable[[pd.DataFrame], dict[str, float]]
    compares_tokens: bool = False


class Item(NamedTuple):
    """One item of a task: what tables say of it, and its options."""

    labels: dict[str, object]
    options: Options


@dataclass(frozen=True)
class ChoiceTask(TextTask):
    """Items whose options are compared; ``load_rows`` gives rows with the columns of ``form``."""

    form: Form = field(default_factory=lambda: PAIRS, compare=False)

    def all_options(self) -> list[tuple[str, str]]:
        """Return the options of all items, one after the other."""
        return [option for item in read_items(self) for option in item.options]

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        items, form = read_items(self), self.form
        tell(f"{len(items)} items")
        options = self.all_options()
        scored = scorer.score_continuations(options)
        ends = list(pairwise(accumulate((len(item.options) for item in items), initial=0)))
        scores = form.scores(
            [scored.log_likelihood[start:end] for start, end in ends],
            [scored.num_tokens[start:end] for start, end in ends],
        )
        if form.compares_tokens:
            scores["num_tokens_differing"] = _differing(options, scorer)
        labels = pd.DataFrame([item.labels for item in items])
        table = pd.DataFrame({"suite": self.suite, "task": self.name, **labels, **scores})
        return self.result(form.group or phenomenon_of(table), form.metrics(table), table)


# A study asks for the same items once a run, all 67 paradigms of BLiMP being 30 MB.
@lru_cache(maxsize=256)
def read_items(task: ChoiceTask) -> tuple[Item, ...]:
    """Read a task's items; those left out by ``max_items`` are checked too.

    Raises:
        UsageError: For a row that does not fit the form; names the row.
    """
    items = []
    for index, row in enumerate(task.load_rows()):
        try:
            items.append(Item(task.form.labels(task.name, row, index), task.form.options(row)))
        except ValueError as error:
            raise UsageError(f"{task.suite}/{task.name}, row {index + 1}: {error}") from None
    return tuple(evenly_spaced(items, task.max_items))


def _pair(*columns: str) -> Callable[[dict], Options]:
    """Make what reads two options of a row: columns of context and continuation in turns, "" for none."""

    def options(row: dict) -> Options:
        for column in filter(None, columns):
            _check_text(row, column)
        texts = [row[column] if column else "" for column in columns]
        return (texts[0], f" {texts[1]}"), (texts[2], f" {texts[3]}")

    return options


def _check_text(row: dict, column: str) -> None:
    if not _is_text(row[column]):
        raise ValueError(f"{column} is not a text: {row[column]!r}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _listed_options(row: dict) -> Options:
    """Read the options of entity tracking, which a row lists, the right one first."""
    options = row["options"]
    if not (isinstance(options, list) and len(options) >= 2 and all(map(_is_text, options))):
        raise ValueError(f"options must be two or more texts, not {options!r}")
    _check_text(row, "input_prefix")
    if not isinstance(row["numops"], int):
        raise ValueError(f"numops is not a whole number: {row['numops']!r}")
    return tuple((row["input_prefix"], option) for option in options)


def _two_texts(row: dict) -> list[str]:
    texts = str(row["sentences"]).split("\t")
    if len(texts) != 2 or not all(map(_is_text, texts)):
        raise ValueError(f"sentences must be two texts with a tab between: {row['sentences']!r}")
    return texts


def _human_preference(row: dict) -> float:
    """Read the share of people who prefer the first text."""
    try:
        ratio = float(row["ratio"])
    except (TypeError, ValueError):
        ratio = float("nan")
    if not 0 <= ratio <= 1:
        raise ValueError(f"ratio is not a number from 0 to 1: {row['ratio']!r}")
    return ratio


def _pair_labels(task: str, row: dict, index: int) -> dict[str, object]:
    # The `pair_ID` of one supplement task repeats; there the row number is the id.
    ids = (row[key] for key in ("pairID", "pair_id") if row.get(key) is not None)
    return {
        "phenomenon": phenomenon_name(str(row.get("linguistics_term") or task)),
        "paradigm": str(row.get("UID") or task),
        "pair_id": str(next(ids, index)),
    }


def _wug_labels(task: str, row: dict, index: int) -> dict[str, object]:
    first, second = _two_texts(row)
    texts = {"text_first": first, "text_second": second}
    return {"item_id": str(index), **texts, "human_preference": _human_preference(row)}


def _entity_labels(task: str, row: dict, index: int) -> dict[str, object]:
    return {"item_id": str(row.get("example_id", index)), "num_operations": row["numops"]}


def _compare_two(
    names: tuple[str, str], scores: Sequence[np.ndarray], num_tokens: Sequence[list[int]]
) -> dict[str, np.ndarray]:
    (first, second), counts = np.array(scores).T, np.array(num_tokens)
    return {
        f"score_{names[0]}": first,
        f"score_{names[1]}": second,
        "margin": first - second,
        f"num_tokens_{names[0]}": counts[:, 0],
        f"num_tokens_{names[1]}": counts[:, 1],
        "tie": first == second,
    }


def score_pairs(scores: Sequence[np.ndarray], num_tokens: Sequence[list[int]]) -> dict[str, object]:
    """Compare both options of each pair: the good one's score must be higher; a tie counts one half."""
    columns = _compare_two(("good", "bad"), scores, num_tokens)
    return {**columns, "correct": (columns["margin"] > 0) + 0.5 * columns["tie"]}


def score_preferences(scores: Sequence[np.ndarray], num_tokens: Sequence[list[int]]) -> dict[str, object]:
    """Say how much of a softmax over both scores falls on the first."""
    columns = _compare_two(("first", "second"), scores, num_tokens)
    return {**columns, "preference": preference(columns["score_first"], columns["score_second"])}


def score_options(scores: Sequence[np.ndarray], num_tokens: Sequence[list[int]]) -> dict[str, object]:
    """Compare the first option of each item with all others."""
    return {
        "num_options": [len(values) for values in scores],
        "scores": [values.tolist() for values in scores],
        "num_tokens": list(num_tokens),
        "margin": [values[0] - values[1:].max() for values in scores],
        "prediction": [int(values.argmax()) for values in scores],
        "tie": [bool((values[1:] == values[0]).any()) for values in scores],
        "correct": [credit(values) for values in scores],
    }


def credit(scores: np.ndarray) -> float:
    """Return 1 where the first score is the highest, 0 where another one is, and its share in a tie."""
    best = scores == scores.max()
    return float(best[0]) / int(best.sum())


def preference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return how much of a softmax over both scores falls on the first, in float32 as the pipeline does.

    Where a model is sure, float32 rounds to 1 and such items share a rank.
    """
    margin = (first - second).astype(np.float32)
    return 1 / (1 + np.exp(-margin))


def accuracy_and_ties(items: pd.DataFrame) -> dict[str, float]:
    """Return the share of items that are right, and, where there are any, of those that tie, in percent."""
    ties = 100 * float(items["tie"].mean())
    return {"accuracy": 100 * float(items["correct"].mean()), **({"ties": ties} if ties else {})}


def entity_metrics(items: pd.DataFrame) -> dict[str, float]:
    """Return the share of items that are right, and the BabyLM 2025 score, in percent.

    The BabyLM score is the mean over the numbers of operations (0 to 5), each counting the same.
    """
    by_operations = items.groupby("num_operations")["correct"].mean()
    return {**accuracy_and_ties(items), "accuracy_by_operations": 100 * float(by_operations.mean())}


def wug_metrics(items: pd.DataFrame) -> dict[str, float]:
    """Return Spearman's correlation of a model's preferences with people's, times 100.

    Raises:
        UsageError: If all preferences are equal.
    """
    preferences, human = items["preference"], items["human_preference"]
    if preferences.nunique() < 2 or human.nunique() < 2:
        raise UsageError(
            f"{items['suite'][0]}/{items['task'][0]}: all {len(items)} preferences are equal, which "
            "correlates with nothing; score more items (--max-pairs), or look at the model"
        )
    from scipy.stats import spearmanr  # takes half a second

    return {"spearman_correlation": 100 * float(spearmanr(preferences, human).statistic)}


def _differing(options: Options | list[tuple[str, str]], scorer: TextScorer) -> list[int]:
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


def _conditional_pairs(suite: str, *columns: str) -> Form:
    return Form(
        columns=tuple(dict.fromkeys(columns)),
        options=_pair(*columns),
        labels=lambda task, row, index: {"pair_id": str(index)},
        scores=score_pairs,
        group=suite,
        metrics=accuracy_and_ties,
    )


PAIR_COLUMNS = ("sentence_good", "sentence_bad")
PAIRS = Form(
    columns=PAIR_COLUMNS,
    options=_pair("", "sentence_good", "", "sentence_bad"),
    labels=_pair_labels,
    scores=score_pairs,
    metrics=accuracy_and_ties,
    compares_tokens=True,
)
WUGS = Form(
    columns=("sentences", "ratio"), options=lambda row: tuple(("", f" {text}") for text in _two_texts(row)),
    labels=_wug_labels, scores=score_preferences, group="morphology", metrics=wug_metrics,
)  # fmt: skip
FORMS: dict[str, Form] = {
    "ewok": _conditional_pairs("ewok", "Context1", "Target1", "Context1", "Target2"),
    "comps": _conditional_pairs(
        "comps", "prefix_acceptable", "property_phrase", "prefix_unacceptable", "property_phrase"
    ),
    "entity-tracking": Form(
        columns=("input_prefix", "options", "numops"), options=_listed_options, labels=_entity_labels,
        scores=score_options, group="entity_tracking", metrics=entity_metrics,
    ),
    "wug": WUGS,
    "wug-past": WUGS,
}  # fmt: skip
"""Of suites that are no plain ``PAIRS``."""

FILES_2025: dict[str, tuple[str, ...]] = {
    "blimp-filtered": ("blimp_filtered",),
    "blimp-supplement": ("supplement_filtered", "supplement_fast"),
    "ewok": ("ewok_filtered", "ewok_fast"),
    "comps": ("comps/comps_{task}",),
    "entity-tracking": ("entity_tracking_{task}", "entity_tracking/{task}"),
    "wug": ("{task}", "{task}/{task}"),
    "wug-past": ("{task}", "{task}/{task}"),
}
"""Below ``babylm25_dir``: a folder with a file for each task, or with ``{task}`` the file, any of these."""
_FILE_NAMES = {"wugs_dist_before": "wugs_dist-before", "wugs_dist_in_between": "wugs_dist-in-between"}
"""Of tasks that files spell otherwise."""
HUB_BLIMP = "nyu-mll/blimp"
HUB_BLIMP_REVISION = "877fba0801ffb7cbd8c39c1ff314a46f053f6036"
"""Pinned, so that a change on the hub cannot change a score."""
BLIMP_FOLDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "blimp": (("full", "blimp"),),
    "babylm23": (("filtered", "blimp_filtered"), ("supplement", "supplement_filtered")),
}
"""Below ``blimp_dir``; the second name is that of the BabyLM 2023 pipeline's filter-data."""


def _file_tasks(suite: str, files: dict[str, Path], config: EvalConfig) -> list[TextTask]:
    """Make the tasks whose items are the rows of files, JSON Lines."""
    form = FORMS.get(suite, PAIRS)
    rows = {name: partial(read_rows, path, form.columns) for name, path in files.items()}
    return [
        ChoiceTask(suite, name, fingerprint([path]), rows[name], config.max_pairs, form)
        for name, path in files.items()
    ]


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of a suite that BabyLM 2025 has a file each.

    Raises:
        UsageError: If their data are absent.
    """
    folder, names = data_folder(suite, config), FILES_2025[suite]
    if "{task}" in names[0]:
        files = {task: _find_file(folder, suite, task, names) for task in SUITES[suite].tasks}
        return _file_tasks(suite, files, config)
    path = find_data(folder, suite, *names)
    files = list_data_files(path) if path.is_dir() else {}
    if not files:
        raise UsageError(f"{path} must be a folder with a .jsonl file for each task of {suite}")
    return _file_tasks(suite, files, config)


def _find_file(folder: Path, suite: str, task: str, names: tuple[str, ...]) -> Path:
    path = find_data(folder, suite, *(name.format(task=_FILE_NAMES.get(task, task)) for name in names))
    if path.is_dir():
        (path, *others) = list_data_files(path).values()
        if others:
            raise UsageError(f"{path.parent} holds several data files; {suite} has one")
    return path


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
