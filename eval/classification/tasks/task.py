"""One classification task: what is read of an example, and how it is fine-tuned."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from eval.classification.config import PRESETS, FinetuneConfig, Finetuning
from eval.classification.tasks.inputs import Template, parse_template, read_field, text_parts
from eval.classification.tasks.labels import Label, label_positions
from eval.classification.tasks.schema import TaskFile
from scores.suites.registry import CROSS_TASK

# Their definitions are as old as the first scores, which stay valid.
GLUE, EMBEDDED_GLUE = "glue", "embedded-glue"

TextPair = tuple[str, str | None]


@dataclass(frozen=True)
class ClassificationTask:
    """One task.

    Attributes:
        definition: What its file says.
        labels: What the integers from 0 stand for.
        trained_on: Another task, on whose training set the classifier was fine-tuned that is scored on this
            one's validation file; None where it is its own.
    """

    definition: TaskFile
    labels: tuple[Label, ...]
    trained_on: ClassificationTask | None = None

    @property
    def name(self) -> str:
        """As in rows; ``imdb<-sst2`` is imdb under a classifier of sst2."""
        own = self.definition.name
        return own if self.trained_on is None else f"{own}<-{self.trained_on.name}"

    @property
    def benchmark(self) -> str:
        """As in rows."""
        return self.definition.benchmark if self.trained_on is None else CROSS_TASK

    @property
    def group(self) -> str:
        """As in rows."""
        return (self.definition.group if self.trained_on is None else None) or self.benchmark

    def part(self, split: str) -> ClassificationTask:
        """Return the task whose own file a split of this one is."""
        if self.trained_on is None:
            return self
        return self.trained_on if split == "train" else replace(self, trained_on=None)

    @property
    def num_labels(self) -> int:
        """How many labels there are."""
        return len(self.labels)

    @property
    def label_names(self) -> tuple[str, ...]:
        """What a reader is told that the labels are."""
        if names := self.definition.label_names:
            return names
        return tuple(label if isinstance(label, str) else f"label {label}" for label in self.labels)

    @property
    def multi_label(self) -> bool:
        """Whether any number of labels may be right."""
        return self.definition.multi_label

    @property
    def metrics(self) -> tuple[str, ...]:
        """In rows; the epoch is chosen by the first one, which ``headline`` names unless a preset does."""
        return self.definition.metrics

    def headline(self, config: FinetuneConfig) -> str:
        """Name the metric that stands for the task: its file's first, unless a preset of GLUE has another."""
        averaged = PRESETS[config.preset].averaged if self.benchmark in (GLUE, EMBEDDED_GLUE) else {}
        return averaged.get(self.name, self.metrics[0])

    @property
    def train(self) -> str:
        """Name of the training file; tasks with the same one share a fine-tuned model."""
        if self.trained_on is not None:
            return self.trained_on.train
        names = self.definition.folder_names
        return names.train if names else f"{self.name}.train"

    @property
    def validation(self) -> str:
        """Name of the validation file."""
        names = self.definition.folder_names
        return names.validation if names else f"{self.definition.name}.validation"

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The text or texts of an input."""
        return tuple(parse_template(text) for text in self.definition.text)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What every example must have besides its label."""
        fields = (field for template in self.templates for field in template.fields)
        return tuple(dict.fromkeys(fields))

    @cached_property
    def positions(self) -> dict[Label, int]:
        """The integer of every label, as the data may write it."""
        return label_positions(self.labels)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digits that change with whatever makes other examples of the same data."""
        content = self.definition.model_dump_json(
            include={
                *("hub", "text", "flatten", "min_words", "label", "labels", "multi_label", "majority"),
            }
        )
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def make_input(self, row: dict) -> TextPair:
        """Make a text, or a pair of texts, of an example."""
        first, *second = (template.render(row) for template in self.templates)
        return first, second[0] if second else None

    def turns(self, row: dict) -> list[str] | None:
        """Return the turns of an example whose one text is a field with a list; None for any other."""
        (template, *others) = self.templates
        value = read_field(row, template.fields[0])
        return text_parts(value) if not others and template.is_field and isinstance(value, list) else None

    def finetuning(self, config: FinetuneConfig, *chosen: Any) -> Finetuning:
        """Settle how the task is fine-tuned: ``config.resolve(task, *chosen)``.

        A preset speaks of the tasks of GLUE by name. Any other task has its epoch chosen by its first metric
        unless the config names one, and nothing of a GLUE task that happens to have its name.
        """
        if self.trained_on is not None:
            return self.trained_on.finetuning(config, *chosen)
        if self.benchmark in (GLUE, EMBEDDED_GLUE):
            return config.resolve(self.name, *chosen)
        settings = config.resolve(f"{self.benchmark}/{self.name}", *chosen)
        metric = config.metric_for_best_model or self.metrics[0]
        return settings.model_copy(update={"metric_for_best_model": metric})
