"""What a run's model costs: the facts for its provenance, and the lines of ``--dry-run``."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

import ffn_variants
from base.families import BASELINE, get_family
from base.text.corruption import corrupted_lengths
from ffn_variants.models.layers import ffn_modules
from pretrain.config import ModelConfig, RunConfig
from pretrain.resolution import resolve


def cost_facts(config: RunConfig, network: PreTrainedModel) -> dict[str, Any]:
    """Parameters and FLOPs of a run's model, and of one of its FFNs.

    Args:
        config: The run.
        network: Its model, with or without trained weights.

    Returns:
        ``parameters`` as ``count_parameters`` has them; ``flops_per_token`` as ``count_flops`` has them for
        rows of block_size tokens, of which a T5 reads a part in its encoder and a part in its decoder;
        ``ffn``: the budget, the widths, and what the FFN of a layer has of both.
    """
    model = resolve(config).model
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
            "active_parameters_per_layer": _active(parameters["ffn"] // num_ffns, spec, model),
            "flops_per_token_per_layer": spec.flops_per_token(
                model.hidden_size, model.intermediate_size, **options
            ),
        },
    }


def _active(parameters: int, spec: ffn_variants.FFNSpec, model: ModelConfig) -> int:
    """Of one FFN's parameters those that a token meets; of most variants all."""
    if spec.active_params is None:
        return parameters
    return spec.num_active_params(model.hidden_size, model.intermediate_size, **(model.ffn_options or {}))


def _flops_per_token(config: RunConfig, network: PreTrainedModel) -> dict[str, int]:
    """FLOPs of the forward pass in training, for one token of the text."""
    length = config.data.block_size
    if get_family(config.family).objective != "span_corruption":
        return ffn_variants.count_flops(network, length)
    train = resolve(config).train
    read, written = corrupted_lengths(length, train.mlm_probability, float(train.mean_noise_span_length))  # type: ignore[arg-type]
    counts = ffn_variants.count_flops(network, read, written)
    parts = {name: round(count * read / length) for name, count in counts.items() if name != "total"}
    return {"total": sum(parts.values()), **parts}


def describe_costs(config: RunConfig, facts: dict[str, Any]) -> list[str]:
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
    chosen = "as given" if ffn["budget"] == "width" else f"{ffn['budget']} budget"
    return [
        f"FFN              {config.model.ffn}, intermediate_size {ffn['intermediate_size']} ({chosen}): "
        f"{parameters:,} parameters a layer ({BASELINE} at {width}: {base_parameters:,}, "
        f"{_change(parameters, base_parameters)})",
        f"forward FLOPs    {flops['total'] / 1e6:,.2f} M a token; FFN {ffn_flops / 1e6:,.3f} M a layer "
        f"({BASELINE} at {width}: {base_flops / 1e6:,.3f} M, {_change(ffn_flops, base_flops)})",
        *([f"caution          {caution}"] if caution else []),
    ]


def _change(value: int, base: int) -> str:
    return f"{100 * (value / base - 1):+.1f}%"
