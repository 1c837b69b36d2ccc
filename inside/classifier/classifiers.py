"""A run's fine-tuned classifiers, kept for whoever looks into one, and what they say of texts and segments.

``<run>/eval/classifiers/<task>-<hash>.safetensors`` holds what fine-tuning changed, the head alone where the
backbone is frozen. The hash is of all that it depends on: weights, data, settings, head and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from base.errors import UsageError
from base.files import write_atomically
from base.printing import Tell
from base.run.folder_names import RunFolder
from eval.classification.classification_task import ClassificationTask
from eval.classification.classifier import Classifier, load_classifier_tokenizer, load_for_task
from eval.classification.data import TaskData, read_task_data, reported_rows, with_turns
from eval.classification.examples import read_examples
from eval.classification.finetune import trained_state
from eval.classification.prediction import Predictions, predict
from eval.classification.score_task import train
from eval.classification.segments import Segmentation, Segmented, as_one_text
from eval.config import EvalConfig
from eval.finetuning import Finetuning
from eval.identity import identify_run, model_folder, weights_hash
from eval.scoring.log_likelihood import num_positions
from eval.work_units import classification_protocol, settled
from eval.zero_shot.text_task import evenly_spaced
from scores.head_descriptions import HEADS, HeadChoice, check_head
from scores.store import protocol_hash

ATTENTION = "segment-attention"
"""The rival of the head ``swipe``, whose weights are what it says of segments."""


@dataclass(frozen=True)
class Documents:
    """Examples of a task.

    Attributes:
        texts: Each as one text.
        data: The same as a classifier takes them.
    """

    texts: list[str]
    data: Any

    @property
    def segments(self) -> list[list[str]]:
        """The segments of each, under a head that reads these."""
        spans = np.split(self.data.spans, self.data.starts[1:])
        return [
            [text[start:stop] for start, stop in ends] for text, ends in zip(self.texts, spans, strict=True)
        ]


@dataclass(frozen=True)
class FinetunedClassifier:
    """A classifier with its best weights, in evaluation mode, and its data.

    Attributes:
        classifier: Of the first seed.
        settings: How it was fine-tuned.
        data: The examples of the task.
        documents: Those that are reported on.
    """

    classifier: Classifier
    settings: Finetuning
    data: TaskData
    documents: Documents

    def predict(self, data: Segmented) -> Predictions:
        """Return what the classifier says of examples and of their segments."""
        return predict(self.classifier, data, self.settings.per_device_train_batch_size, self.settings.dtype)


@dataclass(frozen=True)
class Subject:
    """A run whose classifiers of a task are looked into.

    Attributes:
        run: The run's folder.
        task: The task.
        config: Where examples come from, how classifiers are fine-tuned, and under which head, the first.
        tell: Is told how it goes.
    """

    run: Path
    task: ClassificationTask
    config: EvalConfig
    tell: Tell = lambda message: None

    @property
    def head(self) -> HeadChoice:
        """The head that is asked for.

        Raises:
            UsageError: For one that the task cannot have.
        """
        return check_head(self.config.finetune.heads[0], self.task.multi_label)

    def attention_head(self) -> HeadChoice:
        """Choose the head ``ATTENTION``, on the same segments and a backbone as frozen."""
        cuts = {field.name for field in fields(Segmentation)}
        options = tuple((key, value) for key, value in self.head.options if key in cuts)
        return check_head(HeadChoice(ATTENTION, options, self.head.is_frozen))

    def check_segments(self, *kinds: str) -> None:
        """Refuse a head that says nothing of single segments, or reads none of these kinds.

        Raises:
            UsageError: Says which head to choose.
        """
        kind = dict(self.head.options).get("segments", "windows")
        if self.head.name not in HEADS or not HEADS[self.head.name].scores_segments or kind not in kinds:
            raise UsageError(
                f"head '{self.head}' says nothing of single {' or '.join(kinds)}; choose for example --head "
                f'"swipe segments={kinds[-1]}"'
            )

    def load(self, head: HeadChoice | None = None) -> FinetunedClassifier:
        """Load the run's classifier; where there is none of these settings, fine-tune and keep it.

        Args:
            head: Another than the one that is asked for.

        Raises:
            UsageError: For data or a run that cannot be used.
        """
        head, task, folder = head or self.head, self.task, model_folder(self.run)
        tuning = self.config.finetune.model_copy(update={"head": (str(head),)})
        config = settled(self.config.model_copy(update={"finetune": tuning}), identify_run(self.run))
        settings, tokenizer = task.finetuning(config.finetune, head), load_classifier_tokenizer(folder)
        seed, protocol = settings.seeds[0], classification_protocol(task, config, head)
        key = protocol_hash({**protocol, "weights": weights_hash(self.run), "seed": seed})
        path = RunFolder(self.run).classifiers_dir / f"{task.name}-{key}.safetensors"
        if path.is_file():
            classifier = load_for_task(folder, task, settings, seed, tokenizer, config.device)
            classifier.load_state_dict(load_file(path), strict=False)
        else:
            classifier = train(folder, [task], config, settings, seed, self.tell).classifier
            state = {name: value.contiguous() for name, value in trained_state(classifier).items()}
            write_atomically(path, lambda temporary: save_file(state, temporary))
        max_length = min(settings.max_length, num_positions(classifier.body))
        data = read_task_data([task], tokenizer, max_length, config, settings)
        texts = one_texts(task, reported_rows(task, config, settings))
        documents = Documents(texts, data.validation[task.name])
        return FinetunedClassifier(classifier.eval(), settings, data, documents)

    def training_documents(self, classifier: FinetunedClassifier, number: int) -> Documents:
        """Return so many training documents, evenly spaced over the file."""
        task = self.task.source_of("train")
        rows: Any = read_examples(task, "train", self.config)
        places = evenly_spaced(list(range(len(rows))), number)
        return Documents(one_texts(task, [rows[x] for x in places]), classifier.data.train.take(places))


def one_texts(task: ClassificationTask, rows: Sequence[dict]) -> list[str]:
    """Return each example as one text."""
    return [as_one_text(with_turns(task, row)) for row in rows]
