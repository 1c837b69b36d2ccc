"""What a run's model costs: the facts for its provenance, and the lines of ``--dry-run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ffn_variants
from ffn_variants.budget import BASELINE
from pretrain.config import RunConfig, resolve

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def cost_facts(config: RunConfig, network: PreTrainedModel) -> dict[str, Any]:
    """Parameters and FLOPs of a run's model, and of one of its FFNs.

    Args:
        config: The run.
        network: Its model, with or without trained weights.

    Returns:
        ``parameters`` as ``count_parameters`` has them; ``flops_per_token`` as ``count_flops`` has them for
        rows of block_size tokens; ``ffn``: the budget, the widths, and what the FFN of a layer has of both.
    """
    model = resolve(config).model
    parameters = ffn_variants.count_parameters(network)
    flops = ffn_variants.count_flops(network, config.data.block_size)
    return {
        "parameters": parameters,
        "flops_per_token": flops,
        "ffn": {
            "budget": model.ffn_budget,
            "intermediate_size": model.intermediate_size,
            "baseline_intermediate_size": model.paired_intermediate_size or model.intermediate_size,
            "parameters_per_layer": parameters["ffn"] // model.num_hidden_layers,
            "flops_per_token_per_layer": flops["ffn"] // model.num_hidden_layers,
        },
    }


def describe_costs(config: RunConfig, facts: dict[str, Any]) -> list[str]:
    """Say in two lines what the model costs, and one of its FFNs beside the baseline's.

    Args:
        config: The run.
        facts: What ``cost_facts`` gave for it.
    """
    ffn, flops, width = facts["ffn"], facts["flops_per_token"], facts["ffn"]["baseline_intermediate_size"]
    base, sizes = ffn_variants.get_variant(BASELINE), (config.model.hidden_size, width)
    base_parameters, base_flops = base.num_params(*sizes), base.flops_per_token(*sizes)
    parameters = ffn["parameters_per_layer"]
    ffn_flops = ffn["flops_per_token_per_layer"]
    chosen = "as given" if ffn["budget"] == "width" else f"{ffn['budget']} budget"
    return [
        f"FFN              {config.model.ffn}, intermediate_size {ffn['intermediate_size']} ({chosen}): "
        f"{parameters:,} parameters a layer ({BASELINE} at {width}: {base_parameters:,}, "
        f"{_change(parameters, base_parameters)})",
        f"forward FLOPs    {flops['total'] / 1e6:,.2f} M a token; FFN {ffn_flops / 1e6:,.3f} M a layer "
        f"({BASELINE} at {width}: {base_flops / 1e6:,.3f} M, {_change(ffn_flops, base_flops)})",
    ]


def _change(value: int, base: int) -> str:
    return f"{100 * (value / base - 1):+.1f}%"
