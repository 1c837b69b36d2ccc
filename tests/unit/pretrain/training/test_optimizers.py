"""Every optimizer of the registry, and two of them against other implementations."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Adafactor

from base.config_input import shipped
from base.errors import UsageError
from ffn_variants import FAMILIES, FFN_VARIANTS, build_ffn, build_model, get_variant
from pretrain.config import OptimConfig
from pretrain.model.build import build
from pretrain.model.parameter_groups import learnable_weights
from pretrain.optimizers import OPTIMIZERS
from pretrain.resolution import load_config
from pretrain.run.run_folder import config_hash
from pretrain.training.checkpoints import load_newest, restore, save_checkpoint, snapshot
from pretrain.training.update import build_optimizer, build_scheduler
from tests.cases import SMALL, diagonal_is_fast, listed


class Shapes(nn.Module):
    """Parameters of one, two and three dimensions, of different sizes; one begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for name, shape, scale in (("a", (7,), 1.0), ("b", (5, 9), 0.1), ("c", (3, 4, 6), 3.0)):
            setattr(self, name, nn.Parameter(scale * torch.randn(shape, generator=generator)))
        self.d = nn.Parameter(torch.zeros(4, 2))
        # The weights of these are for Muon: standing, lying and square.
        for name, rows, columns in (("e", 6, 4), ("f", 4, 6), ("g", 5, 5)):
            linear = nn.Linear(columns, rows, bias=False)
            linear.weight.data = torch.randn(rows, columns, generator=generator)
            setattr(self, name, linear)


def settings(name: str, **fields: Any) -> OptimConfig:
    return OptimConfig(optimizer=name, learning_rate=0.02, **fields)


class Training:
    """Some updates of a model, by random gradients of very different sizes."""

    def __init__(self, optim: OptimConfig) -> None:
        self.model = Shapes()
        self.optimizer = build_optimizer(self.model, optim)
        self.scheduler = build_scheduler(self.optimizer, optim, max_steps=6)

    def update(self, *steps: int) -> None:
        for step in steps:
            generator = torch.Generator().manual_seed(step)
            for parameter in self.model.parameters():
                parameter.grad = 10.0 ** (step % 3 - 3) * torch.randn(parameter.shape, generator=generator)
            self.optimizer.step()
            self.scheduler.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_loss_falls(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    x, losses = torch.randn(64, 6), []
    optimizer = build_optimizer(model, settings(name))
    for _ in range(60):
        loss = (model(x) - x[:, :2].sin()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path, name):
    optim = settings(name, weight_decay=0.1, warmup_steps=2)
    whole, stopped, continued = Training(optim), Training(optim), Training(optim)
    whole.update(*range(6))
    stopped.update(*range(4))
    content = snapshot(stopped.model, stopped.optimizer, stopped.scheduler, {"step": 4})
    save_checkpoint(tmp_path, content, keep=1)
    continued.update(5)
    content, path = load_newest(tmp_path)
    restore(content, path, continued.model, continued.optimizer, continued.scheduler)
    continued.update(4, 5)
    for one, two in zip(continued.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, two)
    assert continued.scheduler.get_last_lr() == whole.scheduler.get_last_lr()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_matrices_alone_decay(name):
    model = Shapes()
    optimizer = build_optimizer(model, settings(name, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    for parameter, first in zip(model.parameters(), before, strict=True):
        expected = first if parameter.ndim < 2 else first * (1 - 0.02 * 0.5)
        torch.testing.assert_close(parameter.detach(), expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_option_that_it_does_not_know_is_one_line(name):
    flags = ["--optim.optimizer", name, "--optim.optimizer-options", "momentums", "0.5"]
    with pytest.raises(UsageError, match=r"^[^\n]*optimizer '[^\n]*'momentums'[^\n]*$"):
        load_config(None, flags)


@pytest.mark.parametrize(
    ("name", "option"), [(spec.name, option) for spec in OPTIMIZERS.values() for option in spec.options]
)
def test_its_options_reach_it(name, option):
    default = OPTIMIZERS[name].options[option].default
    other = default + 1 if isinstance(default, int) else default * 1.02
    flags = ["--optim.optimizer", name]
    plain = load_config(None, flags)
    changed = load_config(None, [*flags, "--optim.optimizer-options", option, str(other)])
    groups = [build_optimizer(Shapes(), config.optim).param_groups[0] for config in (plain, changed)]
    assert {key for key in groups[0] if key != "params" and groups[0][key] != groups[1][key]} == {option}
    assert config_hash(plain) != config_hash(changed)


def test_an_unknown_name_and_a_setting_of_another_optimizer_are_one_line():
    with pytest.raises(UsageError, match=r"unknown optim\.optimizer 'moun'; did you mean 'muon'"):
        load_config(None, ["--optim.optimizer", "moun"])
    for field, value in (("adam_beta2", "0.99"), ("width_scaling", "mup")):
        flags = ["--optim.optimizer", "adafactor", f"--optim.{field.replace('_', '-')}", value]
        with pytest.raises(UsageError, match=f"optim.{field} has no effect with optim.optimizer 'adafactor'"):
            load_config(None, flags)


@pytest.mark.parametrize(("variant", "spared"), listed(__file__, "places and widths"))
def test_places_and_widths_on_the_axis_of_inputs_do_not_decay(variant, spared):
    ffn = build_ffn(variant, 16, 24)
    decayed, kept = build_optimizer(ffn, OptimConfig(weight_decay=0.5)).param_groups
    names = {id(p): name.rpartition(".")[2] for name, p in ffn.named_parameters()}
    assert set(spared) <= {names[id(p)] for p in kept["params"]}
    assert not {names[id(p)] for p in decayed["params"]} & set(spared)
    assert (bool(decayed["params"]), decayed["weight_decay"], kept["weight_decay"]) == (True, 0.5, 0)


def test_adafactor_is_the_one_of_t5():
    """Against transformers', which follows the code that T5 was trained with."""
    ours, other = Shapes(), Shapes()
    optimizers = (
        build_optimizer(ours, settings("adafactor")),
        Adafactor(other.parameters(), lr=0.02, scale_parameter=True, relative_step=False, warmup_init=False),
    )
    generator = torch.Generator().manual_seed(1)
    for _ in range(8):
        for one, two in zip(ours.parameters(), other.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            two.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, two, first in zip(ours.parameters(), other.parameters(), Shapes().parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-7)
        assert not torch.equal(one, first)


A, B, C = 3.4445, -4.7750, 2.0315
RATE, DECAY, MOMENTUM, STEPS = 0.02, 0.1, 0.95, 5


def orthogonalised(matrix: np.ndarray) -> np.ndarray:
    """Five steps of X (a + b X^T X + c (X^T X)^2) from X over its norm (Jordan et al. 2024), in float64."""
    x = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        gram = x.T @ x
        x = x @ (A * np.eye(len(gram)) + B * gram + C * gram @ gram)
    return x


def muon_by_numpy(weight: np.ndarray, grads: list[np.ndarray]) -> np.ndarray:
    """Nesterov momentum, the update, decoupled decay, and a root mean square of 0.2 (Liu et al. 2025)."""
    momentum = np.zeros_like(weight)
    for grad in grads:
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * grad
        update = orthogonalised(MOMENTUM * momentum + (1 - MOMENTUM) * grad)
        weight = weight * (1 - RATE * DECAY) - RATE * 0.2 * np.sqrt(max(weight.shape)) * update
    return weight


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30)])
def test_muon_is_that_of_numpy(shape):
    """As near as bfloat16 allows: within 2% of how far the weights went."""
    rng = np.random.default_rng(1)
    weight, grads = rng.normal(size=shape), [rng.normal(size=shape) for _ in range(STEPS)]
    linear = nn.Linear(shape[1], shape[0], bias=False)
    linear.weight.data = torch.tensor(weight, dtype=torch.float32)
    optim = OptimConfig(optimizer="muon", learning_rate=RATE, weight_decay=DECAY)
    optimizer = build_optimizer(nn.Sequential(linear), optim)
    for grad in grads:
        linear.weight.grad = torch.tensor(grad, dtype=torch.float32)
        optimizer.step()
    expected = muon_by_numpy(weight, grads)
    off = np.linalg.norm(linear.weight.detach().numpy() - expected)
    assert off < 0.02 * np.linalg.norm(expected - weight)


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30)])
def test_muon_of_a_linear_layer_is_that_of_torch_to_the_bit(shape):
    generator = torch.Generator().manual_seed(2)
    ours, other = (nn.Linear(shape[1], shape[0], bias=False) for _ in range(2))
    other.load_state_dict(ours.state_dict())
    optim = OptimConfig(optimizer="muon", learning_rate=RATE, weight_decay=DECAY)
    optimizers = (
        build_optimizer(nn.Sequential(ours), optim),
        torch.optim.Muon(other.parameters(), lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
    )
    for _ in range(STEPS):
        ours.weight.grad = torch.randn(shape, generator=generator)
        other.weight.grad = ours.weight.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(ours.weight, other.weight)


EDGEWISE = {
    "kan": {"spline_scaler"},
    "thesis-kan": {"spline_scaler"},
    "wav-kan": {"weight", "translation", "scale"},
    "mlp-edge": {"inner_weight", "inner_bias", "outer_weight"},
    "relu-kan": {"left_knots", "right_knots"},
    "spline-kan": {"knots", "coefficients"},
    "spline-activation": {"knots", "coefficients"},
    "gr-kan": {"denominator"},
}
"""Tensors of two dimensions or more that multiply no inputs: of edges, of channels and of groups."""
NO_LAYERS = {"keys", "values", "c_fc.weight", "c_proj.weight"}
"""Matrices of variants that are not layers one behind the other."""


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(list(FAMILIES), list(FFN_VARIANTS)))
def test_muon_gets_what_multiplies_inputs_and_no_table(family, ffn):
    model = build_model(family, ffn, **SMALL)
    weights = learnable_weights(model)
    matrices = [weight for weight in weights if weight.view is not None]
    groups = build_optimizer(model, settings("muon")).param_groups
    of_muon = {id(parameter) for group in groups if "ns_steps" in group for parameter in group["params"]}
    assert of_muon == {id(weight.parameter) for weight in matrices}
    every = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(every) == sorted(id(parameter) for parameter in model.parameters())
    tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    assert not tables & of_muon
    left = [w for w in weights if w.is_ffn and w.view is None and w.parameter.ndim > 1]
    assert {weight.name.rpartition(".")[2] for weight in left} == EDGEWISE.get(ffn, set())


@pytest.mark.parametrize("ffn", [name for name in FFN_VARIANTS if {*get_variant(name).matrices} - NO_LAYERS])
def test_rows_of_a_matrix_are_outputs_of_its_layer(ffn):
    layer = build_ffn(ffn, 6, 5).get_submodule("layers.0")
    y = layer(torch.randn(3, 6))
    named = dict(layer.named_parameters())
    for ending, view in FFN_VARIANTS[ffn].matrices.items():
        for output in range(5):
            (gradient,) = torch.autograd.grad(y[:, output].sum(), [named[ending]], retain_graph=True)
            reached = view(gradient)[0].flatten(1).abs().sum(1).nonzero().flatten().tolist()
            assert reached == [output]


def test_a_stack_is_as_many_matrices_of_their_own():
    """An expert's update does not depend on the other experts."""
    torch.manual_seed(0)
    model = build_model("gpt_neo", "moe", {"experts": 3, "top_k": 1}, **SMALL)
    weight = next(w for w in learnable_weights(model) if w.name.endswith("0.mlp.ffn.c_fc.weight"))
    alone = nn.Linear(16, SMALL["intermediate_size"], bias=False)
    start = weight.parameter.detach().clone()
    alone.weight.data = start[: len(alone.weight)].clone()
    weight.parameter.grad = torch.randn(weight.parameter.shape)
    alone.weight.grad = weight.parameter.grad[: len(alone.weight)].clone()
    for network in (model, nn.Sequential(alone)):
        build_optimizer(network, settings("muon")).step()
    assert torch.equal(weight.parameter[: len(alone.weight)], alone.weight)
    assert not torch.equal(weight.parameter, start)


@pytest.mark.parametrize("ties", [True, False])
def test_an_output_head_is_left_out_tied_or_not(ties):
    model = build_model("llama", "swiglu", tie_word_embeddings=ties, **SMALL)
    tables = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    assert not tables & {id(each.parameter) for each in learnable_weights(model) if each.view is not None}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("family", "ffn"), [("gpt_neo", "kan"), ("roberta", "gelu"), ("t5", "moe")])
def test_the_ffn_has_its_own_rate_and_decay(name, family, ffn):
    """As a model of the same gradients in which the FFN alone is trained with that rate and decay."""
    own = {"ffn_learning_rate_factor": 0.25, "ffn_weight_decay": 0.3}
    alike = {"learning_rate": 0.005, "weight_decay": 0.3}
    steps = []
    for fields in (own, {}, alike):
        torch.manual_seed(0)
        model = build_model(family, ffn, **SMALL)
        optim = OptimConfig(**{"optimizer": name, "learning_rate": 0.02, "weight_decay": 0.1, **fields})
        optimizer = build_optimizer(model, optim)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape)
        optimizer.step()
        steps.append(learnable_weights(model))
    for with_own, shared, scaled in zip(*steps, strict=True):
        expected = scaled if with_own.is_ffn else shared
        assert torch.equal(with_own.parameter, expected.parameter), with_own.name
    assert {weight.is_ffn for weight in steps[0]} == {True, False}


SPARED = {
    "kan": {"spline_scaler"},
    "spline-activation": {"knots", "coefficients"},
    "wav-kan": {"translation", "scale"},
}
"""Tensors of two dimensions or more that the first scale is no factor of."""


@pytest.mark.parametrize("ffn", ["gelu", "moe", "cheby-kan", *SPARED])
def test_the_first_scale_is_a_factor_once_on_what_inputs_meet(ffn):
    models = []
    for factor in (1, 0.5):
        torch.manual_seed(0)
        flags = ["--ffn", ffn, "--model.ffn-initializer-factor", str(factor)]
        models.append(build(load_config(shipped("config")["tiny"], flags), 300))
    for plain, scaled in zip(*map(learnable_weights, models), strict=True):
        is_scaled = plain.is_ffn and plain.parameter.ndim > 1
        is_scaled &= plain.name.rpartition(".")[2] not in SPARED.get(ffn, ())
        assert torch.equal(scaled.parameter, plain.parameter * (0.5 if is_scaled else 1)), plain.name


@pytest.mark.parametrize("ffn", ["gelu", "cheby-kan"])
def test_mup_has_muon_move_outputs_as_much_at_every_width(ffn):
    """An update that goes along one input vector changes the outputs for it by as much at 64 and 256."""
    moved = []
    for width in (64, 256):
        torch.manual_seed(0)
        model = build_model("gpt_neo", ffn, **SMALL | {"hidden_size": width, "intermediate_size": 2 * width})
        first = next(w for w in learnable_weights(model) if w.is_ffn and w.view is not None)
        matrix = first.view(first.parameter.detach())[0].flatten(1)
        inputs = torch.randn(matrix.shape[1]).sign()
        first.view(first.parameter)[0].flatten(1).mv(inputs).sum().backward()
        before = matrix.mv(inputs)
        build_optimizer(model, OptimConfig(optimizer="muon", width_scaling="mup")).step()
        after = first.view(first.parameter.detach())[0].flatten(1).mv(inputs)
        moved.append(float((after - before).square().mean().sqrt()))
    assert moved[0] == pytest.approx(moved[1], rel=0.1)


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("ffn", ["gelu", "swiglu", "kan", "cheby-kan", "wav-kan", "mlp-edge"])
def test_mup_moves_activations_as_much_at_every_width(ffn, is_tied):
    """The coordinate check of Yang et al. (2022); of logits where the head is no embedding."""
    moved = []
    for width in (32, 128):
        torch.manual_seed(0)
        sizes = {"hidden_size": width, "intermediate_size": width, "tie_word_embeddings": is_tied}
        model, tokens = build_model("llama", ffn, **SMALL | sizes), torch.arange(16).view(2, 8)
        stepper, states = build_optimizer(model, OptimConfig(width_scaling="mup", learning_rate=5e-3)), []
        for _ in range(6):
            out = model(input_ids=tokens, labels=tokens, output_hidden_states=True)
            states.append([out.hidden_states[-2].detach(), out.logits.detach()][: 2 - is_tied])
            stepper.zero_grad()
            out.loss.backward()
            stepper.step()
        moved.append(
            [float((b - a).norm() / b.numel() ** 0.5) for a, b in zip(states[0], states[-1], strict=True)]
        )
    assert moved[0] == pytest.approx(moved[1], rel=0.6)
