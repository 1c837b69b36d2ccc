"""Whether bags of words on the segments that explain a label do better than on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from base.errors import UsageError
from base.progress import Tell
from eval.classification.inputs.data import read_task_data, with_turns
from eval.classification.inputs.example_text import JOINT, as_one_text, parts_of
from eval.classification.inputs.segments import Segmented
from eval.classification.inputs.tokens import encode
from eval.classification.tasks.examples import read_examples
from eval.classification.tasks.task import ClassificationTask
from eval.interpretation.arguments import SufficiencyArgs
from eval.interpretation.attention_shares import attention_shares, shares_of_spans
from eval.interpretation.kept_classifiers import FinetunedClassifier, find_task, finetuned
from eval.interpretation.segment_classifiers import (
    load_segment_classifier,
    note_few_segments,
    predict_segments,
)
from eval.interpretation.selections import Documents, Sufficiency, compare_selections
from eval.scoring.log_likelihood import num_positions
from eval.zero_shot.task import evenly_spaced


@dataclass(frozen=True)
class _Part:
    """The training or the validation documents: the examples' inputs, and their segments."""

    inputs: list
    data: Segmented

    @property
    def documents(self) -> Documents:
        texts = [as_one_text(example) for example in self.inputs]
        segments = [
            [text[start:stop] for start, stop in own] for text, own in zip(texts, self.spans, strict=True)
        ]
        return Documents(segments, self.data.labels)

    @property
    def spans(self) -> list[np.ndarray]:
        """For each document the characters of its segments."""
        return np.split(self.data.spans, self.data.starts[1:])


def measure(args: SufficiencyArgs, tell: Tell = lambda message: None) -> list[Sufficiency]:
    """Fine-tune or load the two classifiers, let both select, and train bags of words on what they select.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    for name in ("segments_kept", "draws", "train_documents"):
        if (value := getattr(args, name)) < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be 1 or more")
    task = find_task(args.task, args.config)
    found = load_segment_classifier(args.run, task, args.config)
    note_few_segments(found, args.segments_kept)
    parts = _parts(task, found, args)
    tell("scoring segments")
    by_score = [predict_segments(found, part.data).contributions() for part in parts]
    by_attention = _attention(args, task, parts, tell)
    scores = {"highest": (by_score[0], by_score[1]), "attention": (by_attention[0], by_attention[1])}
    documents = [part.documents for part in parts]
    return compare_selections(
        documents[0], documents[1], scores, args.segments_kept, args.draws, args.seed, tell
    )


def _parts(task: ClassificationTask, found: FinetunedClassifier, args: SufficiencyArgs) -> list[_Part]:
    max_length = min(found.settings.max_length, num_positions(found.classifier.body))
    data: Any = read_task_data([task], found.tokenizer, max_length, args.config, found.settings).train
    chosen = evenly_spaced(list(range(len(data))), args.train_documents)
    rows = read_examples(task, "train", args.config)
    train = _Part([with_turns(task, rows[number]) for number in chosen], data.take(chosen))
    validation: Any = found.validation
    return [train, _Part([with_turns(task, row) for row in found.rows], validation)]


def _attention(
    args: SufficiencyArgs, task: ClassificationTask, parts: list[_Part], tell: Tell
) -> list[list[np.ndarray]]:
    """Return for each part, for each document, the attention that its segments get."""
    finetune = args.config.finetune.model_copy(update={"head": ("linear",), "pooling": "mean"})
    tell("fine-tuning the classifier whose attention is read, unless it is there")
    baseline = finetuned(args.run, task, args.config.model_copy(update={"finetune": finetune}), tell)
    max_length = min(baseline.settings.max_length, num_positions(baseline.classifier.body))
    found = []
    for part in parts:
        tell("reading attention")
        whole = [(JOINT.join(parts_of((first, None))), second) for first, second in part.inputs]
        encoded = encode(baseline.tokenizer, whole, [0] * len(whole), max_length)
        shares = attention_shares(baseline.classifier.body, encoded)
        found.append(shares_of_spans(baseline.tokenizer, part.inputs, max_length, shares, part.spans))
    return found
