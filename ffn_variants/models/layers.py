"""Where the feed-forward network sits in each architecture's layer, and how another takes its place.

Two functions dispatch on the class of the layer; a new architecture is one more registration of each.
"""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor, nn
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoBlock, GPTNeoMLP
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.roberta.modeling_roberta import RobertaIntermediate, RobertaLayer
from transformers.models.t5.modeling_t5 import T5DenseActDense, T5LayerFF

from ffn_variants.models.configuration import (
    FFNConfig,
    FFNGPTNeoConfig,
    FFNLlamaConfig,
    FFNRobertaConfig,
    FFNT5Config,
)
from ffn_variants.registry import get_variant
from ffn_variants.variants.activations import ActivationFFN


@singledispatch
def ffn_modules(layer: nn.Module) -> tuple[nn.Module, ...]:
    """Return the modules that hold a layer's FFN weights; empty for a module that is no transformer layer."""
    return ()


@singledispatch
def replace_ffn(layer: nn.Module, config: FFNConfig) -> None:
    """Put the config's variant in place of the stock FFN of a layer.

    Args:
        layer: A transformer layer as its stock constructor left it.
        config: The model's config.
    """
    raise NotImplementedError(f"no FFN replacement is registered for {type(layer).__name__}")


def _new_block(config: FFNConfig, width: int) -> nn.Module | None:
    """Build a variant that replaces the whole network; None for an elementwise one."""
    spec = get_variant(config.ffn)
    if spec.kind != "block":
        return None
    return spec.build(config.hidden_size, width, **spec.resolve(config.ffn_options))


def _new_activation(config: FFNConfig, width: int, family_gelu: str) -> nn.Module:
    """Build an elementwise variant; a GELU of no stated form gets that of the family."""
    spec = get_variant(config.ffn)
    options = spec.resolve(config.ffn_options)
    if config.ffn == "gelu" and options["approximate"] == "auto":
        options["approximate"] = family_gelu
    return spec.build(width, **options)


class DroppedOutFFN(nn.Module):
    """A block variant and the dropout that the stock FFN has on its output.

    Args:
        ffn: Module from (..., D) to (..., D).
        dropout: Applied to its output.
    """

    def __init__(self, ffn: nn.Module, dropout: nn.Module):
        super().__init__()
        self.ffn = ffn
        self.dropout = dropout

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.dropout(self.ffn(hidden_states))


@ffn_modules.register
def _(layer: GPTNeoBlock) -> tuple[nn.Module, ...]:
    return (layer.mlp,)


@replace_ffn.register
def _(layer: GPTNeoBlock, config: FFNGPTNeoConfig) -> None:
    width = config.intermediate_size or 4 * config.hidden_size
    if (ffn := _new_block(config, width)) is not None:
        layer.register_module("mlp", DroppedOutFFN(ffn, layer.mlp.dropout))
        return
    if layer.mlp.c_fc.out_features != width:
        layer.mlp = GPTNeoMLP(width, config)
    # The stock gelu_new is this function in seven passes over the data; torch has it in one.
    layer.mlp.act = _new_activation(config, width, family_gelu="tanh")


@ffn_modules.register
def _(layer: RobertaLayer) -> tuple[nn.Module, ...]:
    # output holds LayerNorm and dropout as well, which are no part of the FFN.
    return (layer.intermediate, layer.output.dense)


@replace_ffn.register
def _(layer: RobertaLayer, config: FFNRobertaConfig) -> None:
    width = config.intermediate_size
    if (ffn := _new_block(config, width)) is not None:
        layer.register_module("intermediate", ffn)
        layer.output.register_module("dense", nn.Identity())
        return
    if layer.intermediate.dense.out_features != width:
        layer.intermediate = RobertaIntermediate(config)
        layer.output.dense = nn.Linear(width, config.hidden_size)
    layer.intermediate.intermediate_act_fn = _new_activation(config, width, family_gelu="none")


@ffn_modules.register
def _(layer: T5LayerFF) -> tuple[nn.Module, ...]:
    return (layer.DenseReluDense,)


@replace_ffn.register
def _(layer: T5LayerFF, config: FFNT5Config) -> None:
    # The layer itself has norm, residual and the dropout on what its FFN gives.
    width: int = config.intermediate_size
    if (ffn := _new_block(config, width)) is not None:
        layer.register_module("DenseReluDense", ffn)
        _initialize_as_t5(ffn, config.initializer_factor)
        return
    if layer.DenseReluDense.wo.in_features != width:
        layer.DenseReluDense = T5DenseActDense(config)
    layer.DenseReluDense.act = _new_activation(config, width, family_gelu="tanh")


@ffn_modules.register
def _(layer: LlamaDecoderLayer) -> tuple[nn.Module, ...]:
    return (layer.mlp,)


@replace_ffn.register
def _(layer: LlamaDecoderLayer, config: FFNLlamaConfig) -> None:
    # An activation stands between two linear layers as in the other families, here without biases; the stock
    # FFN, of three, is the block swiglu.
    width: int = config.intermediate_size
    ffn = _new_block(config, width)
    if ffn is None:
        activation = _new_activation(config, width, family_gelu="none")
        ffn = ActivationFFN(config.hidden_size, width, activation, bias=False)
    layer.register_module("mlp", ffn)


def _initialize_as_t5(ffn: nn.Module, factor: float) -> None:
    """Draw the linear layers of a block as T5 draws those of its own FFN: normal, std 1 / sqrt(inputs).

    Here, as transformers would give them a standard deviation of 1: T5 sets those of layers that it knows.
    """
    for module in ffn.modules():
        if isinstance(module, nn.Linear) and not module.weight.is_meta:
            with torch.no_grad():
                module.weight.normal_(0.0, factor * module.in_features**-0.5)
                if module.bias is not None:
                    module.bias.zero_()
            setattr(module, "_is_hf_initialized", True)  # noqa: B010
