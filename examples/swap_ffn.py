"""Put another FFN into a trained model, and fit each new FFN to the one that it replaces.

python examples/swap_ffn.py runs/default/gpt_neo/gelu/seed1-1a2b3c4d fourier-kan stories.txt swapped

Each line of the text is a document. The old model reads them, what each of its FFNs reads and writes is kept,
and Adam fits the new FFN of that layer to it: the error is the mean square relative to the variance of what
the old one writes, so 0 is exact and 1 is what a constant reaches.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import ffn_ablations as ffa
from ffn_variants.models.layers import ffn_modules
from ffn_variants.swap import layers_of


@torch.no_grad()
def capture(model: nn.Module, tokenizer, texts: list[str]) -> list[tuple[Tensor, Tensor]]:
    """For each layer, (N, D) of what its FFN reads and of what it writes, at all N tokens of the texts."""
    pairs: list[tuple[list[Tensor], list[Tensor]]] = []
    hooks = []
    for layer in layers_of(model).values():
        inputs, outputs = [], []
        parts = ffn_modules(layer)
        hooks.append(parts[0].register_forward_pre_hook(lambda _, args, to=inputs: to.append(args[0][0])))
        hooks.append(parts[-1].register_forward_hook(lambda _, args, out, to=outputs: to.append(out[0])))
        pairs.append((inputs, outputs))
    for text in texts:
        batch = tokenizer(text, return_tensors="pt", truncation=True).to(model.device)
        model(**batch, labels=batch["input_ids"])  # a T5's decoder reads them
    for hook in hooks:
        hook.remove()
    return [(torch.cat(inputs), torch.cat(outputs)) for inputs, outputs in pairs]


def fit(ffn: nn.Module, inputs: Tensor, outputs: Tensor, steps: int, learning_rate: float = 3e-3) -> float:
    """Fit an FFN to (N, D) inputs and outputs; returns the relative error that is left on them."""
    variance = (outputs - outputs.mean(0)).square().mean()
    optimizer = torch.optim.Adam(ffn.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    for _ in range(steps):
        rows = torch.randint(len(inputs), (512,), device=inputs.device)
        error = (ffn(inputs[rows]) - outputs[rows]).square().mean() / variance
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return float((ffn(inputs) - outputs).square().mean() / variance)


def main(run: str, variant: str, texts: str, out: str, steps: int = 1000) -> list[float]:
    """Swap, fit, and save; returns the error of each layer."""
    model, tokenizer = ffa.Run(run).load()
    torch.manual_seed(1)
    student = ffa.swap_ffn(model, variant, ffn_budget="params")
    pairs = capture(model, tokenizer, Path(texts).read_text(encoding="utf-8").splitlines())
    errors = [
        fit(nn.Sequential(*ffn_modules(layer)), *pair, steps)
        for layer, pair in zip(layers_of(student).values(), pairs, strict=True)
    ]
    for number, error in enumerate(errors):
        print(f"layer {number}: relative error {error:.3f}")
    student.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return errors


if __name__ == "__main__":
    main(*sys.argv[1:])
