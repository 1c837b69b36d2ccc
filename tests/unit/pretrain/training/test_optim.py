"""The optimizers against other implementations of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from transformers import Adafactor

from base.errors import UsageError
from ffn_variants import build_ffn
from pretrain.config import OptimConfig
from pretrain.resolution import load_config
from pretrain.training.checkpoints import load_newest, take_snapshot, write_checkpoint
from pretrain.training.muon import hidden_matrices
from pretrain.training.optim import Rates, build_optimizer


class Shapes(nn.Module):
    """Parameters of one, two and three dimensions, of different sizes; one begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for name, shape, scale in (("a", (7,), 1.0), ("b", (5, 9), 0.1), ("c", (3, 4, 6), 3.0)):
            setattr(self, name, nn.Parameter(scale * torch.randn(shape, generator=generator)))
        self.d = nn.Parameter(torch.zeros(4, 2))
        # The weights of these are for Muon: two of one shape, one of them lying, and one that is square.
        for name, rows, columns in (("e", 6, 4), ("f", 4, 6), ("g", 5, 5)):
            linear = nn.Linear(columns, rows, bias=False)
            linear.weight.data = torch.randn(rows, columns, generator=generator)
            setattr(self, name, linear)


def test_adafactor_is_the_one_of_t5():
    """Against transformers', which follows the code that T5 was trained with."""
    ours, other = Shapes(), Shapes()
    optimizers = (
        build_optimizer(ours, OptimConfig(optimizer="adafactor", learning_rate=0.01)),
        Adafactor(other.parameters(), lr=0.01, scale_parameter=True, relative_step=False, warmup_init=False),
    )
    generator = torch.Generator().manual_seed(1)
    for _ in range(8):
        for one, two in zip(ours.parameters(), other.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            two.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    begin = list(Shapes().parameters())
    for one, two, first in zip(ours.parameters(), other.parameters(), begin, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-7)
        assert not torch.equal(one, first)


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor", "muon"])
def test_matrices_alone_decay(optimizer):
    model = Shapes()
    built = build_optimizer(model, OptimConfig(optimizer=optimizer, learning_rate=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    built.step()
    for parameter, first in zip(model.parameters(), before, strict=True):
        expected = first if parameter.ndim < 2 else first * (1 - 0.1 * 0.5)
        torch.testing.assert_close(parameter.detach(), expected)


@pytest.mark.parametrize(
    ("variant", "spared"),
    [
        ("spline-kan", {"knots"}),
        ("spline-activation", {"knots"}),
        ("relu-kan", {"left_knots", "right_knots"}),
        ("wav-kan", {"translation", "scale"}),
        ("mlp-edge", {"inner_bias"}),
        ("gr-kan", {"numerator", "denominator"}),
    ],
)
def test_places_and_widths_on_the_axis_of_inputs_do_not_decay(variant, spared):
    ffn = build_ffn(variant, 16, 24)
    kept, decayed = build_optimizer(ffn, OptimConfig(weight_decay=0.5)).param_groups[::-1]
    names = {id(p): name.rpartition(".")[2] for name, p in ffn.named_parameters()}
    assert spared <= {names[id(p)] for p in kept["params"]}
    assert {names[id(p)] for p in decayed["params"]} & spared == set()
    assert (bool(decayed["params"]), decayed["weight_decay"], kept["weight_decay"]) == (True, 0.5, 0)


def test_a_setting_of_the_other_optimizer_is_an_error():
    message = "optim.adam_beta2 has no effect with optim.optimizer 'adafactor'"
    with pytest.raises(UsageError, match=message):
        load_config(None, ["--optim.optimizer", "adafactor", "--optim.adam-beta2", "0.99"])


def train(
    model: Shapes, optim: OptimConfig, steps: int, on_device: bool
) -> tuple[torch.optim.Optimizer, Rates]:
    """Some updates by random gradients of very different sizes."""
    optimizer = build_optimizer(model, optim, on_device)
    rates = Rates(optimizer, optim, max_steps=6)
    go_on(model, optimizer, rates, range(steps))
    return optimizer, rates


def go_on(model: Shapes, optimizer: torch.optim.Optimizer, rates: Rates, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            parameter.grad = 10.0 ** (step % 3 - 3) * torch.randn(parameter.shape, generator=generator)
        rates.write_next()
        optimizer.step()
        rates.advance()


SETTINGS = [
    OptimConfig(optimizer="adamw", learning_rate=0.1, weight_decay=0.1, warmup_steps=2),
    OptimConfig(optimizer="adafactor", learning_rate=0.1, weight_decay=0.1, lr_scheduler_type="cosine"),
    OptimConfig(optimizer="muon", learning_rate=0.1, weight_decay=0.1, warmup_steps=2),
]
SETTING_NAMES = [optim.optimizer for optim in SETTINGS]


@pytest.mark.parametrize("optim", SETTINGS, ids=SETTING_NAMES)
def test_what_stays_on_the_device_computes_the_same(optim):
    """Against torch's own, with rates that are Python numbers."""
    plain, ours = Shapes(), Shapes()
    theirs = train(plain, optim, 6, on_device=False)[0]
    optimizer = train(ours, optim, 6, on_device=True)[0]
    inside = {id(matrix) for matrix in hidden_matrices(ours)} if optim.optimizer == "muon" else ()
    for one, two in zip(ours.parameters(), plain.parameters(), strict=True):
        # Muon's updates are made in bfloat16, which rounds a batch of matrices otherwise than single ones.
        near = {"rtol": 0.0, "atol": 0.03} if id(one) in inside else {"rtol": 2e-6, "atol": 1e-7}
        torch.testing.assert_close(one, two, **near)
        state, expected = optimizer.state[one], theirs.state[two]
        assert state.keys() == expected.keys()
        for key in expected:
            torch.testing.assert_close(state[key], expected[key], rtol=2e-6, atol=1e-12)
            assert state[key].device == one.device


@pytest.mark.parametrize("optim", SETTINGS, ids=SETTING_NAMES)
@pytest.mark.parametrize("on_device", [False, True])
def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path, optim, on_device):
    whole, stopped, other = Shapes(), Shapes(), Shapes()
    train(whole, optim, 6, on_device)
    optimizer, rates = train(stopped, optim, 4, on_device)
    write_checkpoint(tmp_path, take_snapshot(stopped, optimizer, rates.scheduler, {"step": 4}), keep=1)
    optimizer, rates = train(other, optim, 1, on_device)
    load_newest(tmp_path, other, optimizer, rates.scheduler)
    rates.go_to(4)
    go_on(other, optimizer, rates, range(4, 6))
    for one, two in zip(other.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("on_device", [False, True])
def test_the_logged_rate_is_how_far_the_update_went(on_device):
    """Without memory of gradients AdamW moves every weight by the rate; 0, 1/2, 1, 3/4, 1/2, 1/4 of 0.1."""
    optim = OptimConfig(learning_rate=0.1, warmup_steps=2, adam_beta1=0.0, adam_beta2=0.0)
    model = nn.Linear(2, 2, bias=False)
    optimizer = build_optimizer(model, optim, on_device)
    rates, moved, logged = Rates(optimizer, optim, 6), [], []
    for _ in range(6):
        before = model.weight.detach().clone()
        model.weight.grad = torch.ones_like(before)
        rates.write_next()
        optimizer.step()
        rates.advance()
        moved.append((before - model.weight).mean().item())
        logged.append(rates.used)
    assert logged == pytest.approx([0.0, 0.05, 0.1, 0.075, 0.05, 0.025])
    assert logged == pytest.approx(moved, abs=1e-6)


class Operations(TorchDispatchMode):
    """Lists operations with all that is no tensor among their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        shown = tree_map(lambda x: tuple(x.shape) if isinstance(x, torch.Tensor) else x, (args, kwargs))
        if function.namespace == "aten":
            self.seen.append(f"{function} {shown}")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("optim", SETTINGS, ids=SETTING_NAMES)
def test_two_updates_are_the_same_operations_and_read_nothing(optim):
    model = Shapes()
    optimizer, rates = train(model, optim, 1, on_device=True)
    seen = []
    for step in (1, 2):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 10.0**-step)
        with Operations() as operations:
            rates.write_next()
            optimizer.step()
        rates.advance()
        seen.append(operations.seen)
    assert seen[0] == seen[1]
    assert len(seen[0]) > 3
    # What torch's fused AdamW reads of a rate within its one operation on a CPU, it does not on a GPU.
    assert not [name for name in seen[0] if "_local_scalar_dense" in name or "nonzero" in name]
