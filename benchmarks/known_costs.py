"""Writes ``ffn_variants/known_costs.json`` anew, by which costs are known without torch.

    python -m benchmarks.known_costs        # after a change of the variants' code

A variant whose costs are no polynomials in the sizes has no entry.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from base.errors import UsageError
from base.files import write_text
from ffn_variants import FFN_VARIANTS
from ffn_variants.known_costs import FILE, code_hash, ffn_costs, value
from ffn_variants.list_variants import TableArgs, table_rows

LOW, HIGH = 64, 128
"""D and F that give a polynomial; it must be right at all of the next."""
CHECKED = ((1, 1), (2, 3), (5, 7), (24, 40), (96, 7), (512, 1024), (768, 3072))


def computed() -> dict[str, Any]:
    """Compute what the file is to hold, by the registry."""
    costs = {name: _polynomials(name) for name in FFN_VARIANTS}
    return {
        "code": code_hash(),
        "rows": [list(row) for row in table_rows(TableArgs())],
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
    if any(tuple(value(each, *sizes) for each in polynomials) != counted[sizes] for sizes in CHECKED):
        return []
    return [*fitted[0][:2], *polynomials]


def _through(low: int, of_f: int, of_d: int, high: int) -> list[int]:
    """Coefficients of 1, D, F and D x F by the values where both are LOW, F alone is HIGH, D alone, both."""
    step = HIGH - LOW
    both = (high - of_f - of_d + low) // step**2
    d, f = ((value - low) // step - LOW * both for value in (of_d, of_f))
    return [low - LOW * (d + f) - LOW**2 * both, d, f, both]


def as_text(content: dict[str, Any]) -> str:
    """Write the content with a line for each row and each entry, whose change is then a line's."""
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in content["rows"])
    costs = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in content["costs"].items())
    code = json.dumps(content["code"])
    return f'{{"code": {code},\n"rows": [\n{rows}\n],\n"costs": {{\n{costs}\n}}}}\n'


if __name__ == "__main__":
    write_text(FILE, as_text(computed()))
