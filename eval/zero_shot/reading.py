"""Reading times (de Varda et al. 2023, https://doi.org/10.3758/s13428-023-02261-8) as in BabyLM 2025.

How much better does a model's surprisal predict how long people read a word than its frequency, length and
place do? Two linear regressions of the time are fitted, without the surprisal and with it, and the score is
the share of the variance that the first leaves unexplained and the second explains:
100 (R2 - R2_baseline) / (1 - R2_baseline).

- ``eye-tracking``: the mean over four measures. The baseline has log frequency, length, number of words
  before, and the products of any two of them.
- ``self-paced``: self-paced reading, where what was hard before still slows the reader. The baseline has the
  length and the surprisal of the previous word too, and all products of two.

The items are those of one file. ``eval.scoring.scorers.TextScorer.surprisals`` gives the surprisals; a masked
model finds three masks in the place of each token, as in the pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.progress import Tell
from eval.config import EvalConfig
from eval.files import fingerprint
from eval.suites.registry import SUITES
from eval.zero_shot.babylm25 import data_folder, find_table
from eval.zero_shot.task import TaskResult, TextTask, evenly_spaced

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

EYE_TRACKING = ("RTfirstfix", "RTfirstpass", "RTgopast", "RTrightbound")
SELF_PACED = "self_paced_reading_time"
OF_WORD = ("Subtlex_log10", "length", "context_length")
OF_PREVIOUS = ("prev_length", "prev_surprisal")
TEXTS = ("item", "word", "prev_item", "prev_word")
NUMBERS = (*OF_WORD, "prev_length", *EYE_TRACKING, SELF_PACED)
NUM_MASKS = 3
EMPTY = ("", "NA", "NaN", "nan")
"""What stands for no number."""


@dataclass(frozen=True)
class ReadingTask(TextTask):
    """Words, what stands before them and how long they are read; ``read`` gives ``TEXTS``, ``NUMBERS``."""

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        words = read_words(self)
        tell(f"{len(words)} words")
        with_previous = np.array([bool(text) for text in words["prev_item"]])
        own = pairs_of(words, "item", "word")
        previous = pairs_of(words[with_previous], "prev_item", "prev_word")
        found = scorer.surprisals([*own, *previous], NUM_MASKS)
        before = np.full(len(words), np.nan)
        before[with_previous] = found[len(own) :]
        items = pd.DataFrame(
            {
                "suite": self.suite,
                "task": self.name,
                "item_id": [str(number) for number in range(len(words))],
                "surprisal": found[: len(own)],
                "prev_surprisal": before,
                **{name: words[name].to_numpy() for name in NUMBERS},
            }
        )
        return self.result(self.suite, {"variance_explained": variance_explained(self.name, items)}, items)

    def num_items(self) -> int:
        return len(read_words(self))

    def texts(self) -> list[str]:
        words = read_words(self)
        return ["".join(pair) for pair in pairs_of(words, "item", "word")]


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List both tasks, of one file.

    Raises:
        UsageError: If it is absent.
    """
    path = find_table(data_folder(suite, config), suite, "reading/reading_data.csv")
    source, read = fingerprint([path]), partial(read_table, path)
    return [ReadingTask(suite, name, source, read, config.max_pairs) for name in SUITES[suite].tasks]


def pairs_of(words: pd.DataFrame, context: str, word: str) -> list[tuple[str, str]]:
    """Return (context, word) of the columns of these names, with one space between, before the word."""
    texts = zip(words[context].tolist(), words[word].tolist(), strict=True)
    stripped = [(before.rstrip(), own.strip()) for before, own in texts]
    return [(before, f" {own}" if before else own) for before, own in stripped]


def variance_explained(task: str, items: pd.DataFrame) -> float:
    """Return in percent what surprisal explains of what the baseline leaves, for one of the tasks.

    Raises:
        UsageError: If too few words have all that the regression needs, or the baseline leaves nothing.
    """
    if task == "eye-tracking":
        return float(np.mean([gain(items, measure, OF_WORD) for measure in EYE_TRACKING]))
    return gain(items, SELF_PACED, (*OF_WORD, *OF_PREVIOUS))


def gain(items: pd.DataFrame, measure: str, predictors: Sequence[str]) -> float:
    """Return 100 (R2 - R2_baseline) / (1 - R2_baseline) of one measure.

    Args:
        items: Words with the measure, the predictors and ``surprisal``; those without one of them are left
            out.
        measure: What is predicted.
        predictors: Of the baseline, which has their products, too.

    Raises:
        UsageError: As ``variance_explained``.
    """
    whole = items[[measure, *predictors, "surprisal"]].dropna().to_numpy(dtype=np.float64)
    time, base, surprisal = whole[:, 0], whole[:, 1:-1], whole[:, -1:]
    # R2 is the same for any scale; of numbers near 1 the products keep all digits.
    scaled = (base - base.mean(0)) / np.maximum(base.std(0), 1e-12) if len(base) else base
    products = [scaled[:, [a]] * scaled[:, [b]] for a, b in combinations(range(base.shape[1]), 2)]
    design = np.hstack([np.ones((len(base), 1)), scaled, *products])
    needed = design.shape[1] + 2
    if len(whole) < needed:
        raise UsageError(
            f"reading: {len(whole)} words have {measure} and all that it is predicted from, and the "
            f"regression needs {needed} or more; score more words (--max-pairs)"
        )
    left, left_with = _residual(design, time), _residual(np.hstack([design, surprisal]), time)
    if left <= 1e-12 * max(1.0, float(((time - time.mean()) ** 2).sum())):
        raise UsageError(
            f"reading: without surprisal nothing of {measure} is left to explain; see its column"
        )
    return 100 * (left - left_with) / left


def _residual(design: np.ndarray, values: np.ndarray) -> float:
    """Return the sum of squares that least squares leaves; (N, P) and (N,)."""
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def read_table(path: Path) -> list[dict]:
    """Read the file of reading times; an empty cell of a number is NaN.

    Raises:
        UsageError: Names the file, and the row or the column at fault.
    """
    try:
        # A sentence may begin with "None", which pandas takes for an empty cell.
        table = pd.read_csv(StringIO(path.read_text(encoding="utf-8")), dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from None
    for name in (*TEXTS, *NUMBERS):
        if name not in table:
            present = ", ".join(map(str, table.columns[:20]))
            raise UsageError(f"{path}: no column {name!r}; it has {present}")
    if table.empty:
        raise UsageError(f"{path} holds no rows; expected a word a row")
    for name in NUMBERS:
        cells = table[name].str.strip()
        values = pd.to_numeric(cells, errors="coerce").replace([np.inf, -np.inf], np.nan)
        if (wrong := values.isna() & ~cells.isin(EMPTY)).any():
            row = int(np.flatnonzero(wrong)[0])
            raise UsageError(f"{path}, row {row + 1}: {name} is not a number: {cells[row]!r}")
        table[name] = values.astype(float)
    for name in ("word", "prev_word"):
        needs = table["word"].str.strip() == "" if name == "word" else table["prev_item"].str.strip() != ""
        if (wrong := needs & (table[name].str.strip() == "")).any():
            raise UsageError(f"{path}, row {int(np.flatnonzero(wrong)[0]) + 1}: {name} is empty")
    return table[[*TEXTS, *NUMBERS]].to_dict("records")


@lru_cache(maxsize=4)
def read_words(task: ReadingTask) -> pd.DataFrame:
    """Read a task's words, a row each; not to be changed.

    Raises:
        UsageError: As ``read_table``.
    """
    return pd.DataFrame(evenly_spaced(task.read(), task.max_items))
