"""The configuration of a run as its variant and its family allow it, with no choice left open."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import ffn_variants
from base.command_line import read_flags
from base.errors import UsageError, prefixed
from base.families import Budget, get_family
from base.sections import Typed, check
from base.text.corruption import MEAN_NOISE_SPAN_LENGTH, NUM_SENTINELS, num_noise_spans
from ffn_variants.names import check_registered
from pretrain.config import ModelConfig, ResolvedConfig, ResolvedModelConfig, RunConfig, SplineConfig
from pretrain.config_sources import Sources, is_unknown_here, read_sources
from pretrain.optimizers import get_optimizer

INITIALIZER_RANGE = 0.02
"""Of GPT-Neo and RoBERTa, where one standard deviation decides all initial weights."""


def load_config(
    path: Path | None, args: Sequence[str] | None = None, overrides: dict[str, Any] | None = None
) -> ResolvedConfig:
    """Read one run's configuration.

    Args:
        path: YAML file, or None for the defaults. Its top-level ``variants: {name: {section: ...}}`` holds
            overrides that apply only when ``model.ffn`` has that name.
        args: Command-line flags, which win over everything.
        overrides: Nested values a study sets on top of the YAML; may have ``variants`` too. A variant's file
            that they or the YAML name is not run, but one that ``args`` name, or that this process loaded.

    Returns:
        The resolved configuration, without ``variants``.

    Raises:
        UsageError: For an unreadable file, an unknown key (with the closest match) or a value not allowed.
    """
    # A study reads hundreds of these without a flag, and looking for flags takes longer than the rest.
    typed = read_flags(RunConfig, args) if args else Typed({}, {})
    return resolve_sources(read_sources(path, overrides, typed, trust_remote_code=False))


def resolve_sources(sources: Sources, is_begun: bool = False) -> ResolvedConfig:
    """Check what is given for a run, and settle what is left open.

    Args:
        sources: What is given.
        is_begun: Whether it was checked when the run began. A variant in a file that this process did not run
            is then not asked.

    Raises:
        UsageError: For an unknown key (with the closest match) or a value not allowed.
    """
    for name in sources.variants:
        with prefixed(f"{sources.name}: variants: "):
            check_registered(name)
    ffn = sources.typed.values.get(("model", "ffn"))
    if ffn is not None:
        check_registered(ffn)
    config = check(RunConfig, sources.values, sources.typed, sources.name)
    is_typed = any(path[0] not in ("seed", "optim", "output") for path in sources.typed.values)
    if not (is_begun and is_unknown_here(config.model)):
        check_fit(config, "" if is_typed else f"{sources.name}: ")
    _check_base_width(config.model, sources.typed)
    return resolve(config)


def check_fit(config: RunConfig, source: str = "") -> None:
    """Refuse what the variant, the optimizer or the family does not have, or does not allow.

    Args:
        config: The run.
        source: What messages begin with.

    Raises:
        UsageError: Naming the fields.
    """
    with prefixed(source):
        check_registered(config.model.ffn)
        if config.model.ffn_options:  # without any, torch need not be loaded
            ffn_variants.get_variant(config.model.ffn).resolve(config.model.ffn_options)
        get_optimizer(config.optim.optimizer).resolve(config.optim)
        _check_splines(config.splines, config.model.ffn, config.model.ffn_options)
        if get_family(config.family).objective == "span_corruption":
            _check_span_corruption(config)


def _check_splines(splines: SplineConfig, ffn: str, options: dict[str, Any] | None) -> None:
    for name in ("knot_updates", "penalty", "prune_below"):
        if getattr(splines, name) and "splines" not in ffn_variants.get_variant(ffn).options:
            raise UsageError(
                f"splines.{name} has no effect with model.ffn {ffn!r}, which has no splines; set it "
                f"under `variants:` for those that have, or leave it out"
            )
    if splines.prune_below and (options or {}).get("splines") != "sparse":
        raise UsageError(
            "splines.prune_below needs model.ffn_options splines sparse, which keeps a mask of the rest"
        )
    if splines.prune_below and max(splines.knot_updates, default=0) > splines.prune_at:
        raise UsageError(
            f"splines.knot_updates {max(splines.knot_updates)} is after splines.prune_at {splines.prune_at}: "
            "pruned coefficients belong to their knots; move them before"
        )


def _check_span_corruption(config: RunConfig) -> None:
    train = config.train
    if train.compile_model is True:
        raise UsageError(
            f"train.compile_model compiles one stack of layers for one shape, and {config.family} has two "
            "of several shapes; leave it out"
        )
    length = train.mean_noise_span_length or MEAN_NOISE_SPAN_LENGTH
    spans = int(num_noise_spans(config.data.block_size, train.mlm_probability, length))
    if spans >= NUM_SENTINELS:
        raise UsageError(
            f"data.block_size {config.data.block_size} may have {spans} spans in a document, and "
            f"{config.family} has sentinels for {NUM_SENTINELS - 1}; lower it, or raise "
            f"train.mean_noise_span_length {length:g}"
        )


def resolve(config: RunConfig) -> ResolvedConfig:
    """Fill in fields whose default depends on other fields, so that the saved config says what was run.

    For RoBERTa with ``data.block_size`` 512 and no field of ``model:`` given: 513 positions, both dropouts
    0.1, an initializer_range of 0.02.
    """
    model, train, family = config.model, config.train, get_family(config.family)
    dropouts = dict.fromkeys(("hidden_dropout", "attention_dropout"), family.dropout)
    if family.has_one_dropout:
        of_model = [value for name in dropouts if (value := getattr(model, name)) is not None]
        dropouts = dict.fromkeys(dropouts, [*of_model, family.dropout][0])
    defaults: dict[str, Any] = {
        "max_position_embeddings": config.data.block_size + family.first_position(),
        **dropouts,
        "initializer_range": INITIALIZER_RANGE,
        "tie_word_embeddings": family.ties_embeddings,
    }
    if family.objective == "span_corruption" and train.mean_noise_span_length is None:
        train = train.model_copy(update={"mean_noise_span_length": MEAN_NOISE_SPAN_LENGTH})
    has = {"max_position_embeddings", *family.config_fields}
    missing = {name: defaults[name] for name in defaults if name in has and getattr(model, name) is None}
    settled = ResolvedModelConfig(**dict(model) | missing)
    parts: dict[str, Any] = {"model": _within_budget(settled, family.has_ffn_biases), "train": train}
    return ResolvedConfig(**dict(config) | parts)


def _within_budget(model: ResolvedModelConfig, biases: bool) -> ResolvedModelConfig:
    """Put in the width that the budget asks for; the other weights stay paired with the baseline's.

    The baseline's width stays in ``paired_intermediate_size``, so a result of this is solved to itself.
    """
    if model.ffn_budget == "width" or is_unknown_here(model):  # of a run whose width was saved
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


def _check_base_width(model: ModelConfig, typed: Typed) -> None:
    """Refuse a flag for the width where a budget overrides it."""
    flagged = typed.values.get(("model", "intermediate_size"))
    if flagged is not None and model.ffn_budget != "width" and model.paired_intermediate_size:
        raise UsageError(
            f"--model.intermediate-size {flagged} has no effect: ffn_budget {model.ffn_budget} starts from "
            f"paired_intermediate_size {model.paired_intermediate_size}; give "
            f"--model.paired-intermediate-size {flagged}, or --ffn-budget width"
        )
