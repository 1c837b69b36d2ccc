"""What FFNs of this project's variants cost, without torch, by a file that ships: ``known_costs.json``.

    python -c "from ffn_variants.list_variants import write_known; write_known()"

writes it anew after a change of the variants' code. It holds the table of ``list variants``, and polynomials
in the sizes, without options. Nothing of it is used where the code is another than what it was made with, or
where the registry is loaded.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ffn_variants
from base.errors import UsageError
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
LOW, HIGH = 64, 128
"""D and F that give a polynomial; it must be right at all of the next."""
CHECKED = ((1, 1), (2, 3), (5, 7), (24, 40), (96, 7), (512, 1024), (768, 3072))


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
        return FFNCosts(kind, caution, *(_value(each, sizes) for each in polynomials))
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


def make(rows: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Compute what the file is to hold, with these rows of ``list variants``."""
    costs = {name: _polynomials(name) for name in ffn_variants.FFN_VARIANTS}
    return {
        "code": code_hash(),
        "rows": [list(row) for row in rows],
        "costs": {name: each for name, each in costs.items() if each},
    }


def _polynomials(ffn: str) -> list[Any]:
    """A variant's entry in the file; empty where its costs are no such polynomials at all sizes."""
    try:
        fitted = [ffn_costs(ffn, d, f) for d, f in itertools.product((LOW, HIGH), repeat=2)]
        counted = {(d, f): ffn_costs(ffn, d, f)[2:] for d, f in CHECKED}
    except UsageError:  # channels in groups
        return []
    polynomials = [_through(*values) for values in zip(*(costs[2:] for costs in fitted), strict=True)]
    if any(tuple(_value(each, sizes) for each in polynomials) != counted[sizes] for sizes in CHECKED):
        return []
    return [*fitted[0][:2], *polynomials]


def _through(low: int, of_f: int, of_d: int, high: int) -> list[int]:
    """Coefficients of 1, D, F and D x F by the values where both are LOW, F alone is HIGH, D alone, both."""
    step = HIGH - LOW
    both = (high - of_f - of_d + low) // step**2
    d, f = ((value - low) // step - LOW * both for value in (of_d, of_f))
    return [low - LOW * (d + f) - LOW**2 * both, d, f, both]


def _value(polynomial: Sequence[int], sizes: tuple[int, int]) -> int:
    of_none, of_d, of_f, of_both = polynomial
    d, f = sizes
    return of_none + of_d * d + of_f * f + of_both * d * f
