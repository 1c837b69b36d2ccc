"""The registry of feed-forward variants, the functions that read it, and the one that adds to it.

Each file of variants ends with their specs: formula, reference, options and counts. Installed packages bring
variants of their own by the entry point group ``ffn_variants``, which is read where a name is not here.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

from torch import nn

from base.errors import UsageError, first_line
from ffn_variants.names import check_registered, installed_variants
from ffn_variants.spec import FFNSpec, check_spec
from ffn_variants.variants import (
    activations,
    bump_kan,
    edge_kan,
    gated,
    kan,
    learned_curves,
    series_kan,
    sparse,
    spline_kan,
)

FFN_VARIANTS: dict[str, FFNSpec] = {
    spec.name: spec
    for spec in (
        *activations.ACTIVATION_SPECS,
        learned_curves.XIELU_SPEC,
        *learned_curves.POLYCOM_SPECS,
        learned_curves.RATIONAL_SPEC,
        activations.GAUSSIAN_TOPK_SPEC,
        gated.NO_FFN_SPEC,
        *gated.GATED_SPECS,
        kan.KAN_SPEC,
        kan.THESIS_SPEC,
        series_kan.FOURIER_SPEC,
        series_kan.CHEBY_SPEC,
        series_kan.JACOBI_SPEC,
        series_kan.HERMITE_SPEC,
        bump_kan.RBF_SPEC,
        bump_kan.RELU_SPEC,
        series_kan.SINE_SPEC,
        edge_kan.WAV_SPEC,
        edge_kan.MLP_EDGE_SPEC,
        spline_kan.SPLINE_SPEC,
        spline_kan.SPLINE_ACTIVATION_SPEC,
        learned_curves.GR_KAN_SPEC,
        sparse.MOE_SPEC,
        sparse.PRODUCT_KEY_MEMORY_SPEC,
    )
}
"""Every variant of this project, and what ``register`` added."""


def get_variant(name: str) -> FFNSpec:
    """Look a variant up; one of an installed package is loaded when it is first asked for.

    Raises:
        UsageError: If there is none of that name; lists all and the closest match. For a
            variant of a package, if that cannot be loaded.
    """
    if name in FFN_VARIANTS:
        return FFN_VARIANTS[name]
    check_registered(name)
    return _load(installed_variants()[name])


def register(spec: FFNSpec) -> FFNSpec:
    """Add a variant for the life of this process: its name then works wherever a variant is named.

    Args:
        spec: Of a notebook, or of a module of yours. ``load_variant`` does it for one in a file.

    Returns:
        The same spec.

    Raises:
        UsageError: If the spec is not complete, or another variant has its name, or had it but for capitals:
            the folders of both would be one on a Mac.
    """
    check_spec(spec)
    for name in (*FFN_VARIANTS, *installed_variants()):
        if name.lower() == spec.name.lower() and FFN_VARIANTS.get(name) is not spec:
            raise UsageError(
                f"an FFN variant {name!r} is there already; give the spec another name, which is what "
                "folders, tables and reports show, or, after an edit of it, start a new process"
            )
    FFN_VARIANTS[spec.name] = spec
    return spec


def _load(entry: EntryPoint) -> FFNSpec:
    """Load the variant of a package, and keep it."""
    place = f"FFN variant {entry.name!r} of the installed package {entry.dist.name if entry.dist else '?'}"
    try:
        spec = entry.load()
    except Exception as error:  # the package's own code
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UsageError(f"{place} cannot be loaded: {reason}; mend the package or uninstall it") from None
    try:
        check_spec(spec)
    except UsageError as error:
        raise UsageError(f"{place} ({entry.value}): {error}") from None
    if spec.name != entry.name:
        raise UsageError(f"{place}: its spec calls itself {spec.name!r}; the two names must be one")
    FFN_VARIANTS[spec.name] = spec
    return spec


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
