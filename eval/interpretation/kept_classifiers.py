"""A run's fine-tuned classifiers, kept for whoever wants to look into one: explanations and plots.

``<run>/eval/classifiers/<benchmark>/<task>/<head>.safetensors`` holds what fine-tuning changed, the head
alone where the backbone is frozen, and in its metadata what it depends on and how its training went.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from base.files import write_atomically
from base.json_text import parse_json
from base.progress import Tell
from eval.classification.classifier import Batch, Classifier
from eval.classification.config import Finetuning
from eval.classification.evaluate import train
from eval.classification.finetune import trained_state
from eval.classification.inputs.data import chosen_rows, read_task_data
from eval.classification.loading import load_classifier_tokenizer, load_for_task
from eval.classification.tasks import chosen
from eval.classification.tasks.task import ClassificationTask
from eval.config import EvalConfig
from eval.models.identity import identify_run, model_folder, weights_hash
from eval.results.store import protocol_hash
from eval.runner.work_units import classification_protocol, settled, task_heads
from eval.scoring.log_likelihood import num_positions
from pretrain.run.folders import RunFolder

_COURSE = "course"
"""Seconds and scores of a training, in the metadata."""
_DIGEST = "sha256"
"""Of the weights and of the course; earlier versions wrote none."""


@dataclass(frozen=True)
class FinetunedClassifier:
    """A classifier with its best weights, in evaluation mode, and what it is reported on.

    Attributes:
        classifier: Of the first seed.
        task: What it was fine-tuned on.
        settings: How.
        tokenizer: The run's.
        validation: The examples as the classifier takes them.
        rows: The same examples as their file has them, in the same order.
        seconds: What fine-tuning took; None where an earlier version kept the classifier.
        scores: On the held-out part after each epoch, in percent.
    """

    classifier: Classifier
    task: ClassificationTask
    settings: Finetuning
    tokenizer: PreTrainedTokenizerBase
    validation: Batch
    rows: list[dict]
    seconds: float | None
    scores: tuple[float, ...]


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
    kept = _read(path, wanted)
    if kept is None:
        trained = train(model_dir, [task], config, settings, seed, tell)
        classifier = trained.classifier
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: value.contiguous() for name, value in trained_state(classifier).items()}
        course = json.dumps([trained.seconds, trained.finetuned.scores])
        known = wanted | {_COURSE: course, _DIGEST: _digest(state, course)}
        write_atomically(path, lambda temporary: save_file(state, temporary, metadata=known))
        seconds, scores = trained.seconds, trained.finetuned.scores
    else:
        state, (seconds, scores) = kept
        classifier = load_for_task(model_dir, task, settings, seed, tokenizer, config.device)
        classifier.load_state_dict(state, strict=False)
    max_length = min(settings.max_length, num_positions(classifier.body))
    data = read_task_data([task], tokenizer, max_length, config, settings)
    rows = chosen_rows(task, config, settings)
    return FinetunedClassifier(
        classifier.eval(), task, settings, tokenizer, data.validation[task.name], rows, seconds, tuple(scores)
    )


def _file_name(head: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", head)


def _read(
    path: Path, wanted: dict[str, str]
) -> tuple[dict[str, Tensor], tuple[float | None, Sequence[float]]] | None:
    """Return the weights in a file and how their training went, if they are what is wanted and whole."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            known = dict(file.metadata() or {})
            course, digest = known.pop(_COURSE, "[null, []]"), known.pop(_DIGEST, None)
            if known != wanted:
                return None
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if digest is not None and digest != _digest(state, course):
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
