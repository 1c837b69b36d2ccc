"""What a run would do, for ``--dry-run``; reads, and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from base.families import get_family
from base.run.folders import RunFolder
from base.text.corruption import NUM_SENTINELS
from pretrain.config import RunConfig
from pretrain.data import corpus
from pretrain.data.batches import cut_step
from pretrain.data.packing import TARGET_FILL
from pretrain.data.prepare import cached_summary, find
from pretrain.data.tokenizer import add_sentinels, load_tokenizer
from pretrain.model.build import build
from pretrain.model.costs import cost_facts, describe_costs
from pretrain.run.run_dir import run_dir, to_yaml
from pretrain.run.variant_source import source_change
from pretrain.training.optim import total_steps
from pretrain.training.state import read_failure
from pretrain.training.usable import check_warmup

HUB_TOKENS = 466_000_000
"""Of the hub's TinyStories with the source study's tokenizer, for budgets before it is prepared."""


def describe_runs(configs: Sequence[RunConfig], num_processes: int = 1) -> str:
    """What the first run would be, and the folders of those that differ from it in the seed alone."""
    others = [f"{f'seed {config.seed}':<17}{_folder(config)}" for config in configs[1:]]
    return "\n".join([describe_run(configs[0], num_processes), *others])


def describe_run(config: RunConfig, num_processes: int = 1) -> str:
    """The resolved configuration, exact parameter and FLOP counts, token budget and run folder, as text.

    Raises:
        UsageError: If the corpus or tokenizer is named but cannot be used.
    """
    summary = cached_summary(config)
    size, vocab_note = vocab_size(config, summary)
    costs = cost_facts(config, build(config, size))
    counts = costs["parameters"]
    lines = [
        to_yaml(config),
        f"family, variant  {config.family}, {config.model.ffn}, seed {config.seed}",
        f"parameters       {counts['total']:,} (ffn {counts['ffn']:,}, embedding {counts['embedding']:,})",
        *describe_costs(config, costs),
        f"vocabulary       {size:,} tokens{vocab_note}",
        *_corpus(config),
        *_budget(config, summary, num_processes),
        f"run folder       {_folder(config)}",
    ]
    return "\n".join(lines)


def _corpus(config: RunConfig) -> list[str]:
    """What the text holds, and doubts about it."""
    found, doubts = find(config)
    return [f"corpus           {found}", *doubts]


def _folder(config: RunConfig) -> str:
    """The folder of a run and what is there."""
    path = run_dir(config)
    state = "finished" if RunFolder(path).is_complete else "started" if path.exists() else "new"
    return f"{path} ({source_change(path, config.model.ffn) or read_failure(path) or state})"


def vocab_size(config: RunConfig, summary: dict[str, Any] | None) -> tuple[int, str]:
    """Return the size of a run's vocabulary, or what is asked for where it is not trained yet, and a note."""
    objective = get_family(config.family).objective
    added = NUM_SENTINELS if objective == "span_corruption" else 0
    if config.data.tokenizer and not summary:
        tokenizer = load_tokenizer(config.data.tokenizer, objective)
        if added:
            add_sentinels(tokenizer)
        return len(tokenizer), f" (from {config.data.tokenizer})"
    note = "" if summary else " (not trained yet; a small corpus may yield fewer)"
    return (summary["vocab_size"] if summary else config.data.vocab_size) + added, note


def _budget(config: RunConfig, summary: dict[str, Any] | None, num_processes: int) -> list[str]:
    block_size = config.data.block_size
    rows_per_step = config.train.batch_size
    share, passes = _passes(config, num_processes)
    per_step = (
        f"tokens per step  {rows_per_step * block_size:,} at most: {rows_per_step} packed rows of "
        f"{block_size}\n"
        f"cut into         {share} rows for each of {num_processes} processes; forward passes: {passes}"
    )
    size_known = _corpus_size(config, summary)
    if size_known is None:
        steps = config.optim.max_steps
        known = (
            f"{steps:,}" if steps else f"{config.optim.num_train_epochs:g} epochs; the number is known once"
        )
        return [per_step, f"steps            {known}{'' if steps else ' the data is prepared'}"]
    rows, tokens = size_known
    note = "" if summary else " (about: it is not prepared yet)"
    steps = total_steps(config.optim, rows, rows_per_step)
    check_warmup(config.optim, steps)
    epochs = steps * rows_per_step / rows
    return [
        per_step,
        f"steps            {steps:,} = {epochs:.2f} epochs of {tokens:,} tokens{note}",
        f"token budget     {round(epochs * tokens):,}{note}",
    ]


def _passes(config: RunConfig, num_processes: int) -> tuple[int, str]:
    """Rows of a process, and how many forward passes it cuts them into."""
    share, size = cut_step(config.train, num_processes)
    passes = f"{-(-share // size)} of at most {size}" if share > size else "one"
    is_cut_on_a_cpu = config.train.per_device_train_batch_size == "auto" and share > size
    return share, f"{passes} on a CPU, one on a GPU if it fits" if is_cut_on_a_cpu else passes


def hub_budget(config: RunConfig) -> int:
    """Return about how many tokens a run on all of the hub's text trains on."""
    rows = _hub_rows(config)
    rows_per_step = config.train.batch_size
    return round(total_steps(config.optim, rows, rows_per_step) * rows_per_step / rows * HUB_TOKENS)


def _hub_rows(config: RunConfig) -> int:
    return round(HUB_TOKENS / (TARGET_FILL * config.data.block_size))


def _corpus_size(config: RunConfig, summary: dict[str, Any] | None) -> tuple[int, int] | None:
    """Rows and tokens of the training text, about right for a hub's that is not prepared yet."""
    if summary:
        return summary["train"]["num_rows"], summary["train"]["num_tokens"]
    if corpus.is_whole_hub(config.data):
        return _hub_rows(config), HUB_TOKENS
    return None
