"""The registry of feed-forward variants, and the two functions that read it.

Each file of variants ends with their specs: formula, reference, options and counts.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from base.errors import UsageError, unknown_name
from ffn_variants.spec import FFNSpec
from ffn_variants.variants import (
    activations,
    cheby_kan,
    efficient_kan,
    fourier_kan,
    gated,
    gr_kan,
    kan,
    rbf_kan,
    spline_kan,
)

FFN_VARIANTS: dict[str, FFNSpec] = {
    spec.name: spec
    for spec in (
        *activations.SPECS,
        *gated.SPECS,
        kan.SPEC,
        kan.THESIS_SPEC,
        *([efficient_kan.SPEC] if efficient_kan.INSTALLED else []),
        fourier_kan.SPEC,
        cheby_kan.SPEC,
        rbf_kan.SPEC,
        spline_kan.SPEC,
        spline_kan.ACTIVATION_SPEC,
        gr_kan.SPEC,
    )
}
"""Every variant; a new one is a file with its modules and its ``SPEC``, and its place in this list."""


def get_variant(name: str) -> FFNSpec:
    """Look a variant up.

    Raises:
        UsageError: If there is none of that name; lists all and the closest match. For ``efficient-kan``,
            if its package is missing.
    """
    if name == efficient_kan.SPEC.name and name not in FFN_VARIANTS:
        raise UsageError(efficient_kan.HOW_TO_INSTALL)
    if name not in FFN_VARIANTS:
        raise unknown_name("FFN variant", name, FFN_VARIANTS)
    return FFN_VARIANTS[name]


def build_ffn(name: str, hidden_size: int, intermediate_size: int, **options: Any) -> nn.Module:
    """Build one feed-forward network.

    Args:
        name: A name in ``FFN_VARIANTS``.
        hidden_size: D.
        intermediate_size: F.
        **options: Options of the variant. ``gelu`` without any is tanh-GELU here.

    Returns:
        A module from (..., D) to (..., D), initialised from torch's global generator.

    Raises:
        UsageError: For an unknown variant or option, or a size below 1.
    """
    spec = get_variant(name)
    resolved = spec.resolve(options)
    for label, size in (("hidden_size", hidden_size), ("intermediate_size", intermediate_size)):
        if size < 1:
            raise UsageError(f"{label} must be at least 1, got {size!r}")
    if spec.kind == "block":
        return spec.build(hidden_size, intermediate_size, **resolved)
    activation = spec.build(intermediate_size, **resolved)
    return activations.ActivationFFN(hidden_size, intermediate_size, activation)
