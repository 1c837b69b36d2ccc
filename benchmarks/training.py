"""Training throughput of FFN variants against the first one, in one interleaved run of whole update steps.

python benchmarks/training.py configs/gpt-neo.yaml --variants gelu kan:grid_size=3 --data.source embedded

Every case is a run of the configuration: its model, its packed batches, loss, clipping and optimizer. Each
round does one update of every case; a ratio is the median over the rounds of a case's seconds over the first
one's in the same round, all on the same tokens. All other flags are those of train.py. Prints markdown.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers
from accelerate.utils import set_seed

from ffn_variants.compilation import compile_seconds, use_compiled_kernels
from pretrain import model
from pretrain.batches import BatchSource
from pretrain.config import RunConfig, load_config
from pretrain.data import prepare_data
from pretrain.loop import Loop
from pretrain.objective import PackedLoss
from pretrain.provenance import device_name
from pretrain.train import build_accelerator


def parse_variant(text: str) -> tuple[str, dict[str, float | str]]:
    """Split ``name:option=value,option=value``."""
    name, _, rest = text.partition(":")
    options: dict[str, float | str] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        try:
            options[key] = float(value)
        except ValueError:
            options[key] = value
    return name, options


def build_loop(config: RunConfig, path: Path) -> Loop:
    """Make a run ready for its first update."""
    accelerator = build_accelerator(config, path)
    data = prepare_data(config)
    set_seed(config.seed)
    network = model.build(config, len(data.tokenizer), model.special_token_ids(data.tokenizer))
    masker = model.build_masker(config, data.tokenizer)
    source = BatchSource(config, masker, int(data.tokenizer.pad_token_id))  # type: ignore[arg-type]
    return Loop(config, accelerator, PackedLoss(network, config.family), source, data, path)


def update_seconds(loop: Loop) -> tuple[float, int]:
    """Do the next update; returns its seconds and its tokens."""
    use_compiled_kernels(loop.config.train.torch_compile)
    step = loop.source.step(loop.data.train, loop.state.step)
    start = time.perf_counter()
    loop._update(step)
    loop.state.step += 1
    return time.perf_counter() - start, step.num_tokens


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--variants", nargs="+", default=["gelu", "kan:grid_size=3"])
    parser.add_argument("--rounds", type=int, default=7)
    args, flags = parser.parse_known_args()
    loops: dict[str, Loop] = {}
    with tempfile.TemporaryDirectory() as folder:
        for text in args.variants:
            name, options = parse_variant(text)
            overrides = {"model": {"ffn": name, "ffn_options": options or None}}
            config = load_config(args.config, flags, overrides)
            loops[text] = build_loop(config, Path(folder))
        seconds: dict[str, list[float]] = {text: [] for text in loops}
        tokens: dict[str, list[int]] = {text: [] for text in loops}
        for number in range(args.rounds + 1):
            print(f"\rround {number}/{args.rounds}", end="", file=sys.stderr, flush=True)
            for text, loop in loops.items():
                spent, counted = update_seconds(loop)
                if number:  # the first one compiles
                    seconds[text].append(spent)
                    tokens[text].append(counted)
        print(file=sys.stderr)
    first = args.variants[0]
    device = next(iter(loops.values())).accelerator.device
    print(f"`python {shlex.join(sys.argv)}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {device_name(device)}, {platform.machine()}, torch "
        f"{torch.__version__}, transformers {transformers.__version__}, median of {args.rounds} updates of "
        f"{statistics.mean(tokens[first]):,.0f} tokens, {compile_seconds():.0f} s of compiling before\n"
    )
    print("| variant | width | parameters | tokens/s | x slower |\n| --- | --: | --: | --: | --: |")
    for text, loop in loops.items():
        rate = statistics.median(n / s for n, s in zip(tokens[text], seconds[text], strict=True))
        slower = statistics.median(a / b for a, b in zip(seconds[text], seconds[first], strict=True))
        parameters = sum(parameter.numel() for parameter in loop.model.parameters())
        width = loop.config.model.intermediate_size
        print(f"| {text} | {width} | {parameters:,} | {rate:,.0f} | {slower:.2f} |")


if __name__ == "__main__":
    main()
