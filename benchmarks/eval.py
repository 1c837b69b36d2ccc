"""Scoring minimal pairs: this project's scorers against the ways of other tools, in pairs per CPU-second.

python -m benchmarks.eval causal masked
python -m benchmarks.eval masked --rounds 3 --pairs 20 --model runs/roberta/gelu/seed1/model --device cuda

Random models of the source study's size, or those given, in fp32. In each round all cases of a kind of model
score the same pairs, one after the other: the first ones of one paradigm, another in each round. Paradigms
differ in how much their sentences share, so a rate is that of all rounds together and a ratio that of these
rates, with the lowest and the highest ratio of a round. On a CPU time is that of the process, with one
thread; on a GPU it is the clock's, once the device is done.

All cases follow one protocol, ``<s>S`` or ``<s>S</s>`` and a sum in nats; the largest difference of a score
from the first case's is printed beside. Cases through lm-eval are left out where it is not installed.
Prints markdown.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from base.text.tokens import read_tokenizer
from eval.data_files import read_rows
from eval.memory import Budget
from eval.scoring.log_likelihood import causal_log_likelihoods, pseudo_log_likelihoods
from eval.scoring.text_batches import Batch, ScoredText, batches_of_one_length, target_scores
from ffn_variants import build_model
from pretrain.run.provenance import device_name

SHARED = Path(__file__).parents[2] / "shared" / "data"
COLUMNS = ("sentence_good", "sentence_bad")
FAMILIES = {"causal": "gpt_neo", "masked": "roberta"}
# Of a paradigm's 1,000 pairs: whole ones share most, as in a real run; the masked cases share nothing among
# pairs, and the slowest takes 150 ms a pair.
PAIRS = {"causal": 1000, "masked": 100}

Case = Callable[[pd.DataFrame], np.ndarray]
"""Takes pairs with the columns ``COLUMNS``, returns (N, 2) scores in nats."""


class Bench:
    """A model, its tokenizer, and the ways to score pairs with it.

    Args:
        kind: ``causal`` or ``masked``.
        model: In evaluation mode.
        tokenizer: Its tokenizer.
        batch_tokens: Tokens per forward pass of this project's scorers.
    """

    def __init__(
        self, kind: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_tokens: int
    ) -> None:
        self.kind, self.model, self.tokenizer, self.batch_tokens = kind, model, tokenizer, batch_tokens
        self.bos, self.eos, self.mask = (
            int(getattr(tokenizer, f"{name}_token_id")) for name in ("bos", "eos", "mask")
        )

    def cases(self) -> dict[str, Case]:
        """Name the cases; the first is what the others are compared with."""
        ours: dict[str, Case] = {"ours, from texts": self.ours_from_texts, "ours": self.ours}
        if self.kind == "causal":
            cases: dict[str, Case] = {
                "lm-eval, batch 1 (its default)": lambda pairs: self.lm_eval(pairs, 1),
                "lm-eval, batch 32": lambda pairs: self.lm_eval(pairs, 32),
                "batches of one length": self.plain,
                **ours,
            }
        else:
            cases = {
                "a sentence at a time (BabyLM 2023)": self.sentence_at_a_time,
                "64 copies, padded (BabyLM 2025)": self.padded_copies,
                **ours,
            }
        return (
            cases if has_lm_eval() else {name: case for name, case in cases.items() if "lm-eval" not in name}
        )

    def texts(self, pairs: pd.DataFrame) -> list[ScoredText]:
        """Tokenise pairs: good and bad sentences in turn."""
        sentences = pairs[list(COLUMNS)].to_numpy().ravel().tolist()
        ids = self.tokenizer(sentences, add_special_tokens=False)["input_ids"]
        end = [self.eos] if self.kind == "masked" else []
        return [ScoredText([self.bos, *tokens, *end], 1, 1 + len(tokens)) for tokens in ids]

    def ours(self, pairs: pd.DataFrame) -> np.ndarray:
        """Score with this project's functions."""
        texts = self.texts(pairs)
        if self.kind == "causal":
            scores = causal_log_likelihoods(self.model, texts, self.batch_tokens)
        else:
            scores = pseudo_log_likelihoods(self.model, texts, self.mask, self.batch_tokens)
        return scores.log_likelihood.reshape(-1, 2)

    def ours_from_texts(self, pairs: pd.DataFrame) -> np.ndarray:
        """Score as the command eval does for the first run of a study; later ones find the tokens made."""
        from eval.scoring.scored_tokens import TextTokenizer
        from eval.scoring.scorers import SCORERS

        TextTokenizer.encode.cache_clear()
        scorer = SCORERS[self.kind](self.model, self.tokenizer, batch_tokens=self.batch_tokens)
        sentences = pairs[list(COLUMNS)].to_numpy().flatten()
        scored = scorer.score_continuations([("", f" {sentence}") for sentence in sentences])
        return scored.log_likelihood.reshape(-1, 2)

    def lm_eval(self, pairs: pd.DataFrame, batch_size: int) -> np.ndarray:
        """Score by lm-eval's own model and a task of templates, as in its YAML files."""
        from datasets import Dataset
        from lm_eval.api.task import ConfigurableTask
        from lm_eval.evaluator import evaluate
        from lm_eval.models.huggingface import HFLM

        documents = Dataset.from_pandas(pairs[list(COLUMNS)], preserve_index=False)
        config = {
            "task": "pairs",
            "custom_dataset": lambda **_: {"test": documents},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "",
            "doc_to_choice": "{{[sentence_good, sentence_bad]}}",
            "doc_to_target": 0,
            "target_delimiter": "",
        }
        lm: Any = HFLM(
            pretrained=self.model,
            tokenizer=self.tokenizer,  # type: ignore[arg-type]
            batch_size=batch_size,
            prefix_token_id=self.bos,
            device=self.model.device.type,
        )
        results: Any = evaluate(lm, {"pairs": ConfigurableTask(config=config)}, bootstrap_iters=0)
        samples = sorted(results["samples"]["pairs"], key=lambda sample: sample["doc_id"])
        return np.array([[score for score, _ in sample["filtered_resps"]] for sample in samples])

    def plain(self, pairs: pd.DataFrame) -> np.ndarray:
        """Score whole sentences in batches of one length, nothing shared."""
        texts, budget = self.texts(pairs), Budget.of(self.model, self.batch_tokens)
        scores = np.zeros(len(texts))
        with torch.inference_mode():
            for batch in batches_of_one_length(texts, budget, self.model.device):
                log_probs, _ = target_scores(nn.Identity(), *self._predicted(batch), budget)
                scores[batch.indices] = log_probs.view(len(batch.indices), -1).double().sum(1).numpy()
        return scores.reshape(-1, 2)

    def _predicted(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of scored tokens, and these tokens, of a batch of whole sentences."""
        logits = self.model(input_ids=batch.ids[:, : batch.end - 1], use_cache=False).logits
        return logits[:, batch.start - 1 :].flatten(0, 1), batch.ids[:, batch.start : batch.end].flatten()

    @torch.inference_mode()
    def sentence_at_a_time(self, pairs: pd.DataFrame) -> np.ndarray:
        """Score each sentence by a forward pass of its masked copies."""
        scores = []
        for text in self.texts(pairs):
            copies, places, targets = self.copies(text)
            logits = self.model(input_ids=copies.to(self.model.device)).logits
            picked = logits[torch.arange(len(places)), places].log_softmax(-1)
            scores.append(picked[torch.arange(len(places)), targets].double().sum().item())
        return np.array(scores).reshape(-1, 2)

    @torch.inference_mode()
    def padded_copies(self, pairs: pd.DataFrame, batch_size: int = 64) -> np.ndarray:
        """Score 64 pairs at a time, first their good sentences, with 64 copies a pass."""
        texts = self.texts(pairs)
        scores = np.zeros((len(pairs), len(COLUMNS)))
        for first in range(0, len(pairs), batch_size):
            for side in range(len(COLUMNS)):
                chosen = texts[2 * first + side : 2 * (first + batch_size) : 2]
                scores[first : first + batch_size, side] = self.padded(chosen, batch_size)
        return scores

    def padded(self, texts: Sequence[ScoredText], batch_size: int) -> np.ndarray:
        """Score the copies of texts, all padded to one length, so many of them at a time: (N,)."""
        made = [self.copies(text) for text in texts]
        rows = [row for copies, _, _ in made for row in copies]
        ids = torch.nn.utils.rnn.pad_sequence(rows, True, int(self.tokenizer.pad_token_id))
        mask = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
        places, targets = (torch.cat(parts) for parts in list(zip(*made, strict=True))[1:])
        found = []
        for part in torch.arange(len(rows)).split(batch_size):
            inputs = {"input_ids": ids[part], "attention_mask": mask[part].long()}
            logits = self.model(
                **{name: value.to(self.model.device) for name, value in inputs.items()}
            ).logits
            picked = logits[torch.arange(len(part)), places[part]].log_softmax(-1)
            found.append(picked[torch.arange(len(part)), targets[part]])
        owners = np.repeat(np.arange(len(texts)), [len(copies) for copies, _, _ in made])
        return np.bincount(owners, weights=torch.cat(found).double().cpu().numpy())

    def copies(self, text: ScoredText) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Copy a text once for each scored token, which is masked: (M, T) ids, (M,) places, (M,) targets."""
        ids = torch.tensor(text.input_ids)
        places = torch.arange(text.start, text.end)
        copies = ids.repeat(len(places), 1)
        copies[torch.arange(len(places)), places] = self.mask
        return copies, places, ids[places]


def has_lm_eval() -> bool:
    """Whether the cases through lm-eval can run."""
    try:
        importlib.metadata.version("lm-eval")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def load(kind: str, args: argparse.Namespace) -> Bench:
    """Load the model of a kind, or make a random one of the source study's size."""
    auto = AutoModelForCausalLM if kind == "causal" else AutoModelForMaskedLM
    tokenizer = read_tokenizer(args.model or args.tokenizer)
    torch.manual_seed(0)
    if args.model is None:
        model = build_model(FAMILIES[kind], args.ffn)
    else:
        model = auto.from_pretrained(args.model, dtype=torch.float32)
    return Bench(kind, model.eval().to(args.device), tokenizer, args.batch_tokens)


def choose_pairs(folder: Path, rounds: int, count: int) -> list[pd.DataFrame]:
    """Read the first pairs of as many paradigms as there are rounds, evenly spaced in the alphabet."""
    files = sorted(folder.glob("*.jsonl.gz"))
    chosen = [files[index * len(files) // rounds] for index in range(rounds)]
    return [pd.DataFrame(read_rows(path, COLUMNS)[:count]) for path in chosen]


def seconds(device: str) -> float:
    """CPU time of this process, or on a GPU the clock's time once it is done."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def measure(bench: Bench, rounds: Sequence[pd.DataFrame]) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Let all cases score the pairs of each round in turn.

    Returns:
        Seconds a pair of each case and round, and each case's largest difference from the first, in nats.
    """
    cases = bench.cases()
    times: dict[str, list[float]] = {name: [] for name in cases}
    difference = dict.fromkeys(cases, 0.0)
    for case in cases.values():  # what is done once, such as importing lm-eval
        case(rounds[0][:4])
    for number, pairs in enumerate(rounds):
        print(f"\r{bench.kind}: round {number + 1}/{len(rounds)}", end="", file=sys.stderr, flush=True)
        reference = None
        for name, case in cases.items():
            start = seconds(bench.model.device.type)
            scores = case(pairs)
            times[name].append((seconds(bench.model.device.type) - start) / len(pairs))
            reference = scores if reference is None else reference
            difference[name] = max(difference[name], float(np.abs(scores - reference).max()))
    print(file=sys.stderr)
    return times, difference


def table(kind: str, times: dict[str, list[float]], difference: dict[str, float], unit: str) -> str:
    """Rates, and how many times as fast this project's scorer is."""
    ours = next((name for name in times if name.startswith("ours, from")), list(times)[-1])
    lines = [
        f"| {kind} | pairs per {unit} | {ours}, is x as fast | in single rounds | largest difference, nats |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name, found in times.items():
        ratios = [a / b for a, b in zip(found, times[ours], strict=True)]
        lines.append(
            f"| {name} | {1 / statistics.mean(found):.1f} | {sum(found) / sum(times[ours]):.2f} | "
            f"{min(ratios):.2f} to {max(ratios):.2f} | {difference[name]:.1e} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.eval",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="+", choices=list(FAMILIES), help="of models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, help="of a round; 1000 for causal models, 100 for masked ones")
    parser.add_argument("--ffn", default="gelu")
    parser.add_argument("--model", type=Path, help="a trained model's folder instead of a random model")
    parser.add_argument("--tokenizer", type=Path, default=SHARED / "tokenizer-10k")
    parser.add_argument("--blimp", type=Path, default=SHARED / "blimp" / "full", help="folder of paradigms")
    parser.add_argument("--batch-tokens", type=int, help="2048, or 65536 on a GPU")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    args = parser.parse_args()
    args.batch_tokens = args.batch_tokens or (2048 if args.device == "cpu" else 65536)
    torch.set_num_threads(1)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    if has_lm_eval():
        versions += f", lm-eval {importlib.metadata.version('lm-eval')}"
    tables = []
    for kind in args.kinds:
        pairs = choose_pairs(args.blimp, args.rounds, args.pairs or PAIRS[kind])
        times, difference = measure(load(kind, args), pairs)
        unit = "CPU-second" if args.device == "cpu" else "second"
        tables.append(table(kind, times, difference, unit))
    print(f"`python -m benchmarks.eval {shlex.join(sys.argv[1:])}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {device_name(torch.device(args.device))}, {platform.machine()}, "
        f"one thread, {versions}, {args.rounds} rounds\n"
    )
    print("\n\n".join(tables))


if __name__ == "__main__":
    main()
