"""What ``ffn-ablations explain`` is asked: which classifier, and what to look at in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from base.command_line import Positional, typed_command
from base.config_input import SEED_END
from base.errors import UsageError
from base.mistakes import check
from base.sections import Section
from eval.classification.config import FinetuneConfig, HeadText, Pooling, PresetName
from eval.config import Device, EvalConfig
from eval.runner.find_runs import study_config
from pretrain.run.folders import RunFolder

Look = Literal["sufficiency", "segments", "lime", "spaces"]
DEFAULT_HEADS: dict[Look | None, str] = {"segments": "swipe segments=turns", "spaces": "space"}
"""Of a look whose head nobody names; of the others it is ``swipe``."""
ONLY_FOR: dict[str, tuple[Look | None, ...]] = {
    "examples": (None, "lime", "spaces"),
    "segments_kept": ("sufficiency",),
    "draws": ("sufficiency",),
    "lengths": ("sufficiency",),
    "train_documents": ("sufficiency", "lime"),
    "seed": ("sufficiency", "segments", "lime"),
}
"""Arguments that have an effect on some looks alone; None is the page."""


class ExplainArguments(Section):
    """Which classifier to look into, and how."""

    run: Positional[Path]
    """Folder of a run, runs/<study>/<family>/<variant>/<run>."""
    task: Positional[str]
    """A classification task: a name of ffn-ablations list tasks, or a YAML file."""
    measure: Literal["sufficiency", "segments", "lime"] | None = None
    """sufficiency: do the segments that speak most for a label suffice to tell it, against those of
    attention, LIME and chance? segments: are the labels of turns found, where the task names them? lime: a
    page by the keywords of a random forest. null: a page of texts, each segment shaded by what it
    contributes."""
    plot: Literal["spaces"] | None = None
    """spaces: where the texts lie in the spaces of the head space."""
    head: tuple[HeadText, ...] = ()
    """Head of the classifier; with segments there may be several (null: the first of the study's that serves,
    else swipe, swipe segments=turns for segments, space for spaces)."""
    examples: int | None = Field(None, ge=1)
    """Validation examples of a page, half of them misclassified where there are enough, or of a plot, evenly
    spaced (null: 20, or 1000)."""
    segments_kept: int = Field(1, ge=1)
    """Segments of each document that a bag of words reads."""
    draws: int = Field(5, ge=1)
    """How many times segments are drawn at random."""
    lengths: tuple[Annotated[int, Field(ge=3)], ...] = ()
    """Tokens of the longest segment, in place of the head's window: all is done for each of them."""
    train_documents: int = Field(10_000, ge=1)
    """Training documents of bags of words and of LIME's forest, evenly spaced over the file."""
    seed: int = Field(0, ge=0, lt=SEED_END)
    """Of random segments, of LIME's forest and samples, and of the bootstrap."""
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
    seeds: Literal["run"] | tuple[Annotated[int, Field(ge=0, lt=SEED_END)], ...] | None = None
    """Seeds of fine-tuning, of which the first one's classifier is looked into; run: the run's own."""
    max_train_examples: int | None = Field(None, ge=16)
    """Fine-tune on only so many examples."""
    max_validation_examples: int | None = Field(None, ge=1)
    """Look at only so many validation examples."""
    trust_remote_code: bool = False
    """Run an FFN variant that the run brings as code; read it before. Such a run is refused otherwise."""

    @property
    def look(self) -> Look | None:
        """What is looked at; None for the page."""
        return self.measure or self.plot

    @property
    def command(self) -> str:
        """The command that looks again."""
        return typed_command("ffn-ablations explain", self)

    def refuse_unused(self) -> None:
        """Refuse what has no effect on the look.

        Raises:
            UsageError: Names the flag.
        """
        if self.measure and self.plot:
            raise UsageError("--measure and --plot are both given; give one of them")
        for name, looks in ONLY_FOR.items():
            if self.look not in looks and getattr(self, name) != type(self).model_fields[name].default:
                raise UsageError(
                    f"--{name.replace('_', '-')} has no effect on {self.look or 'the page'}; leave it out"
                )
        if len(self.head) > 1 and self.measure != "segments":
            heads = ", ".join(self.head)
            raise UsageError(
                f"--head {heads}: one head is looked into; only --measure segments takes several"
            )

    def settings(self) -> EvalConfig:
        """Return the settings of the run's study, with those that were given in place of its own.

        Raises:
            UsageError: If the study's file is unusable, or the two do not go together.
        """
        study = study_config([RunFolder(self.run.resolve()).study.path])
        default = DEFAULT_HEADS.get(self.look, "swipe")
        serving = [head for head in study.finetune.head if head.split()[0] == default.split()[0]]
        tuning = self._given(FinetuneConfig) | {"head": self.head or (serving or [default])[:1]}
        values = study.model_dump() | self._given(EvalConfig)
        return check(EvalConfig, values | {"finetune": values["finetune"] | tuning})

    def _given(self, kind: type[Section]) -> dict[str, Any]:
        names = kind.model_fields.keys() & type(self).model_fields.keys()
        return {name: value for name in names if (value := getattr(self, name)) is not None}
