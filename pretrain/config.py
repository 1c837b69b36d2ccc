"""The typed configuration of one run, known without the variants.

Every field's docstring is its ``--help``. ``--model.hidden-size`` sets ``model.hidden_size``; the fields
people change most have short flags (``--ffn``, ``--tracker``). ``pretrain.config_sources`` says where values
come from, ``pretrain.resolution`` what they must be for the variant.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from base.config_input import SEED_END
from base.errors import UsageError
from base.families import BASELINE, Budget, FamilySpec, get_family
from base.options import check_name
from base.other_names import OtherNames
from base.sections import Section, Unlisted

Fraction = Annotated[float, Field(ge=0, lt=1)]
FolderName = Annotated[str, AfterValidator(check_name)]
FamilyName = Annotated[str, AfterValidator(lambda name: get_family(name).name)]


class ModelConfig(Section):
    """The architecture, in the words of transformers."""

    ffn: str = BASELINE
    """FFN variant of every layer: a name of `ffn-ablations list variants`, or path/to/mine.py:SPEC."""
    ffn_file: Unlisted[str | None] = Field(None, exclude_if=lambda file: file is None)
    """Where a variant of your own is, as path/to/mine.py:SPEC; set by --ffn with the path."""
    ffn_source: Unlisted[str | None] = Field(None, exclude_if=lambda source: source is None)
    """What that file computes, as the fingerprint of its code; set by loading it. An edited formula is so
    another run; comments and the file's place are not."""
    ffn_options: dict[str, int | float | bool | str] | None = None
    """Options of the variant, for example `grid_size 5 spline_order 3`."""
    hidden_size: int = Field(512, gt=0)
    """Width of the residual stream (D)."""
    intermediate_size: int = Field(1024, gt=0)
    """Width inside the FFN (F); with another ffn_budget than width that of the gelu baseline."""
    ffn_budget: Budget = "width"
    """width = intermediate_size as given; params, active-params (those that one token meets: fewer in moe and
    product-key-memory) or flops = the width at which the FFN has as many parameters or FLOPs per token as
    gelu's at paired_intermediate_size, where that is set, else intermediate_size."""
    paired_intermediate_size: Unlisted[int | None] = Field(None, gt=0)
    """intermediate_size of the runs this one is paired with by seed: decides the weights outside the FFN;
    none = its own, or the base value where `variants:` or ffn_budget gives this variant another width."""
    num_hidden_layers: int = Field(2, gt=0, le=1000)
    """Number of transformer layers; T5 has as many in its encoder as in its decoder."""
    num_attention_heads: int = Field(4, gt=0)
    """Attention heads; divides hidden_size."""
    max_position_embeddings: Unlisted[int | None] = Field(None, gt=0)
    """Rows of the position table; none = data.block_size, for RoBERTa one more. RoBERTa's positions start
    behind the id of <pad>: with a tokenizer that has it at p instead of 0, the table gets p rows more."""
    window_size: Unlisted[int] = Field(256, gt=0)
    """Tokens that GPT-Neo's local layers (every second one) look back on, themselves included."""
    hidden_dropout: Fraction | None = None
    """Dropout on embeddings and residual branches; none = the family's own (0.1; GPT-Neo 0)."""
    attention_dropout: Fraction | None = None
    """Dropout on attention weights; none = the family's own (0.1; GPT-Neo 0). T5 has one for both."""
    initializer_range: float | None = Field(None, gt=0)
    """Standard deviation of the initial weights; none = 0.02, in T5 that which T5 has for each matrix."""
    ffn_initializer_factor: float = Field(1.0, gt=0)
    """Factor on the first weights of the FFN, but for its vectors, knots, scales and activation."""
    tie_word_embeddings: Unlisted[bool | None] = None
    """Whether Llama's output embeddings are its input embeddings; none = yes. Those of other families are."""


class ResolvedModelConfig(ModelConfig):
    """The architecture, with what the family decides where the user did not.

    ``hidden_dropout``, ``initializer_range`` and ``tie_word_embeddings`` stay None in a family without them.
    """

    max_position_embeddings: int = Field(gt=0)
    """Rows of the position table."""
    attention_dropout: Fraction
    """Dropout on attention weights."""


class DataConfig(Section):
    """The text, its tokens, and how they are packed."""

    source: Literal["embedded", "tinystories", "files"] = "embedded"
    """embedded = stories of this project; tinystories = hub or --data.tinystories-dir; files = your own."""
    train_files: tuple[str, ...] = ()
    """Your texts: files (.jsonl, .parquet, .txt; .jsonl.gz, .txt.gz) or folders of one kind of them. A
    document is a row's text_field, and of a .txt what txt_split says. docs/your-own-text.md has more."""
    validation_files: tuple[str, ...] = ()
    """Held-out files or folders; none = a fixed share of the training documents, see validation_fraction."""
    tinystories_dir: str | None = None
    """Folder with train* and validation* files in place of the hub's roneneldan/TinyStories."""
    text_field: str = "text"
    """Field or column that holds the document in jsonl and parquet files."""
    txt_split: Literal["endoftext", "lines", "blank-lines", "file"] = "endoftext"
    """What ends a document of a .txt file: <|endoftext|>, each line, blank lines, or the file alone."""
    num_stories: int = Field(20_000, gt=1)
    """Stories of the embedded corpus."""
    corpus_seed: Unlisted[int] = Field(0, ge=0, lt=SEED_END)
    """Seed of the embedded corpus. Not the run's seed: all seeds of a study read the same text."""
    max_documents: Unlisted[int | None] = Field(None, gt=1)
    """Read at most this many documents of the corpus."""
    max_validation_documents: Unlisted[int | None] = Field(None, gt=0)
    """Keep at most this many held-out documents."""
    validation_fraction: float = Field(0.01, gt=0, le=0.5)
    """Share of documents held out where the source has no held-out part: every (1/share)-th one."""
    validation_part: Unlisted[Literal["all", "even", "odd"]] = "all"
    """Which of the held-out documents are used, by their place: all, or every second one. A study that tunes
    chooses on the even ones and compares on the odd ones."""
    tokenizer: str | None = None
    """Folder of a saved tokenizer, such as GPT-2's for gpt_neo; roberta and t5 need <s> A </s>, pad and mask.
    none = train a byte-level BPE on the training documents."""
    vocab_size: int = Field(10_000, ge=262)
    """Tokens of the trained tokenizer, with 256 bytes and 5 special ones; unused with data.tokenizer."""
    block_size: int = Field(512, ge=8)
    """Tokens of one packed row; longer documents are cut, and a few others, so that rows are 98% filled."""

    @model_validator(mode="after")
    def _files_belong_to_source(self) -> DataConfig:
        if self.source == "files" and not self.train_files:
            raise ValueError(
                "data.source 'files' needs data.train_files, for example --data.train-files a.jsonl"
            )
        fields = {"train_files": "files", "validation_files": "files", "tinystories_dir": "tinystories"}
        for name, source in fields.items():
            if getattr(self, name) and self.source != source:
                raise ValueError(
                    f"data.{name} has no effect with data.source {self.source!r}; use {source!r}"
                )
        return self


class OptimConfig(Section):
    """The optimizer, its schedule, and how long."""

    optimizer: str = "adamw"
    """adamw; adafactor = what T5 was trained with: steps in proportion to each parameter's size, few moments.
    The learning rate is relative then, and 0.01 its usual value. muon = Muon (momentum 0.95) for weights that
    multiply inputs, a KAN's coefficients too; AdamW for all else: embeddings, output head, vectors, knots."""
    optimizer_options: dict[str, int | float | bool | str] | None = Field(
        None, exclude_if=lambda options: options is None
    )
    """Options of the optimizer itself, for example `momentum 0.9` of muon."""
    learning_rate: float = Field(5e-4, gt=0)
    """Peak learning rate. muon has one for both: Muon's updates are scaled to the usual size of AdamW's."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled decay of weights; vectors (biases, norms, per-channel parameters), and knots, scales and
    translations of any shape, are never decayed."""
    ffn_learning_rate_factor: float = Field(1.0, gt=0)
    """The FFN's learning rate as a multiple of learning_rate."""
    ffn_weight_decay: float | None = Field(None, ge=0)
    """Weight decay of the FFN's weights; none = weight_decay."""
    width_scaling: Unlisted[Literal["none", "mup"]] = "none"
    """mup = the learning rate of a matrix goes as 1 / its inputs (a KAN's: inputs x basis functions), under
    muon as the spectral norm asks for, and is learning_rate at 128: the best rate is to stay as widths and
    grids grow. An embedding keeps its rate, and so does a head that is one. Not for adafactor."""
    adam_beta1: Unlisted[Fraction] = 0.9
    """Decay of the first moment of AdamW, also where it is the rest of muon."""
    adam_beta2: Unlisted[Fraction] = 0.999
    """Decay of the second moment."""
    adam_epsilon: Unlisted[float] = Field(1e-8, gt=0)
    """Added to the root of the second moment."""
    warmup_steps: int | None = Field(None, ge=0)
    """Steps of linear warm-up; none = warmup_ratio of all steps."""
    warmup_ratio: Unlisted[Fraction] = 0.0
    """Share of all steps spent on warm-up."""
    lr_scheduler_type: Literal["linear", "cosine", "constant_with_warmup", "inverse_sqrt"] = "linear"
    """Shape of the schedule after warm-up, as transformers names it."""
    max_grad_norm: float | None = Field(1.0, gt=0)
    """Clip the gradient's global norm to this; none = never clip."""
    num_train_epochs: float = Field(1.0, gt=0)
    """Passes over the packed corpus; typed, it goes before a file's max_steps, else max_steps before it."""
    max_steps: int | None = Field(None, gt=0)
    """Optimizer updates; none = num_train_epochs."""

    def total_steps(self, num_rows: int, rows_per_step: int) -> int:
        """Optimizer updates of a run; what does not fill a step at the end of the last epoch is left out."""
        if self.max_steps is not None:
            return self.max_steps
        return max(1, math.floor(self.num_train_epochs * num_rows / rows_per_step))

    def num_warmup_steps(self, max_steps: int) -> int:
        """Updates before that with the peak rate; the first of them has the rate 0."""
        return math.ceil(self.warmup_ratio * max_steps) if self.warmup_steps is None else self.warmup_steps


class TrainConfig(Section):
    """One step, and what is recorded on the way."""

    batch_size: int = Field(16, gt=0)
    """Packed rows of a step, over all processes and forward passes; the loss is the mean over its targets."""
    per_device_train_batch_size: Annotated[int, Field(gt=0)] | Literal["auto"] = "auto"
    """The most rows of one forward pass: a process cuts its share of a step into as many as it takes. auto =
    on a GPU all of its share, on a CPU 16; halved where memory runs out, if there is one process. Changes
    roundings and, where there is dropout, what is drawn; never the rows of a step."""
    find_batch_size: Unlisted[bool] = False
    """Halve a number given as per_device_train_batch_size too where memory runs out. One process only."""
    per_device_eval_batch_size: Unlisted[int] = Field(16, gt=0)
    """Packed rows per process and forward pass in evaluation."""
    mixed_precision: Literal["auto", "no", "bf16"] = "auto"
    """auto = bf16 on a GPU that supports it, and in long runs on a CPU that multiplies it (AVX512-BF16, AMX);
    else full precision."""
    deterministic: bool = False
    """Have a GPU give the same bits whenever the same run is done on the same machine and software, by slower
    kernels in places; or say which operation cannot. A CPU always does."""
    torch_compile: bool | Literal["auto"] = "auto"
    """Compile the FFN's elementwise functions, where there is a compiler; the model stays the same. auto = on
    a GPU always, on a CPU where the run is long enough to earn it back."""
    torch_compile_fallback: bool = False
    """Where that compiling fails on a GPU, train without it even where that takes 10 times as long."""
    compile_model: bool | Literal["auto"] = "auto"
    """Compile the whole model without its head too, for the shapes of its batches; takes up to a minute.
    auto = in long runs where there is a compiler: on one GPU, a fifth faster; on a CPU without dropout."""
    cuda_graph: bool = True
    """On a GPU, record the kernels of a step once and launch them together, so that the GPU does not wait for
    its host. Not where several processes train one model."""
    mlm_probability: float = Field(0.15, gt=0, lt=1)
    """Share of tokens RoBERTa predicts: 80% become <mask>, 10% another token, 10% stay. Share that T5's spans
    leave out."""
    mean_noise_span_length: Unlisted[float | None] = Field(None, ge=1)
    """Tokens of a span that T5 leaves out, on average; none = 3. Other families have no spans."""
    logging_steps: int = Field(10, gt=0)
    """Steps between lines of metrics.jsonl."""
    eval_steps: int | None = Field(None, gt=0)
    """Steps between evaluations on held-out text; none = a tenth of the run. The last step is always one."""
    eval_every: int | None = Field(None, gt=0)
    """Steps between scorings of eval_suite, the last step included; none = never."""
    eval_suite: str = "blimp-fast"
    """Minimal pairs that eval_every scores: any suite of ffn-ablations eval that has pairs."""
    eval_dir: str | None = None
    """Folder of that suite's data, where it needs one."""
    save_steps: int | None = Field(500, gt=0)
    """Steps between checkpoints; none = only by save_minutes."""
    save_minutes: float | None = Field(5.0, gt=0)
    """Minutes between checkpoints, counted from the last one of either kind; none = only by save_steps."""
    save_total_limit: int = Field(2, gt=0)
    """Checkpoints kept, newest first."""
    max_loss_ratio: Unlisted[float | None] = Field(4.0, gt=1)
    """Stop where the logged loss exceeds this x that of guessing, ln(vocabulary), and this x the first
    step's; none = only where it is not finite."""
    tracker: Literal["none", "tensorboard", "wandb", "trackio"] = "none"
    """Also report to this tracker, through Accelerate, evaluations included (docs/trackers.md)."""


class SplineConfig(Section):
    """Knots that follow the data in training or are pruned; for variants with an option `splines`."""

    knot_updates: tuple[Fraction, ...] = ()
    """Shares of the run after which knots move to quantiles of their inputs, as 0 0.1; none = never."""
    penalty: float = Field(0.0, ge=0)
    """Weight of the coefficients' L1 norm and entropy in the loss; the reported loss is without."""
    prune_below: float | None = Field(None, gt=0, lt=1)
    """Prune coefficients as long as each output changes by no more than this x its standard deviation, once;
    needs the option `splines sparse`; none = never."""
    prune_at: Unlisted[Fraction] = 0.75
    """Share of the run after which to prune; the rest of it trains what is left."""


class OutputConfig(Section):
    """Where results go; nothing here can change them."""

    runs_dir: str = "runs"
    """Folder of all runs and of the shared data cache."""
    study: FolderName = "default"
    """Name of the study: <runs_dir>/<study>/<family>/<variant>/seed<N>-<hash>."""
    run_name: FolderName | None = None
    """Name of the run's folder in place of seed<N>-<hash>."""


_LACKS = {
    "initializer_range": (None, "which draws every matrix with a standard deviation of its own"),
    "hidden_dropout": (0.0, "which has none but on attention weights"),
    "tie_word_embeddings": (True, "whose output embeddings are always its input embeddings"),
}
"""Fields of ``model:`` that not every family has: what those that lack one do, as a value and in words."""


class RunConfig(Section):
    """What a user wrote of one pretraining run; None where the project is to decide."""

    short_names: ClassVar = {
        ("model", "ffn"): "ffn",
        ("model", "ffn_budget"): "ffn-budget",
        ("optim", "learning_rate"): "lr",
        ("optim", "num_train_epochs"): "epochs",
        ("optim", "max_steps"): "max-steps",
        ("train", "batch_size"): "batch-size",
        ("train", "eval_every"): "eval-every",
        ("train", "eval_suite"): "eval-suite",
        ("train", "eval_dir"): "eval-dir",
        ("train", "find_batch_size"): "find-batch-size",
        ("train", "tracker"): "tracker",
        ("output", "runs_dir"): "runs-dir",
        ("output", "study"): "study",
        ("output", "run_name"): "run-name",
    }

    hints: ClassVar = OtherNames("train")

    family: FamilyName = "gpt_neo"
    """Architecture: gpt_neo or llama (causal), roberta (masked), t5 (encoder-decoder, span corruption)."""
    seed: int = Field(0, ge=0, lt=SEED_END)
    """Decides weights, data order, masking and dropout."""
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    splines: SplineConfig = SplineConfig()
    output: OutputConfig = OutputConfig()

    @model_validator(mode="after")
    def _sections_agree(self) -> RunConfig:
        family = get_family(self.family)
        family.check_heads(self.model.hidden_size, self.model.num_attention_heads, section="model.")
        changed = (self.splines.knot_updates, self.splines.prune_below)
        if any(changed) and self.train.compile_model is True:
            raise ValueError(
                "train.compile_model compiles the layers as they are, which splines.knot_updates "
                "and splines.prune_below change; leave one out"
            )
        needed = self.data.block_size + family.first_position()
        positions = self.model.max_position_embeddings
        if positions is not None and positions < needed:
            raise ValueError(
                f"model.max_position_embeddings {positions} is too small for data.block_size "
                f"{self.data.block_size}; {self.family} needs {needed}, or leave it out"
            )
        self._check_fields_of(family)
        return self

    def _check_fields_of(self, family: FamilySpec) -> None:
        model = self.model
        for name, (has, why) in _LACKS.items():
            if getattr(model, name) not in (None, has) and name not in family.config_fields:
                raise ValueError(
                    f"model.{name} {getattr(model, name)} has no effect on {self.family}, {why}; leave it out"
                )
        dropouts = {model.hidden_dropout, model.attention_dropout} - {None}
        if len(dropouts) > 1 and family.has_one_dropout:
            raise ValueError(
                f"model.hidden_dropout {model.hidden_dropout} and model.attention_dropout "
                f"{model.attention_dropout} differ, and {self.family} has one dropout for both; give one of "
                "them"
            )


class ResolvedConfig(RunConfig):
    """What runs: everything that defines one pretraining run, as its folder has it.

    ``pretrain.resolution.resolve`` alone makes one, once for each run; whatever builds, names or trains a run
    takes this type, so a type checker refuses a configuration with choices still open.
    """

    model: ResolvedModelConfig


ROWS_ON_A_CPU = 16
"""Of a forward pass, where its number is ``auto``: more are no faster there."""


def cut_step(train: TrainConfig, num_processes: int, on_gpu: bool = False) -> tuple[int, int]:
    """Return how many rows of a step a process has, and how many of them its forward passes have at most.

    Args:
        train: The settings; ``per_device_train_batch_size`` may be ``auto``.
        num_processes: Processes that share a step.
        on_gpu: Whether they run on GPUs, where ``auto`` is all of a process's rows.

    Raises:
        UsageError: If the rows cannot be shared equally; names fewer processes that can.
    """
    rows, remainder = divmod(train.batch_size, num_processes)
    if remainder:
        able = [number for number in range(1, num_processes) if train.batch_size % number == 0]
        raise UsageError(
            f"train.batch_size {train.batch_size}: {num_processes} processes cannot share so many rows "
            f"equally; start {able[-1]}, or give a multiple of {num_processes}"
        )
    most = train.per_device_train_batch_size
    if most == "auto":
        most = rows if on_gpu else ROWS_ON_A_CPU
    return rows, min(rows, most)
