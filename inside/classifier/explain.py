"""Look into a run's classifier: ``ffn-ablations explain RUN TASK``.

Each measure and plot gives a ``Document``; this module says what may be asked, chooses and writes it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.sections import Section, check
from eval.command import study_config
from eval.config import Device, EvalConfig
from eval.finetuning import FinetuneConfig, HeadText, Pooling, PresetName, Seeds

PROG = "ffn-ablations explain"
DEFAULT_HEADS = {"segments": "swipe segments=turns", "spaces": "space"}
"""Where neither the user nor the study names a head that serves; otherwise ``swipe``."""


class ExplainArguments(Section):
    """Look into a classifier: what speaks for the labels that it gives to texts.

    Examples:
      ffn-ablations explain RUN boolq --head "swipe segments=sentences" --glue-dir DATA/glue
      ffn-ablations explain RUN imdb-long --measure sufficiency --head "swipe window=64"
      ffn-ablations explain RUN multiwoz --measure segments
      ffn-ablations explain RUN sst2 --plot spaces --head "space num_dimensions=2"

    The classifier is the one that RUN keeps for this head and these settings; where there is none, it is
    fine-tuned and kept. What no flag says of fine-tuning is as in the run's study, or as the preset says.
    Writes explanation.html (open it), .md and .json, figures/ and tables/ into a folder of the task, the head
    and the measure in RUN/eval/explanations.
    """

    run: Positional[Path]
    """Folder of a run, runs/<study>/<family>/<variant>/<run>."""
    task: Positional[str]
    """A classification task: a name of ffn-ablations list tasks, or a YAML file."""
    measure: Literal["sufficiency", "segments", "lime"] | None = None
    """sufficiency: can a bag of words tell the label from the one segment that speaks most for it, and from
    those of attention, LIME and chance? segments: does each turn get its label, where the task names them?
    lime: a page by the keywords of a random forest. null: a page of texts, each segment shaded by what it
    contributes."""
    plot: Literal["spaces"] | None = None
    """spaces: where the texts lie in the spaces of the head space."""
    head: HeadText | None = None
    """Head of the classifier (null: the first of the study's that serves, else swipe, swipe segments=turns
    for segments, space for spaces)."""
    examples: int = Field(20, ge=1)
    """Validation examples of a page, half of them misclassified where there are enough. A plot has all."""
    train_documents: int = Field(10_000, ge=1)
    """Training documents of bags of words and of LIME's forest, evenly spaced over the file."""
    glue_dir: Path | None = None
    """Folder with <task>.train and <task>.validation as JSON Lines; null: the hub."""
    classification_dir: Path | None = None
    """As --glue-dir, for tasks beside GLUE's."""
    device: Device | None = None
    """cpu, cuda, cuda:1, ...; null: the GPU where there is one."""
    preset: PresetName | None = None
    """How the classifier is fine-tuned, as ffn-ablations eval has it; so are the following."""
    pooling: Pooling | None = None
    """What the head reads of a text or a segment: its first or last token, or the mean."""
    learning_rate: float | None = Field(None, gt=0)
    """Peak learning rate of AdamW."""
    num_train_epochs: int | None = Field(None, ge=1)
    """Passes over the training set, unless stopped early."""
    per_device_train_batch_size: int | None = Field(None, ge=1)
    """Examples per training step."""
    max_length: int | None = Field(None, ge=8)
    """Tokens per input, or per segment; longer inputs are truncated."""
    seeds: Literal["run"] | Seeds | None = None
    """Seeds of fine-tuning, of which the first one's classifier is looked into; run: the run's own. Random
    segments, LIME's forest and its samples have that seed, too."""
    max_train_examples: int | None = Field(None, ge=16)
    """Fine-tune on only so many examples."""
    max_validation_examples: int | None = Field(None, ge=2)
    """Look at only so many validation examples."""
    trust_remote_code: bool = False
    """Run an FFN variant that the run brings as code; read it before. Such a run is refused otherwise."""

    @property
    def look(self) -> str:
        """What is looked at; empty for the page.

        Raises:
            UsageError: If two things are.
        """
        if self.measure and self.plot:
            raise UsageError("--measure and --plot are both given; give one of them")
        return self.measure or self.plot or ""

    def settings(self) -> EvalConfig:
        """Return the settings of the run's study, with those that were given in place of its own.

        Raises:
            UsageError: If the study's file is unusable, or the two do not go together.
        """
        study = study_config([RunFolder(self.run.resolve()).study.path])
        default = DEFAULT_HEADS.get(self.look, "swipe")
        serving = [head for head in study.finetune.head if head.split()[0] == default.split()[0]]
        tuning = self._given(FinetuneConfig) | {"head": (self.head or next(iter(serving), default),)}
        values = study.model_dump() | self._given(EvalConfig)
        return check(EvalConfig, values | {"finetune": values["finetune"] | tuning})

    def _given(self, kind: type[Section]) -> dict[str, Any]:
        names = kind.model_fields.keys() & type(self).model_fields.keys()
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, look, write the page and say where it is."""
    words = sys.argv[1:] if args is None else args
    arguments = parse_flags(ExplainArguments, words, prog=PROG)
    config = arguments.settings()
    from eval.classification.find_tasks import embedded_tasks, find_task
    from eval.identity import admit_run
    from inside.classifier import measures, page
    from inside.classifier.classifiers import Subject
    from report.document.document import write_document
    from report.document.markdown import file_name

    task = embedded_tasks(config).get(arguments.task) or find_task(arguments.task, config)
    subject = Subject(arguments.run, task, config, lambda message: print(message, file=sys.stderr))
    admit_run(arguments.run, arguments.trust_remote_code)
    looks = {
        "": lambda: page.show(subject, arguments.examples),
        "lime": lambda: page.show(subject, arguments.examples, arguments.train_documents),
        "sufficiency": lambda: measures.sufficiency(subject, arguments.train_documents),
        "segments": lambda: measures.segments(subject),
        "spaces": lambda: page.show_spaces(subject),
    }
    document, head = looks[arguments.look](), str(subject.head)
    record = {"run": str(arguments.run), "task": task.name, "head": head}
    document = replace(document, record=record, command=shlex.join([*PROG.split(), *words]))
    name = file_name(task.name, head) + (f"-{arguments.look}" if arguments.look else "")
    path = write_document(document, RunFolder(arguments.run).explanations_dir / name, "explanation")
    print(document.blocks[0], f"\n{path.with_suffix('.html')}", sep="\n")
    return 0
