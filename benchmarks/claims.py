"""How often a report claims what is not so, and what it finds: whole studies, from scores to sentences.

    python -m benchmarks.claims

Simulates studies of several shapes. Their scores go through the report's own comparisons, corrections and
words (``eval.report.verdicts.findings``, ``eval.report.sections.answer``). Prints markdown; every number is a
percentage.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from tqdm import tqdm

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from benchmarks.simulated import (
    Noise,
    Scenario,
    collapsed,
    correlated,
    findings_of,
    measure_claims,
    measure_explored,
    skewed,
    unequal,
)
from benchmarks.tables import print_table

Shape = tuple[int, int]
"""Variants beside the baseline, and outcomes."""
SHAPES: tuple[Shape, ...] = ((1, 6), (9, 2), (9, 6))
POWERS = ("found uncorrected", "found within outcomes", "found")
NOISES: dict[str, Noise] = {
    "standard deviation of the baseline 3": unequal,
    "skewed (gamma, shape 2)": skewed,
    "one run of the study collapsed": collapsed,
}
FAMILIES = 2
MARGIN = 2.5
"""In standard deviations: few equivalences are shown with three runs, and most of them with ten."""


class ClaimsArgs(Section):
    """Simulate the claims of reports."""

    studies: int = 1_000
    """Simulated studies for each entry."""
    explored_studies: int = 300
    """The same for what is explored: single families too, which takes longer."""
    power_studies: int = 300
    """The same for what is found where something differs."""
    runs: tuple[int, ...] = (3, 5, 10)
    """Runs in every arm."""
    differences: tuple[float, ...] = (1.0, 2.0, 3.0)
    """True differences, in standard deviations over seeds."""
    generator_seed: int = 0
    """Seed of the simulation."""


def truth(shape: Shape, difference: float = 0.0, num_different: int | None = None) -> np.ndarray:
    """(F, V, O) the same difference in every family and outcome, of the first variants or of all."""
    found = np.zeros((FAMILIES, *shape))
    found[:, :num_different] = difference
    return found


def simulate(scenario: Scenario, studies: int, seed: int, explore: bool = False) -> pd.Series:
    """Return the mean of every measure over studies, in percent."""
    rng = np.random.default_rng([seed, scenario.runs, *scenario.truth.shape])
    found, name = [], f"{scenario.truth.shape[1:]}, n = {scenario.runs}"
    for _ in tqdm(range(studies), desc=name, leave=False, disable=None):
        findings = findings_of(scenario.draw(rng), only_claims=not explore)
        found.append(measure_explored(findings) if explore else measure_claims(scenario, findings))
    return 100 * pd.DataFrame(found).astype(float).mean()


def main() -> None:
    """Print the tables as markdown."""
    args = parse_flags(ClaimsArgs, prog="python -m benchmarks.claims", description=__doc__)
    print_table("nothing differs", _null_rows(args))
    print_table("one variant differs on every outcome", _power_rows(args))
    print_table("intervals", _coverage_rows(args))
    print_table("as large as the margin", _margin_rows(args))
    print_table("scores that are not normal, and many variants", _other_rows(args))


def _null_rows(args: ClaimsArgs) -> Iterator[dict[str, object]]:
    for shape in SHAPES:
        for runs in args.runs:
            scenario = Scenario(truth=truth(shape), runs=runs)
            claimed = simulate(scenario, args.studies, args.generator_seed)
            beside = simulate(scenario, args.explored_studies, args.generator_seed, explore=True)
            yield {
                "variants x outcomes": _name(shape),
                "n": runs,
                "a difference is claimed": claimed["says a difference"],
                "corrected within each outcome and scope": beside["within each scope"],
                "averages, not corrected": beside["uncorrected"],
                "equivalence is claimed": claimed["says equivalent"],
                "anything is explored": beside["explores"],
                "a difference is explored": beside["explores a difference"],
            }


def _power_rows(args: ClaimsArgs) -> Iterator[dict[str, object]]:
    """Write what is found without correction / with one declared outcome / with all outcomes."""
    for shape in SHAPES:
        for runs in args.runs:
            truths = {f"{size:g}": truth(shape, size, 1) for size in args.differences}
            found = {
                size: simulate(Scenario(truth=true, runs=runs), args.power_studies, args.generator_seed)
                for size, true in truths.items()
            }
            cells = {
                size: " / ".join(f"{of_size[name]:.0f}" for name in POWERS) for size, of_size in found.items()
            }
            yield {"variants x outcomes": _name(shape), "n": runs, **cells}


def _coverage_rows(args: ClaimsArgs) -> Iterator[dict[str, object]]:
    shape = (9, 2)
    for name, number in (("3 of 9", 3), ("8 of 9", 8), ("all", None)):
        for runs in args.runs:
            scenario = Scenario(truth=truth(shape, 2.0, number), runs=runs)
            found = simulate(scenario, args.studies, args.generator_seed)
            yield {
                "variants that differ by 2": name,
                "n": runs,
                "a difference is false": found["false difference"],
                "every interval with zero holds the truth": found["intervals with zero"],
                "every interval does": found["all intervals"],
            }


def _margin_rows(args: ClaimsArgs) -> Iterator[dict[str, object]]:
    for shape in ((1, 6), (9, 2)):
        for name, in_margins in _beyond_the_margin(shape).items():
            for runs in args.runs:
                scenario = Scenario(truth=MARGIN * in_margins, runs=runs, margin=MARGIN)
                found = simulate(scenario, args.studies, args.generator_seed)
                yield {
                    "variants x outcomes": _name(shape),
                    "true difference": name,
                    "n": runs,
                    "called equivalent": found["false equivalence"],
                    "called within margin": found["false within margin"],
                }


def _beyond_the_margin(shape: Shape) -> dict[str, np.ndarray]:
    """Return true differences in margins."""
    one, in_one_family, opposite = truth(shape), truth(shape), truth(shape)
    one[:, 0, 0], in_one_family[0, 0, 0] = 1.0, 1.0
    opposite[0], opposite[1] = 3.0, -3.0
    return {
        "the margin, of one comparison": one,
        "the margin, of one in one family": in_one_family,
        "the margin, of all": truth(shape, 1.0),
        "3 margins, opposite in the families": opposite,
    }


def _other_rows(args: ClaimsArgs) -> Iterator[dict[str, object]]:
    kinds = [(name, (9, 2), noise) for name, noise in NOISES.items()] + [("normal", (40, 2), correlated)]
    for name, shape, noise in kinds:
        for runs in args.runs:
            scenario = Scenario(truth=truth(shape), runs=runs, noise=noise)
            found = simulate(scenario, args.studies, args.generator_seed)
            yield {
                "scores": name,
                "variants x outcomes": _name(shape),
                "n": runs,
                "a difference is claimed": found["says a difference"],
            }


def _name(shape: Shape) -> str:
    return f"{shape[0]} x {shape[1]}"


if __name__ == "__main__":
    run_cli(main)
