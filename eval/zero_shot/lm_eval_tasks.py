"""Any task of lm-eval that asks for log-likelihoods, by its name, as in ``--tasks arc_easy``.

A name is that of a task, a group or a tag, of lm-eval's own or in the folders of ``--include-path``. Each
name is a benchmark of its own, ``lm-eval-<name>``, since tasks of different chance levels do not average.
This module alone imports lm-eval; it is imported where such a task is asked for.
lm-eval has no masked models, and its causal one runs the head on every position; so it asks a scorer here.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import datasets
import pandas as pd
from lm_eval.api import task as task_module
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.task import Task
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager

from base.errors import UsageError, first_line
from base.hub import cannot_load, how_silent
from base.printing import Tell
from eval.config import EvalConfig
from eval.scoring.scorers import TextScorer
from eval.zero_shot.text_task import TaskResult, evenly_spaced
from pretrain.data.embedded.paradigms import PARADIGMS
from scores.lm_eval_metrics import CHOICE_METRICS, metrics_of
from scores.rows import primary_metric
from scores.suites import HARNESS_PREFIX, SUITES

SCORED_TYPES = ("loglikelihood", "multiple_choice", "loglikelihood_rolling")


@dataclass(frozen=True)
class HarnessTask:
    """What was asked for by one name: all tasks behind it, which are measured one by one.

    Attributes:
        requested: The name of a task, a group or a tag.
        name: One task of it.
        include_path: Folders with further task files.
        source: A fingerprint of the task's settings and documents.
        max_items: Score only so many documents, evenly spaced; None takes all.
    """

    requested: str
    name: str
    include_path: tuple[Path, ...]
    source: str
    max_items: int | None

    @property
    def suite(self) -> str:
        """Its benchmark in rows."""
        return HARNESS_PREFIX + self.requested

    def guess(self) -> dict[str, float]:
        """Return what preferring any choice alike scores, by metric in percent; empty without choices."""
        task = self._task()
        # How a task counts right answers that does so by code of its own is not known.
        if task.OUTPUT_TYPE != "multiple_choice" or callable(task.config.process_results):
            return {}
        docs: list[Any] = list(task.eval_docs)
        share = fmean(_share_right(task, docs[index]) for index in self._indices())
        return dict.fromkeys(CHOICE_METRICS, 100 * share)

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        """Let lm-eval evaluate the task.

        Raises:
            UsageError: For a text that cannot be scored, or a score that is not finite.
        """
        task, indices = self._task(), self._indices()
        tell(f"{len(indices)} documents")
        model = LMEvalModel(scorer)
        with _silence():
            results = evaluate(
                model, {self.name: task}, samples={self.name: indices}, bootstrap_iters=0, log_samples=True
            )
        is_masked = scorer.protocol.score == "pseudo-log-likelihood"
        metrics = metrics_of(results["results"][self.name], is_masked)
        items = [self._item(sample, scorer) for sample in results["samples"][self.name]]
        primary = primary_metric(self.name, metrics)
        return TaskResult(self.requested, metrics, pd.DataFrame(items), primary, self.guess())

    def _task(self) -> Task:
        return _load(self.requested, self.include_path)[self.name]

    def _indices(self) -> list[int]:
        return evenly_spaced(list(range(len(self._task().eval_docs))), self.max_items)

    def _item(self, sample: dict[str, Any], scorer: TextScorer) -> dict[str, Any]:
        scores = [
            response[0] if isinstance(response, tuple) else response for response in sample["filtered_resps"]
        ]
        pairs = tuple((str(a[0]), str(a[1])) for a in sample["arguments"] if len(a) == 2)
        measured = {
            name: sample[name] for name in sample["metrics"] if isinstance(sample[name], (int, float))
        }
        return {
            "suite": self.suite,
            "task": self.name,
            "item_id": str(sample["doc_id"]),
            "filter": sample["filter"],
            "target": str(sample["target"]),
            "scores": [float(score) for score in scores],
            "num_tokens": [text.end - text.start for text in scorer.encode(pairs)],
            **{f"metric_{name}": float(value) for name, value in measured.items()},
        }


def _share_right(task: Any, doc: dict[str, Any]) -> float:
    """Return the share of a document's choices that count as right: several may."""
    right = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    return (len(set(right)) if isinstance(right, list) else 1) / len(task.doc_to_choice(doc))


def find_harness_tasks(config: EvalConfig) -> list[HarnessTask]:
    """List the tasks behind the names in ``config.tasks``; their documents are loaded.

    Raises:
        UsageError: For a name that does not exist, data that cannot be loaded, or a task that has the model
            write text.
    """
    return [
        HarnessTask(
            requested,
            name,
            config.include_path,
            _source(requested, config.include_path, name),
            config.max_pairs,
        )
        for requested in dict.fromkeys(config.tasks)
        for name in _load(requested, config.include_path)
    ]


@lru_cache(maxsize=64)
def _load(requested: str, include_path: tuple[Path, ...]) -> dict[str, Task]:
    for folder in include_path:
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}; --include-path names folders with task files of lm-eval")
    with _silence():
        manager = _manager(include_path, include_defaults=False)
        if requested not in manager.task_index:
            manager = _manager(include_path, include_defaults=True)
        if requested not in manager.task_index:
            raise _unknown_task(requested, manager.all_tasks)
        try:
            loaded = manager.load([requested])["tasks"]
        except Exception as error:  # datasets, the hub and a task's own code raise many kinds
            if how_silent(error):
                advice = f"give --suites {requested}" if requested in SUITES else "leave it out"
                raise cannot_load(f"cannot load lm-eval's task {requested}", error, advice) from error
            reason = f"{type(error).__name__}: {first_line(error)}; it may need the network, once"
            raise UsageError(f"lm-eval's task {requested} cannot be loaded: {reason}") from error
    for name, task in loaded.items():
        if task.OUTPUT_TYPE not in SCORED_TYPES:
            raise UsageError(
                f"lm-eval's task {name} has the model write text ({task.OUTPUT_TYPE}), which these models do "
                f"not; choose tasks of the output types {', '.join(SCORED_TYPES)}"
            )
    return loaded


@lru_cache(maxsize=8)
def _manager(include_path: tuple[Path, ...], include_defaults: bool) -> Any:
    # Without lm-eval's own 10,000 task files it is there at once, with them after some 6 s.
    return TaskManager(include_path=list(include_path), include_defaults=include_defaults)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep lm-eval from logging a line for every task, and it and datasets from drawing bars into ours."""
    logger, bar = logging.getLogger("lm_eval"), task_module.tqdm
    level, has_bars = logger.level, datasets.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    task_module.tqdm = partial(bar, disable=True)  # type: ignore[assignment]  # there is no argument for it
    try:
        yield
    finally:
        logger.setLevel(level)
        task_module.tqdm = bar
        if has_bars:
            datasets.enable_progress_bars()


def _unknown_task(name: str, available: Sequence[str]) -> UsageError:
    close = difflib.get_close_matches(name, available, n=5)
    hint = f"did you mean {', '.join(map(repr, close))}?" if close else "no name is like it;"
    hint = f"did you mean --suites {name}?" if name in SUITES else hint
    if any(name == each.uid for each in PARADIGMS):
        hint = "a part of --suites embedded-pairs is scored with all of it;"
    return UsageError(
        f"unknown lm-eval task {name!r}; {hint} `lm_eval ls tasks` lists all {len(available):,}, and "
        "--include-path adds folders with your own"
    )


@lru_cache(maxsize=4096)
def _source(requested: str, include_path: tuple[Path, ...], name: str) -> str:
    """Fingerprint a task's documents and settings, but not where its files lie."""
    task = _load(requested, include_path)[name]
    settings = {k: v for k, v in task.dump_config().items() if k not in ("dataset_kwargs", "metadata")}
    digest = hashlib.sha256(json.dumps([settings, str(task.VERSION)], sort_keys=True, default=str).encode())
    for doc in task.eval_docs:
        digest.update(json.dumps(doc, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:16]


class LMEvalModel(LM):
    """Answers lm-eval's requests with a scorer's scores, in the order of the requests."""

    def __init__(self, scorer: TextScorer) -> None:
        super().__init__()
        self.scorer = scorer
        self._device = scorer.model.device

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Score each request's continuation given its context; errors are those of the scorer."""
        pairs = [(context, continuation) for context, continuation in (r.args for r in requests)]
        scores = self.scorer.score_continuations(pairs)
        return list(zip(scores.log_likelihood.tolist(), scores.is_greedy.tolist(), strict=True))

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Score whole documents, in nats: each token once, in lm-eval's windows of the model's positions.

        lm-eval divides by words and bytes itself. For masked models it is the
        pseudo-log-likelihood, and what lm-eval calls perplexity is then the pseudo-perplexity.
        """
        documents = self.scorer.score_documents([str(request.args[0]) for request in requests])
        return [document.log_likelihood for document in documents]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise UsageError(
            "these models score text and do not write any; choose tasks of the output types loglikelihood, "
            "multiple_choice or loglikelihood_rolling"
        )
