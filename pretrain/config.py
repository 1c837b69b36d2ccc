"""The typed configuration of one run, and how it is read: defaults < YAML < a study's overrides < flags.

Every field's docstring is its ``--help``. ``--model.hidden-size`` sets ``model.hidden_size``; the fields
people change most have short flags (``--ffn``, ``--tracker``).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import Field, ValidationError, field_validator, model_validator

import ffn_variants
from base.budgets import Budget
from base.command_line import Section, parse_flags
from base.config_input import deep_merge, explain, flag_value, read_yaml
from base.errors import UsageError
from base.families import FamilySpec, get_family

MEAN_NOISE_SPAN_LENGTH = 3.0
"""Of T5 (Raffel et al. 2020, sec. 3.3.4)."""
INITIALIZER_RANGE = 0.02
"""Of GPT-Neo and RoBERTa, where one standard deviation decides all initial weights."""

Fraction = Annotated[float, Field(ge=0, lt=1)]


class ModelConfig(Section):
    """The architecture, in the words of transformers."""

    ffn: Annotated[str, tyro.conf.arg(aliases=["--ffn"])] = "gelu"
    """FFN variant of every layer; `python -m ffn_variants` lists them."""
    ffn_options: dict[str, int | float | bool | str] | None = None
    """Options of the variant, for example `grid_size 5 spline_order 3`."""
    hidden_size: int = Field(512, gt=0)
    """Width of the residual stream (D)."""
    intermediate_size: int = Field(1024, gt=0)
    """Width inside the FFN (F); with another ffn_budget than width that of the gelu baseline."""
    ffn_budget: Annotated[Budget, tyro.conf.arg(aliases=["--ffn-budget"])] = "width"
    """width = intermediate_size as given; params or flops = the width at which the FFN has as many parameters
    or FLOPs per token as gelu's at paired_intermediate_size, where that is set, else intermediate_size."""
    paired_intermediate_size: int | None = Field(None, gt=0)
    """intermediate_size of the runs this one is paired with by seed: decides the weights outside the FFN;
    none = its own, or the base value where `variants:` or ffn_budget gives this variant another width."""
    num_hidden_layers: int = Field(2, gt=0)
    """Number of transformer layers; T5 has as many in its encoder as in its decoder."""
    num_attention_heads: int = Field(4, gt=0)
    """Attention heads; divides hidden_size."""
    max_position_embeddings: int | None = Field(None, gt=0)
    """Rows of the position table; none = data.block_size, for RoBERTa one more: its positions start at 1."""
    window_size: int = Field(256, gt=0)
    """Tokens that GPT-Neo's local layers (every second one) look back on, themselves included."""
    hidden_dropout: Fraction | None = None
    """Dropout on embeddings and residual branches; none = the family's own (0.1; GPT-Neo 0)."""
    attention_dropout: Fraction | None = None
    """Dropout on attention weights; none = the family's own (0.1; GPT-Neo 0). T5 has one for both."""
    initializer_range: float | None = Field(None, gt=0)
    """Standard deviation of the initial weights; none = 0.02, in T5 that which T5 has for each matrix."""

    @field_validator("ffn")
    @classmethod
    def _known_variant(cls, name: str) -> str:
        ffn_variants.get_variant(name)
        return name

    @model_validator(mode="after")
    def _known_options(self) -> ModelConfig:
        ffn_variants.get_variant(self.ffn).resolve(self.ffn_options)
        return self


class DataConfig(Section):
    """The text, its tokens, and how they are packed."""

    source: Literal["embedded", "tinystories", "files"] = "embedded"
    """embedded = stories of this project; tinystories = hub or --data.tinystories-dir; files = your own."""
    train_files: tuple[str, ...] = ()
    """Source files: .jsonl, .jsonl.gz, .parquet or .txt; a .txt splits at lines that say <|endoftext|>."""
    validation_files: tuple[str, ...] = ()
    """Held-out files; none = a fixed share of the training documents, see validation_fraction."""
    tinystories_dir: str | None = None
    """Folder with train* and validation* files in place of the hub's roneneldan/TinyStories."""
    text_field: str = "text"
    """Field or column that holds the document in jsonl and parquet files."""
    num_stories: int = Field(20_000, gt=1)
    """Stories of the embedded corpus."""
    corpus_seed: int = Field(0, ge=0)
    """Seed of the embedded corpus. Not the run's seed: all seeds of a study read the same text."""
    max_documents: int | None = Field(None, gt=1)
    """Read at most this many documents of the corpus."""
    max_validation_documents: int | None = Field(None, gt=0)
    """Keep at most this many held-out documents."""
    validation_fraction: float = Field(0.01, gt=0, le=0.5)
    """Share of documents held out where the source has no held-out part: every (1/share)-th one."""
    tokenizer: str | None = None
    """Folder of a saved tokenizer; none = train a byte-level BPE on the training documents."""
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
        if self.source != "files" and (self.train_files or self.validation_files):
            raise ValueError(f"data.train_files has no effect with data.source {self.source!r}; use 'files'")
        if self.source != "tinystories" and self.tinystories_dir:
            raise ValueError(
                f"data.tinystories_dir has no effect with data.source {self.source!r}; use 'tinystories'"
            )
        return self


class OptimConfig(Section):
    """The optimizer, its schedule, and how long."""

    optimizer: Literal["adamw", "adafactor"] = "adamw"
    """adafactor = what T5 was trained with: steps in proportion to each parameter's size, few moments. The
    learning rate is relative then, and 0.01 its usual value."""
    learning_rate: float = Field(5e-4, gt=0)
    """Peak learning rate."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled decay of matrices; vectors (biases, norms, per-channel parameters) are never decayed."""
    adam_beta1: Fraction = 0.9
    """Decay of the first moment."""
    adam_beta2: Fraction = 0.999
    """Decay of the second moment."""
    adam_epsilon: float = Field(1e-8, gt=0)
    """Added to the root of the second moment."""
    warmup_steps: int | None = Field(None, ge=0)
    """Steps of linear warm-up; none = warmup_ratio of all steps."""
    warmup_ratio: Fraction = 0.0
    """Share of all steps spent on warm-up."""
    lr_scheduler_type: Literal["linear", "cosine", "constant_with_warmup", "inverse_sqrt"] = "linear"
    """Shape of the schedule after warm-up, as transformers names it."""
    max_grad_norm: float | None = Field(1.0, gt=0)
    """Clip the gradient's global norm to this; none = never clip."""
    num_train_epochs: float = Field(1.0, gt=0)
    """Passes over the packed corpus; ignored where max_steps is given."""
    max_steps: int | None = Field(None, gt=0)
    """Optimizer updates; none = num_train_epochs."""

    @model_validator(mode="after")
    def _adam_belongs_to_adamw(self) -> OptimConfig:
        if self.optimizer != "adamw":
            for name in ("adam_beta1", "adam_beta2", "adam_epsilon"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"optim.{name} has no effect with optim.optimizer {self.optimizer!r}")
        return self


class TrainConfig(Section):
    """One step, and what is recorded on the way."""

    per_device_train_batch_size: int = Field(16, gt=0)
    """Packed rows per process and forward pass; a step has this x gradient_accumulation_steps x processes."""
    gradient_accumulation_steps: int = Field(1, gt=0)
    """Forward passes per optimizer update; the loss stays the mean over all target tokens of the step."""
    find_batch_size: Annotated[bool, tyro.conf.arg(aliases=["--find-batch-size"])] = False
    """Where memory runs out, halve per_device_train_batch_size and double gradient_accumulation_steps: a step
    keeps its rows. One process only."""
    per_device_eval_batch_size: int = Field(16, gt=0)
    """Packed rows per process and forward pass in evaluation."""
    mixed_precision: Literal["auto", "no", "bf16"] = "auto"
    """auto = bf16 on a GPU that supports it, else full precision."""
    torch_compile: bool = True
    """Compile the FFN's elementwise functions, where there is a compiler; the model stays the same."""
    compile_model: bool = False
    """Compile the whole model without its head too, for the shapes of its batches; takes up to a minute. Not
    measured on a GPU yet, and no gain on a CPU."""
    mlm_probability: float = Field(0.15, gt=0, lt=1)
    """Share of tokens RoBERTa predicts: 80% become <mask>, 10% another token, 10% stay. Share that T5's spans
    leave out."""
    mean_noise_span_length: float | None = Field(None, ge=1)
    """Tokens of a span that T5 leaves out, on average; none = 3. Other families have no spans."""
    logging_steps: int = Field(10, gt=0)
    """Steps between lines of metrics.jsonl."""
    eval_steps: int | None = Field(None, gt=0)
    """Steps between evaluations on held-out text; none = a tenth of the run. The last step is always one."""
    eval_every: Annotated[int | None, tyro.conf.arg(aliases=["--eval-every"])] = Field(None, gt=0)
    """Steps between scorings of eval_suite, the last step included; none = never."""
    eval_suite: Annotated[str, tyro.conf.arg(aliases=["--eval-suite"])] = "blimp-fast"
    """Minimal pairs that eval_every scores: any suite of python -m eval that has pairs."""
    eval_dir: Annotated[str | None, tyro.conf.arg(aliases=["--eval-dir"])] = None
    """Folder of that suite's data, where it needs one."""
    save_steps: int | None = Field(500, gt=0)
    """Steps between checkpoints; none = only by save_minutes."""
    save_minutes: float | None = Field(5.0, gt=0)
    """Minutes between checkpoints, counted from the last one of either kind; none = only by save_steps."""
    save_total_limit: int = Field(2, gt=0)
    """Checkpoints kept, newest first."""
    max_loss_ratio: float | None = Field(4.0, gt=1)
    """Stop where the logged loss exceeds this x that of guessing, ln(vocabulary), and this x the first
    step's; none = only where it is not finite."""
    tracker: Annotated[
        Literal["none", "tensorboard", "wandb", "trackio"], tyro.conf.arg(aliases=["--tracker"])
    ] = "none"
    """Also report to this tracker, through Accelerate."""


class SplineConfig(Section):
    """Knots that follow the data in training, and sparse splines; for variants with an option `splines`."""

    knot_updates: tuple[Fraction, ...] = ()
    """Shares of the run after which knots move to quantiles of their inputs, as 0 0.1; none = never."""
    penalty: float = Field(0.0, ge=0)
    """Weight of the coefficients' L1 norm and entropy in the loss; the reported loss is without."""
    prune_below: float | None = Field(None, gt=0, lt=1)
    """Prune coefficients as long as each output changes by no more than this x its standard deviation, once;
    needs the option `splines sparse`. None = never."""
    prune_at: Fraction = 0.75
    """Share of the run after which to prune; the rest of it trains what is left."""

    def check_variant(self, ffn: str, options: dict[str, Any] | None) -> None:
        """Refuse what would have no effect with this variant."""
        for name in ("knot_updates", "penalty", "prune_below"):
            if getattr(self, name) and "splines" not in ffn_variants.get_variant(ffn).options:
                raise ValueError(
                    f"splines.{name} has no effect with model.ffn {ffn!r}, which has no splines; set it "
                    f"under `variants:` for those that have, or leave it out"
                )
        if self.prune_below and (options or {}).get("splines") != "sparse":
            raise ValueError(
                "splines.prune_below needs model.ffn_options splines sparse, which keeps a mask of the rest"
            )
        if self.prune_below and max(self.knot_updates, default=0) > self.prune_at:
            raise ValueError(
                f"splines.knot_updates {max(self.knot_updates)} is after splines.prune_at {self.prune_at}: "
                "pruned coefficients belong to their knots; move them before"
            )


class OutputConfig(Section):
    """Where results go; nothing here can change them."""

    runs_dir: Annotated[str, tyro.conf.arg(aliases=["--runs-dir"])] = "runs"
    """Folder of all runs and of the shared data cache."""
    study: Annotated[str, tyro.conf.arg(aliases=["--study"])] = "default"
    """Name of the study: <runs_dir>/<study>/<family>/<variant>/seed<N>-<hash>."""
    run_name: Annotated[str | None, tyro.conf.arg(aliases=["--run-name"])] = None
    """Name of the run's folder in place of seed<N>-<hash>."""


# `model` is made when it is needed: to check a variant takes the variants, and so torch. The reason stands
# here because --help shows a comment that stands at the field.
class RunConfig(Section):
    """Everything that defines one pretraining run."""

    family: str = "gpt_neo"
    """Architecture: gpt_neo (causal), roberta (masked) or t5 (encoder-decoder, span corruption)."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Decides weights, data order, masking and dropout."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    data: DataConfig = DataConfig()
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    splines: SplineConfig = SplineConfig()
    output: OutputConfig = OutputConfig()

    @field_validator("family")
    @classmethod
    def _known_family(cls, name: str) -> str:
        get_family(name)
        return name

    @model_validator(mode="after")
    def _sections_agree(self) -> RunConfig:
        heads, width = self.model.num_attention_heads, self.model.hidden_size
        if width % heads:
            raise ValueError(
                f"model.hidden_size {width} is not a multiple of model.num_attention_heads {heads}"
            )
        self.splines.check_variant(self.model.ffn, self.model.ffn_options)
        if (self.splines.knot_updates or self.splines.prune_below) and self.train.compile_model:
            raise ValueError(
                "train.compile_model compiles the layers as they are, which splines.knot_updates and "
                "splines.prune_below change; leave one out"
            )
        family = get_family(self.family)
        needed = self.data.block_size + family.first_position
        given = self.model.max_position_embeddings
        if given is not None and given < needed:
            raise ValueError(
                f"model.max_position_embeddings {given} is too small for data.block_size "
                f"{self.data.block_size}; {self.family} needs {needed}, or leave it out"
            )
        self._check_fields_of(family)
        if family.objective == "span_corruption":
            self._check_span_corruption()
        return self

    def _check_fields_of(self, family: FamilySpec) -> None:
        model = self.model
        if model.initializer_range is not None and not family.has_initializer_range:
            raise ValueError(
                f"model.initializer_range {model.initializer_range} has no effect on {self.family}, which "
                "draws every matrix with a standard deviation of its own; leave it out"
            )
        dropouts = {model.hidden_dropout, model.attention_dropout} - {None}
        if len(dropouts) > 1 and family.has_one_dropout:
            raise ValueError(
                f"model.hidden_dropout {model.hidden_dropout} and model.attention_dropout "
                f"{model.attention_dropout} differ, and {self.family} has one dropout for both; give one of "
                "them"
            )

    def _check_span_corruption(self) -> None:
        from pretrain.data.span_corruption import NUM_SENTINELS, num_noise_spans

        train = self.train
        if train.compile_model:
            raise ValueError(
                f"train.compile_model compiles one stack of layers for one shape, and {self.family} has two "
                "of several shapes; leave it out"
            )
        length = train.mean_noise_span_length or MEAN_NOISE_SPAN_LENGTH
        spans = int(num_noise_spans(self.data.block_size, train.mlm_probability, length))
        if spans >= NUM_SENTINELS:
            raise ValueError(
                f"data.block_size {self.data.block_size} may have {spans} spans in a document, and "
                f"{self.family} has sentinels for {NUM_SENTINELS - 1}; lower it, or raise "
                f"train.mean_noise_span_length {length:g}"
            )


def resolve(config: RunConfig) -> RunConfig:
    """Fill in fields whose default depends on other fields, so that the saved config says what was run."""
    model, train, family = config.model, config.train, get_family(config.family)
    dropouts = dict.fromkeys(("hidden_dropout", "attention_dropout"), family.dropout)
    if family.has_one_dropout:
        given = [value for name in dropouts if (value := getattr(model, name)) is not None]
        dropouts = dict.fromkeys(dropouts, [*given, family.dropout][0])
    defaults: dict[str, Any] = {
        "max_position_embeddings": config.data.block_size + family.first_position,
        **dropouts,
        **({"initializer_range": INITIALIZER_RANGE} if family.has_initializer_range else {}),
    }
    if family.objective == "span_corruption" and train.mean_noise_span_length is None:
        train = train.model_copy(update={"mean_noise_span_length": MEAN_NOISE_SPAN_LENGTH})
    missing = {name: value for name, value in defaults.items() if getattr(model, name) is None}
    model = _within_budget(model.model_copy(update=missing), family.has_ffn_biases)
    return config.model_copy(update={"model": model, "train": train})


def _within_budget(model: ModelConfig, biases: bool) -> ModelConfig:
    """Put in the width that the budget asks for; the other weights stay paired with the baseline's.

    The baseline's width stays in ``paired_intermediate_size``, so a result of this is solved to itself.
    """
    if model.ffn_budget == "width":
        return model
    base = model.paired_intermediate_size or model.intermediate_size
    options = tuple(sorted((model.ffn_options or {}).items()))
    width = _matching_width(model.ffn, options, model.hidden_size, base, model.ffn_budget, biases)
    # Paired with its own width is the same run as unpaired, and has the hash of the plain one.
    paired = base if width != base else None
    return model.model_copy(update={"intermediate_size": width, "paired_intermediate_size": paired})


# The same for all seeds of a study; counting parameters takes some 20 ms.
@lru_cache(maxsize=1024)
def _matching_width(
    ffn: str, options: tuple[tuple[str, Any], ...], hidden_size: int, base: int, budget: Budget, biases: bool
) -> int:
    return ffn_variants.matching_width(ffn, dict(options), hidden_size, base, budget, biases)


def load_config(
    path: Path | None,
    args: list[str] | None = None,
    overrides: dict[str, Any] | None = None,
    prog: str | None = None,
    description: str | None = None,
) -> RunConfig:
    """Read one run's configuration.

    Args:
        path: YAML file, or None for the defaults. Its top-level ``variants: {name: {section: ...}}`` holds
            overrides that apply only when ``model.ffn`` has that name.
        args: Command-line flags, which win over everything.
        overrides: Nested values a study sets on top of the YAML; may have ``variants`` too.
        prog: Name of the command in ``--help``.
        description: First lines of ``--help``.

    Returns:
        The resolved configuration, without ``variants``.

    Raises:
        UsageError: For an unreadable file, an unknown key (with the closest match) or a value not allowed.
    """
    args = args or []
    source = str(path) if path else "the study's overrides" if overrides else "config"
    values = deep_merge(read_yaml(path) if path else {}, overrides or {})
    variants = values.pop("variants", None) or {}
    if flagged := flag_value(args, "--ffn", "--model.ffn"):
        ffn_variants.get_variant(flagged)
        values = deep_merge(values, {"model": {"ffn": flagged}})
    ffn = _nested(values, "model", "ffn") or ModelConfig().ffn
    values = _with_variant(values, _overrides_of(variants, ffn, source))
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        raise explain(error, RunConfig, source) from None
    config = parse_flags(RunConfig, args, config, prog, description) if args else config
    _check_base_width(config.model, args)
    return resolve(config)


def _check_base_width(model: ModelConfig, args: list[str]) -> None:
    """Refuse a flag for the width where a budget overrides it."""
    flagged = flag_value(args, "--model.intermediate-size", "--model.intermediate_size")
    if flagged and model.ffn_budget != "width" and model.paired_intermediate_size:
        raise UsageError(
            f"--model.intermediate-size {flagged} has no effect: ffn_budget {model.ffn_budget} starts from "
            f"paired_intermediate_size {model.paired_intermediate_size}; give "
            f"--model.paired-intermediate-size {flagged}, or --ffn-budget width"
        )


def _overrides_of(variants: Any, ffn: str, source: str) -> dict[str, Any]:
    """The overrides of one variant; a name no variant has is an error even when another one is trained."""
    if not isinstance(variants, dict):
        raise UsageError(f"{source}: variants: not a mapping of variant names to sections")
    for name in variants:
        try:
            ffn_variants.get_variant(name)
        except UsageError as error:
            raise UsageError(f"{source}: variants: {error}") from None
    return variants.get(ffn) or {}


def _with_variant(values: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Apply a variant's overrides; with another FFN width the other weights stay paired with the base's."""
    width = _nested(overrides, "model", "intermediate_size")
    if width is not None:
        base = _nested(values, "model", "intermediate_size") or ModelConfig().intermediate_size
        values = deep_merge({"model": {"paired_intermediate_size": base}}, values)
    return deep_merge(values, overrides)


def _nested(values: dict[str, Any], *keys: str) -> Any:
    for key in keys:
        if not isinstance(values, dict):
            return None
        values = values.get(key) or {}
    return values or None
