"""Equal budgets: the inner width at which a variant costs what the baseline costs.

Matched is one feed-forward network against one with `gelu`, by the counts of their specs.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

from base.errors import UsageError, unknown_name
from base.families import BASELINE, Budget
from ffn_variants.registry import get_variant
from ffn_variants.spec import FFNSpec

TOLERANCE = 0.05
"""Largest share by which a match may miss; one unit of a KAN can be a tenth of a narrow baseline."""

LARGEST_UNIT = 64
"""Widths up to this are tried for the smallest one that a variant allows."""

_WORDS = {
    "params": "parameters",
    "active-params": "parameters that a token meets",
    "flops": "FLOPs per token",
}


def matching_width(
    ffn: str,
    options: Mapping[str, Any] | None,
    hidden_size: int,
    baseline_width: int,
    budget: Budget,
    biases: bool = True,
) -> int:
    """Find the width at which a variant comes nearest to the baseline's cost.

    Args:
        ffn: A name in ``FFN_VARIANTS``.
        options: The variant's options.
        hidden_size: D.
        baseline_width: F of the baseline, ``gelu``.
        budget: ``"params"``, ``"active-params"`` or ``"flops"``; ``"width"`` gives ``baseline_width`` back.
        biases: Whether the linear layers around an activation, the baseline's too, have biases.

    Returns:
        F of the variant. Of two that are equally near, the smaller.

    Raises:
        UsageError: If the variant's cost does not depend on F, or no F comes within ``TOLERANCE``; for an
            unknown variant, option or budget.
    """
    if budget not in get_args(Budget):
        raise unknown_name("FFN budget", budget, get_args(Budget))
    if budget == "width":
        return baseline_width
    spec = get_variant(ffn)
    resolved = spec.resolve(options)
    cost = _cost(spec, hidden_size, budget, resolved, biases)
    target = _cost(get_variant(BASELINE), hidden_size, budget, {}, biases)(baseline_width)
    goal = f"{BASELINE}'s {target:,} {_WORDS[budget]} at intermediate_size {baseline_width}"
    unit = _smallest_width(spec, hidden_size, resolved)
    if cost(unit) == cost(2 * unit):
        raise UsageError(
            f"FFN variant {ffn!r} has {cost(unit):,} {_WORDS[budget]} at any intermediate_size, so none "
            f"matches {goal}; use (config.)intermediate_size in a layer of your own, or set its "
            "ffn_budget to width"
        )
    width = _nearest_width(cost, target, unit)
    if abs(cost(width) - target) > TOLERANCE * target:
        raise UsageError(
            f"FFN variant {ffn!r} comes no nearer than {cost(width):,} (intermediate_size {width}) to "
            f"{goal}, more than {TOLERANCE:.0%} off; choose other ffn_options or a wider baseline, or set "
            "its ffn_budget to width"
        )
    return width


def _cost(
    spec: FFNSpec, hidden_size: int, budget: Budget, options: Mapping[str, Any], biases: bool
) -> Callable[[int], int]:
    """Return the function from F to what the budget counts; it must not fall as F grows."""
    if budget == "flops":
        return lambda width: spec.flops_per_token(hidden_size, width, **options)
    without = spec.kind == "activation" and not biases
    count = spec.num_active_params if budget == "active-params" else spec.num_params
    return lambda width: count(hidden_size, width, **options) - (hidden_size + width if without else 0)


def _nearest_width(cost: Callable[[int], int], target: int, unit: int) -> int:
    """Return the multiple of ``unit`` whose cost is nearest to the target."""
    high = unit
    while cost(high) < target:
        high *= 2
    widths = range(unit, high + 1, unit)
    above = bisect_left(widths, target, key=cost)
    return min(widths[max(above - 1, 0) : above + 1], key=lambda width: abs(cost(width) - target))


def _smallest_width(spec: FFNSpec, hidden_size: int, options: Mapping[str, Any]) -> int:
    """Return the smallest F that the variant can be built with.

    Channels that form groups of n allow the multiples of n only, of which n is the smallest.
    """
    for width in range(1, LARGEST_UNIT):
        with suppress(UsageError):
            spec.num_params(hidden_size, width, **options)
            return width
    spec.num_params(hidden_size, LARGEST_UNIT, **options)  # raises what is wrong, if it is not the width
    return LARGEST_UNIT
