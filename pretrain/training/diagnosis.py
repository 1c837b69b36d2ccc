"""What a run that diverged died of: in which layer it began, in a file of the run and in one line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from accelerate.utils import set_seed
from torch import nn

from base.errors import UsageError
from base.files import write_text
from base.json_text import parse_json
from pretrain.model.build import build, special_token_ids
from pretrain.run.folders import RunFolder
from pretrain.training.health import Diverged
from pretrain.training.loop import Loop

ADVICE = "lower --optim.learning-rate or --optim.max-grad-norm, or add --optim.warmup-steps"


def diagnose(loop: Loop, diverged: Diverged) -> UsageError:
    """Mark a run as failed and find out which layer it was; the same command then refuses to repeat it.

    Args:
        loop: The run's loop, which has ended; its weights are not to be used after this.
        diverged: What it ended with.

    Returns:
        The error to raise.
    """
    step, problem, newest = diverged.step, diverged.problem, loop.writer.newest
    kept = f"the last good checkpoint is {newest.name}" if newest else "there is no checkpoint"
    record = {
        "step": step,
        "problem": problem,
        "last_good_checkpoint": newest.name if newest else None,
        "grad_norms": {},
    }
    _mark(loop, record)  # before the replay, which may be interrupted
    norms = gradient_norms(loop, step)
    _mark(loop, record | {"grad_norms": {name: str(norm) for name, norm in norms.items()}})
    shown = ", ".join(f"{name} {norm:.3g}" for name, norm in norms.items())
    return UsageError(
        f"{loop.path}: {problem} at step {step}; {ADVICE}. Gradient norms of that step: {shown}; {kept}"
    )


def read_failure(path: Path) -> str | None:
    """Why the run in a folder failed and what to do about it, in one line; None if it did not.

    Args:
        path: The run folder.
    """
    if not RunFolder(path).has_diverged:
        return None
    file = RunFolder(path).failure_marker
    try:
        record = parse_json(file.read_bytes())
        problem = f"{record['problem']} at step {record['step']}"
        start = record["last_good_checkpoint"] or "the beginning"
    except (ValueError, KeyError, TypeError):
        problem, start = "its marker cannot be read", "its last checkpoint"
    return (
        f"{path} failed: {problem}; {ADVICE}, which is another run, or remove {file} to repeat this one "
        f"from {start}"
    )


def gradient_norms(loop: Loop, step: int) -> dict[str, float]:
    """Norm of the gradient of every layer at a step, before clipping.

    A run notices a bad step some steps later, when the weights may hold nothing finite any more. So the steps
    since the last good checkpoint are done again; what a step does is decided by its number.
    """
    _rewind(loop)
    loop.progress.say(f"repeating steps {loop.state.step + 1} to {step} to see the gradients of the last one")
    loop.repeat_until(step - 1)
    squares: dict[str, float] = {}

    def measure(name: str, parameter: nn.Parameter) -> None:
        if parameter.grad is not None:  # of an accumulated step the last call has the whole gradient
            squares[name] = float(parameter.grad.norm()) ** 2

    hooks: list[Any] = [
        parameter.register_post_accumulate_grad_hook(lambda parameter, name=name: measure(name, parameter))
        for name, parameter in loop.model.named_parameters()
        if parameter.requires_grad
    ]
    try:
        loop.repeat_until(step)
    finally:
        for hook in hooks:
            hook.remove()
    layers: dict[str, float] = {}
    for name, _ in loop.model.named_parameters():
        if name in squares:
            layer = layer_of(name)
            layers[layer] = layers.get(layer, 0.0) + squares[name]
    return {name: math.sqrt(square) for name, square in layers.items()}


def _rewind(loop: Loop) -> None:
    """Go to the last good checkpoint, or to the initial weights."""
    if loop.restart() is None:
        set_seed(loop.config.seed)
        tokenizer = loop.data.tokenizer
        initial = build(loop.config, len(tokenizer), special_token_ids(tokenizer))
        loop.model.load_state_dict(initial.state_dict())


def layer_of(parameter: str) -> str:
    """The layer that a parameter belongs to: ``layer 0``, of T5 ``encoder layer 0``; or its module's name."""
    if numbered := re.search(r"\b(encoder|decoder)\.block\.(\d+)\.", parameter):
        return f"{numbered[1]} layer {numbered[2]}"
    if numbered := re.search(r"\.(?:h|layer)\.(\d+)\.", parameter):
        return f"layer {numbered[1]}"
    return parameter.split(".")[-2]


def _mark(loop: Loop, record: dict[str, Any]) -> None:
    if loop.accelerator.is_main_process:
        write_text(RunFolder(loop.path).failure_marker, json.dumps(record, indent=1) + "\n")
