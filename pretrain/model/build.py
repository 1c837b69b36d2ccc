"""The model of a run, built from its configuration, and what it costs in parameters and FLOPs."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import ffn_variants
from base.families import BASELINE, get_family
from base.text.corruption import Masker, SpanCorruptor, corrupted_lengths
from ffn_variants.models.layers import ffn_modules
from pretrain.config import ResolvedConfig
from pretrain.data.tokenizer import add_sentinels, load_tokenizer
from pretrain.model.parameter_groups import learnable_weights


def build(
    config: ResolvedConfig, vocab_size: int, token_ids: dict[str, int] | None = None
) -> PreTrainedModel:
    """Build the model of a run; its weights come from torch's global generator, so seed that first.

    Args:
        config: The run.
        vocab_size: Tokens of the tokenizer.
        token_ids: pad_token_id, bos_token_id and eos_token_id; by default those of ``data.tokenizer``, or of
            a trained one.
    """
    model, family = config.model, get_family(config.family)
    ids = token_ids or _token_ids(config)
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "paired_intermediate_size": model.paired_intermediate_size,
        "num_hidden_layers": model.num_hidden_layers,
        "num_attention_heads": model.num_attention_heads,
        # The config's number is that for a pad id of 0, as no config depends on what is in a folder.
        "max_position_embeddings": model.max_position_embeddings
        + family.first_position(ids["pad_token_id"])
        - family.first_position(),
        **ids,
    }
    fields = family.config_fields
    of_family = {theirs: getattr(model, ours) for ours, names in fields.items() for theirs in names}
    options = dict(model.ffn_options) if model.ffn_options else None
    network = ffn_variants.build_model(config.family, model.ffn, options, **shared, **of_family)
    if model.ffn_initializer_factor != 1:
        is_block = ffn_variants.get_variant(model.ffn).kind == "block"
        for each in filter(lambda each: each.is_ffn and each.decays, learnable_weights(network)):
            # Neither an activation's own curves, nor the scaler of coefficients that have the factor already.
            if each.view or (is_block and not each.name.endswith("_scaler")):
                each.parameter.data.mul_(model.ffn_initializer_factor)
    return network


def _token_ids(config: ResolvedConfig) -> dict[str, int]:
    if config.data.tokenizer is None:
        return {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return special_token_ids(load_tokenizer(config.data.tokenizer, get_family(config.family).objective))


def special_token_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """The ids a model's config records."""
    return {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}


def build_masker(config: ResolvedConfig, tokenizer: PreTrainedTokenizerFast) -> Masker | SpanCorruptor | None:
    """The corruption of a masked model's or an encoder-decoder's input; None for a causal model."""
    kind = get_family(config.family).objective
    if kind == "causal":
        return None
    if kind == "span_corruption":
        ids = special_token_ids(tokenizer)
        return SpanCorruptor(
            add_sentinels(tokenizer),
            ids["bos_token_id"],
            ids["eos_token_id"],
            ids["pad_token_id"],
            *_noise_spans(config),
        )
    special = np.unique(tokenizer.all_special_ids).tolist()
    return Masker(len(tokenizer), special, int(tokenizer.mask_token_id), config.train.mlm_probability)  # type: ignore[arg-type]


def _noise_spans(config: ResolvedConfig) -> tuple[float, float]:
    """The share of tokens that spans leave out, and how many a span has on average."""
    train = config.train
    return train.mlm_probability, float(train.mean_noise_span_length)  # type: ignore[arg-type]


def cost_facts(config: ResolvedConfig, network: PreTrainedModel) -> dict[str, Any]:
    """Parameters and FLOPs of a run's model, and of one of its FFNs.

    Args:
        config: The run.
        network: Its model, with or without trained weights.

    Returns:
        ``parameters`` as ``count_parameters`` has them; ``flops_per_token`` as ``count_flops`` has them for
        rows of block_size tokens, of which a T5 reads a part in its encoder and a part in its decoder;
        ``ffn``: the budget, the widths, and what the FFN of a layer has of both.
    """
    model = config.model
    parameters = ffn_variants.count_parameters(network)
    num_ffns = sum(bool(ffn_modules(module)) for module in network.modules())
    spec, options = ffn_variants.get_variant(model.ffn), model.ffn_options or {}
    return {
        "parameters": parameters,
        "flops_per_token": _flops_per_token(config, network),
        "ffn": {
            "budget": model.ffn_budget,
            "intermediate_size": model.intermediate_size,
            "baseline_intermediate_size": model.paired_intermediate_size or model.intermediate_size,
            "parameters_per_layer": parameters["ffn"] // num_ffns,
            "active_parameters_per_layer": spec.num_active_params(
                model.hidden_size, model.intermediate_size, **options
            ),
            "flops_per_token_per_layer": spec.flops_per_token(
                model.hidden_size, model.intermediate_size, **options
            ),
        },
    }


def _flops_per_token(config: ResolvedConfig, network: PreTrainedModel) -> dict[str, int]:
    """FLOPs of the forward pass in training, for one token of the text."""
    length = config.data.block_size
    if get_family(config.family).objective != "span_corruption":
        return ffn_variants.count_flops(network, length)
    of_encoder, of_decoder = corrupted_lengths(length, *_noise_spans(config))
    counts = ffn_variants.count_flops(network, of_encoder, of_decoder)
    parts = {name: round(count * of_encoder / length) for name, count in counts.items() if name != "total"}
    return {"total": sum(parts.values()), **parts}


def describe_costs(config: ResolvedConfig, facts: dict[str, Any]) -> list[str]:
    """Say in two lines what the model costs, and one of its FFNs beside the baseline's; cautions follow.

    Args:
        config: The run.
        facts: What ``cost_facts`` gave for it.
    """
    ffn, flops, width = facts["ffn"], facts["flops_per_token"], facts["ffn"]["baseline_intermediate_size"]
    base, sizes = ffn_variants.get_variant(BASELINE), (config.model.hidden_size, width)
    base_parameters, base_flops = base.num_params(*sizes), base.flops_per_token(*sizes)
    if not get_family(config.family).has_ffn_biases:
        base_parameters -= sum(sizes)
    parameters = ffn["parameters_per_layer"]
    ffn_flops = ffn["flops_per_token_per_layer"]
    caution = ffn_variants.get_variant(config.model.ffn).caution
    reason = "as given" if ffn["budget"] == "width" else f"{ffn['budget']} budget"
    return [
        f"FFN              {config.model.ffn}, intermediate_size {ffn['intermediate_size']} ({reason}): "
        f"{parameters:,} parameters a layer ({BASELINE} at {width}: {base_parameters:,}, "
        f"{_change(parameters, base_parameters)})",
        f"forward FLOPs    {flops['total'] / 1e6:,.2f} M a token; FFN {ffn_flops / 1e6:,.3f} M a layer "
        f"({BASELINE} at {width}: {base_flops / 1e6:,.3f} M, {_change(ffn_flops, base_flops)})",
        *([f"caution          {caution}"] if caution else []),
    ]


def _change(value: int, base: int) -> str:
    return f"{100 * (value / base - 1):+.1f}%"
