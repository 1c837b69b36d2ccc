"""What a piece of code asks of a GPU: launches, waits, copies, bytes, matrix products and peak memory.

``Trace`` is a dispatch mode of torch. It sees each operation once autograd and decompositions are done with
it, as what becomes a kernel on a device. It works over real tensors on a GPU, over torch's ``meta`` ones, and
over fake ones on a pretend device, in the same way: shapes, dtypes and devices are all it looks at.

What a count means: an operation is one launch, whatever it is split into below torch's dispatcher; a view or
an empty tensor is none. An operation of a list of tensors (``_foreach_*``, ``_fused_adamw_``) is one launch,
of which CUDA may make a few. Bytes are those of inputs and outputs on the device, as if no cache held any of
them: once if read or written, twice if both. What a custom operation writes counts as not read. Operations
inside a function that ``torch.compile`` has compiled are not seen; give such a function to ``Trace.fused`` to
have it counted as one launch.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._library.custom_ops import OPDEFS
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

ROOT = Path(__file__).parents[2]
"""Call sites are lines of this project."""

OWN_FILES = frozenset((__file__, str(Path(__file__).with_name("pretend.py"))))

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One operation on the device.

    Attributes:
        name: Qualified, without its overload: ``aten::mm``, ``ffn_variants::...``, ``fused::...``.
        shapes: Of its tensor inputs.
        dtypes: Of its tensor inputs and outputs, as ``bfloat16``.
        num_bytes: Read and written, of tensors on the device.
        flops: Of a matrix product or an attention; 0 of anything else. Attention counts all its scores,
            those that a causal kernel leaves out as well; of variable lengths, the longest for all.
        made: Shapes of what it returned.
        site: Line of this project that called it, ``autograd`` where torch did in a backward pass.
    """

    name: str
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    num_bytes: int
    flops: int
    made: tuple[Shape, ...]
    site: str

    @property
    def signature(self) -> tuple[Any, ...]:
        """What all steps must share for no memory to be looked for, and nothing compiled, in a later one."""
        return self.name, self.shapes, self.dtypes

    @property
    def product_dtype(self) -> str | None:
        """The dtype that a matrix product or an attention computes in."""
        return self.dtypes[0] if self.flops else None


@dataclass(frozen=True)
class Wait:
    """An operation that has the host wait for the device.

    Attributes:
        name: Of the operation, with the reason where the name does not tell.
        site: As in ``Launch``.
    """

    name: str
    site: str


@dataclass(frozen=True)
class Copy:
    """A copy between host and device.

    Attributes:
        direction: ``to device`` or ``to host``.
        blocking: Whether the host waits: it did not ask not to, or its memory is not pinned.
        num_bytes: Bytes that travel.
        site: As in ``Launch``.
    """

    direction: str
    blocking: bool
    num_bytes: int
    site: str


class Trace(TorchDispatchMode):
    """Records what is done on the device while it is active: ``with Trace() as trace: step()``.

    Args:
        device: Type of the device.
        opened: Qualified names of custom operations that are several launches
            (``ffn_variants::basis_linear``): their Python implementation is run under the trace instead.

    Attributes:
        launches: In order.
        waits: Operations that have the host wait, a blocking copy to the host among them.
        copies: Between host and device.
        on_host: (name, site) of operations on tensors of the host alone.
        peak_bytes: Most bytes of live tensors on the device at one time, of those that were seen.
        peak_site: Where that was.
    """

    def __init__(self, device: str = "cuda", opened: Collection[str] = ()) -> None:
        super().__init__()
        self.device, self.opened = device, frozenset(opened)
        self.launches: list[Launch] = []
        self.waits: list[Wait] = []
        self.copies: list[Copy] = []
        self.on_host: list[tuple[str, str]] = []
        self.peak_bytes, self.peak_site = 0, ""
        self._memory = _Memory()
        self._within_fused = 0
        self._read: set[int] = set()
        self._written: set[int] = set()

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tell Dynamo to compile under this mode; operations of what it compiles are run under it as well."""
        return True

    def launches_of(self) -> Counter[str]:
        """Launches by operation."""
        return Counter(launch.name for launch in self.launches)

    def launches_at(self) -> Counter[str]:
        """Launches by call site."""
        return Counter(launch.site for launch in self.launches)

    def bytes_of(self) -> Counter[str]:
        """Bytes by operation."""
        return _sum((launch.name, launch.num_bytes) for launch in self.launches)

    def flops_in(self) -> Counter[str]:
        """FLOPs of matrix products and attention by dtype."""
        return _sum((launch.product_dtype, launch.flops) for launch in self.launches if launch.flops)

    def sequence(self) -> list[tuple[Any, ...]]:
        """Signatures of all launches in order, to compare two steps by."""
        return [launch.signature for launch in self.launches]

    def hold(self, tensors: Any) -> None:
        """Count tensors that were there before, a model's weights say, as live from now on."""
        self._see(_tensors(tensors), "held")

    @contextlib.contextmanager
    def fused(self, name: str, *arguments: Any) -> Iterator[None]:
        """Count what is done inside as one launch that reads and writes the tensors among ``arguments``.

        Args:
            name: Of the function, as it will stand behind ``fused::``.
            *arguments: Its arguments. What the function allocates for itself is left out of the peak, as a
                fused kernel allocates nothing; what it returns is in the peak from its first use on.
        """
        site = _site()
        if not self._within_fused:
            self._read, self._written = set(), set()
        self._within_fused += 1
        try:
            yield
        finally:
            self._within_fused -= 1
        if not self._within_fused:
            found = _tensors(arguments)
            num_bytes = sum(self._times(tensor) * self._bytes_here(tensor) for tensor in found)
            self._record_launch(f"fused::{name}", found, [], num_bytes, 0, site)

    def _times(self, tensor: Tensor) -> int:
        """How often a fused function passes over one of its tensors; at least once, as it was given."""
        key = tensor.untyped_storage()._cdata
        return max(1, (key in self._read) + (key in self._written))

    def _bytes_here(self, tensor: Tensor) -> int:
        return _num_bytes(tensor) if tensor.device.type == self.device else 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation and record it."""
        kwargs = kwargs or {}
        name = func.name().split(".")[0]
        if name in self.opened:
            with self:
                return OPDEFS[name]._init_fn(*args, **kwargs)
        inputs = _tensors((args, kwargs))
        out = func(*args, **kwargs)
        outputs = _tensors(out)
        site = _site()
        read, written = _accessed(func, name, args, kwargs, outputs)
        if self._within_fused:
            if not func.is_view and name not in FREE:
                self._read |= {tensor.untyped_storage()._cdata for tensor in read} - self._written
                self._written |= {tensor.untyped_storage()._cdata for tensor in written}
            return out
        self._see(inputs, site)
        self._see(outputs, site)
        if self._record_copy(name, func, args, kwargs, out, site):
            return out
        on_device = any(tensor.device.type == self.device for tensor in inputs + outputs)
        free = func.is_view or name in FREE or name.startswith(("prim::", "profiler::"))
        if not on_device:
            if not free:
                self.on_host.append((name, site))
            return out
        self._record_wait(name, args, kwargs, site)
        if not free:
            flops = _flops(func, name, args, kwargs, out)
            num_bytes = sum(map(self._bytes_here, read + written))
            self._record_launch(name, inputs, outputs, num_bytes, flops, site)
        return out

    def _record_launch(
        self, name: str, inputs: list[Tensor], outputs: list[Tensor], num_bytes: int, flops: int, site: str
    ) -> None:
        self.launches.append(
            Launch(
                name,
                tuple(tuple(tensor.shape) for tensor in inputs),
                tuple(str(tensor.dtype).removeprefix("torch.") for tensor in inputs + outputs),
                num_bytes,
                flops,
                tuple(tuple(tensor.shape) for tensor in outputs),
                site,
            )
        )

    def _record_wait(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], site: str) -> None:
        if name == "aten::repeat_interleave" and kwargs.get("output_size") is not None:
            return
        if name in WAITS:
            self.waits.append(Wait(name, site))
        if name == "aten::_local_scalar_dense":
            self.copies.append(Copy("to host", True, args[0].element_size(), site))
        if name in INDEXING:
            indices = [index for index in args[1] if isinstance(index, Tensor)]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                self.waits.append(Wait(f"{name} by a mask", site))
            if any(index.device.type != self.device for index in indices):
                self.waits.append(Wait(f"{name} by an index on the host", site))

    def _record_copy(
        self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, site: str
    ) -> bool:
        """Whether an operation was a copy between host and device; then it is recorded."""
        if name == "aten::copy_":
            target, source = args[:2]
            non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
        elif name == "aten::_to_copy":
            target, source, non_blocking = out, args[0], kwargs.get("non_blocking", False)
        else:
            return False
        if self.device not in (target.device.type, source.device.type):
            return False
        if target.device.type == source.device.type or not source.numel():
            return target.device.type != source.device.type
        to_device = target.device.type == self.device
        host = source if to_device else target
        blocking = not (non_blocking and _is_pinned(host))
        direction = "to device" if to_device else "to host"
        self.copies.append(Copy(direction, blocking, _num_bytes(source), site))
        if blocking and not to_device:
            self.waits.append(Wait(f"{name} to the host", site))
        return True

    def _see(self, tensors: list[Tensor], site: str) -> None:
        """Count tensors as live."""
        for tensor in tensors:
            if tensor.device.type == self.device:
                self._memory.see(tensor)
        if self._memory.live > self.peak_bytes:
            self.peak_bytes, self.peak_site = self._memory.live, site


class _Memory:
    """Bytes of live storages, each rounded up to 512 as CUDA's allocator does."""

    def __init__(self) -> None:
        self.live = 0
        self._sizes: dict[int, int] = {}

    def see(self, tensor: Tensor) -> None:
        """Count its storage unless it is there."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse tensor, say, has none
            return
        key = storage._cdata
        if key in self._sizes:
            return
        self._sizes[key] = -(-storage.nbytes() // 512) * 512
        self.live += self._sizes[key]
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.live -= self._sizes.pop(key, 0)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _accessed(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """What an operation reads and what it writes, by its schema."""
    if name in MAKING:
        return [], outputs
    read, written = [], []
    for place, argument in enumerate(func._schema.arguments):
        value = kwargs.get(argument.name, args[place] if place < len(args) else None)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        written += _tensors(value) if is_written else []
        overwritten = argument.is_out or name in OVERWRITING or not name.startswith("aten::")
        read += [] if is_written and overwritten else _tensors(value)
    seen = {id(tensor) for tensor in written}
    return read, written + [tensor for tensor in outputs if id(tensor) not in seen]


def _is_pinned(tensor: Tensor) -> bool:
    if isinstance(tensor, FakeTensor):
        return getattr(tensor.untyped_storage(), "is_pretend_pinned", False)
    with _disable_current_modes():
        return tensor.is_pinned()


def _num_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _sum(pairs: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for key, number in pairs:
        total[key] += number
    return total


def _site() -> str:
    """The innermost line of this project, this file apart, that is being executed."""
    frame = sys._getframe(1)
    root, seen_backward = str(ROOT) + "/", False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(root) and file not in OWN_FILES and "/site-packages/" not in file:
            return "autograd" if seen_backward else f"{file.removeprefix(root)}:{frame.f_lineno}"
        seen_backward = seen_backward or file.endswith("torch/autograd/graph.py")
        frame = frame.f_back
    return "autograd"


def _flops(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    """FLOPs of a matrix product or an attention, 0 of what is neither."""
    if name in ATTENTION:
        return _attention_flops(name, args)
    packet = torch.ops.aten.addmm if name == "aten::addmm_" else func._overloadpacket
    if packet not in PRODUCTS:
        return 0
    return int(flop_registry[packet](*args, **kwargs, out_val=out))


def _attention_flops(name: str, args: tuple[Any, ...]) -> int:
    """FLOPs of attention: 2 products forward; 5 backward, of which one makes the scores again.

    Of packed documents, queries are (N, H, D), and the longest document's length follows the two tensors of
    starts.
    """
    backward = name.endswith("_backward")
    query, key = args[1:3] if backward else args[:2]
    if query.ndim == 3:
        lengths = [value for value in args if isinstance(value, int) and not isinstance(value, bool)]
        pairs, heads = query.shape[0] * lengths[1], query.shape[1]
    elif name in HEADS_SECOND:
        pairs, heads = query.shape[0] * query.shape[2] * key.shape[2], query.shape[1]
    else:
        pairs, heads = query.shape[0] * query.shape[1] * key.shape[1], query.shape[2]
    return 2 * (5 if backward else 2) * pairs * heads * query.shape[-1]


PRODUCTS = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "convolution", "convolution_backward")
)

HEADS_SECOND = frozenset(
    f"aten::_scaled_dot_product_{way}_attention{end}"
    for way in ("flash", "efficient", "cudnn")
    for end in ("", "_backward")
)
"""Attention of (B, H, T, D)."""

ATTENTION = HEADS_SECOND | {
    "aten::_flash_attention_forward",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_forward",
    "aten::_efficient_attention_backward",
    "torch_attn::_varlen_attn",
    "torch_attn::_varlen_attn_backward",
}

WAITS = frozenset(
    f"aten::{name}"
    for name in (
        "_local_scalar_dense",
        "nonzero",
        "masked_select",
        "unique_consecutive",
        "unique_dim",
        "_unique",
        "_unique2",
        "repeat_interleave",
        "equal",
        "is_nonzero",
        "bincount",
        "histc",
    )
)
"""Operations whose result, or its size, the host has to read before it can go on."""

INDEXING = frozenset(
    f"aten::{name}"
    for name in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
)

MAKING = frozenset(
    f"aten::{name}" for name in ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
)
"""Operations that look at a tensor's shape alone."""

OVERWRITING = frozenset(f"aten::{name}" for name in ("copy_", "fill_", "zero_", "_foreach_zero_"))
"""Operations in place that do not read what they write."""

FREE = frozenset(
    f"aten::{name}"
    for name in (
        "_local_scalar_dense",
        "_reshape_alias",
        "_unsafe_view",
        "detach",
        "empty",
        "empty_like",
        "empty_strided",
        "is_pinned",
        "is_same_size",
        "lift_fresh",
        "new_empty",
        "new_empty_strided",
        "promote_types",
        "record_stream",
        "resize_",
        "set_",
        "sym_size",
        "unbind",
        "view",
    )
)
"""Operations that launch nothing."""
