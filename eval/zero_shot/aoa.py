"""Age of acquisition as in BabyLM 2025: does a model learn words in the order in which children do?

At every checkpoint of a training the surprisal of words is measured, each in several contexts. A fitted curve
says when a word was learned (``eval.zero_shot.acquisition``), and the score is Pearson's correlation with the
age at which children learn it, times 100.

A word is learned half way from the surprisal at chance, the logarithm of the model's vocabulary, to its
lowest one. The pipeline takes log2(300,000) = 18.2 for every model, although its surprisals are in nats: of
models of small vocabularies words start below that half way, and no place is found.
``leaderboard_correlation`` is as the pipeline has it. Both are 0 for fewer than three words, as there;
``words_fitted`` says of how many words the primary one is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import pearsonr

from base.errors import UsageError, shown
from base.json_text import read_json
from base.progress import Tell
from eval.config import EvalConfig
from eval.files import fingerprint
from eval.suites.registry import FEWEST_CHECKPOINTS, SUITES
from eval.zero_shot.acquisition import age_of_child, age_of_model
from eval.zero_shot.babylm25 import data_folder, find_table
from eval.zero_shot.task import TaskResult, TextTask, evenly_spaced
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import read_completion

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

LEADERBOARD_CHANCE = math.log2(300_000)
AGES = range(16, 31)
"""Months."""
FEWEST_WORDS = 3


@dataclass(frozen=True)
class Word:
    """A word, the contexts that it is expected in, and by age the share of children who know it.

    ``shares`` is empty for a word of which nothing is known of children; it is scored and not correlated.
    """

    word: str
    contexts: tuple[str, ...]
    ages: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class AoaTask(TextTask):
    """Words in contexts, scored at every checkpoint of a run; ``read`` gives the fields of ``Word``.

    Attributes:
        run_dir: The run, whose checkpoints are scored.
    """

    run_dir: Path | None = field(default=None, compare=False)

    @property
    def checkpoints(self) -> dict[int, Path | None]:
        """As ``trained_states`` gives them; none where no run is at hand."""
        return {} if self.run_dir is None else trained_states(self.run_dir)

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        words, checkpoints = read_words(self), self.checkpoints
        if len(checkpoints) < FEWEST_CHECKPOINTS:
            raise UsageError(
                f"{self.suite} needs {FEWEST_CHECKPOINTS} or more checkpoints, the trained model as one, and "
                f"{self.run_dir} kept {len(checkpoints)}; train with --train.save-total-limit 100 and "
                "--train.save-steps a twentieth of the run or so"
            )
        pairs = pairs_of(words)
        tell(f"{len(pairs)} words in contexts at {len(checkpoints)} checkpoints")
        parts = []
        for number, (step, path) in enumerate(checkpoints.items(), start=1):
            tell(f"checkpoint {number} of {len(checkpoints)}")
            then = scorer if path is None else scorer.at_checkpoint(path)
            surprisal = then.surprisals(pairs)
            parts.append(_index(words).assign(step=step, surprisal=surprisal))
        items = pd.concat(parts, ignore_index=True)
        items.insert(0, "task", self.name)
        items.insert(0, "suite", self.suite)
        metrics = correlations(words, items, scorer.chance_surprisal)
        return self.result(self.suite, metrics, items)

    def num_items(self) -> int:
        return len(pairs_of(read_words(self))) * max(1, len(self.checkpoints))

    def texts(self) -> list[str]:
        return ["".join(pair) for pair in pairs_of(read_words(self))]


def trained_states(run_dir: Path) -> dict[int, Path | None]:
    """Return by step the checkpoints that a run kept, the oldest first.

    None stands for the trained model, at the end of the training, where that step has no checkpoint.
    """
    run = RunFolder(run_dir)
    completion = read_completion(run)
    end = completion.results.get("step") if completion else None
    states: dict[int, Path | None] = {end: None} if isinstance(end, int) else {}
    return dict(sorted({**states, **run.checkpoints}.items()))


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the one task.

    Raises:
        UsageError: If its data are absent.
    """
    (name,) = SUITES[suite].tasks
    folder = data_folder(suite, config)
    contexts = find_table(folder, suite, "aoa/cdi_childes.json", "cdi_childes/cdi_childes.json")
    children = find_table(folder, suite, "aoa/cdi_human.csv", "cdi_childes/cdi_human.csv")
    source, read = fingerprint([contexts, children]), partial(_read, contexts, children)
    task = AoaTask(suite, name, source, read, config.max_pairs)
    return [replace(task, run_dir=run_dir)]


def correlations(words: Sequence[Word], items: pd.DataFrame, own_chance: float) -> dict[str, float]:
    """Correlate when a model and when children learn words.

    Args:
        words: With what is known of children.
        items: Columns word, step (ascending) and surprisal.
        own_chance: The surprisal of any token to whoever knows nothing, in nats.
    """
    children = {word.word: age_of_child(word.ages, word.shares) for word in words if word.shares}
    of_word: dict[str, pd.DataFrame] = dict(list(items.groupby("word", sort=False)))  # type: ignore[arg-type]
    own, count = _correlation(children, of_word, own_chance)
    published, _ = _correlation(children, of_word, LEADERBOARD_CHANCE)
    return {
        "pearson_correlation": own,
        "leaderboard_correlation": published,
        "words_fitted": float(count),
    }


def _correlation(
    children: dict[str, float | None], of_word: dict[str, pd.DataFrame], chance: float
) -> tuple[float, int]:
    """Return the correlation times 100 and of how many words it is; 0 for too few, or where all are alike."""
    both = [
        (model, child)
        for word, child in children.items()
        if child is not None
        and (model := age_of_model(of_word[word]["step"], of_word[word]["surprisal"], chance)) is not None
    ]
    if len(both) < FEWEST_WORDS or (np.ptp(np.array(both), axis=0) == 0).any():
        return 0.0, len(both)
    return 100 * float(pearsonr(*np.array(both).T).statistic), len(both)


def pairs_of(words: Sequence[Word]) -> list[tuple[str, str]]:
    """Return (context, word) for every word in every context, one space between."""
    return [
        (context.strip(), f" {word.word.strip()}" if context.strip() else word.word.strip())
        for word in words
        for context in word.contexts
    ]


def _index(words: Sequence[Word]) -> pd.DataFrame:
    places = [(word.word, number) for word in words for number in range(len(word.contexts))]
    return pd.DataFrame(places, columns=["word", "context_id"])


def _read(contexts: Path, children: Path) -> list[dict]:
    known = _read_children(children)
    words = [
        {"word": word, "contexts": found, **known.get(word, {})}
        for word, found in _read_contexts(contexts).items()
        if len(word) > 1 and found
    ]
    if not words:
        raise UsageError(f"{contexts} has no word of two or more letters with a context")
    return words


def _read_contexts(path: Path) -> dict[str, tuple[str, ...]]:
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        raise UsageError(f"{path} must be a JSON object of words, each with a list of contexts")
    for word, found in content.items():
        is_list = isinstance(found, list) and all(isinstance(one, dict) for one in found)
        if not is_list or not all(isinstance(one.get("context"), str) for one in found):
            raise UsageError(f"{path}, word {shown(word)}: expected a list of objects with a text `context`")
    return {word: tuple(one["context"] for one in found) for word, found in content.items()}


def _read_children(path: Path) -> dict[str, dict]:
    try:
        table = pd.read_csv(path, dtype={"word": str}, keep_default_na=False, na_values=["", "NA", "NaN"])
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None
    ages = [age for age in AGES if str(age) in table]
    if "word" not in table or not ages:
        present = ", ".join(map(str, table.columns[:20]))
        raise UsageError(f"{path}: needs a column word and columns of months, 16 to 30; it has {present}")
    shares = table[[str(age) for age in ages]].apply(pd.to_numeric, errors="coerce")
    given = table[[str(age) for age in ages]].notna()
    if (wrong := (given & ~shares.apply(lambda column: column.between(0, 1))).any(axis=1)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise UsageError(f"{path}, row {row + 1}: not all ages have a share of children from 0 to 1")
    known: dict[str, dict] = {}
    for word, values in zip(table["word"], shares.to_numpy(dtype=float), strict=True):
        known.setdefault(word, {"ages": tuple(ages), "shares": tuple(values.tolist())})
    return known


@lru_cache(maxsize=4)
def read_words(task: AoaTask) -> tuple[Word, ...]:
    """Read a task's words.

    Raises:
        UsageError: For files that are not of the format; names the word or the row.
    """
    return tuple(Word(**row) for row in evenly_spaced(task.read(), task.max_items))
