"""Every head of the registry: shapes, gradients, saving, counts, layers, and what a user may type."""

import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from base.errors import UsageError
from eval.classification.heads import build_head, count_parameters, mlp_width
from eval.classification.list_heads import list_heads
from eval.classification.schema import shipped_task
from ffn_variants.variants.bump_kan import RBFKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.learned_curves import GroupRational
from ffn_variants.variants.series_kan import ChebyKANLinear, FourierKANLinear
from ffn_variants.variants.spline_kan import FeatureSplines
from scores.head_descriptions import DEFAULT_HEAD, HEADS, check_head, head_name, parse_head
from scores.published import FOLDER
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


@pytest.mark.parametrize(("name", "option"), [(n, o) for n, spec in HEADS.items() for o in spec.options])
def test_a_value_that_an_option_does_not_take_is_a_usage_error(name, option):
    with pytest.raises(UsageError, match=rf"{name}' option {option}"):
        check_head(parse_head(f"{name} {option}=inf"))


def test_heads_have_the_parameters_that_fr_kans_notebooks_print(shared_data):
    printed = pd.read_csv(shared_data / "sources" / "fr-kan-notebooks.csv").dropna(subset="test").params
    shipped = pd.read_csv(FOLDER / "fr-kan-notebooks.csv")
    heads = shipped["head"].str.replace("fourier-kan", "fourier-kan bias=1")
    sizes = shipped.model.str.contains("large").map({True: 1024, False: 768})
    num_labels = [len(shipped_task(task).labels or ()) for task in shipped.task]
    assert sorted(map(num_params, heads, sizes, num_labels)) == sorted(printed)


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


def test_layers_start_as_torchs_own_where_asked_for():
    for text, sizes in {"linear": (HIDDEN, LABELS), "mlp width=9": (HIDDEN, 9, LABELS)}.items():
        found = list(make_head(f"{text} init=uniform").parameters())
        torch.manual_seed(0)
        own = [p for size in pairwise(sizes) for p in nn.Linear(*size).parameters()]
        assert all(torch.equal(a, b) for a, b in zip(found, own, strict=True))


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


def test_the_command_shows_chosen_heads_and_their_options(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["heads", "kan grid_size=2", "space", "default", "--options"])
    list_heads()
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["kan grid_size=2", "space", "default"]
    assert "num_dimensions = 3: of each class's space" in printed
    assert "mlp" not in printed
