"""The file of predictions that the BabyLM 2025 leaderboard takes, made of a run's stored items.

    {"blimp": {"adjunct_island": {"predictions": [{"id": "adjunct_island_0", "pred": "Who ..."}, ...]}, ...},
     "ewok": ..., "reading": {"reading": {"predictions": [{"id": 0, "pred": 5.1, "prev_pred": NaN}, ...]}},
     "aoa": {"metadata": {...}, "results": [{"step": "chck_1M", "target_word": "ball", ...}, ...]}, ...}

Items say which text was preferred, and the data say what it was. So the data are read again, and have to be
those that were scored. Of equal scores the first counts as preferred, as in the pipeline. ``docs/babylm.md``
says where the format was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from base.errors import UsageError
from eval.config import EvalConfig
from eval.results.ledger import Ledger, items_damage, look
from eval.suites.registry import SUITES
from eval.zero_shot import aoa, conditional_pairs, entity_tracking, minimal_pairs, wug
from eval.zero_shot.suites import find_suite_tasks
from eval.zero_shot.task import TextTask
from pretrain.run.folders import RunFolder

Prediction = tuple[str, dict[str, Any]]
"""The subtask that a prediction is of, and the prediction without its id."""
MILLION = 10**6
FAST = "fast_eval_results"
"""The key of what ``eval.runner.fast_scores`` adds."""


def _of_pairs(task: Any, items: pd.DataFrame) -> Iterator[Prediction]:
    pairs = minimal_pairs.read_pairs(task)
    texts = zip(pairs["sentence_good"], pairs["sentence_bad"], strict=True)
    for (good, bad), subtask, is_good in zip(texts, pairs["paradigm"], _is_first(items, "good"), strict=True):
        yield subtask, {"pred": good if is_good else bad}


def _of_targets(task: Any, items: pd.DataFrame) -> Iterator[Prediction]:
    pairs = conditional_pairs.read_pairs(task)
    for pair, is_good in zip(pairs, _is_first(items, "good"), strict=True):
        yield task.name, {"pred": (pair.good if is_good else pair.bad)[1]}


def _of_sentences(task: Any, items: pd.DataFrame) -> Iterator[Prediction]:
    pairs = conditional_pairs.read_pairs(task)
    for pair, is_good in zip(pairs, _is_first(items, "good"), strict=True):
        yield task.name, {"pred": pair.sentences[0 if is_good else 1]}


def _of_options(task: Any, items: pd.DataFrame) -> Iterator[Prediction]:
    for row, chosen in zip(entity_tracking.read_items(task), items["prediction"], strict=True):
        yield f"{task.name}_{row['numops']}_ops", {"pred": row["options"][chosen]}


def _of_wugs(key: str) -> Callable[[Any, pd.DataFrame], Iterator[Prediction]]:
    def predictions(task: Any, items: pd.DataFrame) -> Iterator[Prediction]:
        found = zip(
            wug.read_items(task), _is_first(items, "first", "second"), items["preference"], strict=True
        )
        for item, is_first, preference in found:
            yield key, {"pred": item.texts[0 if is_first else 1], "prob": float(preference)}

    return predictions


def _is_first(items: pd.DataFrame, first: str, second: str = "bad") -> np.ndarray:
    return (items[f"score_{first}"] >= items[f"score_{second}"]).to_numpy()


def _of_words(task: Any, items: pd.DataFrame) -> Iterator[Prediction]:
    for own, before in zip(items["surprisal"], items["prev_surprisal"], strict=True):
        yield "reading", {"pred": float(own), "prev_pred": float(before)}


@dataclass(frozen=True)
class Part:
    """What stands under one key of the file.

    Attributes:
        suite: Whose items it is made of.
        num_predictions: How many the leaderboard takes.
        predict: Makes the predictions of a task's items, in the order of its data.
        tasks: Only these of the suite; None takes all.
    """

    suite: str
    num_predictions: int
    predict: Callable[[Any, pd.DataFrame], Iterator[Prediction]]
    tasks: tuple[str, ...] | None = None


PARTS: dict[str, Part] = {
    "blimp": Part("blimp-filtered", 59_875, _of_pairs),
    "blimp_supplement": Part("blimp-supplement", 5_218, _of_pairs),
    "ewok": Part("ewok", 7_618, _of_targets),
    "entity_tracking": Part("entity-tracking", 9_483, _of_options),
    "wug_adj": Part("wug", 200, _of_wugs("wug_adj")),
    "wug_past": Part("wug-past", 50, _of_wugs("wug_past")),
    "comps": Part("comps", 91_028, _of_sentences),
    # Both tasks have the surprisals of the same words.
    "reading": Part("reading", 1_726, _of_words, ("self-paced",)),
}
"""By the keys of the file, in its order; ``aoa`` and ``glue`` follow."""
GLUE_TASKS = {
    "boolq": 1_635, "mnli": 4_908, "mrpc": 204, "multirc": 2_424, "qqp": 20_215, "rte": 139, "wsc": 52,
}  # fmt: skip
"""With the number of predictions that the leaderboard takes."""
AOA_PREDICTIONS = 8_005
"""At each checkpoint."""
AOA_WORDS = (*range(1, 10), *range(10, 101, 10), *range(200, 1001, 100))
"""Checkpoints that the leaderboard takes, in millions of words; the track of 10M words ends at 100."""


@dataclass
class Collected:
    """What a run's file holds.

    Attributes:
        content: The file.
        missing: By suite the tasks that it lacks.
        sizes: By key the number of predictions here and in the leaderboard's data, where they differ.
    """

    content: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def count(self, key: str, number: int, wanted: int) -> None:
        """Note how many predictions there are of how many."""
        if number != wanted:
            self.sizes[key] = number, wanted


def collect(run_dir: Path, data: Path | None, words: int | None = None) -> Collected:
    """Collect the predictions of a run.

    Args:
        run_dir: The run's folder.
        data: The evaluation data of BabyLM 2025 that it was scored on; None where only GLUE was.
        words: How many words its training saw in all, repeated ones each time; names the checkpoints of
            ``aoa``, which have the names of their folders without.

    Raises:
        UsageError: If there are no scores, the data are absent, or items are damaged.
    """
    run, config = RunFolder(run_dir), EvalConfig(suites=(), babylm25_dir=data)
    ledger, _ = look(run)
    if ledger is None:
        raise UsageError(
            f"{run_dir} has no scores of its texts; score it: ffn-ablations eval {run_dir} --suites ewok"
        )
    collected = Collected()
    for key, part in PARTS.items():
        done = _scored(run, ledger, part.suite, config, collected, part.tasks)
        if predictions := _numbered(key, (one for task, items in done for one in part.predict(task, items))):
            collected.content[key] = predictions
            count = sum(len(found["predictions"]) for found in predictions.values())
            collected.count(key, count, part.num_predictions)
    if words is not None:
        wanted = [seen for seen in AOA_WORDS if seen <= 100 or words > 100 * MILLION]
        collected.count("checkpoints", len(by_words(run_dir, words)), len(wanted))
    for task, items in _scored(run, ledger, "aoa", config, collected):
        collected.content["aoa"] = _acquisition(run, task, items, words)
        collected.count("aoa", len(items) // items["step"].nunique(), AOA_PREDICTIONS)
    if answers := _answers(run, ledger, collected):
        collected.content["glue"] = answers
    return collected


def _numbered(key: str, predictions: Iterable[Prediction]) -> dict[str, dict[str, list[dict]]]:
    """Put predictions under their subtasks, each with its id; those of reading are numbered alone."""
    found: dict[str, dict[str, list[dict]]] = {}
    for subtask, prediction in predictions:
        own = found.setdefault(subtask, {"predictions": []})["predictions"]
        name = len(own) if key == "reading" else f"{subtask}_{len(own)}"
        own.append({"id": name, **prediction})
    return found


def _scored(
    run: RunFolder,
    ledger: Ledger,
    suite: str,
    config: EvalConfig,
    collected: Collected,
    only: tuple[str, ...] | None = None,
) -> Iterator[tuple[TextTask, pd.DataFrame]]:
    """List the tasks of a suite that were scored whole on these data, with their items; note the others."""
    wanted = only or SUITES[suite].tasks
    if not any(name.startswith(f"{suite}/") for name in ledger.tasks):
        collected.missing[suite] = list(wanted)
        return
    items = _items_of(run, suite)
    found = {task.name: task for task in find_suite_tasks(suite, config)}
    for name in wanted:
        task, protocol = found.get(name), ledger.tasks.get(f"{suite}/{name}")
        is_whole = protocol and task and protocol.get("data") == task.source and not protocol.get("max_pairs")
        own = items[items["task"] == name]
        if not is_whole or task is None or own.empty:
            collected.missing.setdefault(suite, []).append(name)
            continue
        yield task, own


def _items_of(run: RunFolder, suite: str) -> pd.DataFrame:
    path, wrong = run.items_file(suite), items_damage(run, suite)
    try:
        if wrong is None:
            return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        wrong = f"cannot be read ({' '.join(str(error).split())[:100]})"
    raise UsageError(f"{path} {wrong}; score {suite} again: ffn-ablations eval {run.path} --suites {suite}")


def _acquisition(run: RunFolder, task: Any, items: pd.DataFrame, words: int | None) -> dict[str, Any]:
    contexts = {word.word: word.contexts for word in aoa.read_words(task)}
    steps = items["step"].unique().tolist()
    names: dict[int, tuple[str, int | None]] = {step: (f"step_{step:07d}", None) for step in steps}
    if words is not None:
        names = {step: (f"chck_{seen}M", seen * MILLION) for step, seen in by_words(run.path, words).items()}
    known = items[items["step"].isin(list(names))]
    rows = zip(known["step"], known["word"], known["context_id"], known["surprisal"], strict=True)
    results = [
        {
            "step": names[step][0],
            "word_count": names[step][1],
            "target_word": word,
            "context_id": int(context),
            "context": contexts[word][context],
            "surprisal": float(surprisal),
        }
        for step, word, context, surprisal in rows
    ]
    about = {"model_name": run.run_id, "use_bos_only": False}
    return {
        "metadata": {**about, "total_steps": len(names), "completed_steps": len(names)},
        "results": results,
    }


def by_words(run_dir: Path, words: int) -> dict[int, int]:
    """Return the steps of those checkpoints that the leaderboard takes, with the million words seen there.

    A checkpoint is one of them if it lies within 1% of it.

    Args:
        run_dir: The run.
        words: How many its training saw in all.

    Raises:
        UsageError: If there is none.
    """
    steps = list(aoa.trained_states(run_dir))
    seen = {step: step / max(steps) * words / MILLION for step in steps}
    found: dict[int, int] = {}
    for wanted in AOA_WORDS if steps else ():
        nearest = min(steps, key=lambda step: abs(seen[step] - wanted))
        if abs(seen[nearest] - wanted) <= 0.01 * wanted:
            found[nearest] = wanted
    if not found:
        raise UsageError(
            f"no checkpoint of {run_dir} lies at 1, 2, .. 10, 20, .. 100, 200, .. million words of "
            f"{words:,}; leave --words out, or save a checkpoint every million words"
        )
    return found


def _answers(run: RunFolder, ledger: Ledger, collected: Collected) -> dict[str, dict]:
    """Return what was answered in GLUE: under the first head that a task has, and with its first seed."""
    done = {name.split("/")[1]: name for name in reversed(ledger.tasks) if name.startswith("glue/")}
    if absent := [task for task in GLUE_TASKS if task not in done]:
        collected.missing["glue"] = absent
    items = _items_of(run, "glue") if done.keys() & GLUE_TASKS.keys() else pd.DataFrame()
    answers: dict[str, dict] = {}
    for task, wanted in GLUE_TASKS.items():
        if task in done:
            own = items[items["task"] == task]
            if "head" in own:
                own = own[own["head"].fillna("") == ledger.tasks[done[task]].get("head", "")]
            own = own[own["seed"] == own["seed"].min()].sort_values("idx")
            answers |= _numbered("glue", ((task, {"pred": int(one)}) for one in own["prediction"]))
            collected.count(f"glue {task}", len(own), wanted)
    return answers


def told(collected: Collected, run_dir: Path, data: Path | None) -> list[str]:
    """Say in a line each what is missing, with the command that scores it, and what has other sizes."""
    lines: list[str] = []
    if missing := collected.missing:
        named = [
            suite if set(tasks) >= set(_wanted(suite)) else f"{suite} ({', '.join(tasks)})"
            for suite, tasks in missing.items()
        ]
        of_texts = [suite for suite in missing if suite != "glue"]
        folder = data or "evaluation_data"
        flags = [f"--suites {' '.join(missing)}"]
        flags += [f"--protocol babylm25 --babylm25-dir {folder}"] if of_texts else []
        flags += [
            f"--finetune.preset babylm25 --finetune.tasks {' '.join(missing['glue'])} --glue-dir GLUE"
            for suite in missing
            if suite == "glue"
        ]
        lines.append(
            f"missing: {', '.join(named)}; score with: ffn-ablations eval {run_dir} {' '.join(flags)}"
        )
    if FAST not in collected.content:
        lines.append(f"{FAST}, scores of checkpoints on fast_eval, are not in it; --fast adds them")
    if collected.sizes:
        sizes = [f"{key} {own:,} of {wanted:,}" for key, (own, wanted) in collected.sizes.items()]
        lines.append(f"other numbers than the leaderboard takes: {', '.join(sizes)}")
    return lines


def _wanted(suite: str) -> Iterable[str]:
    only: Mapping[str, tuple[str, ...] | None] = {part.suite: part.tasks for part in PARTS.values()}
    return GLUE_TASKS if suite == "glue" else only.get(suite) or SUITES[suite].tasks


def summary(content: Mapping[str, Any]) -> str:
    """Return in one line how many predictions there are of each key."""
    counts: Counter[str] = Counter()
    for key, part in content.items():
        if key == FAST:
            counts[key] = len(next(iter(part.values()), ()))
            continue
        of_results = len(part.get("results", ()))
        counts[key] = of_results or sum(len(found["predictions"]) for found in part.values())
    return ", ".join(f"{key} {count:,}" for key, count in counts.items())
