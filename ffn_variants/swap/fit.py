"""What an FFN reads and writes on real text, and another one that is fitted to it.

Shapes: N tokens, D hidden_size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ffn_variants.models.layers import ffn_modules
from ffn_variants.swap.exchange import layers_of
from ffn_variants.swap.pieces import Batch

EXACT = 1e-9
"""Relative error of two FFNs that differ by roundings alone; fitting would only move them apart."""


@torch.no_grad()
def captured(model: PreTrainedModel, number: int, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Run a model and keep what one FFN reads and writes.

    Args:
        model: In evaluation mode.
        number: The layer.
        batches: What to run it on.

    Returns:
        (N, D) inputs and outputs at all tokens that are no padding.
    """
    name, layer = list(layers_of(model).items())[number]
    mask = "decoder_attention_mask" if name.startswith("decoder.") else "attention_mask"
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    first, last = ffn_modules(layer)[0], ffn_modules(layer)[-1]
    hooks = [
        first.register_forward_pre_hook(lambda _, args: inputs.append(args[0])),
        last.register_forward_hook(lambda _, args, output: outputs.append(output)),
    ]
    kept: tuple[list[Tensor], list[Tensor]] = ([], [])
    try:
        for batch in batches:
            model(**on_device(model, batch))
            real = batch[mask].bool().to(model.device)
            for found, all_of in zip((inputs, outputs), kept, strict=True):
                all_of.append(found.pop()[real])
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat(kept[0]), torch.cat(kept[1])


def on_device(model: PreTrainedModel, batch: Batch) -> Batch:
    """Put a batch where a model is."""
    return {name: tensor.to(model.device) for name, tensor in batch.items()}


def apply_ffn(parts: Sequence[nn.Module], inputs: Tensor) -> Tensor:
    """Give (N, D) inputs to the modules of an FFN, one after the other."""
    for part in parts:
        inputs = part(inputs)
    return inputs


@torch.no_grad()
def relative_error(parts: Sequence[nn.Module], inputs: Tensor, outputs: Tensor) -> float:
    """Mean squared error of an FFN's outputs, as a share of their variance over the tokens."""
    chunks = zip(inputs.split(4096), outputs.split(4096), strict=True)
    error = sum(float((apply_ffn(parts, x) - y).double().square().sum()) for x, y in chunks)
    return error / float((outputs - outputs.mean(0)).double().square().sum())


def fit(
    parts: Sequence[nn.Module],
    inputs: Tensor,
    outputs: Tensor,
    *,
    steps: int,
    learning_rate: float,
    batch_tokens: int,
    seed: int,
    advance: Callable[[], object] = lambda: None,
) -> None:
    """Fit an FFN to inputs and outputs by Adam, on the squared error relative to the outputs' variance.

    Args:
        parts: Its modules; changed in place.
        inputs: (N, D).
        outputs: (N, D).
        steps: Of Adam.
        learning_rate: At the start; it falls to zero in a straight line.
        batch_tokens: Tokens drawn for a step, with repetitions.
        seed: Of the draws.
        advance: Called after each step.
    """
    parameters = [p for part in parts for p in part.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    variance = (outputs - outputs.mean(0)).square().mean()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(inputs), (batch_tokens,), generator=generator).to(inputs.device)
        error = (apply_ffn(parts, inputs[rows]) - outputs[rows]).square().mean() / variance
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        schedule.step()
        advance()
