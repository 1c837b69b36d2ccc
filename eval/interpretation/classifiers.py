"""A run's fine-tuned classifiers, kept for whoever looks into one, and what they say of texts and segments.

``<run>/eval/classifiers/<benchmark>/<task>/<head>.safetensors`` holds what fine-tuning changed, the head
alone where the backbone is frozen, and in its metadata what it depends on and how its training went.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from base.errors import UsageError
from base.files import write_atomically
from base.json_text import parse_json
from base.progress import Tell
from eval.classification.classifier import Batch, Classifier
from eval.classification.config import Finetuning
from eval.classification.evaluate import train
from eval.classification.finetune import trained_state
from eval.classification.heads.registry import HeadChoice, check_head, get_head
from eval.classification.inputs.data import TaskData, chosen_rows, read_task_data, segmentation_of, with_turns
from eval.classification.inputs.segments import Segmentation, Segmented, as_one_text
from eval.classification.loading import load_classifier_tokenizer, load_for_task
from eval.classification.prediction import Predictions, predict
from eval.classification.tasks import chosen
from eval.classification.tasks.examples import read_examples
from eval.classification.tasks.task import ClassificationTask
from eval.config import EvalConfig
from eval.models.identity import identify_run, model_folder, weights_hash
from eval.report.document import markdown
from eval.results.store import protocol_hash
from eval.runner.work_units import classification_protocol, settled, task_heads
from eval.scoring.log_likelihood import num_positions
from eval.zero_shot.task import evenly_spaced
from pretrain.run.folders import RunFolder

ATTENTION_HEAD = "segment-attention"
"""The rival of the head ``swipe``, whose weights are what it says of segments."""
_COURSE = "course"
"""Seconds and scores of a training, in the metadata."""
_DIGEST = "sha256"
"""Of the weights and of the course, in the metadata."""


@dataclass(frozen=True)
class FinetunedClassifier:
    """A classifier with its best weights, in evaluation mode, and what it is reported on.

    Attributes:
        classifier: Of the first seed.
        task: What it was fine-tuned on.
        settings: How.
        tokenizer: The run's.
        data: The examples as the classifier takes them.
        rows: The validation examples as their file has them, in the order of the data's.
        seconds: What fine-tuning took.
        scores: On the held-out part after each epoch, in percent.
    """

    classifier: Classifier
    task: ClassificationTask
    settings: Finetuning
    tokenizer: PreTrainedTokenizerBase
    data: TaskData
    rows: list[dict]
    seconds: float
    scores: tuple[float, ...]

    @property
    def validation(self) -> Batch:
        """The validation examples as the classifier takes them."""
        return self.data.validation[self.task.name]

    @property
    def texts(self) -> list[str]:
        """The validation examples, each as one text."""
        return one_texts(self.task, self.rows)

    def predict(self, data: Segmented) -> Predictions:
        """Return what the classifier says of examples and of their segments."""
        return predict(self.classifier, data, self.settings.per_device_train_batch_size, self.settings.dtype)


@dataclass(frozen=True)
class Subject:
    """A run whose classifiers of a task are looked into.

    Attributes:
        run: The run's folder.
        task: The task.
        config: Where examples come from, how classifiers are fine-tuned, and under which heads.
        tell: Told how it goes.
    """

    run: Path
    task: ClassificationTask
    config: EvalConfig
    tell: Tell = lambda message: None

    @property
    def heads(self) -> list[HeadChoice]:
        """The heads that are asked for.

        Raises:
            UsageError: For one that the task cannot have.
        """
        return [check_head(choice, self.task.multi_label) for choice in self.config.finetune.heads]

    def load(self, head: HeadChoice) -> FinetunedClassifier:
        """Load the run's classifier with a head, or fine-tune and keep it.

        Raises:
            UsageError: For data or a run that cannot be used.
        """
        tuning = self.config.finetune.model_copy(update={"head": (str(head),)})
        return finetuned(self.run, self.task, self.config.model_copy(update={"finetune": tuning}), self.tell)

    def check_segments(self, head: HeadChoice) -> None:
        """Refuse a head that reads no segments, or says nothing of single ones.

        Raises:
            UsageError: Says which head to choose.
        """
        if segmentation_of(self.task.finetuning(self.config.finetune, head)) is None:
            raise UsageError(
                f'head {str(head)!r} does not read segments; choose for example --head "swipe '
                'segments=sentences"'
            )
        if not get_head(head.name).scores_segments:
            raise UsageError(
                f'head {str(head)!r} says nothing of single segments; choose another, such as "swipe"'
            )

    def training_documents(self, classifier: FinetunedClassifier, number: int) -> tuple[list[str], Segmented]:
        """Return so many training documents, evenly spaced over the file, as texts and as segments."""
        rows = read_examples(self.task, "train", self.config)
        data: Any = classifier.data.train
        places = evenly_spaced(list(range(len(data))), number)
        return one_texts(self.task, [rows[place] for place in places]), data.take(places)


def one_texts(task: ClassificationTask, rows: Sequence[dict]) -> list[str]:
    """Return each example as one text."""
    return [as_one_text(with_turns(task, row)) for row in rows]


def segment_texts(texts: Sequence[str], data: Segmented) -> list[list[str]]:
    """Return the segments of each text."""
    spans = np.split(data.spans, data.starts[1:])
    return [[text[start:stop] for start, stop in own] for text, own in zip(texts, spans, strict=True)]


def like_cut(choice: HeadChoice, name: str) -> HeadChoice:
    """Choose another head that reads the segments which a head reads, on a backbone as frozen as its."""
    cuts = {field.name for field in fields(Segmentation)}
    options = tuple((key, value) for key, value in choice.options if key in cuts)
    return check_head(HeadChoice(name, options, choice.is_frozen))


def note_few_segments(classifier: FinetunedClassifier, kept: int) -> None:
    """Say on standard error where no validation example has more than ``kept`` segments to choose among."""
    data: Any = classifier.validation
    if data.counts.max() <= kept:
        print(
            f"note: no validation example of {classifier.task.name} has more than {kept} segment(s), so "
            'there is nothing to choose; shorter ones are for example those of --head "swipe window=8 '
            'stride=4"',
            file=sys.stderr,
        )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write what was measured as a Markdown table: a column a key, numbers and intervals with one digit."""
    return markdown.table(
        [name.replace("_", " ") for name in rows[0]],
        [[_cell(value) for value in row.values()] for row in rows],
    )


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Put what was measured into a table; an interval becomes two columns, its ends."""
    return pd.DataFrame(
        {
            column: end
            for name, value in row.items()
            for column, end in (
                ((f"{name}_low", value[0]), (f"{name}_high", value[1]))
                if isinstance(value, tuple)
                else ((name, value),)
            )
        }
        for row in rows
    )


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_cell, value))}]"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def find_task(name: str, config: EvalConfig) -> ClassificationTask:
    """Return a task by its name, those of the embedded corpus included, or by the path of its YAML file.

    Raises:
        UsageError: As ``chosen.find_task``.
    """
    return chosen.embedded_tasks(config).get(name) or chosen.find_task(name, config)


def finetuned(
    run_dir: Path,
    task: ClassificationTask,
    config: EvalConfig,
    tell: Tell = lambda message: None,
) -> FinetunedClassifier:
    """Load a run's classifier of a task; where there is none of these settings, fine-tune and keep it.

    Args:
        run_dir: The run's folder.
        task: The task.
        config: Where examples come from, how models are fine-tuned, and under which head, the first.
        tell: Told of progress every few seconds.

    Raises:
        UsageError: For data or a model that cannot be fine-tuned.
    """
    config = settled(config, identify_run(run_dir))
    (head, *_) = task_heads([task], config)
    settings, model_dir = task.finetuning(config.finetune, head), model_folder(run_dir)
    seed = settings.seeds[0]
    folder = RunFolder(run_dir).classifiers_dir / task.benchmark / task.name
    path = folder / f"{_file_name(str(head))}.safetensors"
    wanted = {
        "weights": weights_hash(run_dir),
        "protocol": protocol_hash(classification_protocol(task, config, head)),
        "seed": str(seed),
    }
    tokenizer = load_classifier_tokenizer(model_dir)
    stored = _read(path, wanted)
    if stored is None:
        trained = train(model_dir, [task], config, settings, seed, tell)
        classifier = trained.classifier
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: value.contiguous() for name, value in trained_state(classifier).items()}
        course = json.dumps([trained.seconds, trained.finetuned.scores])
        known = wanted | {_COURSE: course, _DIGEST: _digest(state, course)}
        write_atomically(path, lambda temporary: save_file(state, temporary, metadata=known))
        seconds, scores = trained.seconds, trained.finetuned.scores
    else:
        state, (seconds, scores) = stored
        classifier = load_for_task(model_dir, task, settings, seed, tokenizer, config.device)
        classifier.load_state_dict(state, strict=False)
    max_length = min(settings.max_length, num_positions(classifier.body))
    data = read_task_data([task], tokenizer, max_length, config, settings)
    rows = chosen_rows(task, config, settings)
    return FinetunedClassifier(
        classifier.eval(), task, settings, tokenizer, data, rows, seconds, tuple(scores)
    )


def _file_name(head: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", head)


def _read(
    path: Path, wanted: dict[str, str]
) -> tuple[dict[str, Tensor], tuple[float, Sequence[float]]] | None:
    """Return the weights in a file and how their training went, if they are what is wanted and whole."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            known = dict(file.metadata() or {})
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        course, digest = known.pop(_COURSE, ""), known.pop(_DIGEST, "")
        if known != wanted or digest != _digest(state, course):
            return None
        seconds, scores = parse_json(course)
    except (SafetensorError, ValueError, TypeError):
        return None  # cut off or damaged; fine-tuning writes it again
    return state, (seconds, scores)


def _digest(state: Mapping[str, Tensor], course: str) -> str:
    digest = hashlib.sha256(course.encode())
    for name, value in sorted(state.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
