"""Time of a training step on a GPU by a roofline model: what it computes and moves, over their speed.

A launch takes the longer of two times, that of its FLOPs and that of its bytes, and a fixed time beside. No
number of this file was measured by this project: each is a datasheet's, or a share of it with the reason for
it. They lean to the slow side, as a prediction that is beaten says more than one that is missed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Device:
    """A GPU by its datasheet.

    Attributes:
        name: Its name.
        product_flops: Dense bf16 FLOP/s of its matrix units.
        bandwidth: Bytes/s of its memory.
        product_share: Share of ``product_flops`` that this model's products reach.
        attention_share: Share of it that attention reaches.
        host_bandwidth: Bytes/s of a copy from pinned host memory.
    """

    name: str
    product_flops: float
    bandwidth: float
    product_share: float
    attention_share: float
    host_bandwidth: float


DEVICES = (
    Device("A100", 312e12, 2.04e12, 0.60, 0.30, 20e9),
    Device("H100", 989e12, 3.35e12, 0.48, 0.20, 40e9),
    Device("H200", 989e12, 4.8e12, 0.48, 0.20, 40e9),
)
"""SXM parts with 80, 80 and 141 GB."""

BANDWIDTH_SHARE = 0.8
LAUNCH_S = 2e-6
HOST_S = 10e-6

ASSUMPTIONS = (
    (
        "bf16 products at 60% (A100) and 48% (H100, H200) of the datasheet's 312 and 989 TFLOP/s",
        "large square products reach about 80% on both. Here the inner dimension is 512 to 2,304: a tile is "
        "done after 8 steps of 64, so its loads before and stores after show; on Hopper, whose units are "
        "three times as fast, more so. 48% is six tenths of what large products reach",
    ),
    (
        "memory at 80% of 2.04, 3.35 and 4.8 TB/s",
        "plain copies reach 90%; casts and sums over a dimension are less regular",
    ),
    (
        "attention at 30% (A100) and 20% (H100, H200) of the product peak, in all tiles of 128 x 128 that a "
        "document touches",
        "half of what FlashAttention-2 reaches on long documents: 50 to 70% on an A100 by its paper, and on "
        "Hopper, whose units it does not use in full, 35 to 40% by its successor's (Shah et al. 2024). "
        "Documents of 225 tokens fill a tile or two. Causal kernels leave out the tiles above the diagonal, "
        "and no others: what GPT-Neo's windows save is counted as computed",
    ),
    (
        "no help of the L2 cache",
        "a (57,344, 512) tensor has 59 MB in bf16, more than the 40 to 50 MB there are",
    ),
    (
        "2 us a launch on the device",
        "what a kernel takes to fill the device and to drain it, in a queue or in a CUDA graph",
    ),
    (
        "10 us a launch on the host, none within a CUDA graph; the longer of host and device counts",
        "torch's dispatch, autograd and the driver take 5 to 25 us for an operation; the host runs ahead, as "
        "nothing waits for the device",
    ),
    ("copies to the device at 20 and 40 GB/s", "PCIe 4 and 5 with 16 lanes reach about 25 and 50"),
)
"""What is assumed, and why."""

PARTS = (
    "products of the body",
    "products of the vocabulary",
    "softmax of the vocabulary",
    "attention",
    "FFN functions",
    "other elementwise, casts",
    "optimizer, clipping",
    "copies from the host",
)
BODY, VOCABULARY, SOFTMAX, ATTENTION, FFN, OTHER, OPTIMIZER, COPIES = PARTS

# In this order: the first whose words stand in the name decides.
NAMES = (
    (COPIES, re.compile(r"memcpy.*htod|host_to_device", re.IGNORECASE)),
    (OPTIMIZER, re.compile(r"adam|adafactor|foreach|vector_norm|optimizer|clip_grad", re.IGNORECASE)),
    (ATTENTION, re.compile(r"attention|flash|flex|varlen|\bb?addbmm|::bmm", re.IGNORECASE)),
    (SOFTMAX, re.compile(r"softmax|probabilities|cross_entropy|nll_loss", re.IGNORECASE)),
    (FFN, re.compile(r"basis|feature|slope|gelu|silu|relu|threshold|swish|elementwise", re.IGNORECASE)),
)
PRODUCTS = re.compile(r"(^|::)(mm|addmm|addmm_|_addmm_activation|matmul|linear)(\.|$)")


class Launch(Protocol):
    """What the counter notes of a launch: see ``benchmarks.gpu.trace``."""

    @property
    def name(self) -> str: ...
    @property
    def shapes(self) -> Sequence[Sequence[int]]: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def flops(self) -> int: ...


def part_of(name: str, shapes: Sequence[Sequence[int]], vocab_size: int) -> str:
    """Part of a step that an operation belongs to, counted or seen by torch.profiler.

    Args:
        name: Of the operation, as ``aten::mm``.
        shapes: Those of its tensors.
        vocab_size: A dimension of this size marks the vocabulary.
    """
    if PRODUCTS.search(name):
        return VOCABULARY if any(vocab_size in shape for shape in shapes) else BODY
    for part, pattern in NAMES:
        if pattern.search(name):
            return part
    wide = any(len(shape) == 2 and shape[1] == vocab_size for shape in shapes)
    return SOFTMAX if wide else OTHER


@dataclass
class PartTime:
    """What a part of a step asks of a device, and how long it takes there."""

    launches: int = 0
    num_bytes: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def add(self, num_bytes: int, flops: float, seconds: float) -> None:
        """Count one launch."""
        self.launches += 1
        self.num_bytes += num_bytes
        self.flops += flops
        self.seconds += seconds


@dataclass(frozen=True)
class Counted:
    """What was counted of one step.

    Attributes:
        launches: In order.
        copies: Bytes of each copy from the host.
        vocab_size: Marks what belongs to the vocabulary.
        num_tokens: Real tokens of the step.
        peak_bytes: Most memory at one time.
    """

    launches: Sequence[Launch]
    copies: Sequence[int]
    vocab_size: int
    num_tokens: int
    peak_bytes: int


def device_time(counted: Counted, device: Device) -> dict[str, PartTime]:
    """Time of a step on a device, part by part; all of ``PARTS`` are there."""
    times = {part: PartTime() for part in PARTS}
    for launch in counted.launches:
        part = part_of(launch.name, launch.shapes, counted.vocab_size)
        seconds = launch_time(launch.num_bytes, launch.flops, part, device)
        times[part].add(launch.num_bytes, launch.flops, seconds)
    for num_bytes in counted.copies:
        times[COPIES].add(num_bytes, 0, LAUNCH_S + num_bytes / device.host_bandwidth)
    return times


def launch_time(num_bytes: int, flops: float, part: str, device: Device) -> float:
    """Seconds of one launch on a device."""
    share = device.attention_share if part == ATTENTION else device.product_share
    computing = flops / (device.product_flops * share)
    moving = num_bytes / (device.bandwidth * BANDWIDTH_SHARE)
    return LAUNCH_S + max(computing, moving)


def step_time(times: dict[str, PartTime], in_graph: bool) -> float:
    """Seconds of a step, on the device or on the host, whichever takes longer."""
    on_device = sum(time.seconds for time in times.values())
    return on_device if in_graph else max(on_device, host_time(times))


def host_time(times: dict[str, PartTime]) -> float:
    """Seconds that the host takes to launch a step, without a graph."""
    return HOST_S * sum(time.launches for time in times.values())
