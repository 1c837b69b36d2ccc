"""What the commands that look into a run's classifier are asked to do, and how that is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from base.command_line import Positional, read_flags
from base.mistakes import check
from base.sections import Section
from eval.classification.config import FinetuneConfig
from eval.config import EvalConfig
from eval.runner.find_runs import study_config
from pretrain.run.folders import RunFolder

SAY_EVERY_S = 20.0
SEGMENT_HEAD = "swipe"
"""The head that reads segments."""
ATTENTION_HEAD = "segment-attention"
"""Its rival, whose weights are what it says of them."""
SPACE_HEAD = "space"
"""The head that has concept spaces."""
SHOWN = frozenset({"glue_dir", "classification_dir", "embedded_seed", "device", "finetune"})
"""What of ``EvalConfig`` a single classifier depends on."""


class ClassifierArgs(Section):
    """Which classifier such a command looks into."""

    short_names: ClassVar = {("finetune", "head"): "head", ("finetune", "freeze_backbone"): "freeze-backbone"}

    run: Positional[Path]
    """Folder of a run, runs/<study>/<family>/<variant>/<run>."""
    task: Positional[str]
    """A classification task: a name of ffn-ablations list tasks, or a YAML file."""
    trust_remote_code: bool = False
    """Run an FFN variant that the run brings as code; read it before. Such a run is refused otherwise."""
    glue_dir: Path | None = None
    """Folder with <task>.train and <task>.validation as JSON Lines; null: the hub."""
    classification_dir: Path | None = None
    """As --glue-dir, for tasks beside GLUE's."""
    embedded_seed: int = Field(2024, ge=0)
    """Seed of the embedded classification tasks; the same for every run."""
    device: str | None = None
    """cpu, cuda, cuda:1, ...; null: the GPU where there is one."""
    finetune: FinetuneConfig = FinetuneConfig()
    """How the classifier is fine-tuned, and under which head; what no flag says is as in the run's study."""

    @property
    def config(self) -> EvalConfig:
        """Where examples come from, how the classifier is fine-tuned, and under which head."""
        return EvalConfig.model_validate({name: getattr(self, name) for name in SHOWN})


class ExplainArgs(ClassifierArgs):
    """What ``ffn-ablations explain`` is asked to do."""

    examples: int = 20
    """Validation examples to show, half of them misclassified where there are enough."""
    out: Path | None = None
    """The page (null: RUN/eval/explanations/TASK-HEAD.html)."""


class SufficiencyArgs(ClassifierArgs):
    """What ``python -m eval.sufficiency`` is asked to do."""

    segments_kept: int = 1
    """Segments of each document that a bag of words reads."""
    draws: int = 5
    """How many times segments are drawn at random."""
    lengths: tuple[int, ...] = ()
    """Tokens of the longest segment, in place of the head's window: all is done for each of them."""
    train_documents: int = 10_000
    """Training documents that bags of words are trained on, evenly spaced over the file."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the random draws, and of LIME's forest and samples."""
    out: Path | None = None
    """The JSON file (null: RUN/eval/sufficiency/TASK-HEAD.json)."""


class ExplainableSegmentsArgs(ClassifierArgs):
    """What ``python -m eval.explainable_segments`` is asked to do."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Of LIME's forest and samples, and of the bootstrap."""
    out: Path | None = None
    """The JSON file (null: RUN/eval/explanations/TASK-HEAD-segments.json)."""


class ConceptSpaceArgs(ClassifierArgs):
    """What ``python -m eval.concept_space`` is asked to draw."""

    out: Path | None = None
    """File to write, with or without .svg or .png (default: RUN/eval/concept_space/TASK-HEAD)."""
    max_examples: int = 1000
    """Draw only so many examples, evenly spaced over the file."""


Args = TypeVar("Args", bound=ClassifierArgs)


def parse_classifier_flags(
    kind: type[Args], args: Sequence[str] | None, head: str, prog: str, description: str
) -> Args:
    """Read the flags; the settings of the run's study stand for what none says.

    Args:
        kind: What to read into.
        args: The flags; None takes those of the process.
        head: What the command looks into; of the study's heads the first of its name is the default.
        prog: The command, as a user types it.
        description: What ``--help`` says first.

    Raises:
        UsageError: For an unknown flag, a value that is not allowed, or an unusable file of a study.
    """
    typed = read_flags(kind, args, prog, description)
    config = config_with_head([Path(typed.values[("run",)])], head)
    return check(kind, config.model_dump(include=set(SHOWN)), typed)


def config_with_head(paths: Sequence[Path], head: str) -> EvalConfig:
    """Return the settings of a run's study, with the first of its heads of that name, else with that head.

    Raises:
        UsageError: If the study's file is unusable.
    """
    config = study_config([RunFolder(path.resolve()).study.path for path in paths])
    first = next((text for text in config.finetune.head if text.split()[0] == head.split()[0]), head)
    return with_head(config, first)


def with_head(config: EvalConfig, head: str) -> EvalConfig:
    """Return the same settings under one head."""
    return config.model_copy(update={"finetune": config.finetune.model_copy(update={"head": (head,)})})


def say_rarely() -> Callable[[str], None]:
    """Make a function that prints a message on standard error, at most one every ``SAY_EVERY_S`` seconds."""
    next_s = 0.0

    def say(message: str) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            print(message, file=sys.stderr)
            next_s = time.monotonic() + SAY_EVERY_S

    return say
