"""Perplexity on held-out text, by default the documents that pretraining held out.

A document is scored in windows of the model's positions, each token once. Per token, so that only models of
one tokenizer compare, and in bits per byte of UTF-8, where others do too. A masked model has no perplexity:
its pseudo-perplexity (Salazar et al. 2020) takes each token given all others, and says so in its name. An
encoder-decoder has one of either kind, by the formulation of its protocol: its decoder writes a window as one
missing span, far longer than those of its training, or its tokens one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from base.errors import UsageError
from base.printing import Tell
from base.text.text_files import begins_as_jsonl, check_file, read_documents
from eval.config import EvalConfig
from eval.data_files import fingerprint
from eval.zero_shot.text_task import TaskResult, TextTask, evenly_spaced
from pretrain.config import DataConfig
from pretrain.data import corpus
from pretrain.run.run_folder import read_run

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer


@dataclass(frozen=True)
class PerplexityTask(TextTask):
    """Documents; ``load_rows`` gives objects with ``text``."""

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        texts = read_texts(self)
        tell(f"{len(texts)} documents")
        documents = scorer.score_documents(texts)
        items = pd.DataFrame(
            {
                "suite": self.suite,
                "task": self.name,
                "item_id": [str(index) for index in range(len(texts))],
                "log_likelihood": [d.log_likelihood for d in documents],
                "num_tokens": [d.num_tokens for d in documents],
                "num_bytes": [len(text.encode()) for text in texts],
            }
        )
        prefix = "" if scorer.protocol.score == "log-likelihood" else "pseudo_"
        metrics = {f"{prefix}{name}": value for name, value in perplexity_metrics(items).items()}
        return self.result("held-out text", metrics, items)


def perplexity_metrics(items: pd.DataFrame) -> dict[str, float]:
    """Return exp of the mean negative log-likelihood of a token, and bits per byte, over all documents."""
    nats = -float(items["log_likelihood"].sum())
    return {
        "perplexity": math.exp(nats / int(items["num_tokens"].sum())),
        "bits_per_byte": nats / math.log(2) / int(items["num_bytes"].sum()),
    }


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """Describe the text: a file's, or what a run's pretraining held out; nothing where no run is at hand.

    Raises:
        UsageError: If it is not there.
    """
    text_file, max_items = config.text_file, config.max_pairs
    if text_file is not None:
        if not text_file.is_file():
            raise UsageError(f"no file {text_file}; --text-file names held-out text (.txt, .jsonl, .parquet)")
        check_file(text_file)
        name, source = text_file.name.split(".")[0], fingerprint([text_file])
        source += ":plain text" if begins_as_jsonl(text_file) else ""
        task = PerplexityTask(suite, name, source, partial(_read_file, text_file), max_items)
        if run_dir is not None:
            return [task]
        read_texts(task)
    if run_dir is None:
        return []
    source = _corpus_source(read_run(run_dir).data)
    return [PerplexityTask(suite, "validation", source, partial(_read_validation, run_dir), max_items)]


# Reads the whole corpus, and a study's tasks are listed often.
@lru_cache(maxsize=16)
def _corpus_source(data: DataConfig) -> str:
    split = (data.validation_fraction, data.max_documents, data.max_validation_documents)
    part = () if data.validation_part == "all" else (data.validation_part,)
    return ":".join(map(str, ("validation", corpus.fingerprint(data), *split, *part)))


@lru_cache(maxsize=4)
def read_texts(task: PerplexityTask) -> tuple[str, ...]:
    """Read a task's documents.

    Raises:
        UsageError: If there are none, or the file is not readable.
    """
    texts = [row["text"] for row in task.load_rows()]
    if not texts:
        raise UsageError(f"{task.suite}/{task.name}: there is no document with text in it; name another text")
    return tuple(evenly_spaced(texts, task.max_items))


def _read_file(path: Path) -> list[dict]:
    return [{"text": text} for text in read_documents([path], "text")]


def _read_validation(run_dir: Path) -> list[dict]:
    return [{"text": text} for text in corpus.held_out(read_run(run_dir).data)]
