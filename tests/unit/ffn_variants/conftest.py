"""What tests of several kinds of variants compare alike."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture(scope="session")
def check_float32_gradients(error) -> Callable[[nn.Module, Tensor], None]:
    """Compare a module's gradients in float32, of its input and of every parameter, with those in float64."""

    def check(module: nn.Module, x: Tensor) -> None:
        weights = torch.randn(module(x).shape)
        gradients = []
        for dtype in (torch.float32, torch.float64):
            module, inputs = module.to(dtype), x.to(dtype).requires_grad_()
            found = torch.autograd.grad(module(inputs), [inputs, *module.parameters()], weights.to(dtype))
            gradients.append(found)
        for single, exact in zip(*gradients, strict=True):
            assert error(single, exact) < 5e-6

    return check
