"""What must not change a verdict: a loss's sign, its unit, the order of rows and the names of families."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.significance.comparison import Comparison
from scores.metrics import Declared
from tests.unit.report.significance.comparing import compare

FAMILIES, VARIANTS = ("gpt_neo", "roberta"), ("gelu", "kan")
IN_UNIT = ("margin", "smallest_margin", "standard_error")
WITHOUT_DIRECTION = (
    *("p", "p_equivalence", "df", "verdict"),
    *("is_better", "is_at_chance", "unit", *IN_UNIT),
)
ENDS = ("estimate", "low", "high", "hedges_g")


@st.composite
def losses(draw: st.DrawFn) -> pd.DataFrame:
    """Losses of four arms; spread and differences of any size, families of different levels."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_runs = draw(st.sampled_from([2, 3, 5]))
    spread = draw(st.sampled_from([0.002, 0.02, 0.1]))
    shift = draw(st.sampled_from([-0.3, -0.01, 0.0, 0.02, 0.3]))
    levels = draw(st.tuples(st.floats(1, 4), st.floats(1, 4)))
    rows = [
        (family, variant, seed, "quality", level + (variant == "kan") * shift + spread * generator.normal())
        for family, level in zip(FAMILIES, levels, strict=True)
        for variant in VARIANTS
        for seed in range(1, num_runs + 1)
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


def declared(
    is_lower: bool = True, unit: str = "nats", margin: float = 0.02, chance: float | None = None
) -> Declared:
    return Declared(
        lower_is_better={"quality": is_lower},
        units={"quality": "nats"},
        margins={"quality": margin},
        chances={} if chance is None else {"quality": chance},
    )


def both_scopes(rows: pd.DataFrame, said: Declared) -> list[Comparison]:
    """The average over families and one family."""
    return [compare(rows, "kan - gelu", family=family, declared=said) for family in (None, "gpt_neo")]


def undirected(comparison: Comparison) -> dict[str, Any]:
    return {name: getattr(comparison, name) for name in WITHOUT_DIRECTION}


def assert_same(got: dict[str, Any], wanted: dict[str, Any], leave_out: tuple[str, ...] = ()) -> None:
    for name in wanted:
        if name not in leave_out:
            near = isinstance(wanted[name], float)
            expected = pytest.approx(wanted[name], rel=1e-6, abs=1e-12) if near else wanted[name]
            assert got[name] == expected, name


def numbers(comparison: Comparison, names: tuple[str, ...] = ENDS) -> np.ndarray:
    """These numbers of a comparison, nan where the runs do not allow one."""
    return np.array([getattr(comparison, name) for name in names], float)


@given(rows=losses(), chance=st.sampled_from([None, 3.0]))
@pytest.mark.ci
def test_a_loss_may_be_written_with_either_sign(rows: pd.DataFrame, chance: float | None):
    """Negating scores, direction and chance changes the signs of differences, and nothing else."""
    negated = rows.assign(score=-rows["score"])
    turned = declared(is_lower=False, chance=None if chance is None else -chance)
    for one, other in zip(
        both_scopes(rows, declared(chance=chance)), both_scopes(negated, turned), strict=True
    ):
        assert_same(undirected(other), undirected(one))
        estimate, low, high, g = -numbers(one)
        wanted = [estimate, high, low, g]
        assert numbers(other) == pytest.approx(wanted, rel=1e-6, nan_ok=True)


@given(rows=losses(), factor=st.sampled_from([1 / math.log(2), 0.1, 1000.0]))
@pytest.mark.ci
def test_a_unit_changes_no_verdict(rows: pd.DataFrame, factor: float):
    """Nats to bits, with the margin: differences scale."""
    said = declared(margin=0.02 * factor)
    scaled = both_scopes(rows.assign(score=factor * rows["score"]), said)
    for one, other in zip(both_scopes(rows, declared()), scaled, strict=True):
        assert_same(undirected(other), undirected(one), leave_out=IN_UNIT)
        wanted = factor * numbers(one, IN_UNIT)
        assert numbers(other, IN_UNIT) == pytest.approx(wanted, rel=1e-6, nan_ok=True)
        wanted = numbers(one) * ([factor] * 3 + [1])
        assert numbers(other) == pytest.approx(wanted, rel=1e-6, nan_ok=True)


@given(rows=losses(), order=st.randoms())
@pytest.mark.ci
def test_order_and_names_are_irrelevant(rows: pd.DataFrame, order: Any):
    places = list(rows.index)
    order.shuffle(places)
    renamed = rows.loc[places].replace({"gpt_neo": "z", "roberta": "a"})
    one = compare(rows, "kan - gelu", declared=declared())
    other = compare(renamed, "kan - gelu", declared=declared())
    assert_same(undirected(other), undirected(one))
    assert numbers(other)[:3] == pytest.approx(numbers(one)[:3], nan_ok=True)
