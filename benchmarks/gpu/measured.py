"""Steps of training on a GPU, each row printed as it is measured: as a graph, one by one, and compiled.

python -m benchmarks.gpu.measured

Then the parts of a step as torch.profiler sees them, launched one by one, beside what was predicted. A kernel
belongs to the part of the operation that launched it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState, PartialState
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from base.errors import first_line, run_cli
from benchmarks.gpu.predicted import RUN_TOKENS, read
from benchmarks.gpu.workload import CASES, Case, build_loop, build_network
from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.config import ResolvedConfig
from pretrain.data.step_batches import one_ahead
from pretrain.training.loop import Loop

QUICK = (
    *("--model.hidden-size", "32", "--model.intermediate-size", "32", "--model.num-attention-heads", "2"),
    *("--data.vocab-size", "300", "--data.block-size", "64", "--train.batch-size", "4"),
    "--train.no-torch-compile",
)
"""The least sizes, with which the command can be tried out."""
ONE_BY_ONE = ("--train.no-cuda-graph", "--train.no-compile-model")
"""As a profiler sees all kernels."""
WAYS = {
    "recorded": ("--train.no-compile-model",),
    "recorded, compiled": ("--train.compile-model",),
    "one by one": ONE_BY_ONE,
}

PARTS = {
    "copies from the host": r"memcpy.*htod|host_to_device",
    "products of the vocabulary": "",
    "products of the body": r"(^|::)(mm|addmm|addmm_|_addmm_activation|matmul|linear)(\.|$)",
    "optimizer, clipping": r"adam|adafactor|foreach|vector_norm|optimizer|clip_grad",
    "attention": r"attention|flash|flex|varlen|\bb?addbmm|::bmm",
    "softmax of the vocabulary": r"softmax|probabilities|cross_entropy|nll_loss",
    "FFN functions": r"basis|feature|slope|gelu|silu|relu|threshold|swish|elementwise",
    "other elementwise, casts": "",
}
"""By what names of operations have in them; the first that fits."""
COPIES, VOCABULARY, BODY, *_, OTHER = PARTS


def part_of(name: str, shapes: Sequence[Sequence[int]], vocab_size: int) -> str:
    """Part of a step that an operation belongs to; a dimension of the vocabulary's size marks its product."""
    part = next(
        (part for part, words in PARTS.items() if words and re.search(words, name, re.IGNORECASE)), OTHER
    )
    return VOCABULARY if part == BODY and any(vocab_size in shape for shape in shapes) else part


def loop_of(config: ResolvedConfig, folder: Path) -> Loop:
    """The loop of a configuration on random rows."""
    PartialState._reset_state()
    AcceleratorState._reset_state(True)
    use_compiled_kernels(config.train.torch_compile is not False)  # as in a long run
    return build_loop(config, build_network(config), folder)


def run_updates(loop: Loop, count: int) -> int:
    """Do updates as the loop does and wait for the device; returns their tokens."""
    losses: list[Tensor] = []
    num_tokens = 0
    for step in one_ahead(loop._step, range(loop.state.step, loop.state.step + count)):
        losses.append(loop._update(step))
        loop.state.step += 1
        num_tokens += step.num_tokens
    torch.stack(losses).tolist()
    return num_tokens


def row(case: Case, way: str, flags: Sequence[str], updates: int, folder: Path) -> str:
    """Milliseconds of a step, what a whole run would take, peak memory and the seconds until it was warm."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()  # a recorded step asks for its memory once, as it is recorded
    start = time.perf_counter()
    loop = loop_of(case.config(*flags), folder)
    run_updates(loop, 5)  # compiles, and records
    warm_s = time.perf_counter() - start
    start = time.perf_counter()
    num_tokens = run_updates(loop, updates)
    step_s = (time.perf_counter() - start) / updates
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0
    run_s = RUN_TOKENS / num_tokens * updates * step_s
    failed = f" ({loop.passes.failure})" if loop.passes and loop.passes.failure else ""
    return f"| {case.name} | {way}{failed} | {1e3 * step_s:.2f} | {run_s:.0f} | {peak:.2f} | {warm_s:.0f} |"


def parts_table(case: Case, flags: Sequence[str], updates: int, folder: Path, device: str) -> list[str]:
    """Milliseconds on the device of each part of a step, beside the predicted ones."""
    config = case.config(*flags)
    loop = loop_of(config, folder)
    run_updates(loop, 3)
    on_gpu = loop.accelerator.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, record_shapes=True, acc_events=True) as profiler:
        run_updates(loop, updates)
    seconds = dict.fromkeys(PARTS, 0.0)
    for event in profiler.events():  # type: ignore[union-attr]
        if event.device_type == DeviceType.CPU:
            for part, spent in spent_on(event, on_gpu, config.data.vocab_size):
                seconds[part] += spent / updates
    expected = read()[case.name]["devices"].get(device, {}).get("parts_s", {})
    lines = [
        f"| {case.name} | measured, ms | predicted, {device or 'of no such device'} |",
        "| --- | --: | --: |",
    ]
    for part, spent in (*seconds.items(), ("in all", sum(seconds.values()))):
        paper = sum(expected.values()) if part == "in all" else expected.get(part, 0)
        lines.append(f"| {part} | {1e3 * spent:.2f} | {f'{1e3 * paper:.2f}' if expected else ''} |")
    return lines


def spent_on(event: Any, on_gpu: bool, vocab_size: int) -> Iterator[tuple[str, float]]:
    """Part and seconds of each kernel that an operation launched, or of itself on a CPU."""
    part = part_of(event.name, event.input_shapes or (), vocab_size)
    parent = event.cpu_parent
    while part == OTHER and parent is not None:  # what says nothing of itself belongs to what it is within
        above = part_of(parent.name, parent.input_shapes or (), vocab_size)
        part = OTHER if above in (BODY, VOCABULARY) else above  # a cast within a layer is none of its product
        parent = parent.cpu_parent
    if not on_gpu:
        yield part, event.self_cpu_time_total / 1e6
        return
    for kernel in event.kernels:
        copied = part_of(kernel.name, (), vocab_size) == COPIES
        yield COPIES if copied else part, kernel.duration / 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every case and print; 1 where one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.measured",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="least sizes, to try the command out")
    args = parser.parse_args(argv)
    on_gpu = args.device == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else ""
    device = next((known for known in next(iter(read().values()))["devices"] if known in name), "")
    flags, updates, failed = QUICK if args.quick else (), 2 if args.quick else 50, 0
    print("| case | way | ms a step | s of a run of 466M tokens | peak GiB | s until warm |")
    print("| --- | --- | --: | --: | --: | --: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for way, of_way in WAYS.items():
                try:
                    print(row(case, way, (*flags, *of_way), updates, Path(folder)), flush=True)
                except Exception as error:  # one case out of memory, say, leaves the others
                    failed += 1
                    print(
                        f"| {case.name} | {way} | {type(error).__name__}: {first_line(error)} | | | |",
                        flush=True,
                    )
        for case in CASES:
            table = parts_table(case, (*flags, *ONE_BY_ONE), max(1, updates // 5), Path(folder), device)
            print("\n" + "\n".join(table), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
