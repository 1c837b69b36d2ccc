"""The registry: names, counts, options, errors and the table."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from base.errors import run_cli
from base.table import format_table
from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, get_variant
from ffn_variants.__main__ import TableArgs, main, table_rows

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


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_ffn_keeps_shape_and_gives_every_parameter_a_gradient(name):
    torch.manual_seed(0)
    ffn = build_ffn(name, D, F)
    x = torch.randn(3, 7, D, requires_grad=True)
    y = ffn(x)
    assert y.shape == x.shape
    y.square().sum().backward()
    assert x.grad is not None
    for label, parameter in ffn.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.abs().sum() > 0, label


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_gradient_agrees_with_finite_differences(name):
    torch.manual_seed(1)
    ffn = build_ffn(name, 3, 4).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: ffn(x), (x, *ffn.parameters()))


@pytest.mark.parametrize("name", FFN_VARIANTS)
@pytest.mark.parametrize("way", ["cast", "autocast"])
@pytest.mark.parametrize("width", [12, 256])
def test_bf16_is_within_a_hundredth_of_float32(name, way, width):
    torch.manual_seed(2)
    ffn = build_ffn(name, width, 2 * width)
    x = torch.randn(64, width)
    exact = ffn(x)
    if way == "cast":
        y = ffn.to(torch.bfloat16)(x.to(torch.bfloat16))
        assert y.dtype == torch.bfloat16
    else:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = ffn(x)
    assert torch.isfinite(y).all()
    assert (y.float() - exact).norm() < 0.01 * exact.norm()


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_module_can_be_made_on_the_meta_device(name):
    with torch.device("meta"):
        ffn = build_ffn(name, D, F)
    assert all(tensor.is_meta for tensor in (*ffn.parameters(), *ffn.buffers()))
    # transformers leaves non-persistent buffers uninitialised on load, so there must be none.
    assert {key for key, _ in ffn.named_buffers()} <= set(ffn.state_dict())


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_initial_weights_follow_the_global_seed(name):
    def weights(seed: int) -> np.ndarray:
        torch.manual_seed(seed)
        return torch.cat([p.flatten() for p in build_ffn(name, D, F).parameters()]).detach().numpy()

    np.testing.assert_array_equal(weights(5), weights(5))
    assert (weights(5) != weights(6)).any()


def test_unknown_variant_names_closest_and_all():
    with pytest.raises(UsageError) as error:
        get_variant("kann")
    assert str(error.value) == (
        "unknown FFN variant 'kann'; did you mean 'kan'? Available: " + ", ".join(FFN_VARIANTS)
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
        ("kan", {"grid_size": "three"}, r"'kan' option grid_size must be a finite number, got 'three'"),
        ("kan", {"grid_size": True}, r"'kan' option grid_size must be a finite number, got True"),
        (
            "kan",
            {"layers": "last"},
            r"value of 'kan' option layers: 'last'; .*Available: both, first",
        ),
        ("swish", {"init": float("inf")}, r"'swish' option init must be a finite number, got inf"),
    ],
)
def test_bad_options_are_usage_errors(name, options, message):
    with pytest.raises(UsageError, match=message):
        build_ffn(name, D, F, **options)


def test_sizes_below_one_are_usage_errors():
    with pytest.raises(UsageError, match="hidden_size must be at least 1, got 0"):
        build_ffn("gelu", 0, F)


def test_options_that_are_no_mapping_are_a_usage_error():
    with pytest.raises(UsageError, match="ffn_options must be a mapping"):
        get_variant("kan").resolve([("grid_size", 3)])  # pyrefly: ignore


def test_table_has_every_variant_and_aligned_columns():
    rows = table_rows(TableArgs(hidden_size=512, intermediate_size=256, grid_size=3))
    assert [row[0] for row in rows[1:]] == list(FFN_VARIANTS)
    counts = {row[0]: row[3] for row in rows}
    assert counts["kan"] == "2,097,152"
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


def test_command_refuses_bad_sizes_with_status_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ffn_variants", "--intermediate-size", "-3"])
    with pytest.raises(SystemExit) as exit_:
        run_cli(main)
    assert exit_.value.code == 2
    assert capsys.readouterr().err == "error: --intermediate-size must be from 1 to 1,000,000, got -3\n"
