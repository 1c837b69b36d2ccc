"""What FFNs of this project's variants cost, without torch, by a file that ships: ``known_costs.json``.

``python -m benchmarks.known_costs`` writes it anew after a change of the variants' code. It holds the
table of ``list variants``, and polynomials in the sizes, without options. Nothing of it is used where the
code is another than what it was made with, or where the registry is loaded.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ffn_variants
from base.files import CODE_ROOT
from base.records import read_json
from ffn_variants.names import installed_variants

FILE = Path(__file__).with_suffix(".json")
CODE = (
    *("base/kan_layers.py", "base/options.py", "ffn_variants/kernels/*.py", "ffn_variants/splines/*.py"),
    *("ffn_variants/variants/*.py", "ffn_variants/list_variants.py", "ffn_variants/known_costs.py"),
    *("ffn_variants/registry.py", "ffn_variants/spec.py"),
)
"""Files that the numbers and texts come from."""


class FFNCosts(NamedTuple):
    """Of one FFN, with its linear layers and biases."""

    kind: str
    caution: str
    """As in ``FFNSpec``."""
    parameters: int
    """Learnable ones."""
    active_parameters: int
    """Those that one token meets."""
    flops_per_token: int
    """Of the forward pass."""


def ffn_costs(
    ffn: str, hidden_size: int, intermediate_size: int, options: Mapping[str, Any] | None = None
) -> FFNCosts:
    """Count what one FFN costs.

    Args:
        ffn: Name of a variant.
        hidden_size: D.
        intermediate_size: F.
        options: Options of the variant.

    Raises:
        UsageError: As its spec does, for an unknown variant or option, or a size that cannot be.
    """
    sizes = (hidden_size, intermediate_size)
    if not options and ffn in (costs := known().get("costs", {})):
        kind, caution, *polynomials = costs[ffn]
        return FFNCosts(kind, caution, *(value(each, *sizes) for each in polynomials))
    spec = ffn_variants.get_variant(ffn)
    counts = (spec.num_params, spec.num_active_params, spec.flops_per_token)
    return FFNCosts(spec.kind, spec.caution, *(count(*sizes, **options or {}) for count in counts))


def known() -> dict[str, Any]:
    """Return what the file holds; nothing where that may not be what there is."""
    is_loaded = "ffn_variants.registry" in sys.modules
    content = {} if is_loaded or installed_variants() else _content()
    return content if content.get("code") == code_hash() else {}


@functools.cache
def _content() -> dict[str, Any]:
    return read_json(FILE)


@functools.cache
def code_hash() -> str:
    """Hash the code that the file is about."""
    paths = sorted(path for pattern in CODE for path in CODE_ROOT.glob(pattern))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def value(polynomial: Sequence[int], d: int, f: int) -> int:
    """Return what a polynomial of the file is at D and F."""
    of_none, of_d, of_f, of_both = polynomial
    return of_none + of_d * d + of_f * f + of_both * d * f
