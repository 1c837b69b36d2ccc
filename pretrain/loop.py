"""The training loop: step, log, evaluate, checkpoint, resume."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from ffn_variants.compilation import compile_seconds
from ffn_variants.errors import UsageError
from pretrain.batches import BatchSource, Step, dropout_seed
from pretrain.checkpoints import load_newest, save_checkpoint
from pretrain.config import RunConfig
from pretrain.data import PackedSplit, PreparedData
from pretrain.metrics import MetricsFile, Progress, Timer, perplexity
from pretrain.objective import PackedLoss
from pretrain.optim import build_optimizer, build_scheduler, total_steps


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
    """

    step: int = 0
    tokens: int = 0
    time_s: float = 0.0
    compile_s: float = 0.0
    rows_per_step: int = 0
    losses: list[float] = field(default_factory=list)


class Loop:
    """Trains one model on packed rows.

    Args:
        config: The run.
        accelerator: Devices, precision and trackers.
        loss: Model and loss; prepared here.
        source: Cuts this process's batches.
        data: The packed corpus.
        path: The run folder.
    """

    def __init__(
        self,
        config: RunConfig,
        accelerator: Accelerator,
        loss: PackedLoss,
        source: BatchSource,
        data: PreparedData,
        path: Path,
    ) -> None:
        self.config, self.accelerator, self.source, self.data, self.path = (
            config,
            accelerator,
            source,
            data,
            path,
        )
        self.model = loss.model
        self.loss: nn.Module = accelerator.prepare(loss)
        self.max_steps = total_steps(config.optim, len(data.train.input_ids), source.rows_per_step)
        self.eval_steps = config.train.eval_steps or max(1, self.max_steps // 10)
        self.optimizer: Optimizer = build_optimizer(self.model, config.optim)
        self.scheduler: LambdaLR = build_scheduler(self.optimizer, config.optim, self.max_steps)
        self.state = LoopState(rows_per_step=source.rows_per_step)
        self.results: dict[str, Any] = {}
        self._resume()

    def run(self) -> dict[str, Any]:
        """Train to the end.

        Returns:
            Final figures: steps, tokens, seconds, tokens_per_s, loss, eval_loss, eval_perplexity.
        """
        train, main = self.config.train, self.accelerator.is_main_process
        metrics = MetricsFile(self.path / "metrics.jsonl", self.state.step) if main else None
        progress = Progress(self.max_steps, self.state.step, main)
        timer = Timer()
        while self.state.step < self.max_steps:
            step = self.source.step(self.data.train, self.state.step)
            with self._compiling_apart(timer):
                loss, grad_norm = self._update(step)
            self.state.step += 1
            self.state.tokens += step.num_tokens
            timer.tokens += step.num_tokens
            self.state.losses.append(loss)
            progress.advance()
            last = self.state.step == self.max_steps
            if last or self.state.step % train.logging_steps == 0:
                self._record(self._step_line(grad_norm, timer), metrics, progress)
            if last or self.state.step % self.eval_steps == 0:
                self._record(self._evaluation_line(timer), metrics, progress)
            if train.save_steps and self.state.step % train.save_steps == 0 and not last:
                self._save(timer)
        progress.close()
        return self.results

    def _update(self, step: Step) -> tuple[float, float]:
        """One update; returns the whole step's loss in nats per target token, and the gradient norm."""
        self.loss.train()
        torch.manual_seed(dropout_seed(self.config.seed, self.state.step, self.accelerator.process_index))
        total = torch.zeros((), device=self.accelerator.device)
        targets = max(1, step.num_targets)
        for number, batch in enumerate(step.batches, start=1):
            # Gradients are averaged over processes, but the step's loss is a sum over all of them.
            with self._synchronised(number == len(step.batches)):
                loss = self.loss(**self._on_device(batch)) / targets
                self.accelerator.backward(loss * self.accelerator.num_processes)
            total += loss.detach()
        max_norm = self.config.optim.max_grad_norm or math.inf
        grad_norm: Any = self.accelerator.clip_grad_norm_(self.model.parameters(), max_norm)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        return self.accelerator.reduce(total, "sum").item(), float(grad_norm)

    @torch.no_grad()
    def evaluate(self, split: PackedSplit) -> float:
        """Loss on held-out text, in nats per target token. Draws nothing: masks are fixed, dropout is off."""
        # Unwrapped: a data-parallel forward pass waits for the other processes, which may have fewer batches.
        loss = self.accelerator.unwrap_model(self.loss).eval()
        total, count = torch.zeros((), device=self.accelerator.device), 0
        for batch in self.source.held_out(split):
            total += loss(**self._on_device(batch))
            count += len(batch["target_ids"])
        total, targets = self.accelerator.reduce(torch.stack([total, total.new_tensor(count)]), "sum")
        return (total / targets.clamp(min=1)).item()

    @contextlib.contextmanager
    def _compiling_apart(self, timer: Timer | None = None) -> Iterator[None]:
        """Count what was compiled meanwhile, and leave it out of a timer's rate."""
        before = compile_seconds()
        yield
        spent = compile_seconds() - before
        self.state.compile_s += spent
        if timer:
            timer.leave_out(spent)

    def _synchronised(self, last: bool) -> AbstractContextManager[Any]:
        """Processes exchange gradients only in the last forward pass of a step."""
        return contextlib.nullcontext() if last else self.accelerator.no_sync(self.loss)

    def _on_device(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(self.accelerator.device, non_blocking=True) for name, tensor in batch.items()}

    def _step_line(self, grad_norm: float, timer: Timer) -> dict[str, Any]:
        state = self.state
        loss = sum(state.losses) / len(state.losses)
        if not math.isfinite(loss):
            raise UsageError(
                f"{self.path}: the loss is {loss} at step {state.step}; lower --optim.learning-rate or "
                "--optim.max-grad-norm, or add --optim.warmup-steps"
            )
        state.losses.clear()
        return {
            "step": state.step,
            "max_steps": self.max_steps,
            "loss": loss,
            "learning_rate": self.scheduler.get_last_lr()[0],
            "grad_norm": grad_norm,
            "tokens_per_s": round(timer.tokens_per_s(), 1),
            **self._place(timer),
        }

    def _evaluation_line(self, timer: Timer) -> dict[str, Any]:
        with timer.paused(), self._compiling_apart():
            loss = self.evaluate(self.data.validation)
        line = {"step": self.state.step, "max_steps": self.max_steps, "eval_loss": loss}
        return {**line, "eval_perplexity": perplexity(loss), **self._place(timer)}

    def _place(self, timer: Timer) -> dict[str, Any]:
        epoch = self.state.step * self.state.rows_per_step / len(self.data.train.input_ids)
        seconds = self.state.time_s + timer.elapsed()
        return {
            "epoch": round(epoch, 4),
            "tokens": self.state.tokens,
            "time_s": round(seconds, 3),
            "compile_s": round(self.state.compile_s, 3),
        }

    def _record(self, line: dict[str, Any], metrics: MetricsFile | None, progress: Progress) -> None:
        self.results |= line
        if metrics:
            metrics.append(line)
        self.accelerator.log(
            {name: value for name, value in line.items() if name != "step"}, step=line["step"]
        )
        if "eval_loss" in line:
            progress.say(f"step {line['step']}/{self.max_steps}: held-out loss {line['eval_loss']:.4f}")
        else:
            progress.show(line)

    def _save(self, timer: Timer) -> None:
        with timer.paused():
            if self.accelerator.is_main_process:
                state = vars(self.state) | {"time_s": self.state.time_s + timer.elapsed()}
                keep = self.config.train.save_total_limit
                save_checkpoint(
                    self.path / "checkpoints", self.model, self.optimizer, self.scheduler, state, keep
                )
            self.accelerator.wait_for_everyone()

    def _resume(self) -> None:
        found = load_newest(self.path / "checkpoints", self.model, self.optimizer, self.scheduler)
        if found is None:
            return
        self.state, path = LoopState(**found[0]), found[1]
        now = self.source.rows_per_step
        if self.state.rows_per_step != now:
            raise UsageError(
                f"{path} was trained with {self.state.rows_per_step} rows per step, now {now}: start "
                "as many processes as before (rows = train.per_device_train_batch_size x "
                "train.gradient_accumulation_steps x processes)"
            )
