"""The training steps that are predicted and measured: the shipped configurations on random packed rows.

Random tokens cost a step what real ones do, and need no corpus: documents of TinyStories' lengths, rows 98%
full, a vocabulary of 10,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from base.families import get_family
from base.text.corruption import NUM_SENTINELS, Masker, SpanCorruptor
from pretrain.config import ResolvedConfig
from pretrain.data.packing import PackedSplit
from pretrain.data.step_batches import BatchSource
from pretrain.model.build import build
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config
from pretrain.training.device import build_accelerator, choose_precision, join_processes
from pretrain.training.loop import Loop

ROOT = Path(__file__).parents[2]
FILL = 0.98
"""Share of the positions of packed rows that hold a token."""
DOCUMENT_TOKENS = 225
"""Mean length of a document."""


@dataclass(frozen=True)
class Case:
    """A training step.

    Attributes:
        family: The configuration's.
        variant: The FFN.
        grid_size: Of a KAN.
    """

    family: str
    variant: str
    grid_size: int | None = None

    @property
    def name(self) -> str:
        """As tables call it."""
        grid = f", grid {self.grid_size}" if self.grid_size else ""
        return f"{get_family(self.family).label}, {self.variant}{grid}"

    def options(self) -> list[str]:
        """Flags that set the FFN's options."""
        return ["--model.ffn-options", "grid_size", str(self.grid_size)] if self.grid_size else []

    def config(self, *flags: str) -> ResolvedConfig:
        """The run's configuration, a whole step in one forward pass."""
        path = ROOT / "configs" / f"{self.family.replace('_', '-')}.yaml"
        whole = ["--train.per-device-train-batch-size", "112", "--optim.max-steps", "1000"]
        return load_config(path, ["--ffn", self.variant, *self.options(), *whole, *flags])


CASES = tuple(
    Case(family, variant, grid)
    for family in ("gpt_neo", "roberta")
    for variant, grid in (("gelu", None), ("kan", 3), ("kan", 5))
)


def packed_rows(num_rows: int, length: int, vocab_size: int, seed: int = 0) -> PackedSplit:
    """Rows of random documents, cut at a row's end, and a little padding.

    Returns:
        (num_rows, length) ids from 5 on, 0 on padding, and positions.
    """
    rng = np.random.default_rng(seed)
    filled = round(FILL * length)
    ids = rng.integers(5, vocab_size, (num_rows, length)).astype(np.uint16)
    ids[:, filled:] = 0
    positions = np.zeros((num_rows, length), np.uint16)
    count = 0
    for row in positions:
        start = 0
        while start < filled:
            end = min(filled, start + max(20, int(rng.normal(DOCUMENT_TOKENS, 80))))
            row[start:end] = np.arange(end - start)
            start, count = end, count + 1
    return PackedSplit(ids, positions, count, num_rows * filled)


def build_network(config: ResolvedConfig) -> PreTrainedModel:
    """The model of a configuration, on the CPU, with a vocabulary as large as is asked for."""
    torch.manual_seed(0)
    span = get_family(config.family).objective == "span_corruption"
    return build(config, config.data.vocab_size + (NUM_SENTINELS if span else 0))


def build_loop(
    config: ResolvedConfig, network: PreTrainedModel, folder: Path, accelerator: Any = None
) -> Loop:
    """The project's own loop of a configuration, on the accelerator's device and on random rows."""
    vocab_size = config.data.vocab_size
    rows = packed_rows(3 * config.train.batch_size, config.data.block_size, vocab_size)
    if accelerator is None:
        join_processes(config.train)
        accelerator = build_accelerator(config, folder, choose_precision(config.train.mixed_precision))
    masker, on_gpu = masker_of(config.family, vocab_size), accelerator.device.type == "cuda"
    return Loop(
        config,
        accelerator,
        build_loss(network, config.family, config.train.compile_model is True),
        BatchSource(config, masker, 0, fixed_shapes=on_gpu),
        SimpleNamespace(train=rows, validation=rows),  # type: ignore[arg-type]
        folder,
    )


def masker_of(family: str, vocab_size: int) -> Masker | SpanCorruptor | None:
    """The corruption of a family's input, for a tokenizer whose first five ids are special."""
    objective = get_family(family).objective
    if objective == "causal":
        return None
    if objective == "masked":
        return Masker(vocab_size, [0, 1, 2, 3, 4], 4, 0.15)
    return SpanCorruptor(range(vocab_size, vocab_size + NUM_SENTINELS), 1, 2, 0)
