"""Every head of the registry: shapes, gradients, saving, counts, layers, and what a user may type."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from base.errors import UsageError
from eval.classification.heads import build_head, count_parameters, mlp_width
from eval.classification.list_heads import list_heads, table_rows
from ffn_variants.variants.bump_kan import RBFKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.learned_curves import GroupRational
from ffn_variants.variants.series_kan import ChebyKANLinear, FourierKANLinear
from ffn_variants.variants.spline_kan import FeatureSplines
from scores.head_descriptions import DEFAULT_HEAD, HEAD_NAMES, HEADS, check_head, head_name, parse_head
from tests.cases import listed

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


@pytest.mark.parametrize(("text", "written"), listed(__file__, "names of heads"))
def test_a_head_is_named_in_one_way_without_loading_it(text, written):
    assert str(check_head(parse_head(text))) == head_name(text) == written
    assert str(parse_head(str(parse_head(text)))) == str(parse_head(text))
    assert parse_head(text).is_frozen == ("frozen" in text)


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
    with pytest.raises(UsageError, match=rf"{name}' option {option}"):
        check_head(parse_head(f"{name} {option}=inf"))


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


# Layers whose own tests hold them against their formulas.


def before_a_linear_layer(first):
    return nn.Sequential(first, nn.Linear(HIDDEN, LABELS))


def mlp(width):
    return nn.Sequential(nn.Linear(HIDDEN, width), nn.Sigmoid(), nn.Linear(width, LABELS))


LAYERS = {
    "linear": lambda: nn.Linear(HIDDEN, LABELS),
    "mlp": lambda: mlp(128),
    "mlp match=cheby-kan": lambda: mlp(16),
    "mlp activation=none width=9": lambda: nn.Sequential(
        nn.Linear(HIDDEN, 9), nn.Identity(), nn.Linear(9, LABELS)
    ),
    "fourier-kan grid_size=10 init_scale=0.3": lambda: FourierKANLinear(HIDDEN, LABELS, 10, bias=False),
    "kan grid_size=3 spline_order=2": lambda: KANLinear(HIDDEN, LABELS, 3, 2),
    "cheby-kan degree=7": lambda: ChebyKANLinear(HIDDEN, LABELS, 7),
    "rbf-kan grid_size=5 init_scale=1": lambda: RBFKANLinear(HIDDEN, LABELS, 5),
    "gr-kan": lambda: before_a_linear_layer(GroupRational(8, "identity")),
    "gr-kan groups=2": lambda: before_a_linear_layer(GroupRational(2, "identity")),
    "spline-kan num_knots=4": lambda: before_a_linear_layer(FeatureSplines(HIDDEN, 4)),
}


def test_every_head_of_one_vector_has_its_layers():
    assert {text.split()[0] for text in LAYERS} == {n for n, s in HEADS.items() if s.reads == "example"}


@pytest.mark.parametrize("text", LAYERS)
def test_logits_are_those_of_the_layers(text):
    head, layers = make_head(text), LAYERS[text]()
    for parameter in head.parameters():  # biases too, and every group's own rational
        parameter.data += 0.1 * torch.randn(parameter.shape)
    layers.load_state_dict(head.layers.state_dict())
    x = 1.5 * torch.randn(50, HIDDEN)
    assert torch.equal(head(x).logits, layers(x))


@pytest.mark.parametrize("text", ["fourier-kan grid_size=3 bias=1", "mlp width=9 activation=none"])
def test_the_heads_of_fr_kans_notebooks_are_their_formulas_in_float64(text):
    head = make_head(text).double()
    for parameter in head.parameters():  # biases too
        parameter.data += 0.1 * torch.randn(parameter.shape)
    x = np.random.default_rng(0).normal(size=(7, HIDDEN))
    first, second, *others = (parameter.detach().numpy() for parameter in head.parameters())
    if text.startswith("fourier"):
        k = np.arange(1, 4)
        waves = np.stack([np.cos(k * x[..., None]), np.sin(k * x[..., None])])
        wanted = np.einsum("snik,scik->nc", waves, first) + second
        assert head.layers.bias.shape == (LABELS,)
    else:
        wanted = x @ (others[0] @ first).T + others[0] @ second + others[1]
    np.testing.assert_allclose(head(torch.from_numpy(x)).logits.detach(), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "inputs"), [("linear init=uniform", [400]), ("mlp init=uniform", [400, 128])]
)
def test_layers_start_as_torchs_own_where_asked_for(text, inputs):
    linears = [module for module in make_head(text, 400, 300).modules() if isinstance(module, nn.Linear)]
    for layer, size in zip(linears, inputs, strict=True):
        for parameter in map(torch.Tensor.detach, layer.parameters()):
            assert parameter.abs().max() < size**-0.5 < 1.1 * parameter.abs().max()
            assert parameter.std() == pytest.approx((3 * size) ** -0.5, rel=0.15)


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
