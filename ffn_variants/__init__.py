"""Feed-forward variants of small language models; importing this registers the models with transformers.

To read it: ``spec`` says what a variant is, ``variants/gated`` and ``variants/activations`` are the plainest,
``registry`` lists all of them. ``variants/kan`` needs ``splines/b_splines``, whose functions
``kernels/basis_linear`` multiplies with weights. ``models/layers`` puts a variant into a transformer layer,
``models/modeling`` into a model. ``source_fingerprint`` tells a changed variant from the one that was
trained; ``bundle``, ``check``, ``swap`` and ``list_variants`` are what can be done with one, and stand above
all else.
"""

from base.errors import UsageError
from base.families import FAMILIES, Budget, FamilySpec
from base.options import Option
from ffn_variants.budget import matching_width
from ffn_variants.models.configuration import (
    FFNGPTNeoConfig,
    FFNLlamaConfig,
    FFNRobertaConfig,
    FFNT5Config,
)
from ffn_variants.models.family_models import build_config, build_model, count_flops, count_parameters
from ffn_variants.registry import FFN_VARIANTS, build_ffn, get_variant, register
from ffn_variants.spec import FFNSpec
from ffn_variants.variant_files import load_variant

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
