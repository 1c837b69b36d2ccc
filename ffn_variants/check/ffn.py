"""What one feed-forward network of a variant must do.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from base.errors import UsageError, first_line
from ffn_variants.registry import build_ffn, get_variant

D, F = 12, 20
ODD_SIZES = ((D, F), (7, 9), (1, 1), (33, 5))
PRECISION = 0.01
"""Largest error in bf16, as a share of the output's norm."""

Options = dict[str, Any]


class CheckError(Exception):
    """A variant does not do what it must; one sentence that says what is wrong and what to do."""


def _build(name: str, options: Options, sizes: tuple[int, int] = (D, F), seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build_ffn(name, *sizes, **options)


def _cast(name: str, ffn: nn.Module, sizes: tuple[int, int], dtype: torch.dtype) -> nn.Module:
    """Cast a network to a dtype, which what the variant computes must keep.

    An activation is asked alone: between linear layers torch would blame the layer after it.
    """
    is_block = get_variant(name).kind == "block"
    own, width = (ffn, sizes[0]) if is_block else (ffn.to(dtype).get_submodule("act"), sizes[1])
    with torch.no_grad():
        y = own.to(dtype)(torch.ones(5, width, dtype=dtype))
    if y.dtype != dtype:
        raise CheckError(f"an input in {dtype} gives {y.dtype}; end forward with .to(x.dtype)")
    return ffn


def shapes(name: str, options: Options) -> None:
    """The output has the shape and the dtype of the input, at odd sizes too."""
    _refuse_swapped(name, _build(name, options))  # these sizes at least
    for sizes in ODD_SIZES:
        try:
            ffn = _build(name, options, sizes)
        except UsageError:
            continue  # a size that cannot be, told in one line
        for shape in ((sizes[0],), (5, sizes[0]), (2, 3, sizes[0]), (1, 1, sizes[0])):
            y = ffn(torch.randn(shape))
            if y.shape != shape or y.dtype != torch.float32:
                raise CheckError(
                    f"an input of shape {shape} gives {tuple(y.shape)} in {y.dtype} at hidden_size "
                    f"{sizes[0]}, intermediate_size {sizes[1]}; forward must keep shape (..., D) and dtype"
                )


def _refuse_swapped(name: str, ffn: nn.Module) -> None:
    """Refuse a block that maps F to F where it should map D to D."""
    if get_variant(name).kind == "block" and not _maps(ffn, D) and _maps(ffn, F):
        raise CheckError(
            f"at hidden_size {D} and intermediate_size {F} it maps {F} to {F}, and must map {D} to {D}; "
            "build is called as build(hidden_size, intermediate_size), in this order"
        )


def _maps(ffn: nn.Module, width: int) -> bool:
    """Whether a network takes vectors of a width and gives such."""
    try:
        with torch.no_grad():
            return ffn(torch.ones(5, width)).shape == (5, width)
    except Exception:  # the variant's own code; whoever calls it next says what it raises
        return False


def tokens(name: str, options: Options) -> None:
    """What a token gives does not depend on the tokens beside it."""
    ffn = _cast(name, _build(name, options), (D, F), torch.float64)
    x = torch.randn(6, D, dtype=torch.float64)
    for mode in (False, True):
        ffn.train(mode)
        together, again = ffn(x), ffn(x)
        if mode and not torch.equal(together, again):
            return  # there is dropout inside
        alone = torch.cat([ffn(row[None]) for row in x])
        if not torch.allclose(together, alone, rtol=1e-8, atol=1e-10):
            raise CheckError(
                "a token's output changes with the tokens beside it; forward must compute every vector of "
                "the last dimension by itself, without statistics of the batch"
            )


def gradients(name: str, options: Options) -> None:
    """The gradients are those of finite differences in float64, and every parameter has one."""
    ffn = _build(name, options)
    x = torch.randn(3, 7, D, requires_grad=True)
    ffn(x).square().sum().backward()
    wrong = [label for label, p in ffn.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    if wrong or x.grad is None:
        raise CheckError(
            f"{', '.join(wrong) or 'the input'} gets no gradient, or zeros; use it in forward without "
            "detach(), .data, .item() and torch.no_grad()"
        )
    sizes = (3, 4)
    try:
        ffn = _build(name, options, sizes, seed=1)
    except UsageError:
        sizes = (D, F)
        ffn = _build(name, options, sizes, seed=1)
    ffn = _cast(name, ffn, sizes, torch.float64)
    wide = torch.randn(5, sizes[0], dtype=torch.float64, requires_grad=True)
    try:
        torch.autograd.gradcheck(lambda x, *_: ffn(x), (wide, *ffn.parameters()))
    except (RuntimeError, ValueError) as error:
        raise CheckError(
            f"gradients differ from finite differences in float64 ({first_line(error).rstrip('.,')}); "
            "compute the output by differentiable operations in x's own precision, or at least float32"
        ) from None


def bf16(name: str, options: Options) -> None:
    """In bf16, cast or by autocast, the output stays near that of float32, and in its dtype."""
    for width in (D, 256):
        ffn = _build(name, options, (width, 2 * width), seed=2)
        x = torch.randn(64, width)
        exact = ffn(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _near(ffn(x), exact, "under autocast")
        ffn, x = _cast(name, ffn, (width, 2 * width), torch.bfloat16), x.to(torch.bfloat16)
        y = ffn(x)
        # Of the same rounded numbers: between two experts that score alike, others may choose another.
        _near(y, ffn.float()(x.float()), "in bf16")


def _near(y: Tensor, exact: Tensor, way: str) -> None:
    norm = exact.detach().norm()
    off = float((y.detach().float() - exact.detach()).norm() / norm.clamp(min=torch.finfo(norm.dtype).tiny))
    if not off < PRECISION:
        raise CheckError(
            f"{way} the output is {off:.1%} off that of float32; compute what cancels or grows in "
            "torch.promote_types(x.dtype, torch.float32) and cast the result back"
        )


def meta_device(name: str, options: Options) -> None:
    """It can be built on the meta device, where transformers builds what it loads."""
    try:
        with torch.device("meta"):
            ffn = build_ffn(name, D, F, **options)
    except (RuntimeError, NotImplementedError) as error:
        raise CheckError(
            f"it cannot be built on the meta device, where models are loaded ({first_line(error)}); take "
            "numbers from plain Python in the constructor, not from tensors"
        ) from None
    for label, tensor in (*ffn.named_parameters(), *ffn.named_buffers()):
        if not tensor.is_meta:
            raise CheckError(
                f"{label} is on the CPU where the meta device was asked for; make it without torch.linspace "
                "(use torch.arange) and without a device of its own"
            )


def saved_state(name: str, options: Options) -> None:
    """Everything that decides the output is in the state dict."""
    ffn, other = _build(name, options, seed=3), _build(name, options, seed=4)
    missing = sorted({key for key, _ in ffn.named_buffers()} - set(ffn.state_dict()))
    if missing:
        raise CheckError(
            f"buffer {missing[0]} is not in the state dict, so a loaded model would hold arbitrary memory; "
            "register it with persistent=True"
        )
    other.load_state_dict(ffn.state_dict())
    x = torch.randn(5, D)
    if not torch.equal(ffn.eval()(x), other.eval()(x)):
        raise CheckError(
            "two networks with the same state dict give different outputs; make every tensor that forward "
            "uses an nn.Parameter or a buffer (register_buffer)"
        )


def initial_weights(name: str, options: Options) -> None:
    """Initial weights follow torch's seed, and nothing else."""
    one, same, other = (list(_build(name, options, seed=seed).parameters()) for seed in (5, 5, 6))
    if not all(map(torch.equal, one, same)):
        raise CheckError(
            "at one seed of torch the initial weights differ from call to call; draw them with torch's "
            "global generator, not with numpy, random or a generator of your own"
        )
    if one and all(map(torch.equal, one, other)):
        raise CheckError(
            "the initial weights are the same at every seed; draw them with torch's global generator"
        )


def counts(name: str, options: Options) -> None:
    """``multiply_adds`` is a number that the matrix products of a token do not exceed."""
    spec, ffn = get_variant(name), _build(name, options)
    declared = spec.multiply_adds(D, F, **spec.resolve(options))
    if isinstance(declared, bool) or not isinstance(declared, int) or declared < 0:
        raise CheckError(f"multiply_adds(D, F, **options) gives {declared!r}, and must give a whole number")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ffn(torch.randn(1, D))
    measured = counter.get_total_flops() // 2
    if declared < 0.99 * measured:
        raise CheckError(
            f"multiply_adds({D}, {F}) gives {declared:,}, and the matrix products of one token take "
            f"{measured:,}; count them all, for an activation also the linear layers around it (2 D F)"
        )


def compiles(name: str, options: Options) -> None:
    """torch.compile can trace it, and what it traces computes the same."""
    ffn, x = _build(name, options), torch.randn(5, D, requires_grad=True)
    try:
        with _no_logs():
            y = torch.compile(ffn, backend="aot_eager")(x)
            y.sum().backward()
    except Exception as error:  # whatever Dynamo raises
        raise CheckError(
            f"torch.compile cannot trace it ({type(error).__name__}: {first_line(error)}); use torch "
            "operations and plain Python numbers in forward"
        ) from None
    finally:
        torch.compiler.reset()
    if not torch.allclose(y, ffn(x), rtol=1e-4, atol=1e-5):
        raise CheckError("compiled it gives another output; use torch operations without side effects")


@contextlib.contextmanager
def _no_logs() -> Iterator[None]:
    """Keep torch from logging the trace of an error that is told in a sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


FFN_CHECKS: dict[str, Callable[[str, Options], None]] = {
    "shapes and dtype": shapes,
    "each token by itself": tokens,
    "gradients": gradients,
    "bf16": bf16,
    "meta device": meta_device,
    "state dict": saved_state,
    "initial weights": initial_weights,
    "multiply_adds": counts,
    "torch.compile": compiles,
}
"""By what each is called; each takes the variant's name and its options."""
