"""Training one run: from its configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from base.errors import UsageError, first_line, naming
from base.families import get_family
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from base.text.tokens import as_prompts
from ffn_variants.devices import use_gpu
from ffn_variants.kernels.compilation import compile_failure, is_compile_error, use_compiled_kernels
from ffn_variants.models import packed_attention
from pretrain.config import ResolvedConfig
from pretrain.config_sources import load_own_variant
from pretrain.data import corpus
from pretrain.data.prepare import PreparedData, prepare_data, word_frequency_loss
from pretrain.data.step_batches import BatchSource
from pretrain.data.text_summary import in_one_line
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.model.costs import cost_facts
from pretrain.model.objective import build_loss
from pretrain.run import provenance
from pretrain.run.model_card import model_card
from pretrain.run.run_folder import (
    check_same_config,
    config_hash,
    is_finished,
    prepare_folder,
    run_dir,
    sole_writer,
)
from pretrain.sampling import generation_config, sample_section
from pretrain.training.checkpoints import newest_step
from pretrain.training.device import (
    build_accelerator,
    choose_precision,
    compiles_kernels,
    compiles_model,
    fit_to_memory,
    is_long,
    join_processes,
    wait_long,
    with_train,
)
from pretrain.training.dry_run import check_usable, check_warmup
from pretrain.training.loop import Loop
from pretrain.training.stopping import Diverged, StopRequest, describe_failure, mark_failed, stop_requests

Scorer = Callable[[PreTrainedModel], dict[str, float]]
"""Scores a model on its way; gives each score by its name."""

ScorerBuilder = Callable[[ResolvedConfig, PreTrainedModel, PreTrainedTokenizerBase], Scorer]
"""Makes what scores a run's model, of its configuration, its model and its tokenizer."""


@dataclass(frozen=True)
class Session:
    """What one process trains a run with, from its beginning or from a checkpoint.

    Attributes:
        config: The run as its user configured it.
        path: Its folder.
        data: The packed corpus.
        accelerator: Devices, processes, precision and trackers.
        is_compiled: Whether the whole model is compiled.
        stop: The signal to stop that the process got, if any.
        build_scorer: Makes what scores the model on its way.
    """

    config: ResolvedConfig
    path: Path
    data: PreparedData
    accelerator: Accelerator
    is_compiled: bool
    stop: StopRequest
    build_scorer: ScorerBuilder | None


def train(config: ResolvedConfig, build_scorer: ScorerBuilder | None = None) -> Path:
    """Train the model of a run, or continue it, or find it finished.

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
    if config.train.eval_every and build_scorer is None:
        raise UsageError("train.eval_every needs a scorer: give train() eval's, or leave eval_every out")
    path = run_dir(config)
    if _is_finished(path, config):
        return path
    check_usable(config, int(os.environ.get("WORLD_SIZE", "1")))
    processes = join_processes(config.train)
    if not (main := processes.is_main_process):
        wait_long()
    data = prepare_data(config)  # before the run folder exists: an unusable corpus leaves nothing behind
    if main:
        wait_long()
    check_warmup(config.optim, config.optim.total_steps(len(data.train.input_ids), config.train.batch_size))
    with sole_writer(path) if main else contextlib.nullcontext(), naming(path), stop_requests() as stop:
        before = provenance.read(path).get("data_fingerprint", data.fingerprint)
        if before != data.fingerprint:
            raise UsageError(
                f"{path} was begun on other data (fingerprint {before}, now {data.fingerprint}); "
                "restore the corpus, pass another --run-name or remove it"
            )
        if main:
            prepare_folder(path, config)
            provenance.keep_variant_file(path, config.model.ffn)
        processes.wait_for_everyone()
        # Once more, as its last writer may have ended it meanwhile; of several processes all must agree.
        if processes.num_processes > 1 or not _is_finished(path, config):
            _run(_session(config, path, data, stop, build_scorer))
    return path


def _is_finished(path: Path, config: ResolvedConfig) -> bool:
    """Whether a run is finished, which is printed.

    Raises:
        UsageError: If the folder holds another run, or one that failed, or one that was begun through another
            source of its variant.
    """
    check_same_config(path, config)
    if change := provenance.source_change(path, config.model.ffn):
        raise UsageError(f"{path} {change}")
    if is_finished(path):
        if os.environ.get("RANK", "0") == "0":
            provenance.keep_variant_file(path, config.model.ffn)
            print(f"{path} is finished; nothing to do", flush=True)
        return True
    if failure := describe_failure(path):
        raise UsageError(failure)
    return False


def _session(
    config: ResolvedConfig,
    path: Path,
    data: PreparedData,
    stop: StopRequest,
    build_scorer: ScorerBuilder | None,
) -> Session:
    """Begin or continue a run, in the precision and with the compiled model that it was begun with."""
    record, on_gpu = provenance.read(path), use_gpu()
    earlier = record if str(record.get("device", "")).startswith("cpu") != on_gpu else {}
    num_steps = config.optim.total_steps(len(data.train.input_ids), config.train.batch_size)
    long = is_long(config, num_steps, on_gpu)
    precision = choose_precision(config.train.mixed_precision, long, earlier.get("mixed_precision"))
    is_compiled = compiles_model(config, long, on_gpu, earlier.get("compile_model"))
    return Session(
        config, path, data, build_accelerator(config, path, precision), is_compiled, stop, build_scorer
    )


def _run(session: Session) -> None:
    """Everything between claiming the run folder and the completion marker."""
    accelerator = session.accelerator
    _start_tracker(session.config, accelerator, session.path)
    device = provenance.device_name(accelerator.device)
    record = provenance.read(session.path)
    fit_to_memory(
        lambda config: _pretrain_compiled(session, config),
        with_train(session.config, compile_model=session.is_compiled),
        accelerator.num_processes,
        accelerator.device.type == "cuda",
        record.get("per_device_train_batch_size") if record.get("device") == device else None,
    )
    accelerator.wait_for_everyone()
    accelerator.end_training()


def _start_tracker(config: ResolvedConfig, accelerator: Accelerator, path: Path) -> None:
    """Begin to log to the run's tracker, if it has one.

    Raises:
        UsageError: If it does not start.
    """
    if (tracker := config.train.tracker) == "none":
        return
    group = f"{config.family}/{config.model.ffn}"
    name = {"name": f"{group}/{path.name}", "group": group}
    options: dict[str, Any] = {
        # What an interrupted session had logged beyond its last checkpoint is logged again.
        "tensorboard": {"purge_step": newest_step(RunFolder(path).checkpoints_dir) + 1},
        "wandb": name | {"dir": str(RunFolder(path).logs_dir)},
        "trackio": name,
    }
    # Under dotted names and as text: trackers take no other values.
    values = pd.json_normalize(config.model_dump(mode="json")).iloc[0].map(str).to_dict()
    try:
        accelerator.init_trackers(config.output.study, values, {tracker: options[tracker]})
    except Exception as error:  # each tracker raises its own
        raise UsageError(
            f"the tracker {tracker} does not start: {first_line(error)}; leave --tracker out, the run's "
            "metrics.jsonl has every number"
        ) from error


def _pretrain_compiled(session: Session, config: ResolvedConfig) -> None:
    """Train, and without a compiled model where it cannot be compiled."""
    try:
        _pretrain(session, config)
        return
    except Exception as error:
        if config.train.compile_model is not True or not is_compile_error(error):
            raise
        failure = f"{type(error).__name__}: {first_line(error)}"
    print(f"note: the model cannot be compiled ({failure}); training goes on without", file=sys.stderr)
    _pretrain(session, with_train(config, compile_model=False))
    if session.accelerator.is_main_process:
        provenance.note(session.path, {"torch_compile_failure": failure})


def _pretrain(session: Session, config: ResolvedConfig) -> None:
    """Build, train and save; ``config`` may cut a step into other forward passes than the session's."""
    data, path, accelerator = session.data, session.path, session.accelerator
    main = accelerator.is_main_process
    set_seed(config.seed)  # before the model is built: the seed decides its weights
    token_ids = special_token_ids(data.tokenizer)
    network = build(config, len(data.tokenizer), token_ids)
    loss = build_loss(network, config.family, config.train.compile_model is True)
    facts = _facts(session, config) | cost_facts(config, len(data.tokenizer), token_ids["pad_token_id"])
    score = None
    if main and config.train.eval_every and session.build_scorer is not None:
        score = session.build_scorer(config, network, data.tokenizer)
    source = BatchSource(
        config,
        build_masker(config, data.tokenizer),
        int(data.tokenizer.pad_token_id),  # type: ignore[arg-type]
        accelerator.process_index,
        accelerator.num_processes,
        fixed_shapes=accelerator.device.type == "cuda",
    )
    loop = Loop(config, accelerator, loss, source, data, path, session.stop, score)
    tokens = loop.max_steps * _tokens_per_step(loop)
    flops = 3 * facts["flops_per_token"]["total"] * tokens  # a backward pass costs two forward ones
    use_compiled_kernels(
        compiles_kernels(config.train, accelerator.device, flops), config.train.torch_compile_fallback
    )
    if main:
        is_causal = get_family(config.family).objective == "causal"
        before = provenance.read(path).get("word_frequency_loss")
        facts["word_frequency_loss"] = before or word_frequency_loss(data, is_causal)
        provenance.start(path, facts, loop.state.step)
        print(_header(config, loop, facts, path), flush=True)
    results = _run_loop(loop)
    if main:
        results["peak_memory_mb"] = provenance.peak_memory_mb(accelerator.device)
        seconds = results["time_s"] - results["compile_s"]
        results["mean_tokens_per_s"] = round(results["tokens"] / seconds, 1)
        folder = RunFolder(path)
        save_model(folder.model_dir, network, data, session.config, facts["parameters"], results)
        provenance.finish(path, results)
        write_completion(folder, results, facts["config_hash"])
        compiling = f" ({results['compile_s']:.0f} s for compiling)" if results["compile_s"] else ""
        print(
            f"finished in {results['time_s']:.0f} s{compiling}: held-out loss {results['eval_loss']:.4f}, "
            f"model in {folder.model_dir}",
            flush=True,
        )


def _run_loop(loop: Loop) -> dict[str, Any]:
    """Train to the end; returns final figures.

    Raises:
        UsageError: If the loss diverges, which the folder then records; or for an operation without a kernel
            that ``train.deterministic`` asks for.
    """
    main = loop.accelerator.is_main_process
    try:
        return loop.run()
    except Diverged as diverged:
        if main:
            mark_failed(loop.path, diverged, loop.newest)
        raise UsageError(describe_failure(loop.path) or f"{loop.path}: {diverged}") from None
    except RuntimeError as error:
        operation, has_none, _ = str(error).partition(" does not have a deterministic implementation")
        if not has_none:
            raise
        raise UsageError(
            f"train.deterministic: {operation} has no deterministic kernel here; leave it out"
        ) from error
    finally:
        reasons = {  # why the run does without what makes it faster
            "torch_compile_failure": compile_failure(),
            "cuda_graph_failure": loop.passes.failure if loop.passes else "",
            "flash_attention_failure": "; ".join(packed_attention.FAILURES),
        }
        if main and any(reasons.values()):
            provenance.note(loop.path, {name: reason for name, reason in reasons.items() if reason})


def _facts(session: Session, config: ResolvedConfig) -> dict[str, Any]:
    """What a run's record says of how it is trained, and on what."""
    accelerator = session.accelerator
    return {
        "device": provenance.device_name(accelerator.device),
        "num_processes": accelerator.num_processes,
        "mixed_precision": accelerator.mixed_precision,
        "compile_model": config.train.compile_model,
        "batch_size": config.train.batch_size,
        "per_device_train_batch_size": config.train.per_device_train_batch_size,
        "config_hash": config_hash(session.config),
        **provenance.source_facts(config.model.ffn),
        "corpus": corpus.describe(config.data),
        "data_fingerprint": session.data.fingerprint,
        "held_out_overlap": [session.data.text.shared, session.data.text.validation],
    }


def _header(config: ResolvedConfig, loop: Loop, facts: dict[str, Any], path: Path) -> str:
    """What is trained, on what, where to, in four lines."""
    counts, split = facts["parameters"], loop.data.train
    precision = "bf16" if facts["mixed_precision"] == "bf16" else "full precision"
    compiling = ", the whole model compiled" if facts["compile_model"] else ""
    per_step = round(_tokens_per_step(loop))
    resumed = f", continued at step {loop.state.step:,}" if loop.state.step else ""
    return "\n".join(
        [
            f"{config.family}, {config.model.ffn}, seed {config.seed}: {counts['total']:,} parameters "
            f"(ffn {counts['ffn']:,}, embedding {counts['embedding']:,})",
            f"data    {in_one_line(config.data, loop.data.text)}; {split.num_tokens:,} tokens in "
            f"{len(split.input_ids):,} packed rows of {config.data.block_size}",
            f"steps   {loop.max_steps:,} of about {per_step:,} tokens{resumed}",
            f"device  {facts['device']}, {precision}{compiling}",
            f"folder  {path}",
        ]
    )


def _tokens_per_step(loop: Loop) -> float:
    split = loop.data.train
    return loop.source.rows_per_step * split.num_tokens / len(split.input_ids)


def save_model(
    folder: Path,
    network: PreTrainedModel,
    data: PreparedData,
    config: ResolvedConfig,
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
    network.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    use_compiled_kernels(False)  # single tokens would be compiled for anew, for a second's work
    samples = sample_section(network, tokenizer, objective)
    (aside / "README.md").write_text(model_card(config, parameters, results, samples), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(aside, folder)
