"""What can be told of a run before anything is read, built or written for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import psutil

import ffn_variants
from base.errors import UsageError
from base.families import get_family
from pretrain.config import OptimConfig, RunConfig
from pretrain.config_sources import say_once
from pretrain.data import corpus
from pretrain.data.batches import cut_step
from pretrain.data.tokenizer import load_tokenizer
from pretrain.resolution import resolve
from pretrain.training.optim import num_warmup_steps

BYTES_A_PARAMETER = 16
"""In full precision: the weight, its gradient and two moments."""
FAR_BEYOND = 4
"""Times the memory of this machine, which may not be the one that trains."""


def check_usable(config: RunConfig, num_processes: int = 1) -> None:
    """Refuse a run that cannot be, before anything costs time.

    Raises:
        UsageError: For rows that so many processes cannot share, a tracker that is not installed, a model far
            beyond the memory of this machine, absent files, or a folder of runs that is a file.
    """
    cut_step(config.train, num_processes)
    _check_tracker(config.train.tracker)
    _check_memory(resolve(config))
    if config.data.tokenizer:
        load_tokenizer(config.data.tokenizer, get_family(config.family).objective)
    check_folder(Path(config.output.runs_dir))
    corpus.check_present(config.data)
    if config.optim.max_steps:
        check_warmup(config.optim, config.optim.max_steps)


def check_warmup(optim: OptimConfig, max_steps: int) -> None:
    """Refuse a run that would train nothing, and tell of one that never has its learning rate.

    Raises:
        UsageError: If the only update is the first of a warm-up, which has the rate 0.
    """
    warmup = num_warmup_steps(optim, max_steps)
    if warmup and max_steps == 1:
        raise UsageError(
            "the run's one step is the first of its warm-up, whose rate is 0, so it trains nothing; give "
            "--optim.warmup-steps 0, or more steps"
        )
    if warmup >= max_steps:
        say_once(
            f"note: a warm-up of {warmup:,} steps outlasts the run of {max_steps:,}, whose rate ends at "
            f"{(max_steps - 1) / warmup:.0%} of optim.learning_rate; lower optim.warmup_steps, or add steps"
        )


def check_all_usable(configs: Iterable[RunConfig], num_processes: int = 1) -> None:
    """Refuse runs of which one cannot be; those that differ in the seed alone are looked at once.

    Raises:
        UsageError: As ``check_usable``.
    """
    for config in {
        config.model_copy(update={"seed": 0}).model_dump_json(): config for config in configs
    }.values():
        check_usable(config, num_processes)


def count_roughly(config: RunConfig) -> int:
    """Parameters of a run's model without norms and most biases, from its sizes alone."""
    model, data = config.model, config.data
    width, layers = model.hidden_size, model.num_hidden_layers
    spec = ffn_variants.get_variant(model.ffn)
    ffn = spec.multiply_adds(width, model.intermediate_size, **spec.resolve(model.ffn_options))
    embeddings = (data.vocab_size + (model.max_position_embeddings or data.block_size)) * width
    if get_family(config.family).objective == "span_corruption":
        return embeddings + layers * (12 * width * width + 2 * ffn)
    return embeddings + layers * (4 * width * width + ffn)


def _check_memory(config: RunConfig) -> None:
    parameters = count_roughly(config)
    needed, there = parameters * BYTES_A_PARAMETER, psutil.virtual_memory().total
    if needed > FAR_BEYOND * there:
        raise UsageError(
            f"about {parameters:.2g} parameters need {needed / 2**30:,.0f} GiB of memory to train, and this "
            f"machine has {there / 2**30:,.0f}; lower model.hidden_size, its other sizes, data.vocab_size or "
            "data.block_size"
        )


def _check_tracker(tracker: str) -> None:
    if tracker != "none" and importlib.util.find_spec(tracker) is None:
        raise UsageError(
            f"the tracker {tracker!r} is not installed; pip install {tracker}, or leave --tracker out"
        )


def check_folder(folder: Path) -> None:
    """Refuse a place for runs that is a file, or is below one.

    Raises:
        UsageError: Naming the file.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"{there} is a file, and --runs-dir {folder} must be a folder; give another one")
