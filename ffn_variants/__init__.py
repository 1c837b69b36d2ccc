"""Feed-forward variants of small language models.

``import ffn_variants.models`` registers the models with transformers; it takes seconds, which the registry
does without. Torch takes one, and is loaded with the first name that needs it; ``names`` knows without it
which variants there are.

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

if TYPE_CHECKING:
    from ffn_variants.budget import matching_width as matching_width
    from ffn_variants.models.configuration import FFNGPTNeoConfig as FFNGPTNeoConfig
    from ffn_variants.models.configuration import FFNLlamaConfig as FFNLlamaConfig
    from ffn_variants.models.configuration import FFNRobertaConfig as FFNRobertaConfig
    from ffn_variants.models.configuration import FFNT5Config as FFNT5Config
    from ffn_variants.models.family_models import build_config as build_config
    from ffn_variants.models.family_models import build_model as build_model
    from ffn_variants.registry import FFN_VARIANTS as FFN_VARIANTS
    from ffn_variants.registry import build_ffn as build_ffn
    from ffn_variants.registry import get_variant as get_variant
    from ffn_variants.registry import register as register
    from ffn_variants.spec import FFNSpec as FFNSpec
    from ffn_variants.variant_files import load_variant as load_variant

_NAMES = {
    "budget": ("matching_width",),
    "models.configuration": ("FFNGPTNeoConfig", "FFNLlamaConfig", "FFNRobertaConfig", "FFNT5Config"),
    "models.family_models": ("build_config", "build_model"),
    "registry": ("FFN_VARIANTS", "build_ffn", "get_variant", "register"),
    "spec": ("FFNSpec",),
    "variant_files": ("load_variant",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["FAMILIES", "Budget", "FamilySpec", "Option", "UsageError", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import what a name needs: torch, and of models transformers too."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"ffn_variants.{_MODULES[name]}"), name)
    return value
