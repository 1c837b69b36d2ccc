"""For ``ffn_variants.registry``: the variants of one model, which are added below."""

from __future__ import annotations

from base.errors import unknown_name
from ffn_variants.spec import FFNSpec

FFN_VARIANTS: dict[str, FFNSpec] = {}
"""By name."""


def get_variant(name: str) -> FFNSpec:
    """Look a variant up; an error names those that there are."""
    if name not in FFN_VARIANTS:
        raise unknown_name("FFN variant", name, FFN_VARIANTS)
    return FFN_VARIANTS[name]


def is_registered(name: str) -> bool:
    """Whether there is a variant of that name."""
    return name in FFN_VARIANTS
