"""Feed-forward variants of small language models; importing this registers the models with transformers.

Neither torch nor transformers is imported before one of the names below, or one of the models, is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ffn_variants.registration import register_on_demand

if TYPE_CHECKING:
    from base.errors import UsageError
    from base.families import FAMILIES, objective
    from ffn_variants.budget import Budget, matching_width
    from ffn_variants.models.configuration import FFNGPTNeoConfig, FFNRobertaConfig, FFNT5Config
    from ffn_variants.models.families import build_config, build_model, count_flops, count_parameters
    from ffn_variants.models.modeling import (
        FFNGPTNeoForCausalLM,
        FFNGPTNeoForSequenceClassification,
        FFNGPTNeoModel,
        FFNRobertaForMaskedLM,
        FFNRobertaForSequenceClassification,
        FFNRobertaModel,
        FFNT5ForConditionalGeneration,
        FFNT5ForSequenceClassification,
        FFNT5Model,
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
    "FFNT5Config",
    "FFNT5ForConditionalGeneration",
    "FFNT5ForSequenceClassification",
    "FFNT5Model",
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

_MODULES = {
    "budget": ("Budget", "matching_width"),
    "models.configuration": ("FFNGPTNeoConfig", "FFNRobertaConfig", "FFNT5Config"),
    "models.families": ("build_config", "build_model", "count_flops", "count_parameters"),
    "models.modeling": (
        "FFNGPTNeoForCausalLM",
        "FFNGPTNeoForSequenceClassification",
        "FFNGPTNeoModel",
        "FFNRobertaForMaskedLM",
        "FFNRobertaForSequenceClassification",
        "FFNRobertaModel",
        "FFNT5ForConditionalGeneration",
        "FFNT5ForSequenceClassification",
        "FFNT5Model",
    ),
    "registry": ("FFN_VARIANTS", "build_ffn", "get_variant"),
    "spec": ("FFNSpec",),
}
_MODULE_OF = {name: f"ffn_variants.{module}" for module, names in _MODULES.items() for name in names}
_MODULE_OF |= {"UsageError": "base.errors", "FAMILIES": "base.families", "objective": "base.families"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_on_demand()
