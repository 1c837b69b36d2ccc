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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import PreTrainedModel

from base.run.folder_names import RunFolder
from base.text.corruption import IGNORE
from ffn_variants.kernels.compilation import compile_failure, compile_seconds
from pretrain.config import ResolvedConfig
from pretrain.data.packing import PackedSplit
from pretrain.data.prepare import PreparedData
from pretrain.data.step_batches import Batch, BatchSource, Step, dropout_seed, one_ahead, stage
from pretrain.model.objective import SummedLoss
from pretrain.run.run_folder import config_hash
from pretrain.training import checkpoints
from pretrain.training.device import wait_long
from pretrain.training.knots import SplineSchedule
from pretrain.training.metrics_log import MetricsFile, StepProgress, Timer, perplexity
from pretrain.training.recording import RecordedPasses
from pretrain.training.stopping import Diverged, StopRequest, find_problem
from pretrain.training.update import Update, build_optimizer, build_scheduler


class Loop:
    """Trains one model on packed rows.

    Args:
        config: The run.
        accelerator: Devices, precision and trackers.
        loss: What ``build_loss`` gave, with its ``model``; prepared here.
        source: Cuts this process's batches.
        data: The packed corpus.
        path: The run folder.
        stop: The signal to stop that the process got, if any.
        score: Scores the model on something else every ``eval_every`` steps, into metrics.jsonl; changes
            neither the model nor what the loop draws. None in all processes but the first.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        accelerator: Accelerator,
        loss: SummedLoss,
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
        self.max_steps = config.optim.total_steps(len(data.train.input_ids), source.rows_per_step)
        self.eval_steps = config.train.eval_steps or max(1, self.max_steps // 10)
        self.stop = stop or StopRequest()
        self.score = score
        self.splines = SplineSchedule(config, self.model, self.max_steps)
        self.optimizer = build_optimizer(self.model, config.optim)
        self.scheduler = build_scheduler(self.optimizer, config.optim, self.max_steps)
        self.update = Update(accelerator, self.loss, self.optimizer, self.splines, config.optim.max_grad_norm)
        self.passes: RecordedPasses | None = None
        if config.train.cuda_graph and self._on_gpu and accelerator.num_processes == 1:
            self.passes = RecordedPasses(self.update.passes, self.update.parameters, accelerator.device)
        self.state = checkpoints.LoopState()
        self.newest: Path | None = None
        self._resume()
        self.results: dict[str, Any] = {}
        self.learning_rate = 0.0
        self._unread: list[Tensor] = []
        self._compiled_parts: set[str] = set()
        self.timer = Timer()  # begun anew by ``run``

    def run(self) -> dict[str, Any]:
        """Train to the end.

        Returns:
            Final figures: steps, tokens, seconds, tokens_per_s, loss, eval_loss, eval_perplexity.

        Raises:
            Diverged: If the loss does.
            Stopped: After a signal to stop; a checkpoint holds everything up to there.
        """
        train, main = self.config.train, self.accelerator.is_main_process
        state = self.state
        self.metrics = MetricsFile(self.folder.metrics_file, state.step) if main else None
        name = f"{self.config.model.ffn}, seed {self.config.seed}"
        self.progress = StepProgress(self.max_steps, state.step, main, name)
        self.timer = Timer()
        self.saved_s = time.monotonic()
        steps = one_ahead(self._step, range(state.step, self.max_steps))
        with contextlib.closing(self.progress), contextlib.closing(steps):
            for step in steps:
                with self._compiling_apart("update"):
                    self._unread.append(self._update(step))
                self._count(step)
                # A line first, as it fetches the losses that an evaluation and a checkpoint rely on: a run
                # that diverged ends there. The last step needs no checkpoint, as the model itself is saved.
                is_last = state.step == self.max_steps
                is_logged = is_last or self._is_due(train.logging_steps)
                if is_logged:
                    self._log_step()
                if is_last or self._is_due(self.eval_steps):
                    self._log_evaluation()
                if train.eval_every and (is_last or self._is_due(train.eval_every)):
                    if self.score:
                        self._log_score(self.score)
                    wait_long()  # for the one that scores
                if not is_last:
                    self._save_or_stop(is_logged)
        return self.results

    def _is_due(self, every: int | None) -> bool:
        """Whether something that happens every so many steps happens after this one; None is never."""
        return every is not None and self.state.step % every == 0

    def _count(self, step: Step) -> None:
        self.state.step += 1
        self.state.tokens += step.num_tokens
        self.timer.tokens += step.num_tokens
        self.progress.advance()

    def _step(self, number: int) -> Step:
        """This process's share of a step; ``number`` counts the steps before it. Called in a thread."""
        step = self.source.step(self.data.train, number)
        return replace(step, staged=stage(step.batches)) if self._on_gpu else step

    def _update(self, step: Step) -> Tensor:
        """One update; returns (2,) on the device: loss in nats per target token, unclipped gradient norm."""
        if self.splines.adapt(self.state.step, self._run_on_typical, self.optimizer) and self.passes:
            self.passes.forget()
        self._seed_dropout()
        num_targets = max(1, step.num_targets)
        if self.passes and step.staged:
            loss = self.passes(step.staged, num_targets)
        else:
            device = self.accelerator.device
            batches = step.staged.to(device) if step.staged else self._on_device(step.batches)
            loss = self.update.passes(batches, num_targets)
        result = self.update.apply(loss)
        # Before the schedule goes on: the line of a step has the rate that it was made with.
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
    def _compiling_apart(self, part: str) -> Iterator[None]:
        """Count what is compiled meanwhile as ``compile_s``, and leave it out of the tokens per second."""
        before, start = compile_seconds(), time.perf_counter()
        yield
        spent = compile_seconds() - before
        if self.config.train.compile_model is True and part not in self._compiled_parts:
            spent = time.perf_counter() - start  # backward passes are compiled at a time of torch's choosing
        self._compiled_parts.add(part)
        self.state.compile_s += spent
        if part == "update":  # evaluations are left out as a whole
            self.timer.leave_out(spent)

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

    def _log_step(self) -> None:
        if problem := self._problem():
            raise problem
        means = self.state.take_means()
        values = {
            "loss": means.pop("loss"),
            "learning_rate": self.learning_rate,
            **means,
            "tokens_per_s": round(self.timer.tokens_per_s(), 1),
        }
        self.progress.show(self._record(values))

    def _log_evaluation(self) -> None:
        with self.timer.paused(), self._compiling_apart("evaluation"):
            loss = self.evaluate(self.data.validation)
        if not math.isfinite(loss):
            raise Diverged(self.state.step, f"the held-out loss is {loss}")
        values = {"eval_loss": loss, "eval_perplexity": perplexity(loss), **self.splines.count_coefficients()}
        self._record(values)
        self._say(f"held-out loss {loss:.4f}")

    def _log_score(self, score: Callable[[PreTrainedModel], dict[str, float]]) -> None:
        with self.timer.paused(), self._compiling_apart("evaluation"):
            scores = score(self.model)
        self._record(scores)
        suite = self.config.train.eval_suite
        self._say(f"{suite} {scores[suite]:.1f}")

    def _record(self, values: dict[str, Any]) -> dict[str, Any]:
        """Write values of this step to metrics.jsonl, the tracker and the results; returns the line."""
        state = self.state
        line = {"step": state.step, "max_steps": self.max_steps, **values}
        line |= {
            "epoch": round(state.step * self.source.rows_per_step / len(self.data.train.input_ids), 4),
            "tokens": state.tokens,
            "time_s": round(state.time_s + self.timer.elapsed(), 3),
            "compile_s": round(state.compile_s, 3),
        }
        if compile_failure():
            line["torch_compile_failed"] = True
        if self.passes and self.passes.failure:
            line["cuda_graph_failed"] = True
        self.results |= line
        if self.metrics:
            self.metrics.append(line)
        self.accelerator.log({name: line[name] for name in line if name != "step"}, step=state.step)
        return line

    def _say(self, text: str) -> None:
        self.progress.say(f"step {self.state.step}/{self.max_steps}: {text}", is_result=True)

    def _problem(self) -> Diverged | None:
        """What is wrong with the steps since the last logged line; waits for the device."""
        state = self.state
        # With a vocabulary of 10,000 guessing has a loss of 9.2; at max_loss_ratio 4 the limit is 37. A first
        # loss above that of guessing raises the limit, so that a bad start is no divergence.
        state.fetch(self._unread)
        usual_loss = max(math.log(self.model.config.vocab_size), state.first_loss or 0.0)
        limit = (self.config.train.max_loss_ratio or math.inf) * usual_loss
        return find_problem(state.losses, state.grad_norms, state.step, limit)

    def _save_or_stop(self, is_logged: bool) -> None:
        """Write a checkpoint where one is due, and end the run after a signal to stop.

        Raises:
            Diverged: Instead of ``Stopped``, if the loss did meanwhile.
            Stopped: After the signal.
        """
        minutes = (time.monotonic() - self.saved_s) / 60
        train = self.config.train
        # Two reasons, as steps take from milliseconds to minutes: neither alone bounds what a kill costs.
        if self._is_due(train.save_steps) or minutes >= (train.save_minutes or math.inf):
            self._save()
        signum = self._signal_to_stop(is_logged)
        if signum is None:
            return
        if problem := self._problem():
            raise problem
        self._save()
        newest = self.newest
        start = f"from {newest.name}" if newest else "from the beginning, as no checkpoint could be written"
        message = (
            f"{self.path}: stopped by {signal.Signals(signum).name} after step {self.state.step} of "
            f"{self.max_steps}; the same command continues {start}"
        )
        self.progress.say(message)
        raise self.stop.stopped(message)

    def _save(self) -> None:
        """Write a checkpoint, by one process and without waiting for the others.

        A run that diverged, or whose last update left a weight that is no number, gets none, so that the good
        ones stay: the next logged line, which all processes reach together, ends it. One that cannot be
        written, as on a full disk, costs a warning and not the run.
        """
        self.saved_s = time.monotonic()
        if not self.accelerator.is_main_process:
            return
        with self.timer.paused():
            if self._problem() or not checkpoints.all_finite(self.model):
                return
            folder = self.folder.checkpoints_dir
            state = asdict(self.state) | {"time_s": self.state.time_s + self.timer.elapsed()}
            content = checkpoints.snapshot(self.model, self.optimizer, self.scheduler, state, self.run_hash)
            try:
                self.newest = checkpoints.save_checkpoint(folder, content, self.config.train.save_total_limit)
            except OSError as error:
                # No warning, which Python shows once: a disk that stays full is told at every checkpoint.
                self.progress.say(
                    f"warning: a checkpoint could not be written to {folder} ({error.strerror or error}); "
                    "training goes on and the next one is tried"
                )

    def _signal_to_stop(self, is_logged: bool) -> int | None:
        """The signal to end at here. Several processes must agree, which they do where they wait anyway."""
        if self.accelerator.num_processes == 1:
            return self.stop.signum
        if not is_logged:
            return None
        has_signal = torch.tensor(float(self.stop.signum is not None), device=self.accelerator.device)
        count: Any = self.accelerator.reduce(has_signal, "sum")
        if count > 0 and self.stop.signum is None:
            self.stop.signum = signal.SIGTERM
        return self.stop.signum if count > 0 else None

    def _resume(self) -> None:
        """Go on from the newest checkpoint, where there is one."""
        with self.accelerator.main_process_first():
            newest = checkpoints.load_newest(
                self.folder.checkpoints_dir, self.run_hash, self.accelerator.is_main_process
            )
        if newest is not None:
            content, self.newest = newest
            self.state = checkpoints.restore(content, self.newest, self.model, self.optimizer, self.scheduler)
