"""The training loop: step, log, evaluate, checkpoint, stop, resume.

The host never waits for the device within a step: losses and gradient norms stay where they are until a line
is logged or a checkpoint is due. A run that diverges is noticed there, and always before a checkpoint. Nor
does the device wait for the host: a thread makes the batches of the next step meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from base.errors import UsageError
from ffn_variants.kernels.compilation import compile_seconds
from pretrain.config import RunConfig
from pretrain.data.batches import Batch, BatchSource, Step, dropout_seed
from pretrain.data.prefetch import one_ahead, pin
from pretrain.data.prepare import PackedSplit, PreparedData
from pretrain.run.folders import RunFolder
from pretrain.run.run_dir import config_hash
from pretrain.training.checkpoints import CheckpointWriter, all_finite, load_newest, take_snapshot
from pretrain.training.health import Diverged, find_problem
from pretrain.training.knots import SplineSchedule
from pretrain.training.metrics import MetricsFile, StepProgress, Timer, perplexity
from pretrain.training.optim import build_optimizer, build_scheduler, total_steps
from pretrain.training.stopping import StopRequest


@dataclass
class LoopState:
    """What a checkpoint stores beside weights, moments and schedule.

    Attributes:
        step: Optimizer updates done.
        tokens: Tokens trained on, without padding.
        time_s: Seconds spent, over all sessions.
        compile_s: How many of them went into compiling kernels.
        rows_per_step: Packed rows of a step; a resumed run must keep it.
        losses: Losses of the steps since the last logged line, in nats per target token.
        grad_norms: Gradient norms of the same steps, before clipping.
        first_loss: Loss of the first step, which is that of the untrained model.
    """

    step: int = 0
    tokens: int = 0
    time_s: float = 0.0
    compile_s: float = 0.0
    rows_per_step: int = 0
    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    first_loss: float | None = None


class Loop:
    """Trains one model on packed rows.

    Args:
        config: The run.
        accelerator: Devices, precision and trackers.
        loss: What ``build_loss`` gave, with its ``model``; prepared here.
        source: Cuts this process's batches.
        data: The packed corpus.
        path: The run folder.
        stop: Whether the process was told to stop.
        score: Scores the model on something else every ``eval_every`` steps, into metrics.jsonl; changes
            neither the model nor what the loop draws.
    """

    def __init__(
        self,
        config: RunConfig,
        accelerator: Accelerator,
        loss: nn.Module,
        source: BatchSource,
        data: PreparedData,
        path: Path,
        stop: StopRequest | None = None,
        score: Callable[[PreTrainedModel], dict[str, float]] | None = None,
    ) -> None:
        self.config, self.accelerator, self.source, self.data, self.path = (
            config,
            accelerator,
            source,
            data,
            path,
        )
        self.folder = RunFolder(path)
        self.run_hash = config_hash(config)
        accelerator.free_memory()  # it would keep the model of a run before, as of one that did not fit
        self.model: Any = loss.model
        self.loss: nn.Module = accelerator.prepare(loss).train()
        self.max_steps = total_steps(config.optim, len(data.train.input_ids), source.rows_per_step)
        self.eval_steps = config.train.eval_steps or max(1, self.max_steps // 10)
        self.splines = SplineSchedule(config, loss.model, self.max_steps)  # type: ignore[bad-argument-type]
        self.stop = stop or StopRequest()
        self.score = score
        self.results: dict[str, Any] = {}
        self._unread: list[Tensor] = []
        self._run_before: set[bool] = set()
        newest = self.restart()
        self.writer = CheckpointWriter(
            self.folder.checkpoints_dir,
            config.train.save_total_limit,
            newest,
            self.folder.metrics_file,
        )

    def run(self) -> dict[str, Any]:
        """Train to the end.

        Returns:
            Final figures: steps, tokens, seconds, tokens_per_s, loss, eval_loss, eval_perplexity.

        Raises:
            Diverged: If the loss does.
            Stopped: If the process was told to stop; a checkpoint holds everything up to there.
        """
        train, main = self.config.train, self.accelerator.is_main_process
        metrics = MetricsFile(self.folder.metrics_file, self.state.step) if main else None
        self.progress = StepProgress(self.max_steps, self.state.step, main)
        timer = Timer()
        self.saved_s = time.monotonic()
        steps = one_ahead(self._step, range(self.state.step, self.max_steps))
        try:
            for step in steps:
                with self._compiling_apart(timer):
                    self._unread.append(self._update(step))
                self.state.step += 1
                self.state.tokens += step.num_tokens
                timer.tokens += step.num_tokens
                self.progress.advance()
                last = self.state.step == self.max_steps
                logged = last or self.state.step % train.logging_steps == 0
                if logged:
                    self._record(self._step_line(timer), metrics)
                    self.writer.check()
                if last or self.state.step % self.eval_steps == 0:
                    self._record(self._evaluation_line(timer), metrics)
                if main and self._score_is_due(last):
                    self._record(self._score_line(timer), metrics)
                if not last and self._save_is_due():
                    self._save(timer)
                if not last and self._must_stop(logged):
                    self._check_health()
                    self._save(timer)
                    self.writer.wait()
                    raise self.stop.stopped(self._how_to_continue())
        finally:
            steps.close()
            self.progress.close()
            self.writer.wait()
        return self.results

    def repeat_until(self, step: int) -> None:
        """Do steps again up to one of this number, from where ``restart`` led to. Nothing is written."""
        while self.state.step < step:
            self._update(self.source.step(self.data.train, self.state.step))
            self.state.step += 1

    def _step(self, number: int) -> Step:
        """This process's share of a step; ``number`` counts the steps before it. Called in a thread."""
        step = self.source.step(self.data.train, number)
        return replace(step, batches=[self._transferable(batch) for batch in step.batches])

    def _update(self, step: Step) -> Tensor:
        """One update; returns (2,) on the device: loss in nats per target token, unclipped gradient norm."""
        self.splines.adapt(self.state.step, self._run_on_typical, self.optimizer)
        self._seed_dropout()
        total = torch.zeros((), device=self.accelerator.device)
        targets = max(1, step.num_targets)
        for number, batch in enumerate(step.batches, start=1):
            # Gradients are averaged over processes, but the step's loss is a sum over all of them.
            with self._synchronised(number == len(step.batches)):
                loss = self.loss(**self._on_device(batch)) / targets
                self.accelerator.backward(loss * self.accelerator.num_processes)
            total += loss.detach()
        self.splines.add_penalty_gradients()
        max_norm = self.config.optim.max_grad_norm or math.inf
        grad_norm: Any = self.accelerator.clip_grad_norm_(self.model.parameters(), max_norm)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        return torch.stack([self.accelerator.reduce(total, "sum"), grad_norm.to(total.dtype)])

    @torch.no_grad()
    def _run_on_typical(self, num_tokens: int) -> None:
        """Run the model without dropout on rows of the step, the same in all processes."""
        loss = self.accelerator.unwrap_model(self.loss).eval()
        for batch in self.source.typical(self.data.train, self.state.step, num_tokens):
            loss(**self._on_device(batch))
        loss.train()

    @torch.no_grad()
    def evaluate(self, split: PackedSplit) -> float:
        """Loss on held-out text, in nats per target token. Draws nothing: masks are fixed, dropout is off."""
        # Unwrapped: a data-parallel forward pass waits for the other processes, which may have fewer batches.
        loss = self.accelerator.unwrap_model(self.loss).eval()
        total, count = torch.zeros((), device=self.accelerator.device), 0
        for batch in self.source.held_out(split):
            total += loss(**self._on_device(self._transferable(batch)))
            count += len(batch["target_ids"])
        loss.train()
        total, targets = self.accelerator.reduce(torch.stack([total, total.new_tensor(count)]), "sum")
        return (total / targets.clamp(min=1)).item()

    @contextlib.contextmanager
    def _compiling_apart(self, timer: Timer | None = None) -> Iterator[None]:
        """Count what was compiled meanwhile, and leave it out of a timer's rate."""
        before, start = compile_seconds(), time.perf_counter()
        yield
        spent = compile_seconds() - before
        if self.config.train.compile_model and (timer is None) not in self._run_before:
            spent = time.perf_counter() - start  # backward passes are compiled at a time of torch's choosing
        self._run_before.add(timer is None)
        self.state.compile_s += spent
        if timer:
            timer.leave_out(spent)

    def _synchronised(self, last: bool) -> AbstractContextManager[Any]:
        """Processes exchange gradients only in the last forward pass of a step."""
        return contextlib.nullcontext() if last else self.accelerator.no_sync(self.loss)

    def _seed_dropout(self) -> None:
        """Have what a step draws depend on its number alone.

        Less than torch.manual_seed, which takes 0.1 ms to see to devices of every kind.
        """
        seed = dropout_seed(self.config.seed, self.state.step, self.accelerator.process_index)
        torch.default_generator.manual_seed(seed)
        if self.accelerator.device.type != "cpu":
            torch.get_device_module(self.accelerator.device).manual_seed(seed)

    def _transferable(self, batch: Batch) -> Batch:
        """Where there is a GPU, in memory that it can read without the host."""
        return pin(batch) if self.accelerator.device.type == "cuda" else batch

    def _on_device(self, batch: Batch) -> Batch:
        return {name: tensor.to(self.accelerator.device, non_blocking=True) for name, tensor in batch.items()}

    def _step_line(self, timer: Timer) -> dict[str, Any]:
        self._check_health()
        state = self.state
        loss, norms = sum(state.losses) / len(state.losses), list(state.grad_norms)
        state.losses.clear()
        state.grad_norms.clear()
        return {
            "step": state.step,
            "max_steps": self.max_steps,
            "loss": loss,
            "learning_rate": self.scheduler.get_last_lr()[0],
            "grad_norm": sum(norms) / len(norms),
            "grad_norm_max": max(norms),
            "tokens_per_s": round(timer.tokens_per_s(), 1),
            **self._place(timer),
        }

    def _evaluation_line(self, timer: Timer) -> dict[str, Any]:
        with timer.paused(), self._compiling_apart():
            loss = self.evaluate(self.data.validation)
        if not math.isfinite(loss):
            raise Diverged(self.state.step, f"the held-out loss is {loss}")
        line = {"step": self.state.step, "max_steps": self.max_steps, "eval_loss": loss}
        return {
            **line,
            "eval_perplexity": perplexity(loss),
            **self.splines.coefficients_left(),
            **self._place(timer),
        }

    def _score_is_due(self, last: bool) -> bool:
        every = self.config.train.eval_every
        return bool(self.score and every and (last or self.state.step % every == 0))

    def _score_line(self, timer: Timer) -> dict[str, Any]:
        assert self.score is not None
        with timer.paused(), self._compiling_apart():
            scores = self.score(self.model)
        return {"step": self.state.step, "max_steps": self.max_steps, **scores, **self._place(timer)}

    def _place(self, timer: Timer) -> dict[str, Any]:
        epoch = self.state.step * self.state.rows_per_step / len(self.data.train.input_ids)
        seconds = self.state.time_s + timer.elapsed()
        return {
            "epoch": round(epoch, 4),
            "tokens": self.state.tokens,
            "time_s": round(seconds, 3),
            "compile_s": round(self.state.compile_s, 3),
        }

    def _record(self, line: dict[str, Any], metrics: MetricsFile | None) -> None:
        self.results |= line
        if metrics:
            metrics.append(line)
        self.accelerator.log(
            {name: value for name, value in line.items() if name != "step"}, step=line["step"]
        )
        if "loss" in line:
            self.progress.show(line)
        elif "eval_loss" in line:
            self.progress.say(f"step {line['step']}/{self.max_steps}: held-out loss {line['eval_loss']:.4f}")
        else:
            suite = self.config.train.eval_suite
            self.progress.say(f"step {line['step']}/{self.max_steps}: {suite} {line[suite]:.1f}")

    def _read_losses(self) -> None:
        """Fetch what the device has computed since; this waits for it."""
        if self._unread:
            for loss, grad_norm in torch.stack(self._unread).tolist():
                self.state.losses.append(loss)
                self.state.grad_norms.append(grad_norm)
            self._unread.clear()

    def _problem(self) -> tuple[int, str] | None:
        """What is wrong with the steps since the last logged line, and with which."""
        self._read_losses()
        guessing = math.log(self.model.config.vocab_size)
        factor = self.config.train.max_loss_ratio or math.inf
        if self.state.first_loss is None and self.state.losses:
            self.state.first_loss = self.state.losses[0]
        limit = factor * max(guessing, self.state.first_loss or 0.0)
        return find_problem(self.state.losses, self.state.grad_norms, self.state.step, limit)

    def _check_health(self) -> None:
        if problem := self._problem():
            raise Diverged(*problem)

    def _save_is_due(self) -> bool:
        train = self.config.train
        if train.save_steps and self.state.step % train.save_steps == 0:
            return True
        minutes = (time.monotonic() - self.saved_s) / 60
        return train.save_minutes is not None and minutes >= train.save_minutes

    def _save(self, timer: Timer) -> None:
        """Have a checkpoint written, by one process and without waiting for the others.

        A run that diverged gets none: the next logged line, which all processes reach together, ends it.
        """
        self.saved_s = time.monotonic()
        if not self.accelerator.is_main_process:
            return
        with timer.paused():
            if self._problem() or not all_finite(self.model, self.optimizer):
                return
            state = asdict(self.state) | {"time_s": self.state.time_s + timer.elapsed()}
            self.writer.save(take_snapshot(self.model, self.optimizer, self.scheduler, state, self.run_hash))

    def _must_stop(self, logged: bool) -> bool:
        """Whether to end here. Several processes must agree, which they do where they wait anyway."""
        told = self.stop.signum is not None
        if self.accelerator.num_processes == 1:
            return told
        if not logged:
            return False
        answers: Any = self.accelerator.reduce(
            torch.tensor(float(told), device=self.accelerator.device), "sum"
        )
        if answers > 0 and not told:
            self.stop.signum = signal.SIGTERM
        return bool(answers > 0)

    def _how_to_continue(self) -> str:
        assert self.stop.signum is not None
        name, newest = signal.Signals(self.stop.signum).name, self.writer.newest
        start = f"from {newest.name}" if newest else "from the beginning, as no checkpoint could be written"
        return (
            f"{self.path}: stopped by {name} after step {self.state.step} of {self.max_steps}; the same "
            f"command continues {start}"
        )

    def restart(self) -> Path | None:
        """Go to the newest checkpoint, or to the beginning; returns the checkpoint's folder."""
        self._unread.clear()
        self.optimizer: Optimizer = build_optimizer(self.model, self.config.optim)
        self.scheduler: LambdaLR = build_scheduler(self.optimizer, self.config.optim, self.max_steps)
        self.state = LoopState(rows_per_step=self.source.rows_per_step)
        tidy = self.accelerator.is_main_process
        with self.accelerator.main_process_first():
            found = load_newest(
                self.folder.checkpoints_dir, self.model, self.optimizer, self.scheduler, tidy, self.run_hash
            )
        if found is None:
            return None
        self.state, path = LoopState(**found[0]), found[1]
        now = self.source.rows_per_step
        if self.state.rows_per_step != now:
            raise UsageError(
                f"{path} was trained with {self.state.rows_per_step} rows per step, and train.batch_size is "
                f"{now}: give --train.batch-size {self.state.rows_per_step}, or another --run-name"
            )
        return path
