"""``ffn-ablations check path/to/mine.py:SPEC``: whether a variant does what every variant must.

The same checks are what the tests of this project run for every variant. Each is a function of a variant's
name and its options, and raises an ``AssertionError`` of one sentence: what is wrong, and what to do.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from base.command_line import Positional, parse_flags
from base.errors import UsageError, first_line
from base.families import FAMILIES
from base.sections import Section
from ffn_variants.models.family_models import build_model
from ffn_variants.names import variant_file
from ffn_variants.registry import build_ffn, get_variant
from ffn_variants.spec import FFNSpec
from ffn_variants.variant_files import find_variant

D, F = 12, 20
ODD_SIZES = ((D, F), (7, 9), (1, 1), (33, 5))
PRECISION = 0.01
"""Largest error in bf16, as a share of the output's norm."""
LOUDEST = 1000
"""Largest output of normal numbers; the variants that ship stay far below."""
MODEL = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 61,
    "max_position_embeddings": 33,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

IN_PLACE = "changes its input in place; write x = x + 1 and x * y, not x += 1, x.mul_(y) and inplace=True"
TORCH_ONLY = "use torch's functions, as torch.tanh, without numpy, detach(), .item() and no_grad()"
NOISE = (
    "two calls in evaluation give different outputs for the same input; draw noise and dropout only in "
    "training, as F.dropout(x, p, self.training), and keep nothing from call to call"
)
NO_TENSOR = "forward gives {}, no tensor; end it with return y"
NOT_FINITE = (
    f"an input of normal numbers gives NaN, infinity or more than {LOUDEST:,}, which fails other checks too; "
    "look for a factor, a division, a root or a logarithm"
)
OTHER_DEVICE = "CUDA|NVIDIA|[Ss]ame device|expected device"
CURES = {
    OTHER_DEVICE: "a tensor is on a device of its own; name none in the constructor (register_buffer), and "
    "make those of forward with device=x.device, dtype=x.dtype",
    "leaf Variable": IN_PLACE,
    "SimpleNamespace": "config has hidden_size and intermediate_size; dropout follows the FFN by itself",
    r"call numpy\(\)": TORCH_ONLY,
    r"before Module.__init__": "call super().__init__() first in __init__",
    r"forward\(\) (missing|takes)": "forward gets the input alone, forward(self, x); give all else a default",
    "same dtype": "keep the dtype of x: no .half(), .float() or other dtype of its own",
    "shapes cannot be multiplied|invalid for input of size|size of tensor a": "take the widths in "
    "__init__(self, hidden_size, intermediate_size)",
    "values to unpack .*got|Dimension out of range|number of (subscripts|dimensions)": "forward must take "
    "any shape that ends in D, also (T, D): x.shape[-1] and dim=-1, not b, t, d = x.shape and dim=1",
    "value per channel|running_mean": "statistics of the batch, as of BatchNorm, mix tokens; normalize each "
    "token by itself, as nn.LayerNorm and nn.RMSNorm do",
}
"""What to do, by a pattern of torch's and Python's messages."""

Options = dict[str, Any]


class CheckArgs(Section):
    """Check a feed-forward variant: gradients, shapes, dtypes, saving and loading, training.

    Each check is a line. What fails is said in a sentence with what to do, and the exit status is then 1.

    Examples:
      ffn-ablations check path/to/mine.py:SPEC
      ffn-ablations check path/to/mine.py:SPEC --ffn-options init 0.5
      ffn-ablations check kan
    """

    variant: Positional[str]
    """A file and the name of the FFNSpec or nn.Module in it, path/to/mine.py:SPEC; or a registered name."""
    ffn_options: dict[str, int | float | bool | str] | None = None
    """Options of the variant, for example `init 0.5`."""


def _build(name: str, options: Options, sizes: tuple[int, int] = (D, F), seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build_ffn(name, *sizes, **options)


def _own_module(name: str, ffn: nn.Module, sizes: tuple[int, int] = (D, F)) -> tuple[nn.Module, int]:
    """What the variant's file has built, and its width.

    An activation is asked alone: between linear layers torch would blame the layer after it.
    """
    return (ffn, sizes[0]) if get_variant(name).kind == "block" else (ffn.get_submodule("act"), sizes[1])


def shapes(name: str, options: Options) -> None:
    """At odd sizes too the output has the input's shape and dtype and its gradient, and no huge numbers."""
    _build(name, options)  # these sizes at least
    for sizes in ODD_SIZES:
        try:
            ffn = _build(name, options, sizes)
        except UsageError:
            continue  # a size that cannot be, said in one line
        module, width = _own_module(name, ffn, sizes)
        for shape in ((2, 3, width), (5, width), (1, 1, width)):
            x = torch.randn(shape, requires_grad=True)
            before, y = x.detach().clone(), module(x)
            assert isinstance(y, Tensor), NO_TENSOR.format(type(y).__name__)
            assert torch.equal(x, before), f"forward {IN_PLACE}"
            assert (y.shape, y.dtype) == (shape, torch.float32), (
                f"an input of shape {shape} gives {tuple(y.shape)} in {y.dtype} at hidden_size "
                f"{sizes[0]}, intermediate_size {sizes[1]}; forward must keep shape and dtype"
            )
            assert y.abs().max() < LOUDEST, NOT_FINITE  # which NaN is not
            assert y.requires_grad, f"no gradient goes from the output to the input; {TORCH_ONLY}"


def repeatable(name: str, options: Options) -> None:
    """Two calls in evaluation give the same, and no number is counted that saved models miss."""
    module, width = _own_module(name, _build(name, options).eval())
    x = torch.randn(2, 3, width)
    assert torch.equal(module(x), module(x)), NOISE
    before = _numbers(module.train())
    module(x)
    changed = [label for label, number in _numbers(module).items() if number != before.get(label, number)]
    assert not changed, (
        f"{', '.join(changed)} changes from call to call in training, which saved models miss; make it "
        "a buffer (register_buffer)"
    )


def registered(name: str, options: Options, sizes: tuple[int, int] = (D, F)) -> None:
    """Casts, moves to a device, saving and optimizers reach every tensor and layer that lasts."""
    module, width = _own_module(name, _build(name, options, sizes), sizes)
    reached, before = [*module.modules(), *module.parameters(), *module.buffers()], [*_attributes(module)]
    learned = dict(module.named_parameters())
    module(torch.randn(5, width))  # what it sets anew each time, as weight_norm does, does not last
    late = [label for label, _ in module.named_parameters() if label not in learned]
    assert not late, (
        f"{', '.join(late)} appears at the first forward, when an optimizer has its parameters already; make "
        "it in __init__(self, hidden_size, intermediate_size)"
    )
    lasting = {(label, id(value)) for label, value in _attributes(module)}
    for attribute, value in before:
        if any(value is each for each in reached) or (attribute, id(value)) not in lasting:
            continue
        assert not isinstance(value, nn.Module), (
            f"{attribute} holds layers that are not registered; make it an nn.ModuleList or nn.ModuleDict"
        )
        assert not isinstance(value, Tensor), (
            f"{attribute} is or holds a tensor that is neither parameter nor buffer, which casts, devices "
            "and saved models miss; make it an nn.Parameter if it is learned, else "
            f"self.register_buffer({attribute.rpartition('.')[2]!r}, ...)"
        )


def _numbers(ffn: nn.Module) -> dict[str, float]:
    return {label: value for label, value in _attributes(ffn) if isinstance(value, int | float)}


def _attributes(ffn: nn.Module) -> Iterator[tuple[str, Any]]:
    """Name what modules hold, also in lists and dicts."""
    for prefix, module in ffn.named_modules():
        for attribute, value in vars(module).items():
            values = value if isinstance(value, list | tuple) else [value]
            for each in value.values() if isinstance(value, dict) else values:
                yield f"{prefix}.{attribute}".removeprefix("."), each


def dtypes(name: str, options: Options) -> None:
    """Cast to another dtype, it keeps that of its input."""
    for dtype in (torch.float64, torch.bfloat16):
        module, width = _own_module(name, _build(name, options).to(dtype))
        y = module(torch.ones(5, width, dtype=dtype))
        assert y.dtype == dtype, f"an input in {dtype} gives {y.dtype}; end forward with .to(x.dtype)"


def extremes(name: str, options: Options) -> None:
    """Output and gradients are finite where the input is zero, as that of a padded token may be, or large."""
    module, width = _own_module(name, _build(name, options))
    for value in (0.0, 100.0, -100.0):  # e^89 is infinite in float32
        x = torch.full((2, width), value, requires_grad=True)
        y = module(x)
        y.sum().backward()
        tensors = (y, x.grad, *(parameter.grad for parameter in module.parameters()))
        assert all(each is None or each.isfinite().all() for each in tensors), (
            f"at inputs of {value:g} the output or a gradient is NaN or infinity; add a small number where a "
            "division, a root or a logarithm meets 0, and bound what grows"
        )


def tokens(name: str, options: Options) -> None:
    """What a token gives does not depend on the tokens beside it."""
    ffn = _build(name, options).double()
    _assert_alone(ffn, torch.randn(2, 3, D, dtype=torch.float64), 1e-8)


def _assert_alone(ffn: nn.Module, x: Tensor, tolerance: float) -> None:
    """Refuse a network of which a token gives something else beside others: x (B, T, D), as a model gives it.

    The tolerance is a share of the largest output.
    """
    others, number = torch.randn_like(x), torch.arange(x[..., 0].numel()).view(x.shape[:-1])
    once = _copy(ffn).eval()
    assert once(x).isfinite().all(), NOT_FINITE
    assert torch.equal(once(x), once(x)), NOISE
    for mode in (False, True):
        y = _of_copy(ffn.train(mode), x)
        for one in (number == 0, number == number.max()):  # which sees what follows, or what is before
            off = (_of_copy(ffn, torch.where(one[..., None], x, others)) - y)[one].abs().max()
            assert off <= tolerance * y.abs().max(), (
                "a token's output changes with the tokens beside it; forward must compute every vector of "
                "the last dimension by itself, without sums, means or statistics over tokens"
            )


def _copy(ffn: nn.Module) -> nn.Module:
    # weight_norm computes a plain tensor, which nobody can copy, anew each time.
    return deepcopy(ffn, {id(each): each for _, each in _attributes(ffn) if isinstance(each, Tensor)})


def _of_copy(ffn: nn.Module, x: Tensor) -> Tensor:
    """Compute from the running statistics that a network has now, with the same noise each time."""
    ffn = _copy(ffn)
    for module in ffn.modules():  # what an expert's dropout draws depends on how many tokens it gets
        module.training &= not isinstance(module, nn.Dropout)
    torch.manual_seed(0)
    return ffn(x)


def refuse_unusable(name: str, sizes: tuple[int, int], options: Options) -> None:
    """Refuse to train a variant that fails, lets tokens see others, or holds what no optimizer reaches.

    Args:
        name: Of a registered variant.
        sizes: D and F, as the model has them.
        options: Of the variant.

    Raises:
        UsageError: Naming what checks all of it.
    """
    ffn = None
    try:
        with torch.random.fork_rng(devices=[]):
            ffn, x = _build(name, options, sizes), torch.randn(2, 3, sizes[0])
            y = _of_copy(ffn, x)
            assert isinstance(y, Tensor), NO_TENSOR.format(type(y).__name__)
            assert y.shape == x.shape, f"forward makes {tuple(y.shape)} of {tuple(x.shape)}"
            _assert_alone(ffn, x, 1e-4)
            registered(name, options, sizes)
            _assert_drawn(name, options, sizes)
    except Exception as error:  # the variant's own code
        if ffn and re.search(r"CUDA|Triton|\bCPU\b", first_line(error), re.IGNORECASE):
            return  # this machine may have no GPU, and the one that trains may
        file = variant_file(name)
        how = f"ffn-ablations check {file.path}:{file.attribute}" if file else "ffn_ablations.check(CLASS)"
        problem = _told(name, error)
        raise UsageError(f"{name} is not trained: {problem}; all that is wrong: {how}") from None


def gradients(name: str, options: Options) -> None:
    """The gradients are those of finite differences in float64, and every parameter has one."""
    ffn = _build(name, options)
    with torch.no_grad():
        for parameter in ffn.parameters():  # zeros at first let no gradient through to what is before
            parameter += 0.02 * torch.randn_like(parameter)
    x = torch.randn(3, 7, D, requires_grad=True)
    ffn(x).square().sum().backward()
    without = [label for label, p in ffn.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    is_reached = x.grad is not None and not without
    assert is_reached, (
        f"{', '.join(without) or 'the input'} gets no gradient, or zeros; use it in forward without "
        "detach(), .data, .item() and torch.no_grad()"
    )
    sizes = (3, 4)
    try:
        ffn = _build(name, options, sizes, seed=1)
    except UsageError:
        sizes = (D, F)
        ffn = _build(name, options, sizes, seed=1)
    ffn = ffn.double().eval()
    wide = torch.randn(5, sizes[0], dtype=torch.float64, requires_grad=True)
    try:
        torch.autograd.gradcheck(lambda x, *_: ffn(x), (wide, *ffn.parameters()))
    except (RuntimeError, ValueError) as error:
        raise AssertionError(
            f"gradients differ from finite differences in float64 ({first_line(error).rstrip('.,')}); "
            "compute the output by differentiable operations, in x.dtype or, in place of x.float(), in "
            "torch.promote_types(x.dtype, torch.float32)"
        ) from None


def bf16(name: str, options: Options) -> None:
    """In bf16, cast or by autocast, the output stays near that of float32, and in its dtype."""
    for width in (D, 256):
        ffn = _build(name, options, (width, 2 * width), seed=2).eval()
        x = torch.randn(64, width)
        exact = ffn(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _assert_near(ffn(x), exact, "under autocast")
        ffn, x = ffn.bfloat16(), x.bfloat16()
        y = ffn(x)
        # Of the same rounded numbers: between two experts that score alike, others may be taken.
        _assert_near(y, ffn.float()(x.float()), "in bf16")


def _assert_near(y: Tensor, exact: Tensor, way: str) -> None:
    norm = exact.detach().norm()
    off = float((y.detach().float() - exact.detach()).norm() / norm.clamp(min=torch.finfo(norm.dtype).tiny))
    assert off < PRECISION, (
        f"{way} the output is {off:.1%} off that of float32; compute what cancels or grows in "
        "torch.promote_types(x.dtype, torch.float32) and cast the result back"
    )


def meta_device(name: str, options: Options) -> None:
    """It can be built on the meta device, where transformers builds what it loads, and stays on it."""
    try:
        with torch.device("meta"):
            ffn = build_ffn(name, D, F, **options)
    except (RuntimeError, NotImplementedError) as error:
        raise AssertionError(
            f"it cannot be built on the meta device, where models are loaded ({first_line(error)}); take "
            "numbers from plain Python in the constructor, not from tensors"
        ) from None
    for label, tensor in (*ffn.named_parameters(), *ffn.named_buffers()):
        assert tensor.is_meta, (
            f"{label} is on the CPU where the meta device was asked for; make it without torch.linspace "
            "(use torch.arange) and without a device of its own"
        )
    try:
        ffn(torch.empty(5, D, device="meta"))
    except Exception as error:  # what looks at numbers cannot run there
        if re.search(OTHER_DEVICE, first_line(error)):  # the others name every kind of device
            raise


def saved_state(name: str, options: Options) -> None:
    """Everything that decides the output is in the state dict."""
    ffn, other = _build(name, options, seed=3), _build(name, options, seed=4)
    missing = sorted({key for key, _ in ffn.named_buffers()} - set(ffn.state_dict()))
    assert not missing, (
        f"buffer {missing[0]} is not in the state dict, so a loaded model would hold arbitrary memory; "
        "register it with persistent=True"
    )
    other.load_state_dict(ffn.state_dict())
    x = torch.randn(5, D)
    assert torch.equal(ffn.eval()(x), other.eval()(x)), (
        "two networks with the same state dict give different outputs; make what the constructor draws or "
        "computes an nn.Parameter or a buffer (register_buffer)"
    )


def initial_weights(name: str, options: Options) -> None:
    """Initial weights follow torch's seed, and nothing else."""
    _assert_drawn(name, options, (D, F))
    for label, module in _build(name, options).named_modules():
        if isinstance(module, nn.Linear) and "weight" in module._parameters:  # not of weight_norm
            bound = module.in_features**-0.5  # of torch's own, which are uniform
            assert bound / 4 < module.weight.abs().max() <= bound, (
                f"{label}.weight is set in the constructor, but a model draws every nn.Linear anew; keep "
                "initial weights of your own in an nn.Parameter"
            )


def _assert_drawn(name: str, options: Options, sizes: tuple[int, int]) -> None:
    one, same, other = (list(_build(name, options, sizes, seed).parameters()) for seed in (5, 5, 6))
    assert all(map(torch.equal, one, same)), (
        "at one seed of torch the initial weights differ from call to call; draw them with torch's "
        "global generator, not with numpy, random or a generator of your own"
    )
    drawn = [pair for pair in zip(one, other, strict=True) if pair[0].min() < pair[0].max()]
    assert not drawn or not all(torch.equal(*pair) for pair in drawn), (
        "the initial weights are the same at every seed; draw them with torch's global generator"
    )


def counts(name: str, options: Options) -> None:
    """``multiply_adds`` is a number that the matrix products of a token do not exceed."""
    spec, ffn = get_variant(name), _build(name, options)
    declared = spec.multiply_adds(D, F, **spec.resolve(options))
    is_count = isinstance(declared, int) and not isinstance(declared, bool) and declared >= 0
    assert is_count, f"multiply_adds(D, F, **options) gives {declared!r}, and must give a whole number"
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ffn(torch.randn(1, D))
    measured = counter.get_total_flops() // 2
    assert declared >= 0.99 * measured, (
        f"multiply_adds({D}, {F}) gives {declared:,}, and the matrix products of one token take "
        f"{measured:,}; count them all, for an activation also the linear layers around it (2 D F)"
    )


def matrices(name: str, options: Options) -> None:
    """What the spec names as matrices are views of parameters, as (stack, out, ...in)."""
    spec, parameters = get_variant(name), dict(_build(name, options).named_parameters())
    for ending, view in spec.matrices.items():
        named = [p for key, p in parameters.items() if key == ending or key.endswith(f".{ending}")]
        assert named, f"matrices names {ending!r}, and no parameter's name ends so: {', '.join(parameters)}"
        for parameter in named:
            viewed = view(parameter.detach(), **spec.resolve(options))
            shares = viewed.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr()
            is_whole_view = shares and viewed.dim() >= 3 and viewed.numel() == parameter.numel()
            assert is_whole_view, (
                f"matrices[{ending!r}] makes {tuple(viewed.shape)} of {tuple(parameter.shape)}, and must "
                "give a view of all of it, (stack, out, ...in); use unsqueeze, transpose and unflatten"
            )


def compiles(name: str, options: Options) -> None:
    """torch.compile can trace it, and what it traces computes the same."""
    ffn, x = _build(name, options).eval(), torch.randn(5, D, requires_grad=True)
    expected = ffn(x)  # what fails without compiling is no matter of it
    try:
        y = torch.compile(ffn, backend="aot_eager")(x)
        y.sum().backward()
    except Exception as error:  # whatever Dynamo raises
        raise AssertionError(
            f"torch.compile cannot trace it ({type(error).__name__}: {first_line(error)}); use torch "
            "operations and plain Python numbers in forward"
        ) from None
    finally:
        torch.compiler.reset()
    assert torch.allclose(y, expected, rtol=1e-4, atol=1e-5), (
        "compiled it gives another output; use torch operations without side effects"
    )


def trains(name: str, options: Options) -> None:
    """In every family a step of training has a finite loss, and so has the next."""
    for family in FAMILIES:
        torch.manual_seed(0)
        model: Any = build_model(family, name, options, **MODEL)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = torch.arange(3, 43).view(2, 20)
        for step in (1, 2):
            loss: Tensor = model(ids, labels=ids).loss
            assert torch.isfinite(loss), (
                f"the loss of {family} is {loss.item()} at step {step}; look for a division, a root or a "
                "logarithm that the inputs of a first step can break"
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


ROOTS: dict[str, Callable[[str, Options], None]] = {
    "shapes and dtype": shapes,
    "the same twice in evaluation": repeatable,
    "registered tensors and layers": registered,
    "meta device": meta_device,
    "float64 and bf16 are kept": dtypes,
    "each token by itself": tokens,
}
"""Where one fails, those after it would fail for the same reason."""
CHECKS = ROOTS | {
    "zero and large inputs": extremes,
    "initial weights": initial_weights,
    "gradients": gradients,
    "bf16": bf16,
    "state dict": saved_state,
    "multiply_adds": counts,
    "matrices": matrices,
    "torch.compile": compiles,
    "a step of training in every family": trains,
}
"""By what each is called; each takes the variant's name and its options."""


def main(args: Sequence[str] | None = None) -> int:
    """Run every check; returns 1 where one failed."""
    flags = parse_flags(CheckArgs, args, prog="ffn-ablations check")
    return 0 if passes_all(find_variant(flags.variant), dict(flags.ffn_options or {})) else 1


def passes_all(spec: FFNSpec, options: Options) -> bool:
    """Run every check of a registered variant, and print a line each."""
    print(f"{spec.name}: {spec.formula} ({spec.reference})")
    found: dict[str, str] = {}
    for label, problem in problems(spec, options):
        print(f"FAILED  {label}: {problem}" if problem else f"ok      {label}", flush=True)
        found[label] = problem
    if len(found) < len(CHECKS):
        print("the other checks need this one, and were left out")
        return False
    print(f"{list(found.values()).count('')} of {len(CHECKS)} checks passed")
    return not any(found.values())


def problems(spec: FFNSpec, options: Options) -> Iterator[tuple[str, str]]:
    """Run every check; none after one of ``ROOTS`` that fails.

    Yields:
        The name of a check, and what is wrong and what to do; nothing if it passes.

    Raises:
        UsageError: If an option does not fit.
    """
    for label in CHECKS:
        yield label, (problem := _problem(label, spec, options))
        if problem and label in ROOTS:
            return


def _problem(label: str, spec: FFNSpec, options: Options) -> str:
    try:
        CHECKS[label](spec.name, options)
    except UsageError:  # of options that do not fit, a mistake of whoever typed them
        raise
    except Exception as error:  # of a check, or of the variant's own code
        return _told(spec.name, error)
    return ""


def _told(name: str, error: Exception) -> str:
    """Say what is wrong: as a check does, or with the line of the user's file and a cure that is known."""
    frames, message = traceback.extract_tb(error.__traceback__), first_line(error)
    if isinstance(error, AssertionError) and frames[-1].filename == __file__:
        return message
    file = variant_file(name)
    lines = [frame.lineno for frame in frames if file and frame.filename == str(file.path)]
    place = f"{file.path.name}, line {lines[-1]}: " if file and lines else ""
    cure = next((cure for pattern, cure in CURES.items() if re.search(pattern, message)), "")
    return f"{place}{cure} ({message})" if cure else f"{place}{type(error).__name__}: {message}"
