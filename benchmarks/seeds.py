"""Several seeds of one GPT-Neo with gelu on one device: in turn, or side by side in four ways.

OMP_NUM_THREADS=2 python benchmarks/seeds.py configs/tiny.yaml --seeds 4 --updates 20
OMP_NUM_THREADS=2 python benchmarks/seeds.py configs/tiny.yaml --seeds 4 --whole

    in turn    updates of one seed after the other, in the project's loop
    stacked    one model written by hand, whose parameters have a dimension more for the seeds
    vmap       torch.func.vmap over the stacked parameters of the project's own model
    threads    a Python thread for each seed, all in this process
    processes  a process with one thread for each seed, as many at a time as there are threads

Each round does the same updates of every seed in every way, one way after the other, so that whatever else
the machine does falls on all of them. A ratio is the median over the rounds of a way's time over the first
one's in the same round. The losses of the first updates must be the same in all ways, to 1e-5. ``--whole``
times whole commands in place of updates. All other flags are those of train.py. Prints markdown.
"""

# ruff: noqa: E402 - the imports must wait for sys.path

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

# Python puts this file's folder first, and there this file would hide modules of its name.
sys.path[0] = str(Path(__file__).parents[1])

import torch
import transformers
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.nn import functional as F

from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.config import RunConfig, load_config
from pretrain.data.batches import BatchSource, Step
from pretrain.data.prepare import PreparedData, prepare_data
from pretrain.model.build import build, special_token_ids
from pretrain.model.linear_cross_entropy import linear_cross_entropy
from pretrain.model.objective import PackedLoss
from pretrain.run.provenance import device_name
from pretrain.train import build_accelerator
from pretrain.training.loop import Loop

Update = Callable[[int], "list[list[float]] | None"]
"""Does so many updates of every seed and returns the losses of each, where they come for nothing."""


def build_loop(config: RunConfig, data: PreparedData, path: Path) -> Loop:
    """The loop of one seed at its beginning."""
    accelerator = build_accelerator(config, path)
    use_compiled_kernels(config.train.torch_compile)
    set_seed(config.seed)
    network = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    source = BatchSource(config, None, int(data.tokenizer.pad_token_id))  # type: ignore[arg-type]
    return Loop(config, accelerator, PackedLoss(network, config.family), source, data, path)


def next_step(loop: Loop) -> Step:
    """What the next update of a loop reads."""
    step = loop.source.step(loop.data.train, loop.state.step)
    loop.state.step += 1
    return step


def update_loop(loop: Loop, count: int) -> list[float]:
    """Do the next updates of one seed."""
    losses = []
    for _ in range(count):
        losses.append(loop._update(next_step(loop))[0])
    return torch.stack(losses).tolist()


def in_turn(loops: list[Loop]) -> Update:
    """One seed after the other."""
    return lambda count: [update_loop(loop, count) for loop in loops]


def in_threads(loops: list[Loop]) -> Update:
    """A Python thread for each seed, with one of torch's threads each."""

    def update(count: int) -> None:
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        threads = [threading.Thread(target=update_loop, args=(loop, count)) for loop in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.set_num_threads(num_threads)

    return update


def in_processes(configs: list[RunConfig], path: Path) -> Update:
    """A process with one thread for each seed, as many at a time as this process has threads."""
    context = multiprocessing.get_context("spawn")
    ends: list[Connection] = []
    for config in configs:
        here, there = context.Pipe()
        context.Process(target=_serve, args=(there, config, path / str(config.seed)), daemon=True).start()
        there.close()
        ends.append(here)

    def update(count: int) -> list[list[float]]:
        losses = []
        for start in range(0, len(ends), torch.get_num_threads()):
            together = ends[start : start + torch.get_num_threads()]
            for end in together:
                end.send(count)
            losses += [end.recv() for end in together]
        return losses

    return update


def _serve(end: Connection, config: RunConfig, path: Path) -> None:
    """Update one seed as often as the other end says, until it is closed."""
    os.environ["OMP_NUM_THREADS"] = "1"
    loop = build_loop(config, prepare_data(config), path)
    while True:
        try:
            end.send(update_loop(loop, end.recv()))
        except EOFError:
            return


class Stacked:
    """Updates of all seeds at once, on parameters with a first dimension for the seeds.

    Shapes: S seeds, B rows, T tokens, D hidden_size, N targets.

    Args:
        loops: A loop for each seed, which lends its first weights, its schedule and its batches.
    """

    def __init__(self, loops: list[Loop]):
        self.loops, self.config = loops, loops[0].model.config
        models = [dict(loop.model.named_parameters()) for loop in loops]
        self.parameters: dict[str, Tensor] = {
            name: nn.Parameter(torch.stack([parameters[name].detach() for parameters in models]))
            for name in models[0]
        }
        # The loop has two groups of parameters, which weight decay alone tells apart.
        optim = loops[0].config.optim
        assert optim.weight_decay == 0
        assert self.config.embed_dropout == self.config.resid_dropout == self.config.attention_dropout == 0
        betas = (optim.adam_beta1, optim.adam_beta2)
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), optim.learning_rate, betas, optim.adam_epsilon, 0.0, fused=True
        )

    def update(self, count: int) -> list[list[float]]:
        """Do the next updates of all seeds."""
        losses = []
        for _ in range(count):
            steps = [next_step(loop) for loop in self.loops]
            targets = torch.tensor([step.num_targets for step in steps])
            total = torch.zeros(len(steps))
            for number in range(len(steps[0].batches)):
                loss = self.losses([step.batches[number] for step in steps]) / targets
                loss.sum().backward()
                total += loss.detach()
            self._clip(self.loops[0].config.optim.max_grad_norm)
            for group in self.optimizer.param_groups:
                group["lr"] = self.loops[0].scheduler.get_last_lr()[0]
            self.optimizer.step()
            self.loops[0].optimizer.step()  # of no gradients: keeps the schedule from complaining
            self.loops[0].scheduler.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(total)
        return torch.stack(losses, dim=1).tolist()

    def _clip(self, max_norm: float | None) -> None:
        """Clip the gradient of every seed by its own norm."""
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        factors = ((max_norm or torch.inf) / (norms + 1e-6)).clamp(max=1)
        for gradient in gradients:
            gradient *= factors.view(-1, *[1] * (gradient.ndim - 1))

    def losses(self, batches: list[dict[str, Tensor]]) -> Tensor:
        """(S,) summed losses of a forward pass with one batch for each seed."""
        ids, positions = (
            torch.stack([batch[name] for batch in batches]) for name in ("input_ids", "position_ids")
        )
        hidden = self._hidden(ids, positions).unbind()
        weights = self.parameters["transformer.wte.weight"].unbind()
        return torch.stack(
            [
                linear_cross_entropy(rows[batch["target_index"]], weight, None, batch["target_ids"])
                for rows, weight, batch in zip(hidden, weights, batches, strict=True)
            ]
        )

    def _hidden(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(S, B T, D) inputs of the output embeddings for (S, B, T) tokens."""
        seeds, _, length = ids.shape
        width, heads = self.config.hidden_size, self.config.num_heads
        x = self._embed("wte", ids) + self._embed("wpe", positions)
        document = (positions == 0).cumsum(2).flatten(0, 1)
        place = torch.arange(length)
        distance = place[:, None] - place
        seen = ((document[:, :, None] == document[:, None, :]) & (distance >= 0))[:, None]
        masks = {"global": seen, "local": seen & (distance < self.config.window_size)}
        for number, kind in enumerate(self.config.attention_layers):
            layer = f"h.{number}"
            normed = self._norm(f"{layer}.ln_1", x)
            query, key, value = (
                self._linear(f"{layer}.attn.attention.{name}_proj", normed)
                .view(-1, length, heads, width // heads)
                .transpose(1, 2)
                for name in "qkv"
            )
            attended = F.scaled_dot_product_attention(query, key, value, masks[kind], scale=1.0)
            attended = attended.transpose(1, 2).reshape(seeds, -1, width)
            x = x + self._linear(f"{layer}.attn.attention.out_proj", attended)
            inner = self._linear(f"{layer}.mlp.c_fc", self._norm(f"{layer}.ln_2", x))
            x = x + self._linear(f"{layer}.mlp.c_proj", F.gelu(inner, approximate="tanh"))
        return self._norm("ln_f", x)

    def _embed(self, name: str, numbers: Tensor) -> Tensor:
        table = self.parameters[f"transformer.{name}.weight"]
        start = torch.arange(len(table))[:, None] * table.shape[1]
        return F.embedding(numbers.flatten(1) + start, table.flatten(0, 1))

    def _linear(self, name: str, x: Tensor) -> Tensor:
        weight = self.parameters[f"transformer.{name}.weight"].transpose(1, 2)
        bias = self.parameters.get(f"transformer.{name}.bias")
        return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias[:, None], x, weight)

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = (self.parameters[f"transformer.{name}.{part}"][:, None] for part in ("weight", "bias"))
        return torch.addcmul(bias, F.layer_norm(x, x.shape[-1:], eps=self.config.layer_norm_epsilon), weight)


class Features(nn.Module):
    """Makes ``PackedLoss.features`` a module's forward, which torch.func.functional_call asks for."""

    def __init__(self, loss: nn.Module):
        super().__init__()
        self.loss = loss

    def forward(self, *args: Tensor) -> Tensor:
        return self.loss.features(*args)  # type: ignore[operator]


class Vmapped(Stacked):
    """The same updates, with PyTorch itself adding the dimension to the project's model.

    Its loss is PyTorch's, on all logits: the project's is an autograd.Function, which vmap cannot batch.
    """

    def losses(self, batches: list[dict[str, Tensor]]) -> Tensor:
        length = max(len(batch["target_ids"]) for batch in batches)

        def stack(name: str, fill: int = 0) -> Tensor:
            return torch.stack([_pad(batch[name], length, fill) for batch in batches])

        ids, positions = (
            torch.stack([batch[name] for batch in batches]) for name in ("input_ids", "position_ids")
        )
        features = Features(self.loops[0].loss)

        def loss(parameters: dict[str, Tensor], *args: Tensor) -> Tensor:
            named = {f"loss.model.{name}": value for name, value in parameters.items()}
            hidden = torch.func.functional_call(features, named, args[:3])
            logits = hidden @ parameters["transformer.wte.weight"].t()
            return F.cross_entropy(logits, args[3], ignore_index=-1, reduction="sum")

        targets = (stack("target_index"), stack("target_ids", -1))
        return torch.func.vmap(loss)(self.parameters, ids, positions, *targets)


def _pad(row: Tensor, length: int, fill: int) -> Tensor:
    return F.pad(row, (0, length - len(row)), value=fill)


def measure_updates(
    configs: list[RunConfig], rounds: int, updates: int, ways: list[str]
) -> dict[str, list[float]]:
    """Seconds of each round of every way."""
    data = prepare_data(configs[0])
    with tempfile.TemporaryDirectory() as folder:

        def loops() -> list[Loop]:
            return [build_loop(config, data, Path(folder) / str(config.seed)) for config in configs]

        build: dict[str, Callable[[], Update]] = {
            "in turn": lambda: in_turn(loops()),
            "stacked": lambda: Stacked(loops()).update,
            "vmap": lambda: Vmapped(loops()).update,
            "threads": lambda: in_threads(loops()),
            "processes": lambda: in_processes(configs, Path(folder)),
        }
        doing = {way: build[way]() for way in ways}
        first = {way: update(2) for way, update in doing.items()}  # compiles, too
        for losses in first.values():
            if losses is not None and (expected := first[ways[0]]) is not None:
                torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-5, atol=0)
        return interleave({way: lambda do=do: do(updates) for way, do in doing.items()}, rounds)


def measure_commands(
    command: list[str], seeds: list[int], runs_dir: Path, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each round for whole runs into new folders; the corpus is prepared before."""
    seed_flags = [["--seed", str(seed)] for seed in seeds]
    joined = ",".join(map(str, seeds))

    def together(at_a_time: int, commands: list[list[str]], **environment: str) -> None:
        shutil.rmtree(runs_dir / "default", ignore_errors=True)
        for start in range(0, len(commands), at_a_time):
            running = [
                subprocess.Popen(
                    [*command, *flags, "--runs-dir", str(runs_dir)],
                    stdout=subprocess.DEVNULL,
                    env=os.environ | environment,
                )
                for flags in commands[start : start + at_a_time]
            ]
            for process in running:
                assert process.wait() == 0

    threads = torch.get_num_threads()
    ways: dict[str, Callable[[], object]] = {
        "a command for each seed, in turn": lambda: together(1, seed_flags),
        f"--seeds {joined}": lambda: together(1, [["--seeds", joined]]),
        f"a command for each seed, {threads} at a time with one thread": lambda: together(
            threads, seed_flags, OMP_NUM_THREADS="1"
        ),
    }
    return interleave(ways, rounds)


def interleave(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every way in each round."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(1, rounds + 1):
        print(f"\rround {number}/{rounds}", end="", file=sys.stderr, flush=True)
        for way, do in ways.items():
            start = time.perf_counter()
            do()
            seconds[way].append(time.perf_counter() - start)
    print(file=sys.stderr)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--seeds", type=int, default=4, help="how many")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=5, help="of every seed in a round")
    ways = ["in turn", "stacked", "vmap", "threads", "processes"]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument("--whole", action="store_true", help="time whole commands in place of updates")
    args, flags = parser.parse_known_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    seeds = list(range(1, args.seeds + 1))
    configs = [load_config(args.config, [*flags, "--seed", str(seed)]) for seed in seeds]
    if not args.whole and (configs[0].family, configs[0].model.ffn) != ("gpt_neo", "gelu"):
        parser.error("the model written by hand is a GPT-Neo with gelu; give such a config, or --whole")
    if args.whole:
        with tempfile.TemporaryDirectory() as folder:
            prepare_data(load_config(args.config, [*flags, "--runs-dir", folder]))
            command = [sys.executable, "pretrain/train.py", str(args.config), *flags]
            seconds = measure_commands(command, seeds, Path(folder), args.rounds)
        unit, each = "s", 1.0
    else:
        seconds = measure_updates(configs, args.rounds, args.updates, args.ways)
        unit, each = "ms an update and seed", 1000 / (args.updates * args.seeds)
    print(f"\n`python {shlex.join(sys.argv)}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {device_name(torch.device('cpu'))}, {platform.machine()}, "
        f"torch {torch.__version__}, transformers {transformers.__version__}, {args.seeds} seeds, "
        f"median of {args.rounds} rounds\n"
    )
    first = seconds[next(iter(seconds))]
    print(f"| way | {unit} | x the first |\n| --- | --: | --: |")
    for way, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(times, first, strict=True))
        print(f"| {way} | {statistics.median(times) * each:,.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
