"""What the model of a run costs in parameters and FLOPs, from its configuration: no model is built.

Symbols: D hidden_size, L layers of a stack, V tokens of the vocabulary, P positions.
"""

from __future__ import annotations

from typing import Any

from base.families import BASELINE, get_family
from base.text.corruption import corrupted_lengths
from ffn_variants.known_costs import ffn_costs
from pretrain.config import ResolvedConfig

T5_DISTANCES = 32
"""Classes of distances between tokens, of which each stack has a bias for each head."""


def cost_facts(config: ResolvedConfig, vocab_size: int, pad_token_id: int = 0) -> dict[str, Any]:
    """Parameters and FLOPs of a run's model, and of one of its FFNs.

    Args:
        config: The run.
        vocab_size: Tokens of the tokenizer.
        pad_token_id: Of the tokenizer.

    Returns:
        ``parameters``, tied ones once: their ``total``, and of it ``ffn`` (all layers), ``embedding`` (token,
        position and segment tables) and ``other``. ``flops_per_token`` of the forward pass for rows of
        block_size tokens, of which a T5 reads a part in its encoder and a part in its decoder: ``total``, and
        of it ``ffn`` (as the variant's spec counts), ``attention`` (its products with all tokens of the row,
        as eager attention computes them before it masks) and ``other`` (linear layers and the output head).
        Counted are two for each multiply-add of a matrix product, as ``torch.utils.flop_counter`` does.
        ``ffn``: the budget, the widths, and what the FFN of a layer has of both.
    """
    model, family = config.model, get_family(config.family)
    ffn = ffn_costs(model.ffn, model.hidden_size, model.intermediate_size, model.ffn_options)
    parameters = ffn.parameters
    if ffn.kind == "activation" and not family.has_ffn_biases:
        parameters -= model.hidden_size + model.intermediate_size
    return {
        "parameters": _parameters(config, vocab_size, pad_token_id, parameters),
        "flops_per_token": _flops_per_token(config, vocab_size, ffn.flops_per_token),
        "ffn": {
            "budget": model.ffn_budget,
            "intermediate_size": model.intermediate_size,
            "baseline_intermediate_size": model.paired_intermediate_size or model.intermediate_size,
            "parameters_per_layer": parameters,
            "active_parameters_per_layer": ffn.active_parameters,
            "flops_per_token_per_layer": ffn.flops_per_token,
        },
    }


def _parameters(config: ResolvedConfig, vocab_size: int, pad_token_id: int, ffn: int) -> dict[str, int]:
    model, family = config.model, get_family(config.family)
    width, layers = model.hidden_size, model.num_hidden_layers
    tables, stacks = vocab_size * width, 1
    positions = model.max_position_embeddings or 0
    # Of each layer four matrices of attention with their biases, and two norms; then what is there once.
    if config.family == "gpt_neo":
        tables += positions * width
        other = layers * (4 * width**2 + 5 * width) + 2 * width
    elif config.family == "roberta":
        segments = 2
        shift = family.first_position(pad_token_id) - family.first_position()
        tables += (positions + shift + segments) * width
        other = layers * (4 * width**2 + 8 * width) + 2 * width + width**2 + 3 * width + vocab_size
    elif config.family == "llama":
        other = layers * (4 * width**2 + 2 * width) + width
    else:  # t5, whose decoder has a second attention in each layer
        stacks = 2
        tables += 2 * T5_DISTANCES * model.num_attention_heads
        other = layers * (12 * width**2 + 5 * width) + 2 * width
    if model.tie_word_embeddings is False:
        other += vocab_size * width
    counts = {"ffn": stacks * layers * ffn, "embedding": tables, "other": other}
    return {"total": sum(counts.values()), **counts}


def _flops_per_token(config: ResolvedConfig, vocab_size: int, ffn_flops: int) -> dict[str, int]:
    """FLOPs of the forward pass in training, for one token of the text."""
    model, train, length = config.model, config.train, config.data.block_size
    width, layers = model.hidden_size, model.num_hidden_layers
    head = vocab_size * width + (width**2 if config.family == "roberta" else 0)
    if get_family(config.family).objective != "span_corruption":
        parts = {
            "ffn": layers * ffn_flops,
            "attention": layers * 4 * length * width,
            "other": 2 * (layers * 4 * width**2 + head),
        }
        return {"total": sum(parts.values()), **parts}
    span = float(train.mean_noise_span_length or 0)
    of_encoder, of_decoder = corrupted_lengths(length, train.mlm_probability, span)
    # In both stacks attention to itself, in the decoder to the encoder as well.
    products = of_encoder**2 + of_decoder**2 + of_encoder * of_decoder
    matrices = layers * width**2 * (6 * of_encoder + 6 * of_decoder)
    sums = {
        "ffn": layers * ffn_flops * (of_encoder + of_decoder),
        "attention": layers * 4 * width * products,
        "other": 2 * (matrices + of_decoder * head),
    }
    parts = {name: round(round(count / of_encoder) * of_encoder / length) for name, count in sums.items()}
    return {"total": sum(parts.values()), **parts}


def describe_costs(config: ResolvedConfig, facts: dict[str, Any]) -> list[str]:
    """Say in two lines what the model costs, and one of its FFNs beside the baseline's; cautions follow.

    Args:
        config: The run.
        facts: What ``cost_facts`` gave for it.
    """
    ffn, flops, width = facts["ffn"], facts["flops_per_token"], facts["ffn"]["baseline_intermediate_size"]
    base = ffn_costs(BASELINE, config.model.hidden_size, width)
    biases = 0 if get_family(config.family).has_ffn_biases else config.model.hidden_size + width
    base_parameters, base_flops = base.parameters - biases, base.flops_per_token
    parameters, ffn_flops = ffn["parameters_per_layer"], ffn["flops_per_token_per_layer"]
    model = config.model
    caution = ffn_costs(model.ffn, model.hidden_size, model.intermediate_size, model.ffn_options).caution
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
