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
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import PreTrainedModel

from base.errors import UsageError
from base.files import sha256_of
from base.run.folders import RunFolder
from base.text.corruption import IGNORE
from ffn_variants.kernels.compilation import compile_failure, compile_seconds
from pretrain.config import RunConfig
from pretrain.data.batches import Batch, BatchSource, Step, dropout_seed, one_ahead, stage
from pretrain.data.prepare import PackedSplit, PreparedData
from pretrain.run.run_dir import config_hash
from pretrain.training.checkpoints import all_finite, load_newest, restore, save_checkpoint, snapshot
from pretrain.training.knots import SplineSchedule
from pretrain.training.metrics import MetricsFile, StepProgress, Timer, perplexity
from pretrain.training.optim import build_optimizer, build_scheduler, total_steps
from pretrain.training.state import Diverged, LoopState
from pretrain.training.stopping import StopRequest
from pretrain.training.update import Update


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
        self.config, self.accelerator, self.source, self.data = config, accelerator, source, data
        self.path, self.folder = path, RunFolder(path)
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
        self.newest = self._restart()

    def run(self) -> dict[str, Any]:
        """Train to the end.

        Returns:
            Final figures: steps, tokens, seconds, tokens_per_s, loss, eval_loss, eval_perplexity.

        Raises:
            Diverged: If the loss does.
            Stopped: If the process was told to stop; a checkpoint holds everything up to there.
        """
        train, main = self.config.train, self.accelerator.is_main_process
        metrics = self._metrics_file() if main else None
        name = f"{self.config.model.ffn}, seed {self.config.seed}"
        self.progress = StepProgress(self.max_steps, self.state.step, main, name)
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
                if last or self.state.step % self.eval_steps == 0:
                    self._record(self._evaluation_line(timer), metrics)
                if main and self._score_is_due(last):
                    self._record(self._score_line(timer), metrics)
                if not last and self._save_is_due():
                    self._save(timer)
                if not last and self._must_stop(logged):
                    self._check_health()
                    self._save(timer)
                    raise self.stop.stopped(self._how_to_continue())
        finally:
            steps.close()
            self.progress.close()
        return self.results

    def _metrics_file(self) -> MetricsFile:
        return MetricsFile(self.folder.metrics_file, self.state.step, self.state.metrics)

    def _step(self, number: int) -> Step:
        """This process's share of a step; ``number`` counts the steps before it. Called in a thread."""
        step = self.source.step(self.data.train, number)
        return replace(step, staged=stage(step.batches)) if self._on_gpu else step

    def _update(self, step: Step) -> Tensor:
        """One update; returns (2,) on the device: loss in nats per target token, unclipped gradient norm."""
        self.splines.adapt(self.state.step, self._run_on_typical, self.optimizer)
        self._seed_dropout()
        staged = step.staged
        batches = staged.to(self.accelerator.device) if staged else self._on_device(step.batches)
        result = self.update(batches, max(1, step.num_targets))
        self.learning_rate = float(self.scheduler.get_last_lr()[0])
        self.scheduler.step()
        return result

    @torch.no_grad()
    def _run_on_typical(self, num_tokens: int) -> None:
        """Run the model without dropout on rows of the step, the same in all processes."""
        loss = self.accelerator.unwrap_model(self.loss).eval()
        for batch in self._on_device(self.source.typical(self.data.train, self.state.step, num_tokens)):
            loss(**batch)
        loss.train()

    @torch.no_grad()
    def evaluate(self, split: PackedSplit) -> float:
        """Loss on held-out text, in nats per target token. Draws nothing: masks are fixed, dropout is off."""
        # Unwrapped: a data-parallel forward pass waits for the other processes, which may have fewer batches.
        loss = self.accelerator.unwrap_model(self.loss).eval()
        total, count = torch.zeros((), device=self.accelerator.device), 0
        for batch in self.source.held_out(split):
            total += loss(**self._on_device([batch])[0])
            count += int(torch.count_nonzero(batch["target_ids"] != IGNORE))
        loss.train()
        total, targets = self.accelerator.reduce(torch.stack([total, torch.full_like(total, count)]), "sum")
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

    def _seed_dropout(self) -> None:
        """Have what a step draws depend on its number alone.

        Less than torch.manual_seed, which takes 0.1 ms to see to devices of every kind.
        """
        seed = dropout_seed(self.config.seed, self.state.step, self.accelerator.process_index)
        torch.default_generator.manual_seed(seed)
        if self.accelerator.device.type != "cpu":
            torch.get_device_module(self.accelerator.device).manual_seed(seed)

    @property
    def _on_gpu(self) -> bool:
        return self.accelerator.device.type == "cuda"

    def _on_device(self, batches: Iterable[Batch]) -> list[Batch]:
        device = self.accelerator.device
        if self._on_gpu:
            return stage(list(batches)).to(device)
        return [{name: tensor.to(device) for name, tensor in batch.items()} for batch in batches]

    def _step_line(self, timer: Timer) -> dict[str, Any]:
        self._check_health()
        means = self.state.take_means()
        return {
            "step": self.state.step,
            "max_steps": self.max_steps,
            "loss": means.pop("loss"),
            "learning_rate": self.learning_rate,
            **means,
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
            **({"torch_compile_failed": True} if compile_failure() else {}),
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

    def _problem(self) -> Diverged | None:
        """What is wrong with the steps since the last logged line; waits for the device."""
        self.state.read(self._unread)
        return self.state.problem(self.model.config.vocab_size, self.config.train.max_loss_ratio)

    def _check_health(self) -> None:
        if problem := self._problem():
            raise problem

    def _save_is_due(self) -> bool:
        train = self.config.train
        if train.save_steps and self.state.step % train.save_steps == 0:
            return True
        minutes = (time.monotonic() - self.saved_s) / 60
        return train.save_minutes is not None and minutes >= train.save_minutes

    def _save(self, timer: Timer) -> None:
        """Write a checkpoint, by one process and without waiting for the others.

        A run that diverged gets none: the next logged line, which all processes reach together, ends it. One
        that cannot be written, as on a full disk, costs a warning and not the run.
        """
        self.saved_s = time.monotonic()
        if not self.accelerator.is_main_process:
            return
        with timer.paused():
            if self._problem() or not all_finite(self.model, self.optimizer):
                return
            file = self.folder.metrics_file
            self.state.metrics = sha256_of(file) if file.is_file() else ""
            state = asdict(self.state) | {"time_s": self.state.time_s + timer.elapsed()}
            content = snapshot(self.model, self.optimizer, self.scheduler, state, self.run_hash)
            folder = self.folder.checkpoints_dir
            try:
                self.newest = save_checkpoint(folder, content, self.config.train.save_total_limit)
            except OSError as error:
                remaining = f"{self.newest} remains" if self.newest else "there is none yet"
                warnings.warn(
                    f"a checkpoint could not be written to {folder} ({error.strerror or error}); training "
                    f"goes on and the next one is tried, {remaining}",
                    stacklevel=2,
                )

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
        name, newest = signal.Signals(self.stop.signum).name, self.newest
        start = f"from {newest.name}" if newest else "from the beginning, as no checkpoint could be written"
        return (
            f"{self.path}: stopped by {name} after step {self.state.step} of {self.max_steps}; the same "
            f"command continues {start}"
        )

    def _restart(self) -> Path | None:
        """Go to the newest checkpoint, or to the beginning; returns the checkpoint."""
        optim = self.config.optim
        self.optimizer = build_optimizer(self.model, optim)
        self.scheduler = build_scheduler(self.optimizer, optim, self.max_steps)
        self.update = Update(self.accelerator, self.loss, self.optimizer, self.splines, optim.max_grad_norm)
        self.state = LoopState(rows_per_step=self.source.rows_per_step)
        with self.accelerator.main_process_first():
            newest = load_newest(self.folder.checkpoints_dir, self.run_hash, self.accelerator.is_main_process)
        if newest is None:
            return None
        content, path = newest
        restore(content, path, self.model, self.optimizer, self.scheduler)
        self.state, now = LoopState(**content["state"]), self.source.rows_per_step
        if self.state.rows_per_step != now:
            raise UsageError(
                f"{path} was trained with {self.state.rows_per_step} rows per step, and train.batch_size is "
                f"{now}: give --train.batch-size {self.state.rows_per_step}, or another --run-name"
            )
        return path
