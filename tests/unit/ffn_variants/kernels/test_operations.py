"""Definitions as text, and back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ffn_variants.kernels.operations import name_of, with_name
from ffn_variants.splines.b_splines import EvenSplines, UnevenSplines
from ffn_variants.variants.series_kan import FourierBasis
from ffn_variants.variants.spline_kan import spline_gradients


class Outer:
    @dataclass(frozen=True)
    class Inner:
        text: str
        share: float | None = None


@dataclass(frozen=True)
class Holder:
    inner: Outer.Inner


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (spline_gradients, "ffn_variants.variants.spline_kan:spline_gradients:"),
        (FourierBasis(5), "ffn_variants.variants.series_kan:FourierBasis:{'grid_size': 5}"),
        (Outer.Inner("a: 'b'", 0.1), f"{__name__}:Outer.Inner:{{'text': \"a: 'b'\", 'share': 0.1}}"),
        (UnevenSplines(3), "ffn_variants.splines.b_splines:UnevenSplines:{'spline_order': 3}"),
    ],
)
def test_a_name_says_where_and_of_what_and_finds_an_equal_one(value, name):
    assert name_of(value) == name
    assert with_name(name) == value


def test_numbers_come_back_to_the_last_bit():
    value = EvenSplines(5, 3, -0.1 - 1e-16, 1 / 3)
    assert with_name(name_of(value) or "") == value


def test_what_no_text_finds_again_has_no_name():
    @dataclass(frozen=True)
    class Local:
        number: int = 1

    def local():
        pass

    for value in (local, lambda x: x, Local(), Holder(Outer.Inner("")), object()):
        assert name_of(value) is None
