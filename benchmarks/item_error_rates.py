"""How often two models that are equal on items like these are told apart by the items drawn.

    python -m benchmarks.item_error_rates

Draws two models of equal ability that answer a benchmark whose items belong together, many times, and prints
markdown: the share of benchmarks that tell them apart, in percent, with clusters and as if items were
independent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import special

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from benchmarks.tables import print_table
from eval.significance.statistics.paired_items import compare_paired, mcnemar

LEVEL = 0.05
SHAPES = ((67, 200), (12, 1000), (5, 200), (1, 1000))
"""Tasks and items of each."""
SPREADS = (0.0, 0.1, 0.3)
"""By how much the models differ from task to task, in logits."""


class ItemErrorRatesArgs(Section):
    """What is simulated."""

    benchmarks: int = 4000
    """Of each kind."""
    generator_seed: int = 0
    """Of the random numbers."""


def draw(
    generator: np.random.Generator, num_tasks: int, num_items: int, spread: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw what two equal models have right.

    Args:
        generator: Draws.
        num_tasks: Clusters.
        num_items: Of each.
        spread: Standard deviation over tasks of the models' difference, in logits; its mean is 0.

    Returns:
        (I,) each: right by the first, right by the second, and the task.
    """
    tasks = np.repeat(np.arange(num_tasks), num_items)
    level = 0.5 + generator.normal(size=num_tasks)[tasks] + generator.normal(size=len(tasks))
    half = spread / 2 * generator.normal(size=num_tasks)[tasks]
    first, second = (generator.random(len(tasks)) < special.expit(level + x) for x in (half, -half))
    return first, second, tasks


def _rows(args: ItemErrorRatesArgs) -> Iterator[dict[str, object]]:
    for num_tasks, num_items in SHAPES:
        for spread in SPREADS[: 1 if num_tasks == 1 else None]:
            generator = np.random.default_rng(args.generator_seed)
            wrong = np.zeros(3)
            for _ in range(args.benchmarks):
                first, second, tasks = draw(generator, num_tasks, num_items, spread)
                clusters = tasks if num_tasks > 1 else np.arange(len(tasks))
                found = compare_paired(first, second, clusters)
                alone = compare_paired(first, second, np.arange(len(tasks)))
                wrong += found.p < LEVEL, alone.p < LEVEL, mcnemar(first, second).p_exact < LEVEL
            shares = 100 * wrong / args.benchmarks
            yield {
                "tasks x items": f"{num_tasks} x {num_items}",
                "differ by task": spread,
                "clustered": float(shares[0]),
                "as if independent": float(shares[1]),
                "McNemar": float(shares[2]),
            }


def main() -> None:
    """Print the table as markdown."""
    args = parse_flags(ItemErrorRatesArgs, prog="python -m benchmarks.item_error_rates", description=__doc__)
    print_table("Two equal models, told apart", _rows(args))


if __name__ == "__main__":
    run_cli(main)
