"""What the project knows of one feed-forward variant.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from base.errors import UsageError, shown
from base.options import Option, check_name, resolve_options

Kind = Literal["activation", "block"]


def out_first(weight: Tensor, **options: Any) -> Tensor:
    """View a weight (out, ...in) as a stack of one."""
    return weight.unsqueeze(0)


def in_first(weight: Tensor, **options: Any) -> Tensor:
    """View a weight (in, out, ...in) as a stack of one with its outputs first."""
    return weight.transpose(0, 1).unsqueeze(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class FFNSpec:
    """One entry of the registry, equal to itself alone; it stands at the end of its modules' file."""

    name: str
    """As typed after ``--ffn`` and stored in config.json."""
    kind: Kind
    """Elementwise between the stock linear layers, or the whole map from D over F to D."""
    build: Callable[..., nn.Module]
    """``build(intermediate_size, **options)`` for an activation, ``build(hidden_size, intermediate_size,
    **options)`` for a block; every option is given."""
    formula: str
    """Plain text, for the table of ``ffn-ablations list variants`` and the report."""
    reference: str
    """Paper or repository."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What ``ffn_options`` may hold."""
    multiply_adds: Callable[..., int]
    """``multiply_adds(D, F, **options)`` of one token's forward pass through one FFN."""
    active_params: Callable[..., int] | None = None
    """``active_params(D, F, **options)``: learnable parameters that one token meets, of a block where
    these are fewer than all; None, as most have it, for all."""
    matrices: Mapping[str, Callable[..., Tensor]] = field(default_factory=dict)
    """Parameters outside of ``nn.Linear`` that multiply inputs, by the end of their name:
    ``view(tensor, **options)`` is a view of it as (stack, out, ...in), for Muon and for muP. What has another
    function on each edge, as ``wav-kan``, multiplies no inputs."""
    caution: str = ""
    """What its counts do not tell of its cost: a sentence that the dry run prints."""
    earlier_sources: tuple[str, ...] = ()
    """Fingerprints of earlier source that computed the same (see ``ffn_variants.source_fingerprint``)."""

    def resolve(self, options: Mapping[str, Any] | None) -> dict[str, int | float | str]:
        """Return a value for every option; ``UsageError`` for one that does not exist or does not fit."""
        return resolve_options(self.name, self.options, options)

    def num_params(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count the learnable parameters of one FFN of this variant, linear layers and biases included."""
        around = 2 * hidden_size * intermediate_size + intermediate_size + hidden_size
        sizes = (hidden_size, intermediate_size) if self.kind == "block" else (intermediate_size,)
        with torch.device("meta"):
            module = self.build(*sizes, **self.resolve(options))
        count = sum(parameter.numel() for parameter in module.parameters())
        return count + (around if self.kind == "activation" else 0)

    def num_active_params(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count those of ``num_params`` that one token meets on its way."""
        if self.active_params is None:
            return self.num_params(hidden_size, intermediate_size, **options)
        return self.active_params(hidden_size, intermediate_size, **self.resolve(options))

    def flops_per_token(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count the floating-point operations of one token's forward pass through one FFN.

        Two for each multiply-add of the weights; activations, bases and biases are left out, as usual.
        Training costs about three times as much.
        """
        return 2 * self.multiply_adds(hidden_size, intermediate_size, **self.resolve(options))


def check_spec(spec: object) -> None:
    """Refuse a spec that the registry cannot hold.

    Raises:
        UsageError: Names the field, and says what belongs there.
    """
    if not isinstance(spec, FFNSpec):
        raise UsageError(f"{shown(spec)} is no FFNSpec; make it with ffn_variants.FFNSpec(name=..., ...)")
    try:
        check_name(spec.name)
    except (TypeError, ValueError) as error:
        raise UsageError(f"FFNSpec.name: {error}") from None
    if spec.name.endswith(".py"):
        raise UsageError(f"FFNSpec.name: {spec.name!r} looks like a file; leave out .py")
    options = spec.options if isinstance(spec.options, Mapping) else {"": None}
    views = spec.matrices.values() if isinstance(spec.matrices, Mapping) else [None]
    for field_name, fits, allowed in (
        ("kind", spec.kind in get_args(Kind), "'activation' or 'block'"),
        ("build", callable(spec.build), "a function that returns the module"),
        ("multiply_adds", callable(spec.multiply_adds), "a function of D, F and the options"),
        ("formula", _is_text(spec.formula), "a line of text"),
        ("reference", _is_text(spec.reference), "a line of text, such as the paper"),
        ("options", all(isinstance(each, Option) for each in options.values()), "a dict of Option by name"),
        ("matrices", all(map(callable, views)), "a dict of functions by the ends of parameters' names"),
    ):
        if not fits:
            value = shown(getattr(spec, field_name))
            raise UsageError(f"FFNSpec {spec.name!r}: {field_name} is {value}, and must be {allowed}")
    _check_signatures(spec)


def _check_signatures(spec: FFNSpec) -> None:
    sizes = ("hidden_size", "intermediate_size")
    for name, function, arguments in (
        ("build", spec.build, sizes if spec.kind == "block" else sizes[1:]),
        ("multiply_adds", spec.multiply_adds, sizes),
        *([("active_params", spec.active_params, sizes)] if spec.active_params else []),
    ):
        try:
            signature = inspect.signature(function)
        except ValueError:  # written in C, it tells none
            continue
        try:
            signature.bind(*arguments, **spec.options)
        except TypeError as error:
            called = ", ".join((*arguments, *(f"{option}=..." for option in spec.options)))
            raise UsageError(
                f"FFNSpec {spec.name!r}: {name} does not take what it is given, {name}({called}): {error}"
            ) from None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


SIGNATURES = (
    "__init__(self) or __init__(self, intermediate_size) for an activation, "
    "__init__(self, hidden_size, intermediate_size), __init__(self, hidden_size) or __init__(self, config), "
    "with config.hidden_size and config.intermediate_size, for a block"
)
"""Constructors of classes that need no spec."""
HIDDEN_NAMES = ("hidden_size", "d_model", "dim", "n_embd", "d")
"""What the width of what goes in and comes out is called."""
INNER_NAMES = ("intermediate_size", "d_ff", "hidden_dim", "n_inner", "ffn_dim", "f", "width")
"""What the width inside is called; ``beta`` is none."""
CONFIG = "config"
"""What the one argument is called that has both widths as attributes, as in transformers."""
_CONFIG_DEFAULTS = {"hidden_act": "silu", "mlp_bias": False, "bias": True, "dropout": 0.0}
_SIZES = {*HIDDEN_NAMES[:2], *INNER_NAMES[:2]}
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Elementwise(nn.Module):
    """A function of a tensor as an activation."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = function


def given_name(value: Any) -> str:
    """Name a class, a function or a ``functools.partial`` as it was given: ``MyFFN depth=2``."""
    if isinstance(value, functools.partial):
        words = [*map(repr, value.args), *(f"{key}={each!r}" for key, each in value.keywords.items())]
        return " ".join([given_name(value.func), *words])
    if (name := getattr(value, "__name__", type(value).__name__)) != "<lambda>":
        return name
    code = value.__code__
    return f"lambda-{zlib.crc32(repr((code.co_code, code.co_names, code.co_consts)).encode()):08x}"


@cache
def spec_of_class(module_class: Callable[..., Any], name: str = "") -> FFNSpec:
    """Make the spec of a class without options; the same one each time.

    Args:
        module_class: An activation if its constructor needs nothing, or the inner width; a block if it needs
            ``hidden_size``, alone or with ``intermediate_size``, or ``config``, which has these by all their
            names, ``hidden_act="silu"``, ``mlp_bias=False``, ``bias=True`` and ``dropout=0.0``. Other
            arguments keep their defaults. What returns a module is as good: a function, a
            ``functools.partial``. A function of a tensor is an activation.
        name: What it is called in place of its own name.

    Returns:
        A spec named as the class is, ``MyFFN`` being ``my-ffn``.

    Raises:
        UsageError: If the constructor needs anything else.
    """
    title, code = name or given_name(module_class), getattr(module_class, "func", module_class)
    if _is_of_a_tensor(module_class):
        module_class = functools.partial(Elementwise, module_class)
    needed, module = _needed_arguments(module_class, title), sys.modules.get(code.__module__ or "")
    kind: Kind = "block" if len(needed) == 2 or {*needed} & {*HIDDEN_NAMES, CONFIG} else "activation"
    words = re.sub(r"[^\w.=+-]+", "-", re.sub("(?<=[a-z])LU", "lu", title))  # ReLU is a word
    words = _WORD_STARTS.sub("-", words).replace("_", "-").lower().strip("-")
    documented = (inspect.cleandoc(code.__doc__ or "") or title).splitlines()[0]

    def build(*sizes: int) -> nn.Module:
        is_turned = needed[1:] and needed[0] in INNER_NAMES and needed[1] in HIDDEN_NAMES
        given: tuple[Any, ...] = sizes[::-1] if is_turned else sizes[: len(needed)]
        if needed == [CONFIG]:
            hidden, inner = dict.fromkeys(HIDDEN_NAMES, sizes[0]), dict.fromkeys(INNER_NAMES, sizes[1])
            given = (SimpleNamespace(**hidden, **inner, **_CONFIG_DEFAULTS),)
        return module_class(*given)

    def build_activation(intermediate_size: int) -> nn.Module:
        return build(intermediate_size)

    def build_block(hidden_size: int, intermediate_size: int) -> nn.Module:
        return build(hidden_size, intermediate_size)

    @cache
    def multiply_adds(hidden_size: int, intermediate_size: int) -> int:
        around = 0 if kind == "block" else 2 * hidden_size * intermediate_size
        sizes = (hidden_size, intermediate_size) if kind == "block" else (intermediate_size,)
        return around + count_multiply_adds(lambda: build(*sizes), sizes[0])

    return FFNSpec(
        name=words,
        kind=kind,
        build=build_block if kind == "block" else build_activation,
        formula=documented,
        reference=Path(getattr(module, "__file__", None) or code.__module__ or "torch").name,
        multiply_adds=multiply_adds,
    )


def as_spec(value: Any, name: str = "") -> Any:
    """Return the spec of what ``spec_of_class`` takes, and anything else as it is."""
    is_maker = issubclass(value, nn.Module) if isinstance(value, type) else callable(value)
    return spec_of_class(value, name) if is_maker and not isinstance(value, nn.Module) else value


def _is_of_a_tensor(function: Any) -> bool:
    """Whether it is a function of one argument that is no width, or one of C, which does not tell."""
    try:
        needed = _without_default(function)
    except ValueError:
        return True
    is_class = isinstance(getattr(function, "func", function), type)
    return not is_class and len(needed) == 1 and not (_is_width(needed[0]) or needed[0].name == CONFIG)


def _without_default(function: Any) -> list[inspect.Parameter]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    arguments = inspect.signature(function).parameters.values()
    return [each for each in arguments if each.default is each.empty and each.kind not in variadic]


def _is_width(argument: inspect.Parameter) -> bool:
    return argument.annotation in (int, "int") or argument.name in HIDDEN_NAMES + INNER_NAMES


def _needed_arguments(module_class: Callable[..., Any], title: str) -> list[str]:
    """Name what a constructor must be given.

    Raises:
        UsageError: If that is neither nothing, nor a width, nor two.
    """
    arguments, needed = inspect.signature(module_class).parameters.values(), _without_default(module_class)
    names = [each.name for each in needed]
    is_positional = all(each.kind is not each.KEYWORD_ONLY for each in needed)
    # A default does not follow the model's width.
    is_half = bool(_SIZES & {each.name for each in arguments} - {*names})
    are_widths = len(needed) <= 2 and all(map(_is_width, needed))
    if not (are_widths or names == [CONFIG]) or not is_positional or is_half:
        given = ", ".join(str(each) for each in arguments)
        raise UsageError(
            f"class {title} takes ({given}), and must have {SIGNATURES}; give all else a default, or write "
            "an FFNSpec"
        )
    return names


def count_multiply_adds(build: Callable[[], nn.Module], width: int) -> int:
    """Count what the matrix products of one vector take; where torch sees none, all weights of matrices.

    Args:
        build: Makes the module; torch's random numbers go on as if it had not been called.
        width: Of the vector.
    """
    from torch.utils.flop_counter import FlopCounterMode  # triton, which takes a third of a second

    for device in ("meta", "cpu"):  # what looks at its numbers cannot run without them
        try:
            with torch.random.fork_rng(devices=()), torch.device(device), torch.no_grad():
                module = build()
                with FlopCounterMode(display=False) as counter:
                    module(torch.zeros(1, width))
        except Exception:  # the class's own code, which the checks tell of
            continue
        if counted := counter.get_total_flops() // 2:
            return counted
    with torch.device("meta"):
        return sum(each.numel() for each in build().parameters() if each.dim() > 1)
