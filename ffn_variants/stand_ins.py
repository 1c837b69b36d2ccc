"""What takes the place of the registry and of kernels where a model's code travels alone.

``bundle`` writes this file among the others, with the model's variants below, and every import of what it
stands in for becomes one of this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# For ``base.errors``.


class UsageError(ValueError):
    """A user's mistake; the message says what is allowed."""


def shown(value: object) -> str:
    """Return a value as a message repeats it."""
    return repr(value)


def unknown_name(kind: str, name: object, available: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist."""
    return UsageError(f"unknown {kind} {name!r}; there are: {', '.join(available)}")


# For ``ffn_variants.registry``: the variants of one model.

FFN_VARIANTS: dict[str, Any] = {}
"""Specs by name."""


def get_variant(name: str) -> Any:
    """Look a variant up; an error names those that there are."""
    if name not in FFN_VARIANTS:
        raise unknown_name("FFN variant", name, FFN_VARIANTS)
    return FFN_VARIANTS[name]


def is_registered(name: str) -> bool:
    """Whether there is a variant of that name."""
    return name in FFN_VARIANTS


# For ``ffn_variants.source_fingerprint``: the code that travels with weights is that of their training.


def is_same_source(name: str, recorded: str | None) -> bool:
    """Say yes."""
    return True


def describe_change(name: str, recorded: str) -> str:
    """Return what is never said."""
    return "another source"


def cure(recorded: str) -> str:
    """Return what is never said."""
    return "load the model with its own code"


# For ``ffn_variants.models.stored_variants``: the variants are here, so none is looked for.


def need_variants(config: Any) -> None:
    """Do nothing."""


def load_variants(config: Any, model: Any, trust: bool, **arguments: Any) -> None:
    """Do nothing."""


def save_variants(config: Any, folder: Any) -> None:
    """Do nothing: transformers copies the files of code that a model was loaded from."""


def hub_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return no argument."""
    return {}


# For ``ffn_variants.kernels.triton_ops``: torch alone computes the bases, on a GPU too.


def triton_kernels(basis: Any) -> None:
    """Find no kernels of a basis."""
