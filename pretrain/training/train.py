"""Training one run: from its configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from base.errors import UsageError, first_line, naming
from base.families import get_family
from base.run.folders import RunFolder
from base.run.manifest import write_completion
from base.text.tokens import as_prompts
from ffn_variants.kernels.compilation import compile_failure, use_compiled_kernels
from ffn_variants.source import source_fingerprint
from pretrain.config import RunConfig
from pretrain.data import corpus
from pretrain.data.batches import BatchSource
from pretrain.data.found import in_one_line
from pretrain.data.prepare import PreparedData, prepare_data
from pretrain.data.word_frequencies import word_frequency_loss
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.model.costs import cost_facts
from pretrain.model.objective import build_loss
from pretrain.own_variant import load_own_variant
from pretrain.resolution import resolve
from pretrain.run import provenance
from pretrain.run.lock import sole_writer
from pretrain.run.model_card import write_model_card
from pretrain.run.run_dir import (
    check_same_config,
    config_hash,
    has_batch_size,
    is_finished,
    make_again,
    run_dir,
    write_config,
)
from pretrain.run.variant_source import check_same_source, keep_variant_file, source_facts
from pretrain.sampling import generation_config, sample_section
from pretrain.training.device import build_accelerator, without_deterministic_way
from pretrain.training.loop import Loop
from pretrain.training.memory import fit_to_memory
from pretrain.training.optim import total_steps
from pretrain.training.state import Diverged, failure_error, mark_failed, read_failure
from pretrain.training.stopping import Stopped, StopRequest, stop_requests
from pretrain.training.usable import check_usable, check_warmup

Scorer = Callable[[PreTrainedModel], dict[str, float]]
"""Scores a model on its way; gives each score by its name."""

ScorerBuilder = Callable[[RunConfig, PreTrainedModel, PreTrainedTokenizerBase], Scorer]
"""Makes what scores a run's model, of its configuration, its model and its tokenizer."""


def train(config: RunConfig, build_scorer: ScorerBuilder | None = None) -> Path:
    """Train the model of a run, or continue, or find it finished.

    Args:
        config: The run.
        build_scorer: Makes what scores the model on its way, for runs with ``train.eval_every``.

    Returns:
        The run folder.

    Raises:
        UsageError: If the corpus is unusable, the folder in use or another run's, or if the loss diverges or
            did so before; or if ``train.eval_every`` is set and nothing scores.
        OSError: For a fault of the world, such as a full disk (see ``base.errors``).
        Stopped: After SIGTERM, SIGUSR1 or SIGUSR2, with a checkpoint of the step it was at.
    """
    load_own_variant(config.model)
    config = resolve(config)
    if config.train.eval_every and build_scorer is None:
        raise UsageError("train.eval_every needs a scorer: give train() eval's, or leave eval_every out")
    path = run_dir(config)
    if _is_settled(path, config):
        return path
    check_usable(config, int(os.environ.get("WORLD_SIZE", "1")))
    accelerator = build_accelerator(config, path)
    with accelerator.main_process_first():
        data = prepare_data(config)  # before the run folder exists: an unusable corpus leaves nothing behind
    check_warmup(config.optim, total_steps(config.optim, len(data.train.input_ids), config.train.batch_size))
    with sole_writer(path) if accelerator.is_main_process else contextlib.nullcontext():
        if accelerator.is_main_process:
            make_again(path, config)
        accelerator.wait_for_everyone()
        # Once more, as its last writer may have ended it meanwhile; of several processes all must agree.
        if accelerator.num_processes > 1 or not _is_settled(path, config):
            with naming(path):
                _run(config, accelerator, data, path, build_scorer)
    return path


def _is_settled(path: Path, config: RunConfig) -> bool:
    """Whether a run is finished, which is said.

    Raises:
        UsageError: If the folder holds another run, or one that failed, or one that was begun through another
            source of its variant.
    """
    check_same_config(path, config)
    check_same_source(path, config.model.ffn)
    if is_finished(path):
        if os.environ.get("RANK", "0") == "0":
            keep_variant_file(path, config.model.ffn)
            print(f"{path} is finished; nothing to do", flush=True)
        return True
    if failure := read_failure(path):
        raise UsageError(failure)
    return False


def _run(
    config: RunConfig,
    accelerator: Accelerator,
    data: PreparedData,
    path: Path,
    build_scorer: ScorerBuilder | None,
) -> None:
    """Everything between claiming the run folder and the completion marker."""
    _check_same_data(path, data)
    if accelerator.is_main_process and not (RunFolder(path).is_run and has_batch_size(path)):
        write_config(path, config)
    if accelerator.is_main_process:
        keep_variant_file(path, config.model.ffn)
    _start_tracker(config, accelerator, path)
    with stop_requests() as stop:
        try:
            fit_to_memory(
                lambda fitting: _pretrain(fitting, config, accelerator, data, path, stop, build_scorer),
                config,
                accelerator.num_processes,
                accelerator.device.type == "cuda",
                _rows_per_pass_before(path, accelerator.device),
            )
        except RuntimeError as error:
            if told := without_deterministic_way(error):
                raise told from error
            raise
        except Stopped as stopped:
            if accelerator.is_main_process:
                print(stopped, flush=True)
            raise
    accelerator.wait_for_everyone()
    accelerator.end_training()


def _start_tracker(config: RunConfig, accelerator: Accelerator, path: Path) -> None:
    """Begin to log to the tracker that was asked for.

    Raises:
        UsageError: If it does not start.
    """
    if (tracker := config.train.tracker) == "none":
        return
    group = f"{config.family}/{config.model.ffn}"
    name = {"name": f"{group}/{path.name}", "group": group}
    options: dict[str, Any] = {
        # What an interrupted session had logged beyond its last checkpoint is logged again.
        "tensorboard": {"purge_step": max(RunFolder(path).checkpoints, default=0) + 1},
        "wandb": name | {"dir": str(RunFolder(path).logs_dir)},
        "trackio": name,
    }
    values = _flat(config.model_dump(mode="json"))
    try:
        accelerator.init_trackers(config.output.study, values, {tracker: options[tracker]})
    except Exception as error:  # each tracker raises its own
        raise UsageError(
            f"the tracker {tracker} does not start: {first_line(error)}; leave --tracker out, the run's "
            "metrics.jsonl has every number"
        ) from error


def _pretrain(
    config: RunConfig,
    asked: RunConfig,
    accelerator: Accelerator,
    data: PreparedData,
    path: Path,
    stop: StopRequest,
    build_scorer: ScorerBuilder | None,
) -> None:
    """Build, train and save; ``config`` may cut a step into other forward passes than were asked for."""
    main = accelerator.is_main_process
    use_compiled_kernels(config.train.torch_compile, config.train.torch_compile_fallback)
    set_seed(config.seed)  # before the model is built: the seed decides its weights
    network = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    costs = cost_facts(config, network)
    score = None
    if main and config.train.eval_every and build_scorer is not None:
        score = build_scorer(config, network, data.tokenizer)
    loop = Loop(
        config,
        accelerator,
        build_loss(network, config.family, config.train.compile_model),
        batch_source(config, accelerator, data),
        data,
        path,
        stop,
        score,
    )
    facts = _facts(config, asked, accelerator, data) | costs
    if main:
        facts["word_frequency_loss"] = _word_frequency_loss(config, data, path)
        provenance.start(path, facts, loop.state.step)
        # The last session's stands for the run: those before may have had more, whose steps are rounded so.
        rows = config.train.per_device_train_batch_size
        provenance.note(path, {"per_device_train_batch_size": rows})
        print(_header(config, loop, facts, path), flush=True)

    try:
        results = loop.run()
    except Diverged as diverged:
        if main:
            mark_failed(path, diverged, loop.newest)
        raise failure_error(path, diverged, loop.newest) from None
    finally:
        if main and (failure := compile_failure()):
            provenance.note(path, {"torch_compile_failure": failure})

    if main:
        results["peak_memory_mb"] = provenance.peak_memory_mb(accelerator.device)
        seconds = results["time_s"] - results["compile_s"]
        results["mean_tokens_per_s"] = round(results["tokens"] / seconds, 1)
        save_model(RunFolder(path).model_dir, network, data, asked, costs["parameters"], results)
        _finish(RunFolder(path), results, asked)


def _facts(
    config: RunConfig, asked: RunConfig, accelerator: Accelerator, data: PreparedData
) -> dict[str, Any]:
    """What a run's record says of how it is trained, and on what."""
    return {
        "device": provenance.device_name(accelerator.device),
        "num_processes": accelerator.num_processes,
        "mixed_precision": accelerator.mixed_precision,
        "batch_size": config.train.batch_size,
        "per_device_train_batch_size": config.train.per_device_train_batch_size,
        "config_hash": config_hash(asked),
        **source_facts(config.model.ffn),
        "corpus": corpus.describe(config.data),
        "data_fingerprint": data.fingerprint,
    }


def batch_source(config: RunConfig, accelerator: Accelerator, data: PreparedData) -> BatchSource:
    """What makes a run's batches, of this process's share of the rows."""
    return BatchSource(
        config,
        build_masker(config, data.tokenizer),
        int(data.tokenizer.pad_token_id),  # type: ignore[arg-type]
        accelerator.process_index,
        accelerator.num_processes,
        fixed_shapes=accelerator.device.type == "cuda",
    )


def _rows_per_pass_before(path: Path, device: torch.device) -> int | None:
    """What an earlier session of the run found to fit on such a device, or was given."""
    record = provenance.read(path)
    is_same_kind = str(record.get("device", "")).startswith("cpu") == (device.type == "cpu")
    rows = record.get("per_device_train_batch_size")
    return rows if is_same_kind and isinstance(rows, int) and rows > 0 else None


def _word_frequency_loss(config: RunConfig, data: PreparedData, path: Path) -> float:
    """That of the run's data, which a resumed run has recorded."""
    known = provenance.read(path).get("word_frequency_loss")
    return known or word_frequency_loss(data, get_family(config.family).objective == "causal")


def _finish(folder: RunFolder, results: dict[str, Any], config: RunConfig) -> None:
    """Record the results of a run whose model is saved, then that it is complete, and say so."""
    provenance.finish(folder.path, {"results": results})
    write_completion(folder, results, config_hash(config), source_fingerprint(config.model.ffn))
    compiling = f" ({results['compile_s']:.0f} s for compiling)" if results["compile_s"] else ""
    print(
        f"finished in {results['time_s']:.0f} s{compiling}: held-out loss {results['eval_loss']:.4f}, "
        f"model in {folder.model_dir}",
        flush=True,
    )


def _check_same_data(path: Path, data: PreparedData) -> None:
    """Refuse to continue a run on other data than it began with."""
    before = provenance.read(path).get("data_fingerprint", data.fingerprint)
    if before != data.fingerprint:
        raise UsageError(
            f"{path} was begun on other data (fingerprint {before}, now {data.fingerprint}); "
            "restore the corpus, pass another --run-name or remove it"
        )


def _header(config: RunConfig, loop: Loop, facts: dict[str, Any], path: Path) -> str:
    """What is trained, on what, where to, in four lines."""
    counts, split = facts["parameters"], loop.data.train
    precision = "bf16" if facts["mixed_precision"] == "bf16" else "full precision"
    per_step = round(loop.state.rows_per_step * split.num_tokens / len(split.input_ids))
    resumed = f", continued at step {loop.state.step:,}" if loop.state.step else ""
    return "\n".join(
        [
            f"{config.family}, {config.model.ffn}, seed {config.seed}: {counts['total']:,} parameters "
            f"(ffn {counts['ffn']:,}, embedding {counts['embedding']:,})",
            f"data    {in_one_line(config.data, loop.data.found)}; {split.num_tokens:,} tokens in "
            f"{len(split.input_ids):,} packed rows of {config.data.block_size}",
            f"steps   {loop.max_steps:,} of about {per_step:,} tokens{resumed}",
            f"device  {facts['device']}, {precision}",
            f"folder  {path}",
        ]
    )


def save_model(
    folder: Path,
    network: PreTrainedModel,
    data: PreparedData,
    config: RunConfig,
    parameters: dict[str, int],
    results: dict[str, Any],
) -> None:
    """Write weights, tokenizer and model card aside, then rename."""
    aside = folder.with_name(f"{folder.name}.tmp-{os.getpid()}")
    disable_progress_bar()  # one small file
    objective, tokenizer = get_family(config.family).objective, data.tokenizer
    if objective == "causal":
        tokenizer = as_prompts(tokenizer)
        network.generation_config = generation_config(network.config)
    try:
        network.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        use_compiled_kernels(False)  # single tokens would be compiled for anew, for a second's work
        samples = sample_section(network, tokenizer, objective)
        write_model_card(aside, config, parameters, results, samples)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(aside, folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # a full disk needs the space
        raise


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested values under dotted names; trackers take no others."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        flat |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": str(value)}
        )
    return flat
