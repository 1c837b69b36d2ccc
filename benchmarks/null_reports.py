"""How often a whole report of a study over sizes finds something where there is nothing.

    python -m benchmarks.null_reports

Simulates tables of studies whose variants are equal at every size, and reads them as ``eval.report`` does,
from the rows to the verdicts. Losses fall with size, and so may their spread over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from tqdm import tqdm

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.inputs.sources import source_of_frame
from eval.results.outcome import Declared
from eval.significance.statistics.size_trends import CHANGES_SIGN, GROWS, SHRINKS

SIZES = {"0.1M": 0.030, "0.5M": 0.017, "2M": 0.010}
"""To the spread over seeds where it falls with size."""
VARIANTS = ("gelu", "kan", "swiglu", "relu2", "none")
OUTCOME = "perplexity"
"""One without power laws, which take longest and claim nothing."""
MARGIN = 0.02
SPREAD = 0.017


class NullReportsArgs(Section):
    """Simulate reports of studies in which nothing differs."""

    studies: int = 100
    """Simulated studies for each row."""
    generator_seed: int = 0
    """Seed of the simulation."""


def simulate(rng: np.random.Generator, seeds: int, falls: bool) -> pd.DataFrame:
    """Return the rows of a study: every variant has the loss of its size and the spread of its seed."""
    rows = []
    for (place, (size, spread)), variant, seed in product(
        enumerate(SIZES.items()), VARIANTS, range(1, seeds + 1)
    ):
        score = 4.0 - 0.4 * place + (spread if falls else SPREAD) * rng.standard_normal()
        run_id = f"gpt_neo/{variant}/seed{seed}-{place:08x}"
        rows.append((run_id, "gpt_neo", variant, seed, OUTCOME, "bits_per_byte", score, size))
    names = ["run_id", "family", "variant", "seed", "benchmark", "metric", "score", "size"]
    return pd.DataFrame(rows, columns=names)


def said(analysis: Analysis) -> set[str]:
    """Name what a report says that is false."""
    found = set()
    if any(c.is_different for c in analysis.claims):
        found.add("claims")
    if any(c.is_different for c in analysis.comparisons if not c.is_primary):
        found.add("explored")
    if any(x.verdict in (SHRINKS, GROWS, CHANGES_SIGN) for x in analysis.sizes.verdicts):
        found.add("trends")
    level = analysis.inference.level
    if any(c.p_interaction_holm is not None and c.p_interaction_holm < level for c in analysis.comparisons):
        found.add("settings differ")
    return found


def main(args: Sequence[str] | None = None) -> None:
    """Print a table in markdown."""
    options = parse_flags(
        NullReportsArgs, args, prog="python -m benchmarks.null_reports", description=__doc__
    )
    kinds = ("claims", "trends", "settings differ", "explored")
    print(f"| spread with size | seeds | {' | '.join(kinds)} |\n| {'--- | ' * (2 + len(kinds))}".rstrip())
    request = Request(baseline="gelu", declared=Declared(margins={OUTCOME: MARGIN}))
    for falls, seeds in product((False, True), (3, 5)):
        rng, counts = np.random.default_rng(options.generator_seed), Counter[str]()
        for _ in tqdm(range(options.studies), leave=False):
            table = simulate(rng, seeds, falls)
            counts.update(said(analyse(source_of_frame(table, axes=["size"]), request)))
        shares = [f"{100 * counts[kind] / options.studies:.1f}" for kind in kinds]
        print(f"| {'falls threefold' if falls else 'equal'} | {seeds} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    run_cli(main)
