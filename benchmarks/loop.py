"""What the training loop adds to the model's own work, and where the time of a step goes.

python -m benchmarks.loop configs/tiny.yaml --rounds 20 --updates 10
python -m benchmarks.loop configs/gpt-neo.yaml --updates 1 --train.logging-steps 1
python -m benchmarks.loop configs/t5.yaml --batches 50

The first table is a real run of the configuration: batches made by its thread, Accelerate, schedule, health,
logged lines and progress. Each round does a few bare updates first, with the clock of the run stopped:
forward and backward pass, clipping, AdamW and nothing else, by another copy of the model on the batches that
the run will use in this round, ready-made on the device. The overhead is the median over the rounds of the
run's time over the bare one's. Let --updates be a multiple of train.logging_steps: then a round logs as often
as a run does.

Checkpoints come too seldom for a round. One is timed alone, and charged to the steps between two of them, by
train.save_steps or train.save_minutes, whichever is sooner.

The second table times the parts of a step by hooks, forward and backward. On a GPU each part is waited for,
which takes longer in sum; read its shares.

With --batches that many whole steps are made for nobody, and their processor time is all that is printed: as
a CPU takes them, and as a GPU does, of fixed shapes in one piece of memory.

All other flags are those of train.py. Prints markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import math
import platform
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn

from ffn_variants.kernels.compilation import use_compiled_kernels
from ffn_variants.models.layers import ffn_modules
from pretrain.config import ResolvedConfig, TrainConfig
from pretrain.data.packing import PackedSplit
from pretrain.data.prepare import PreparedData, prepare_data
from pretrain.data.step_batches import BatchSource, Step, cut_step, stage
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.model.objective import PackedLoss
from pretrain.resolution import load_config
from pretrain.run.provenance import device_name
from pretrain.training.device import build_accelerator, choose_precision, join_processes, with_train
from pretrain.training.loop import Loop
from pretrain.training.metrics_log import Timer
from pretrain.training.update import build_optimizer

DATA, EMBEDDING, ATTENTION, FFN, LOSS, OPTIMIZER, REST = PARTS = (
    "making the batches (a thread does it during a run)",
    "embedding",
    "attention",
    "FFN",
    "output layer and loss",
    "clipping and optimizer",
    "everything else (norms, residuals, masks)",
)


class ComparedLoop(Loop):
    """A run that stops its clock at every round for as many bare updates.

    Evaluates nothing and writes no checkpoint by itself.
    """

    updates: int
    bare: BareUpdates
    loop_s: list[float]
    bare_s: list[float]
    began: float

    def compare(self, bare: BareUpdates, updates: int) -> None:
        """Run to the end; fills ``loop_s`` and ``bare_s`` with the seconds of every round."""
        self.bare, self.updates, self.loop_s, self.bare_s = bare, updates, [], []
        self.run()

    def _update(self, step: Step) -> Tensor:
        if self.state.step % self.updates == 0:
            if self.state.step:
                self.loop_s.append(now() - self.began)
            coming = range(self.state.step, self.state.step + self.updates)
            steps = [self._step(number) for number in coming]
            self.bare_s.append(self.bare.seconds(steps))
            self.began = now()
        return super()._update(step)

    def evaluate(self, split: PackedSplit) -> float:
        return 0.0


class BareUpdates:
    """The model's own work: forward pass, backward pass, clipping and optimizer, written down plainly."""

    def __init__(self, config: ResolvedConfig, accelerator: Accelerator, loss: PackedLoss):
        self.accelerator = accelerator
        self.loss = loss.to(accelerator.device).train()
        self.optimizer = build_optimizer(self.loss.model, config.optim)
        self.max_norm = config.optim.max_grad_norm or math.inf

    def seconds(self, steps: list[Step]) -> float:
        """Time of one update for each step."""
        device = self.accelerator.device
        ready = [[{k: v.to(device) for k, v in batch.items()} for batch in step.batches] for step in steps]
        began = now()
        for step, batches in zip(steps, ready, strict=True):
            for batch in batches:
                with self.accelerator.autocast():
                    loss = self.loss(**batch)
                (loss / step.num_targets).backward()
            nn.utils.clip_grad_norm_(self.loss.parameters(), self.max_norm)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return now() - began


class Stopwatch:
    """Adds the time between two calls to whatever was named by the first."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.part, self.since = REST, now()

    def enter(self, part: str) -> None:
        self.seconds[self.part] += now() - self.since
        self.part, self.since = part, now()


def now() -> float:
    """Seconds, once the device has done what it was told to."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def set_up(config: ResolvedConfig, data: PreparedData, path: Path) -> tuple[ComparedLoop, BareUpdates]:
    """Set up a run as train.py does, and bare updates of a copy of its model."""
    join_processes(config.train)
    accelerator = build_accelerator(config, path, choose_precision(config.train.mixed_precision))
    use_compiled_kernels(config.train.torch_compile is not False)  # as in a long run
    set_seed(config.seed)
    network = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    on_gpu = accelerator.device.type == "cuda"
    config = with_train(config, per_device_train_batch_size=cut_step(config.train, 1, on_gpu)[1])
    source = batch_source(config, data, on_gpu)
    loss = PackedLoss(network, config.family)
    bare = BareUpdates(config, accelerator, copy.deepcopy(loss))  # before the loop wraps the original
    return ComparedLoop(config, accelerator, loss, source, data, path), bare


def batch_source(config: ResolvedConfig, data: PreparedData, on_gpu: bool) -> BatchSource:
    """Cuts batches as train.py does, for a CPU or for a GPU."""
    masker = build_masker(config, data.tokenizer)
    pad_token_id: int = data.tokenizer.pad_token_id  # type: ignore[assignment]
    return BatchSource(config, masker, pad_token_id, fixed_shapes=on_gpu)


def batch_seconds(config: ResolvedConfig, data: PreparedData, on_gpu: bool, steps: int) -> float:
    """Median processor time of making a whole step, for one process.

    For a GPU all its rows are one forward pass. Memory is pinned only where there is one.
    """
    config = with_train(config, per_device_train_batch_size=cut_step(config.train, 1, on_gpu)[1])
    source = batch_source(config, data, on_gpu)
    seconds = []
    for number in range(steps + 1):
        began = time.process_time()
        step = source.step(data.train, number)
        if on_gpu:
            stage(step.batches, torch.cuda.is_available())
        if number:  # the first one counts through the corpus
            seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def checkpoint_seconds(loop: Loop, times: int = 3) -> float:
    """Median time of a checkpoint."""
    seconds = []
    for _ in range(times):
        loop.state.step += 1  # another name
        began = now()
        loop.timer = Timer()
        loop._save()
        seconds.append(now() - began)
    return statistics.median(seconds)


def break_down(loop: Loop, steps: int) -> dict[str, float]:
    """Median seconds of every part of a step."""
    watch = Stopwatch()
    hook_parts(loop, watch)
    rows = []
    for number in range(steps + 1):
        watch.enter(DATA)
        step = loop._step(loop.state.step)
        watch.enter(REST)
        Loop._update(loop, step)  # without the bare ones
        watch.enter(REST)
        if number:  # the first one compiles
            rows.append(watch.seconds)
        watch.seconds = dict.fromkeys(PARTS, 0.0)
    return {part: statistics.median(row[part] for row in rows) for part in PARTS}


def hook_parts(loop: Loop, watch: Stopwatch) -> None:
    """Tell the stopwatch which part of a step begins; the output layer is what follows the base model."""

    def to(part: str) -> Any:
        return lambda *_: watch.enter(part)

    base = loop.model.base_model
    base.register_forward_pre_hook(to(REST))
    base.register_forward_hook(to(LOSS))
    # Backward, whatever comes before the base model's output has its gradient belongs to the loss as well.
    base.register_forward_hook(lambda _, __, out: out.last_hidden_state.register_hook(to(REST)) and None)
    for module in base.modules():
        if isinstance(module, nn.Embedding):
            module.register_forward_pre_hook(to(EMBEDDING))
            module.register_forward_hook(to(REST))
            module.register_full_backward_pre_hook(to(EMBEDDING))  # the last thing of all
        if ffns := ffn_modules(module):
            attention: Any = getattr(module, "attn", None) or module.attention
            for part, inside in ((ATTENTION, (attention,)), (FFN, ffns)):
                for each in inside:
                    each.register_forward_pre_hook(to(part))
                    each.register_forward_hook(to(REST))
                    each.register_full_backward_pre_hook(to(part))
                    each.register_full_backward_hook(to(REST))
    clip: Any = loop.accelerator.clip_grad_norm_

    def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
        watch.enter(OPTIMIZER)  # with which a step ends
        return clip(*args, **kwargs)

    setattr(loop.accelerator, "clip_grad_norm_", clip_grad_norm_)  # noqa: B010


def without_pauses(config: ResolvedConfig, steps: int) -> ResolvedConfig:
    """The configuration of a run of so many steps that neither evaluates nor saves before its end."""
    train = {"eval_steps": steps, "save_steps": None, "save_minutes": None}
    return config.model_copy(
        update={
            "train": config.train.model_copy(update=train),
            "optim": config.optim.model_copy(update={"max_steps": steps}),
        }
    )


def overhead_table(name: str, loop: ComparedLoop, saving_s: float, train: TrainConfig) -> str:
    """What the loop adds to bare updates, without checkpoints and with them."""
    loop_s, bare_s = loop.loop_s[1:], loop.bare_s[1 : len(loop.loop_s)]  # the first round warms up
    low, middle, high = (
        q - 1 for q in statistics.quantiles([a / b for a, b in zip(loop_s, bare_s, strict=True)], n=4)
    )
    step_s, bare = (statistics.median(times) / loop.updates for times in (loop_s, bare_s))
    between = min(train.save_steps or math.inf, 60 * (train.save_minutes or math.inf) / step_s)
    cells = [
        name,
        f"{1e3 * bare:.1f}",
        f"{1e3 * step_s:.1f}",
        f"{middle:.1%} ({low:.1%} to {high:.1%})",
        f"{1e3 * saving_s:.0f}",
        f"{between:.0f}",
        f"**{middle + saving_s / (between * step_s):.1%}**",
    ]
    return (
        "| config | bare update, ms | the loop's, ms | overhead (quartiles) | a checkpoint, ms | "
        "steps between two | overhead with checkpoints |\n"
        f"| --- | --: | --: | --: | --: | --: | --: |\n| {' | '.join(cells)} |"
    )


def parts_table(name: str, parts: dict[str, float]) -> str:
    """Where the time of a step goes."""
    total = sum(parts.values())
    rows = [f"| {part} | {1e3 * each:.2f} | {each / total:.1%} |" for part, each in parts.items()]
    return "\n".join([f"| part of a step | {name}, ms | share |", "| --- | --: | --: |", *rows])


def batches_table(name: str, config: ResolvedConfig, steps: int) -> str:
    """What it takes to make a step."""
    data = prepare_data(config)
    for_cpu, for_gpu = (batch_seconds(config, data, on_gpu, steps) for on_gpu in (False, True))
    return (
        "| config | rows of a step | processor time for a CPU, ms | for a GPU, ms |\n"
        "| --- | --: | --: | --: |\n"
        f"| {name} | {config.train.batch_size} | {1e3 * for_cpu:.2f} | {1e3 * for_gpu:.2f} |"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--updates", type=int, default=10, help="of each kind in a round")
    parser.add_argument("--steps", type=int, default=20, help="steps to break down")
    parser.add_argument("--batches", type=int, metavar="STEPS", help="only make so many steps")
    args, flags = parser.parse_known_args()
    asked, name = load_config(args.config, flags), args.config.stem
    if args.batches:
        with contextlib.redirect_stdout(sys.stderr):
            table = batches_table(name, asked, args.batches)
        print_with_facts(torch.device("cpu"), f"median of {args.batches} steps", table)
        return
    # One update more than the rounds have, as it ends the last of them.
    config = without_pauses(asked, (args.rounds + 1) * args.updates + 1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        loop, bare = set_up(config, prepare_data(config), Path(folder))
        loop.compare(bare, args.updates)
        saving_s = checkpoint_seconds(loop)
        parts = break_down(loop, args.steps)
    measured = (
        f"{args.rounds} rounds of {args.updates} updates, a logged line every {config.train.logging_steps}"
    )
    tables = (overhead_table(name, loop, saving_s, asked.train), parts_table(name, parts))
    print_with_facts(loop.accelerator.device, measured, *tables)


def print_with_facts(device: torch.device, measured: str, *tables: str) -> None:
    """Print tables below what they were measured with."""
    print(f"`python -m benchmarks.loop {shlex.join(sys.argv[1:])}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {device_name(device)}, {platform.machine()}, "
        f"torch {torch.__version__}, transformers {transformers.__version__}, {measured}\n"
    )
    print(*tables, sep="\n\n")


if __name__ == "__main__":
    main()
