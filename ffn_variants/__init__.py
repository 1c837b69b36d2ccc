"""Feed-forward variants of small language models; importing this registers the models with transformers."""

from __future__ import annotations

from ffn_variants.budget import Budget, matching_width
from ffn_variants.configuration import FFNGPTNeoConfig, FFNRobertaConfig
from ffn_variants.errors import UsageError
from ffn_variants.families import (
    FAMILIES,
    build_config,
    build_model,
    count_flops,
    count_parameters,
    objective,
)
from ffn_variants.modeling import (
    FFNGPTNeoForCausalLM,
    FFNGPTNeoForSequenceClassification,
    FFNGPTNeoModel,
    FFNRobertaForMaskedLM,
    FFNRobertaForSequenceClassification,
    FFNRobertaModel,
)
from ffn_variants.registry import FFN_VARIANTS, build_ffn, get_variant
from ffn_variants.spec import FFNSpec

__all__ = [
    "FAMILIES",
    "FFN_VARIANTS",
    "Budget",
    "FFNGPTNeoConfig",
    "FFNGPTNeoForCausalLM",
    "FFNGPTNeoForSequenceClassification",
    "FFNGPTNeoModel",
    "FFNRobertaConfig",
    "FFNRobertaForMaskedLM",
    "FFNRobertaForSequenceClassification",
    "FFNRobertaModel",
    "FFNSpec",
    "UsageError",
    "build_config",
    "build_ffn",
    "build_model",
    "count_flops",
    "count_parameters",
    "get_variant",
    "matching_width",
    "objective",
]
