"""For ``ffn_variants.kernels.triton_ops``: torch alone computes the bases, on a GPU too."""

from __future__ import annotations

from typing import Any


def has_triton() -> bool:
    """Say no."""
    return False


def triton_kernels(basis: Any) -> None:
    """Find no kernels of a basis."""


def rational_gradients(*args: Any) -> Any:
    """Never called, as there is no Triton."""
    raise NotImplementedError
