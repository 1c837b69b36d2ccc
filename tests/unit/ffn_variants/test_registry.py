"""The registry: names, counts, options, errors and the table."""

from __future__ import annotations

import itertools
import sys

import pytest

from base.printing import format_table
from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, get_variant
from ffn_variants.check import CHECKS
from ffn_variants.list_variants import TableArgs, main, table_rows

D, F = 12, 20


def test_names_are_those_of_the_specs():
    assert all(spec.name == name for name, spec in FFN_VARIANTS.items())


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_spec_is_documented(name):
    spec = FFN_VARIANTS[name]
    assert spec.kind in ("activation", "block")
    assert spec.formula
    assert spec.reference
    assert all(option.help for option in spec.options.values())


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_parameter_count_is_that_of_the_module(name):
    built = sum(p.numel() for p in build_ffn(name, D, F).parameters())
    assert FFN_VARIANTS[name].num_params(D, F) == built


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kan", {"grid_size": 3}),
        ("kan", {"grid_size": 4, "spline_order": 2, "layers": "first"}),
        ("kan", {"activation": "gelu"}),
        ("fourier-kan", {"grid_size": 2}),
        ("spline-kan", {"num_knots": 6}),
        ("gr-kan", {"groups": 2, "init": "gelu"}),
        ("prelu", {"init": 0}),
    ],
)
def test_parameter_count_follows_options(name, options):
    built = sum(p.numel() for p in build_ffn(name, D, F, **options).parameters())
    assert FFN_VARIANTS[name].num_params(D, F, **options) == built


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        ("gelu", 2 * 512 * 256),
        ("kan", 2 * 512 * 256 * (1 + 5 + 3)),
        ("fourier-kan", 2 * 512 * 256 * 2 * 5),
        ("spline-kan", 2 * 512 * 10),
        ("swiglu", 3 * 512 * 256),
        ("gr-kan", 2 * 512 * 256),
    ],
)
def test_flops_are_two_per_multiply_add(name, multiply_adds):
    assert FFN_VARIANTS[name].flops_per_token(512, 256) == 2 * multiply_adds


SLOW = [(name, "torch.compile") for name in FFN_VARIANTS if "kan" in name or "spline" in name]


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] if case in SLOW else [])
        for case in itertools.product(FFN_VARIANTS, CHECKS)
    ],
)
def test_every_variant_passes_what_the_check_command_checks(name, check):
    CHECKS[check](name, {})


def test_unknown_variant_names_closest_and_all():
    with pytest.raises(UsageError) as error:
        get_variant("kann")
    assert str(error.value) == (
        "unknown FFN variant 'kann'; did you mean 'kan'? Available: "
        + ", ".join(FFN_VARIANTS)
        + "; one in a file of yours is path/to/mine.py:SPEC"
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "kan",
            {"gridsize": 3},
            r"option of FFN variant 'kan': 'gridsize'; did you mean 'grid_size'\?",
        ),
        ("relu", {"init": 1}, r"FFN variant 'relu' takes no options, got 'init'; remove it"),
        ("kan", {"grid_size": 0}, r"'kan' option grid_size must be at least 1, got 0"),
        ("kan", {"grid_size": 2.5}, r"'kan' option grid_size must be a whole number, got 2.5"),
        ("kan", {"grid_size": float("nan")}, r"'kan' option grid_size must be a finite number, got nan"),
        (
            "kan",
            {"layers": "last"},
            r"value of 'kan' option layers: 'last'; .*Available: both, first",
        ),
    ],
)
def test_bad_options_are_usage_errors(name, options, message):
    with pytest.raises(UsageError, match=message):
        build_ffn(name, D, F, **options)


def test_sizes_below_one_are_usage_errors():
    with pytest.raises(UsageError, match="hidden_size must be at least 1, got 0"):
        build_ffn("gelu", 0, F)


def test_table_has_every_variant_and_aligned_columns():
    rows = table_rows(TableArgs(hidden_size=512, intermediate_size=256))
    assert [row[0] for row in rows[1:]] == list(FFN_VARIANTS)
    counts = {row[0]: row[3] for row in rows}
    assert counts["kan"] == "2,621,440"
    lines = format_table(rows).splitlines()
    end = lines[0].index("parameters") + len("parameters")
    assert all(line[end - 1] != " " and line[end] == " " for line in lines)


def test_command_prints_table_and_options(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ffn_variants", "--hidden-size", "64", "--options"])
    main()
    printed = capsys.readouterr().out
    assert "prelu" in printed
    assert "grid_size = 5" in printed
    assert printed.index("FLOPs/token") < printed.index("spline-kan")
