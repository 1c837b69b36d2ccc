"""A whole step as one CUDA graph: recorded once, and replayed with other numbers in the same memory.

What it takes for a replay to be the step:

- The batches and the number of targets lie in one tensor that is written anew before each replay
  (``pretrain.data.staging``). Learning rate and step counters are tensors that the graph itself advances
  (``pretrain.training.optim``).
- Dropout. While a graph is recorded, torch's generator gives kernels the addresses of a seed and an offset
  in place of their values, and every replay first writes the generator's of that moment there
  (``CUDAGeneratorCaptureState::setup_for_replay`` in aten). So ``manual_seed`` before a replay, which also
  sets the offset to 0, draws what an eager step draws after the same call.
- Gradients. They are None before a step and behind it, so that their memory belongs to the graph.
- The first steps are done eagerly, on the graph's stream: kernels are compiled, and moments and workspaces of
  libraries allocated, outside of the graph. They are steps of the run; nothing has to be put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from base.errors import UsageError, first_line
from pretrain.data.batches import Batch
from pretrain.data.staging import Staged
from pretrain.training.memory import is_out_of_memory

EAGER_STEPS = 3
"""Before a graph is recorded; torch's documentation asks for so many of a step with several streams."""


class Recorder(Protocol):
    """Runs a function as it stands, and makes what runs it again."""

    def run(self, function: Callable[[], Tensor]) -> Tensor:
        """Run it eagerly."""
        ...

    def record(self, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """What does the same operations on the same tensors; the result is overwritten by the next call."""
        ...


class CudaGraphs:
    """Records CUDA graphs.

    Args:
        device: The GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def run(self, function: Callable[[], Tensor]) -> Tensor:
        """Run it on the stream that graphs are recorded on, as what it allocates belongs to a stream."""
        before = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(before)
        with torch.cuda.stream(self._stream):
            result = function()
        before.wait_stream(self._stream)
        return result.clone()

    def record(self, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record it; it is not run.

        Raises:
            UsageError: If an operation cannot be recorded, as one that waits for the device.
        """
        graph = torch.cuda.CUDAGraph()
        try:
            # The stream once more: torch does not leave it again where a recording cannot be ended.
            # Thread-local, as a thread pins the memory of the next step's batches meanwhile.
            with (
                torch.cuda.stream(self._stream),
                torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"),
            ):
                result = function()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            # That it cannot be ended either hides why.
            if isinstance(error.__context__, torch.OutOfMemoryError):
                raise error.__context__ from None
            raise UsageError(
                f"train.cuda_graph: the step cannot be recorded ({first_line(error)}); leave it out"
            ) from error

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


class ReplayedUpdate:
    """Does updates by a recording of the first ones.

    Args:
        update: ``Update``, or another function of batches and the number of targets. It does the same
            operations whenever its tensors have the same shapes.
        device: Where it computes.
        recorder: Makes recordings; ``CudaGraphs`` on a GPU.
    """

    def __init__(
        self, update: Callable[[list[Batch], Tensor], Tensor], device: torch.device, recorder: Recorder
    ) -> None:
        self._update, self._device, self._recorder = update, device, recorder
        self._staged: Staged | None = None
        self.forget()

    def forget(self) -> None:
        """Record anew, some steps from now: what is no input of a step has changed, such as knots."""
        self._eager_left = EAGER_STEPS
        self._replay: Callable[[], Tensor] | None = None

    def __call__(self, staged: Staged) -> Tensor:
        """Do the update of a step; returns what ``update`` returns, in memory of its own."""
        if self._staged is None or self._staged.shapes != staged.shapes:
            self.forget()
            self._staged, self._numbers = staged, torch.empty_like(staged.numbers, device=self._device)
        self._numbers.copy_(staged.numbers, non_blocking=True)
        if self._eager_left:
            self._eager_left -= 1
            return self._recorder.run(self._from_numbers)
        if self._replay is None:
            self._replay = self._recorder.record(self._from_numbers)
        return self._replay().clone()

    def _from_numbers(self) -> Tensor:
        """The update of the step whose numbers were written last."""
        assert self._staged is not None
        return self._update(self._staged.views(self._numbers), self._staged.num_targets(self._numbers))
