"""The passes of a step as one CUDA graph: recorded once, then asked of the device by a single call.

A step is 200 to 1,500 launches, and a host needs 5 to 80 microseconds for each. Where the kernels are
shorter than that, as those of a small model or of a KAN, the device waits for the host; a graph is launched
as a whole (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from base.errors import first_line
from pretrain.data.step_batches import Batch, Staged

WARM_UP = 2
"""Steps before a recording: they compile kernels and choose algorithms, which cannot be recorded."""


@dataclass(frozen=True)
class _Recording:
    """A graph and the memory that it reads and writes.

    Attributes:
        graph: The passes of a step.
        batches: What it reads; the host's numbers are copied there.
        num_targets: () that it divides the loss by.
        loss: () that it writes.
        gradients: Of each parameter what it writes, or None.
    """

    graph: torch.cuda.CUDAGraph
    batches: Staged
    num_targets: Tensor
    loss: Tensor
    gradients: list[Tensor | None]


class RecordedPasses:
    """Forward and backward passes of steps whose tensors always have the same shapes.

    Dropout draws other values at each replay, from the device's generator as it stands then. Where recording
    fails, a line on standard error says so and all passes are launched kernel by kernel, to the same results.

    Args:
        passes: From batches on the device and the number of targets the loss, (); adds to the gradients.
        parameters: Whose gradients it makes; none has one when a step begins.
        device: Where.

    Attributes:
        failure: Why nothing is recorded any more, in a line; empty unless recording has failed.
    """

    def __init__(
        self,
        passes: Callable[[Sequence[Batch], Tensor | int], Tensor],
        parameters: Sequence[nn.Parameter],
        device: torch.device,
    ) -> None:
        self._passes, self._parameters, self._device = passes, parameters, device
        self._recording: _Recording | None = None
        self._warm_ups = 0
        self.failure = ""

    def forget(self) -> None:
        """Drop the recording, as something that it holds has changed: the knots of a spline."""
        self._recording, self._warm_ups = None, 0

    def __call__(self, staged: Staged, num_targets: int) -> Tensor:
        """Do the passes of a step.

        Args:
            staged: Its batches, on the host.
            num_targets: Predicted tokens of the whole step.

        Returns:
            () loss on the device, in nats per target token; the next call may write another there.
        """
        if self._recording is None and not self.failure:
            if self._warm_ups == WARM_UP:
                self._record(staged, num_targets)
            self._warm_ups += 1
        recording = self._recording
        # Room for targets and documents suffices but once in 10^12 steps (pretrain/data/shapes.py).
        if recording is None or recording.batches.shapes != staged.shapes:
            return self._passes(staged.to(self._device), num_targets)
        recording.batches.numbers.copy_(staged.numbers, non_blocking=True)
        recording.num_targets.fill_(num_targets)
        recording.graph.replay()
        for parameter, gradient in zip(self._parameters, recording.gradients, strict=True):
            parameter.grad = gradient
        return recording.loss

    def _record(self, staged: Staged, num_targets: int) -> None:
        batches = Staged(staged.numbers.to(self._device), staged.shapes)
        divisor = torch.full((), num_targets, dtype=torch.float32, device=self._device)
        try:
            graph = torch.cuda.CUDAGraph()
            # This thread alone must leave the device be meanwhile: another one makes the next batches.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                loss = self._passes(batches.to(self._device), divisor)
        except RuntimeError as error:  # of CUDA, of torch's allocator, or where torch was built without CUDA
            self.failure = f"{type(error).__name__}: {first_line(error)}"
            print(
                f"note: a training step could not be recorded as a CUDA graph ({self.failure}): its kernels "
                "are launched one by one, to the same results; --train.no-cuda-graph leaves it out",
                file=sys.stderr,
            )
            for parameter in self._parameters:
                parameter.grad = None
            return
        gradients = [parameter.grad for parameter in self._parameters]
        self._recording = _Recording(graph, batches, divisor, loss, gradients)
