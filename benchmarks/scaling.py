"""How often what a report says across sizes is wrong: exponents of power laws.

    python -m benchmarks.scaling

Simulates studies over sizes whose truth is known, and prints markdown; every number is a percentage unless it
is said to be nats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from benchmarks.tables import print_table
from report.parts.sizes import FEWEST_SIZES, fit_power_law

PARAMETERS = (1e5, 2.5e5, 6e5, 1.5e6, 4e6)
FLOOR, SCALE, EXPONENT = 1.5, 60.0, 0.3
"""3.4, 3.0, 2.6, 2.3 and 2.1 nats."""


class ScalingArgs(Section):
    """Simulate what is said across sizes."""

    laws: int = 1_000
    """Simulated studies for each entry."""
    runs: tuple[int, ...] = (3, 6)
    """Runs of each variant at each size."""
    generator_seed: int = 0
    """Seed of the simulation."""


def _law_rows(args: ScalingArgs) -> Iterator[dict[str, object]]:
    for num_sizes in (3, 4, 5):
        for spread_name, spread in (("equal", np.ones(num_sizes)), ("falls tenfold", _falling(num_sizes))):
            for runs in args.runs:
                for sd in (0.01, 0.05):
                    row = {
                        "sizes": num_sizes,
                        "spread with size": spread_name,
                        "n": runs,
                        "spread (nats)": f"{sd:g}",
                    }
                    yield row | _law_row(args, num_sizes, runs, sd * spread)


def _falling(num_sizes: int) -> np.ndarray:
    """Spreads that fall tenfold from the smallest size to the largest, 1 in the middle."""
    return np.geomspace(10**0.5, 10**-0.5, num_sizes)


def _law_row(args: ScalingArgs, num_sizes: int, runs: int, spread: np.ndarray) -> dict[str, object]:
    """One entry: whether the exponent is determined, and whether its standard error is large enough."""
    rng = np.random.default_rng([args.generator_seed, num_sizes, runs])
    sizes = np.repeat(PARAMETERS[:num_sizes], runs)
    truth, sd = FLOOR + SCALE * sizes**-EXPONENT, np.repeat(spread, runs)
    reach = stats.t.ppf(0.975, len(sizes) - FEWEST_SIZES)
    laws = [fit_power_law(sizes, truth + sd * rng.normal(size=len(sizes))) for _ in range(args.laws)]
    determined = [law for law in laws if law is not None]
    exponents = [law.exponent for law in determined]
    middle, low, high = np.quantile(exponents, [0.5, 0.025, 0.975])
    return {
        "determined": _percent([law is not None for law in laws]),
        "exponent (truth 0.3)": f"{middle:.2f} ({low:.2f} to {high:.2f})",
        "t times its standard error holds it": _percent(
            [bool(abs(law.exponent - EXPONENT) <= reach * law.exponent_error) for law in determined]
        ),
    }


def _percent(values: Sequence[bool] | np.ndarray) -> str:
    return f"{100 * np.mean(values):.1f}"


def main() -> None:
    """Print the tables as markdown."""
    args = parse_flags(ScalingArgs, prog="python -m benchmarks.scaling", description=__doc__)
    print_table("Power laws", _law_rows(args))


if __name__ == "__main__":
    run_cli(main)
