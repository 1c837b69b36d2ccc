"""The optimizers against other implementations of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import Adafactor

from base.errors import UsageError
from pretrain.config import OptimConfig
from pretrain.resolution import load_config
from pretrain.training.optim import build_optimizer


class Shapes(nn.Module):
    """Parameters of one, two and three dimensions, of different sizes; one begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for name, shape, scale in (("a", (7,), 1.0), ("b", (5, 9), 0.1), ("c", (3, 4, 6), 3.0)):
            setattr(self, name, nn.Parameter(scale * torch.randn(shape, generator=generator)))
        self.d = nn.Parameter(torch.zeros(4, 2))


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


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
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


def test_a_setting_of_the_other_optimizer_is_an_error():
    message = "optim.adam_beta2 has no effect with optim.optimizer 'adafactor'"
    with pytest.raises(UsageError, match=message):
        load_config(None, ["--optim.optimizer", "adafactor", "--optim.adam-beta2", "0.99"])
