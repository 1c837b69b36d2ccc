"""Every head of the registry: shapes, gradients, saving, counts, formulas, and what a user may type."""

import inspect
import sys
from pkgutil import resolve_name

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev, polynomial
from scipy.interpolate import BSpline
from scipy.special import expit

from base.errors import UsageError
from eval.classification.heads import build_head, count_parameters, mlp_width
from eval.classification.list_heads import list_heads, table_rows
from scores.head_descriptions import (
    DEFAULT_HEAD,
    HEAD_NAMES,
    HEADS,
    SEGMENT_OPTIONS,
    check_head,
    head_name,
    parse_head,
)

HIDDEN, LABELS = 16, 4
LENGTHS = (5, 1, 3)


def make_head(text, hidden_size=HIDDEN, num_labels=LABELS):
    torch.manual_seed(0)
    return build_head(check_head(parse_head(text)), hidden_size, num_labels)


def num_params(text, hidden_size, num_labels):
    return count_parameters(check_head(parse_head(text)), hidden_size, num_labels)


def make_inputs(name, hidden_size=HIDDEN):
    """What a head reads: (n, D) and None, or (n, M, D) and a mask."""
    generator = torch.Generator().manual_seed(1)
    if HEADS[name].reads == "example":
        return torch.randn(len(LENGTHS), hidden_size, generator=generator), None
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    return torch.randn(*mask.shape, hidden_size, generator=generator), mask


def total_loss(output):
    """A loss that no direction of the logits leaves out."""
    weights = torch.linspace(-1, 1, output.logits.numel()).view_as(output.logits)
    loss = (output.logits.float() * weights).sum()
    return loss if output.auxiliary_loss is None else loss + output.auxiliary_loss


# Every head of the registry.


def test_names_are_those_of_the_registry():
    assert sorted(HEAD_NAMES) == sorted([DEFAULT_HEAD, *HEADS])
    for name, spec in HEADS.items():
        assert spec.name == name
        assert spec.formula
        assert spec.reference
        assert all(option.help for option in spec.options.values())


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("linear", "linear"),
        ("default frozen", "default frozen"),
        # In one order, and without options at their defaults.
        ("  kan  frozen spline_order=2   grid_size=5.0 ", "kan spline_order=2 frozen"),
        ("fourier-kan init_scale=2 grid_size=10", "fourier-kan grid_size=10 init_scale=2.0"),
        ("space num_dimensions=2 intra_weight=2e-3", "space intra_weight=0.002 num_dimensions=2"),
        ("swipe num_layers=2.0 pooling=sum window=128", "swipe num_layers=2 pooling=sum"),
        ("mlp match=none", "mlp"),
    ],
)
def test_a_head_is_named_in_one_way_without_loading_it(text, written):
    assert str(check_head(parse_head(text))) == head_name(text) == written
    assert str(parse_head(str(parse_head(text)))) == str(parse_head(text))
    assert parse_head(text).is_frozen == ("frozen" in text)


@pytest.mark.parametrize("name", HEADS)
def test_the_builder_takes_the_options_of_the_registry(name):
    _, _, *options = inspect.signature(resolve_name(HEADS[name].builder)).parameters
    assert set(HEADS[name].options) - set(SEGMENT_OPTIONS) <= set(options)


@pytest.mark.parametrize("name", HEADS)
def test_shapes_and_gradients(name):
    head, (vectors, mask) = make_head(name), make_inputs(name)
    output = head(vectors, mask)
    assert output.logits.shape == (len(LENGTHS), LABELS)
    of_segments = (*mask.shape, LABELS) if HEADS[name].scores_segments else None
    assert (output.segment_scores is None) == (of_segments is None)
    assert of_segments is None or output.segment_scores.shape == of_segments
    total_loss(output).backward()
    for parameter_name, parameter in head.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", HEADS)
def test_bf16_weights_and_autocast_give_finite_logits_near_those_of_float32(name):
    head = make_head(name)
    vectors, mask = make_inputs(name)
    exact = head(vectors, mask).logits
    with torch.autocast("cpu", torch.bfloat16):
        mixed = head(vectors, mask)
    rounded = make_head(name).bfloat16()(vectors.bfloat16(), mask)
    scale = max(1.0, exact.abs().max().item())
    for output in (mixed, rounded):
        assert output.logits.isfinite().all()
        assert (output.logits.float() - exact).abs().max() < 0.05 * scale
        assert output.auxiliary_loss is None or output.auxiliary_loss.isfinite()


@pytest.mark.parametrize("name", HEADS)
def test_the_count_of_parameters_is_that_of_the_built_head(name):
    built = sum(parameter.numel() for parameter in make_head(name, 24, 3).parameters())
    assert num_params(name, 24, 3) == built


@pytest.mark.parametrize(("name", "option"), [(n, o) for n, spec in HEADS.items() for o in spec.options])
def test_a_value_that_an_option_does_not_take_is_a_usage_error(name, option):
    with pytest.raises(UsageError, match=rf"{name}' option {option}") as error:
        check_head(parse_head(f"{name} {option}=inf"))
    assert "\n" not in str(error.value)


# The published counts (Al Imran and Ishmam 2024, Table 4), in thousands: labels, FR-KAN, width, MLP.
PUBLISHED = {
    "AgNews": (4, 30.7, 40, 30.9),
    "DBpedia": (14, 107.5, 138, 108.1),
    "IMDb": (2, 15.4, 20, 15.4),
    "Papluca": (20, 153.6, 195, 154.6),
    "SST-5": (5, 38.4, 50, 38.7),
}
"""What the paper's own equation and width give where it prints another number."""


@pytest.mark.parametrize(("num_labels", "fourier", "width", "mlp"), PUBLISHED.values())
def test_heads_have_the_published_numbers_of_parameters(num_labels, fourier, width, mlp):
    wanted = num_params("fourier-kan", 768, num_labels)
    assert wanted == 2 * 5 * 768 * num_labels  # equation 5 without a bias
    assert wanted / 1000 == pytest.approx(fourier, abs=0.07)
    assert mlp_width(768, num_labels, wanted) == width
    # Of Papluca the paper has one unit more than it needs.
    paper = width + (num_labels == 20)
    assert num_params(f"mlp width={paper}", 768, num_labels) / 1000 == pytest.approx(mlp, abs=0.07)


@pytest.mark.parametrize(("hidden_size", "num_labels"), [(128, 2), (768, 14)])
@pytest.mark.parametrize("matched", ["fourier-kan", "kan", "rbf-kan"])
def test_a_matched_mlp_has_as_many_parameters(matched, hidden_size, num_labels):
    wanted = num_params(matched, hidden_size, num_labels)
    count = num_params(f"mlp match={matched}", hidden_size, num_labels)
    assert 0 <= count - wanted < hidden_size + num_labels + 1  # one unit fewer has too few
    assert mlp_width(hidden_size, num_labels, 10) == 1


# Formulas, in float64.


def linear(state, x, prefix="layers."):
    return x @ state[f"{prefix}weight"].T + state[f"{prefix}bias"]


def mlp(state, x):
    return linear(state, expit(linear(state, x, "layers.0.")), "layers.2.")


def fourier_kan(state, x):
    cosines, sines = state["layers.fouriercoeffs"]
    k = np.arange(1, cosines.shape[-1] + 1)
    angles = x[..., None] * k
    return np.einsum("nik,oik->no", np.cos(angles), cosines) + np.einsum("nik,oik->no", np.sin(angles), sines)


def kan(state, x):
    knots, splines = state["layers.grid"], state["layers.spline_weight"]
    order = knots.shape[1] - splines.shape[2] - 1
    y = (x * expit(x)) @ state["layers.base_weight"].T
    for o, i in np.ndindex(*splines.shape[:2]):
        curve = BSpline(knots[i], splines[o, i], order)
        # Bases beyond the knots are zero; near their ends scipy would continue the inner pieces.
        basis = [BSpline.basis_element(knots[i, c : c + order + 2], False) for c in range(splines.shape[2])]
        values = np.nan_to_num([element(x[:, i]) for element in basis]).T @ curve.c
        y[:, o] += state["layers.spline_scaler"][o, i] * values
    return y


def cheby_kan(state, x):
    series = state["layers.cheby_coeffs"]  # (I, O, terms)
    return sum(chebyshev.chebval(np.tanh(x[:, i]), series[i].T).T for i in range(x.shape[1]))


def rbf_kan(state, x):
    weights = state["layers.spline_weight"].reshape(LABELS, x.shape[1], -1)
    centres = np.linspace(-2, 2, weights.shape[2])
    deviations = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    normalised = (x - x.mean(1, keepdims=True)) / deviations
    normalised = normalised * state["layers.layernorm.weight"] + state["layers.layernorm.bias"]
    bumps = np.exp(-(((normalised[..., None] - centres) / (centres[1] - centres[0])) ** 2))
    return np.einsum("nig,oig->no", bumps, weights) + linear(state, x * expit(x), "layers.base_linear.")


def gr_kan(state, x):
    denominators = state["layers.0.denominator"]
    columns = []
    for i, column in enumerate(x.T):
        inner = np.concatenate([[0], denominators[i * len(denominators) // x.shape[1]]])
        top = polynomial.polyval(column, state["layers.0.numerator"])
        columns.append(top / (1 + abs(polynomial.polyval(column, inner))))
    return linear(state, np.array(columns).T, "layers.1.")


def spline_kan(state, x):
    reach = np.maximum(state["layers.0.knots"] - x[..., None], 0)
    return linear(state, (reach**3 * state["layers.0.coefficients"]).sum(-1), "layers.1.")


FORMULAS = {
    "linear": linear,
    "mlp": mlp,
    "mlp width=3": mlp,
    "mlp match=kan": mlp,
    "fourier-kan": fourier_kan,
    "fourier-kan grid_size=10 init_scale=0.3": fourier_kan,
    "kan": kan,
    "kan grid_size=3 spline_order=2": kan,
    "cheby-kan": cheby_kan,
    "cheby-kan degree=7": cheby_kan,
    "rbf-kan": rbf_kan,
    "rbf-kan grid_size=5 init_scale=1": rbf_kan,
    "gr-kan": gr_kan,
    "gr-kan groups=2": gr_kan,
    "spline-kan": spline_kan,
    "spline-kan num_knots=4": spline_kan,
}


# Every head of one vector has a formula.
@pytest.mark.parametrize(
    "text", {**FORMULAS, **dict.fromkeys(n for n, s in HEADS.items() if s.reads == "example")}
)
def test_logits_are_those_of_the_formula(text, error):
    head = make_head(text)
    generator = torch.Generator().manual_seed(2)
    for parameter in head.parameters():  # biases too, and every group's own rational
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    x = 1.5 * torch.randn(50, HIDDEN, generator=generator)
    state = {name: value.double().numpy() for name, value in head.state_dict().items()}
    expected = FORMULAS[text](state, x.double().numpy())
    assert error(head(x).logits, expected) < 2e-6
    assert error(head.double()(x.double()).logits, expected) < 1e-11


# What a user may type.


@pytest.mark.parametrize("name", [DEFAULT_HEAD, *HEADS])
def test_a_head_that_gives_one_label_is_refused_where_there_may_be_several(name):
    choice = parse_head(name)
    assert check_head(choice) == choice
    if name != DEFAULT_HEAD and HEADS[name].fits_multi_label:
        assert check_head(choice, multi_label=True) == choice
        return
    with pytest.raises(UsageError, match=f"head '{name}' gives exactly one label.*choose one of linear, mlp"):
        check_head(choice, multi_label=True)


# ffn-ablations list heads


def test_the_table_has_every_head_with_its_parameters():
    rows = table_rows((), 768, 4)
    assert [row[0] for row in rows[1:]] == [DEFAULT_HEAD, *HEADS]
    counts = {row[0]: row[4] for row in rows}
    assert [row[0] for row in rows if row[2] == "no"] == [DEFAULT_HEAD, "space"]
    assert counts["linear"] == "3,076"
    assert counts["fourier-kan"] == "30,720"
    assert {len(row) for row in rows} == {len(rows[0])}


def test_the_command_shows_chosen_heads_and_their_options(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["heads", "kan grid_size=2", "space", "default", "--options"])
    list_heads()
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["kan grid_size=2", "space", "default"]
    assert "num_dimensions = 3: of each class's space" in printed
    assert "mlp" not in printed
