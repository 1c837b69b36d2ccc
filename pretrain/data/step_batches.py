"""What each step reads: a pure function of (data, config, seed, step), whoever computes it.

The rows and masks of a step are drawn for the whole step and sliced afterwards, so one forward pass of 8, two
of 4, and two processes with 4 each see the same rows and the same masks, and a resumed run continues without
having stored any random state, on another number of processes too. Dropout alone is drawn pass by pass.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from base.text.corruption import IGNORE, Masker, SpanCorruptor
from pretrain.config import ResolvedConfig, cut_step
from pretrain.data.packing import PackedSplit
from pretrain.data.shapes import Shapes, measure

Result = TypeVar("Result")


def one_ahead(make: Callable[[int], Result], numbers: Iterable[int]) -> Generator[Result, None, None]:
    """Yield ``make(number)`` for every number, each made in a thread while the one before is in use.

    Close the iterator (``contextlib.closing``) to end the thread; it also ends with the numbers.

    Args:
        make: Must be a function of its argument alone; what it raises is raised where its result is due.
        numbers: What to call it with, in order.
    """
    # `due` holds the one result that is being made, or nothing at the end. The next is begun before this one
    # is handed out, so that it is made while the caller works.
    upcoming = iter(numbers)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as thread:
        due = [thread.submit(make, number) for number in itertools.islice(upcoming, 1)]
        while due:
            result = due.pop().result()
            due = [thread.submit(make, number) for number in itertools.islice(upcoming, 1)]
            yield result


# First entry of every random key, so that order, masks and dropout of one seed are independent streams.
ORDER, MASKS, DROPOUT, HELD_OUT_MASKS, TYPICAL = range(5)


@dataclass(frozen=True)
class Staged:
    """Batches on the host, all their numbers one behind the other.

    Attributes:
        numbers: (numbers,) int32, in pinned memory where a GPU is to fetch it. Half of what int64 would be,
            and enough for any place or token id.
        shapes: Of every batch, the shapes of its tensors by their names, in the order of the numbers.
    """

    numbers: Tensor
    shapes: tuple[dict[str, tuple[int, ...]], ...]

    def to(self, device: torch.device) -> list[dict[str, Tensor]]:
        """The batches on a device, in one copy that the host does not wait for.

        They are int64, ``document_starts`` int32.
        """
        # The memory is given to no other step before that copy is done: torch's allocator of pinned memory
        # records an event behind every such copy and looks at it before it gives a block out again.
        numbers = self.numbers.to(device, non_blocking=True)
        wide, batches, first = numbers.long(), [], 0  # widened all at once
        for shapes in self.shapes:
            batch = {}
            for name, shape in shapes.items():
                end = first + math.prod(shape)
                source = numbers if name == "document_starts" else wide
                batch[name], first = source[first:end].view(shape), end
            batches.append(batch)
        return batches


def stage(batches: Sequence[dict[str, Tensor]], pin: bool = True) -> Staged:
    """Put batches into one piece of memory, pinned for a GPU or not."""
    parts = [tensor.numpy().reshape(-1) for batch in batches for tensor in batch.values()]
    numbers = torch.from_numpy(np.concatenate(parts, dtype=np.int32, casting="same_kind"))
    shapes = tuple({name: tuple(tensor.shape) for name, tensor in batch.items()} for batch in batches)
    return Staged(numbers.pin_memory() if pin else numbers, shapes)


Batch = dict[str, torch.Tensor]
"""What ``PackedLoss`` or ``EncoderDecoderLoss`` is called with: token ids and positions or documents (B, T);
target_index (N,) into the flattened rows that predict, no place twice, and target_ids (N,).

With fixed shapes the last of those N are ``IGNORE``, and where there are positions there is also
document_starts (C + 1,) int32: the places where the documents begin in the flattened (B * T), ascending from
0, the padding of a row as one document; behind them B * T, up to the end."""


@dataclass(frozen=True)
class Step:
    """One process's share of a step.

    Attributes:
        batches: Forward passes, in order.
        num_targets: Predicted tokens of the whole step, over all processes.
        num_tokens: Tokens of the whole step without padding.
        staged: The batches once more, for a GPU to fetch in one copy; None where there is none.
    """

    batches: list[Batch]
    num_targets: int
    num_tokens: int
    staged: Staged | None = None


@functools.lru_cache(maxsize=2)
def _permutation(num_rows: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng([ORDER, seed, epoch]).permutation(num_rows)


def rows_of_step(num_rows: int, rows_per_step: int, seed: int, step: int) -> np.ndarray:
    """Row numbers of a step: the next ones of an endless sequence of permutations, one per epoch.

    Args:
        num_rows: Rows of the corpus.
        rows_per_step: Rows of every step.
        seed: The run's seed.
        step: Steps already done.

    Returns:
        (rows_per_step,) row numbers.
    """
    # With 5 rows in all and 2 a step, step 2 has the places 4 and 5: the last row of the first permutation
    # and the first of the second. So no step is cut short where an epoch ends.
    places = np.arange(step * rows_per_step, (step + 1) * rows_per_step)
    epochs = places // num_rows
    rows = [
        _permutation(num_rows, seed, int(epoch))[places[epochs == epoch] % num_rows]
        for epoch in np.unique(epochs)
    ]
    return np.concatenate(rows)


def dropout_seed(seed: int, step: int, process: int) -> int:
    """Seed of torch's generator for the dropout of one step in one process."""
    return int(np.random.SeedSequence([DROPOUT, seed, step, process]).generate_state(1, np.uint64)[0] >> 1)


def next_tokens(input_ids: np.ndarray, position_ids: np.ndarray) -> np.ndarray:
    """(B, T) targets of a causal model: the next token of the same document, else ``IGNORE``."""
    targets = np.full(input_ids.shape, IGNORE)
    continues = position_ids[:, 1:] > 0  # position 0 is the start of another document, or padding
    np.copyto(targets[:, :-1], input_ids[:, 1:], where=continues)
    return targets


@dataclass(eq=False)
class BatchSource:
    """Cuts steps and evaluations out of packed rows.

    Args:
        config: The run.
        masker: Corrupts the input of a masked model or an encoder-decoder; None for a causal model.
        pad_token_id: What fills rows.
        process: Rank of this process.
        num_processes: Processes that share a step.
        fixed_shapes: Whether the tensors of every step have the same shapes; see ``pretrain.data.shapes``.
    """

    config: ResolvedConfig
    masker: Masker | SpanCorruptor | None
    pad_token_id: int
    process: int = 0
    num_processes: int = 1
    fixed_shapes: bool = False

    def __post_init__(self) -> None:
        self.rows_per_step = self.config.train.batch_size
        self._share, self._rows_per_pass = cut_step(self.config.train, self.num_processes)
        self._measured: list[tuple[PackedSplit, Shapes]] = []

    def step(self, split: PackedSplit, step: int) -> Step:
        """The share of this process in a step; ``step`` counts the steps already done."""
        # Every process draws and masks all rows of a step, though it takes its share alone: of 16 rows, with
        # 2 processes and 4 rows a pass, the second one has the passes 8-11 and 12-15. So masks do not depend
        # on how many share a step, and each process knows the number of targets to divide by.
        seed = self.config.seed
        rows = rows_of_step(len(split.input_ids), self.rows_per_step, seed, step)
        rng = np.random.default_rng([MASKS, seed, step])
        examples = self._examples(split, rows, rng)
        num_tokens = int(np.count_nonzero(split.input_ids[rows] != self.pad_token_id))
        first, end = self.process * self._share, (self.process + 1) * self._share
        starts = range(first, end, self._rows_per_pass)
        cut = [slice(start, min(start + self._rows_per_pass, end)) for start in starts]
        batches = [self._batch(split, examples, part) for part in cut]
        return Step(batches, int(np.count_nonzero(examples["targets"] != IGNORE)), num_tokens)

    def held_out(self, split: PackedSplit) -> Iterator[Batch]:
        """This process's share of an evaluation; the masks are the same at every step and for every seed."""
        rng = np.random.default_rng([HELD_OUT_MASKS])
        num_rows = len(split.input_ids)
        examples = self._examples(split, np.arange(num_rows), rng)
        size = self.config.train.per_device_eval_batch_size
        # Of 3 processes with 16 rows a pass the second one has the rows 16-31, 64-79, ...
        for start in range(self.process * size, num_rows, size * self.num_processes):
            yield self._batch(split, examples, slice(start, start + size))

    def typical(self, split: PackedSplit, step: int, num_tokens: int) -> Iterator[Batch]:
        """Random rows of about so many tokens in all, padding included; the same ones for every process.

        No wider than they need, fixed shapes or not: knots are placed by their tokens, padding too.
        """
        rng = np.random.default_rng([TYPICAL, self.config.seed, step])
        count = min(len(split.input_ids), -(-num_tokens // split.input_ids.shape[1]))
        rows = rng.choice(len(split.input_ids), count, replace=False)
        examples = self._examples(split, rows, rng, fixed_widths=False)
        size = self._rows_per_pass
        for start in range(0, count, size):
            yield self._batch(split, examples, slice(start, start + size))

    def _examples(
        self, split: PackedSplit, rows: np.ndarray, rng: np.random.Generator, fixed_widths: bool = True
    ) -> dict[str, np.ndarray]:
        """Rows of what the model reads, and of its targets."""
        # As narrow as they are stored for as long as possible: int64 is four times the memory to go through.
        stored_ids, stored_positions = split.input_ids[rows], split.position_ids[rows]
        if isinstance(self.masker, SpanCorruptor):
            widths = self._shapes(split).widths if self.fixed_shapes and fixed_widths else (0, 0)
            return self.masker(stored_ids, stored_positions, rng, widths)
        if self.masker is None:
            input_ids, targets = stored_ids.astype(np.int64), next_tokens(stored_ids, stored_positions)
        else:
            input_ids, targets = self.masker(stored_ids, rng)
        position_ids = stored_positions.astype(np.int64)
        return {"input_ids": input_ids, "position_ids": position_ids, "targets": targets}

    def _batch(self, split: PackedSplit, examples: dict[str, np.ndarray], part: slice) -> Batch:
        return to_batch(examples, part, self._shapes(split) if self.fixed_shapes else None, self.pad_token_id)

    def _shapes(self, split: PackedSplit) -> Shapes:
        """Those of a corpus, counted where they are first needed."""
        for measured, shapes in self._measured:
            if measured is split:
                return shapes
        self._measured.append((split, measure(split, self.masker, self.pad_token_id)))
        return self._measured[-1][1]


def to_batch(
    examples: dict[str, np.ndarray], part: slice, shapes: Shapes | None = None, pad_token_id: int = 0
) -> Batch:
    """Tensors of one forward pass; targets are listed on the host, so that no device must search for them."""
    arrays = {name: rows[part] for name, rows in examples.items()}
    targets = arrays.pop("targets")
    flat = targets.reshape(-1)
    index = np.flatnonzero(flat != IGNORE)
    arrays |= {"target_index": index, "target_ids": flat[index]}
    if shapes is not None:
        shapes.fill(arrays, targets, pad_token_id)
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
