"""Feed-forward variants of small language models.

``import ffn_variants.models`` registers the models with transformers: it takes seconds, which the registry of
variants does without.

To read it: ``spec`` says what a variant is, ``variants/gated`` and ``variants/activations`` are the plainest,
``registry`` lists all of them. ``variants/kan`` needs ``splines/b_splines``, whose functions
``kernels/basis_linear`` multiplies with weights. ``models/layers`` puts a variant into a transformer layer,
``models/modeling`` into a model. ``source_fingerprint`` tells a changed variant from the one that was
trained; ``bundle``, ``check``, ``swap`` and ``list_variants`` are what can be done with one, and stand above
all else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from base.errors import UsageError
from base.families import FAMILIES, Budget, FamilySpec
from base.options import Option
from ffn_variants.budget import matching_width
from ffn_variants.registry import FFN_VARIANTS, build_ffn, get_variant, register
from ffn_variants.spec import FFNSpec
from ffn_variants.variant_files import load_variant

if TYPE_CHECKING:
    from ffn_variants.models.configuration import FFNGPTNeoConfig as FFNGPTNeoConfig
    from ffn_variants.models.configuration import FFNLlamaConfig as FFNLlamaConfig
    from ffn_variants.models.configuration import FFNRobertaConfig as FFNRobertaConfig
    from ffn_variants.models.configuration import FFNT5Config as FFNT5Config
    from ffn_variants.models.family_models import build_config as build_config
    from ffn_variants.models.family_models import build_model as build_model
    from ffn_variants.models.family_models import count_flops as count_flops
    from ffn_variants.models.family_models import count_parameters as count_parameters

__all__ = [
    "FAMILIES",
    "FFN_VARIANTS",
    "Budget",
    "FFNGPTNeoConfig",
    "FFNLlamaConfig",
    "FFNRobertaConfig",
    "FFNSpec",
    "FFNT5Config",
    "FamilySpec",
    "Option",
    "UsageError",
    "build_config",
    "build_ffn",
    "build_model",
    "count_flops",
    "count_parameters",
    "get_variant",
    "load_variant",
    "matching_width",
    "register",
]

_CONFIGS = {"FFNGPTNeoConfig", "FFNLlamaConfig", "FFNRobertaConfig", "FFNT5Config"}
_OF_MODELS = {"build_config", "build_model", "count_flops", "count_parameters"}


def __getattr__(name: str) -> Any:
    """Import what a name of models needs, transformers among it."""
    if name not in _CONFIGS | _OF_MODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "configuration" if name in _CONFIGS else "family_models"
    globals()[name] = value = getattr(importlib.import_module(f"ffn_variants.models.{module}"), name)
    return value
