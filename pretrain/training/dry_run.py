"""What a run would do, for ``--dry-run``, and whether it can be done; reads, and writes nothing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

from base.errors import UsageError
from base.families import get_family
from base.records import read_json
from base.run.folder_names import RunFolder
from base.text.corruption import NUM_SENTINELS
from ffn_variants.names import EARLIER_SOURCES
from pretrain.config import OptimConfig, ResolvedConfig, cut_step
from pretrain.data import corpus
from pretrain.data.packing import TARGET_FILL
from pretrain.data.prepare import cached_summary, find
from pretrain.data.tokenizer import add_sentinels, load_tokenizer
from pretrain.model.costs import cost_facts, describe_costs
from pretrain.run.run_folder import run_dir, to_yaml
from pretrain.training.stopping import describe_failure

HUB_TOKENS = 466_000_000
"""Of the hub's TinyStories with the source study's tokenizer, for budgets before it is prepared."""
BYTES_A_PARAMETER = 16
"""In full precision: the weight, its gradient and two moments."""
FAR_BEYOND = 4
"""Times the memory of this machine, which may not be the one that trains."""


def check_usable(config: ResolvedConfig, num_processes: int = 1) -> None:
    """Refuse a run that cannot be, before anything costs time.

    Raises:
        UsageError: For rows that so many processes cannot share, a tracker that is not installed, a model far
            beyond the memory of this machine, a variant of the user's of which a token sees others, absent
            files, a warm-up as long as the run, or a folder of runs that is a file.
    """
    cut_step(config.train, num_processes)
    _check_tracker(config.train.tracker)
    if (model := config.model).ffn not in read_json(EARLIER_SOURCES):  # it does not ship
        from ffn_variants.check import refuse_unusable  # torch

        refuse_unusable(model.ffn, (model.hidden_size, model.intermediate_size), model.ffn_options or {})
    _check_memory(config)
    if config.data.tokenizer:
        load_tokenizer(config.data.tokenizer, get_family(config.family).objective)
    check_folder(Path(config.output.runs_dir))
    corpus.check_present(config.data)
    if config.optim.max_steps:
        check_warmup(config.optim, config.optim.max_steps)


def check_warmup(optim: OptimConfig, max_steps: int) -> None:
    """Refuse a warm-up as long as the run, which then never has its learning rate.

    Raises:
        UsageError: Says how much of it the last step has.
    """
    warmup = optim.num_warmup_steps(max_steps)
    if warmup >= max(1, max_steps):
        raise UsageError(
            f"a warm-up of {warmup:,} steps outlasts the run of {max_steps:,}, whose rate ends at "
            f"{(max_steps - 1) / warmup:.0%} of optim.learning_rate; give --optim.warmup-steps below "
            f"{max_steps:,}, or more steps"
        )


def check_all_usable(configs: Iterable[ResolvedConfig]) -> None:
    """Refuse runs of which one cannot be; those that differ in the seed alone are looked at once.

    Raises:
        UsageError: As ``check_usable``.
    """
    but_for_seeds = {config.model_copy(update={"seed": 0}).model_dump_json(): config for config in configs}
    for config in but_for_seeds.values():
        check_usable(config)


def _check_memory(config: ResolvedConfig) -> None:
    parameters = cost_facts(config, config.data.vocab_size)["parameters"]["total"]
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
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise UsageError(f"{existing} is a file, and --runs-dir {folder} must be a folder; give another one")


def describe_runs(configs: Sequence[ResolvedConfig], num_processes: int = 1) -> str:
    """What the first run would be, the folders of those with another seed alone, and its configuration."""
    others = [f"{f'seed {config.seed}':<17}{_folder(config)}" for config in configs[1:]]
    return "\n".join([describe_run(configs[0], num_processes), *others, "", to_yaml(configs[0])])


def describe_run(config: ResolvedConfig, num_processes: int = 1) -> str:
    """Exact parameter and FLOP counts, token budget and run folder, a line each.

    Raises:
        UsageError: If the corpus or the tokenizer cannot be used.
    """
    summary = cached_summary(config)
    size, vocab_note = vocab_size(config, summary)
    costs = planned_costs(config, size)
    counts = costs["parameters"]
    description, doubts = find(config)
    return "\n".join(
        [
            f"family, variant  {config.family}, {config.model.ffn}, seed {config.seed}",
            f"parameters       {counts['total']:,} (ffn {counts['ffn']:,}, embedding "
            f"{counts['embedding']:,})",
            *describe_costs(config, costs),
            f"vocabulary       {size:,} tokens{vocab_note}",
            f"corpus           {description}",
            *doubts,
            *_budget(config, summary, num_processes),
            f"run folder       {_folder(config)}",
        ]
    )


def planned_costs(config: ResolvedConfig, size: int) -> dict[str, Any]:
    """Return what ``cost_facts`` says of the model with a vocabulary of this size."""
    tokenizer = config.data.tokenizer and load_tokenizer(config.data.tokenizer)
    return cost_facts(config, size, int(tokenizer.pad_token_id) if tokenizer else 0)


def _folder(config: ResolvedConfig) -> str:
    """The folder of a run and what is there."""
    path = run_dir(config)
    if not path.exists():
        return f"{path} (new)"
    from pretrain.run.provenance import source_change  # torch

    state = "finished" if RunFolder(path).has_marker else "started"
    return f"{path} ({source_change(path, config.model.ffn) or describe_failure(path) or state})"


def vocab_size(config: ResolvedConfig, summary: dict[str, Any] | None) -> tuple[int, str]:
    """Return the size of a run's vocabulary, and a note where it may turn out smaller."""
    objective = get_family(config.family).objective
    added = NUM_SENTINELS if objective == "span_corruption" else 0
    if config.data.tokenizer and not summary:
        tokenizer = load_tokenizer(config.data.tokenizer, objective)
        if added:
            add_sentinels(tokenizer)
        return len(tokenizer), f" (from {config.data.tokenizer})"
    note = "" if summary else " (not trained yet; a small corpus may yield fewer)"
    return (summary["vocab_size"] if summary else config.data.vocab_size) + added, note


def _budget(config: ResolvedConfig, summary: dict[str, Any] | None, num_processes: int) -> list[str]:
    """Tokens of a step and of the run."""
    rows_per_step, block_size = config.train.batch_size, config.data.block_size
    share, _ = cut_step(config.train, num_processes)
    lines = [
        f"tokens per step  {rows_per_step * block_size:,} at most: {rows_per_step} packed rows of "
        f"{block_size}, {share} for each of {num_processes} processes"
    ]
    size = _corpus_size(config, summary)
    if size is None:
        epochs = f"{config.optim.num_train_epochs:g} epochs; the number is known once the data is prepared"
        steps = config.optim.max_steps
        return [*lines, f"steps            {f'{steps:,}' if steps else epochs}"]
    rows, tokens = size
    note = "" if summary else " (about: it is not prepared yet)"
    steps = config.optim.total_steps(rows, rows_per_step)
    check_warmup(config.optim, steps)
    epochs = steps * rows_per_step / rows
    return [
        *lines,
        f"steps            {steps:,} = {epochs:.2f} epochs of {tokens:,} tokens{note}",
        f"token budget     {round(epochs * tokens):,}{note}",
    ]


def hub_budget(config: ResolvedConfig) -> int:
    """Return about how many tokens a run on all of the hub's text trains on."""
    rows = _hub_rows(config)
    rows_per_step = config.train.batch_size
    return round(config.optim.total_steps(rows, rows_per_step) * rows_per_step / rows * HUB_TOKENS)


def _hub_rows(config: ResolvedConfig) -> int:
    return round(HUB_TOKENS / (TARGET_FILL * config.data.block_size))


def _corpus_size(config: ResolvedConfig, summary: dict[str, Any] | None) -> tuple[int, int] | None:
    """Rows and tokens of the training text, about right for a hub's that is not prepared yet."""
    if summary:
        return summary["train"]["num_rows"], summary["train"]["num_tokens"]
    if corpus.is_whole_hub(config.data):
        return _hub_rows(config), HUB_TOKENS
    return None
