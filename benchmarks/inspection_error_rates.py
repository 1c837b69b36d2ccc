"""How often a look inside finds something in models that learned nothing.

    python -m benchmarks.inspection_error_rates

Every run is an untrained model that stands for a trained one, and its control another untrained model, of
another seed: whatever a page finds in them is wrong. A pool of such runs is measured for each variant, and
pages are made of runs drawn from it without repetition. Prints markdown: the share of pages that find
anything, in percent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from base.command_line import parse_flags
from base.errors import run_cli
from base.progress import ProgressBar
from base.sections import Section
from benchmarks.tables import print_table
from eval.inspection.findings import DIFFERS, Question, judge, of_activations, of_edges
from eval.inspection.kan_edges import look_at_edges
from eval.inspection.learned_activations import look_at_resets
from eval.inspection.measure import summarise
from eval.inspection.probe import HeldOutText, Probe
from eval.results.inspection import RunInspection
from ffn_variants import build_model

VARIANTS = ("swish", "gr-kan", "kan", "fourier-kan", "cheby-kan", "rbf-kan")
RUNS = (2, 3, 5, 8)
VOCABULARY, ROWS, LENGTH = 200, 16, 64


class InspectionErrorRatesArgs(Section):
    """What is simulated."""

    pool: int = 120
    """Runs of each variant that are measured."""
    pages: int = 4000
    """Of each number of runs."""
    generator_seed: int = 0
    """Of the random numbers."""


def random_text(generator: torch.Generator) -> HeldOutText:
    """Rows of random tokens, each one document."""
    ids = torch.randint(3, VOCABULARY, (ROWS, LENGTH), generator=generator)
    places = torch.arange(ROWS * LENGTH).view(ROWS, LENGTH)[:, :-1].flatten()
    batch = {
        "input_ids": ids,
        "position_ids": torch.arange(LENGTH).expand(ROWS, -1).contiguous(),
        "target_index": places,
        "target_ids": ids[:, 1:].flatten(),
    }
    return HeldOutText((batch,), ids.numel(), len(places), 0)


def untrained_run(variant: str, seed: int, text: HeldOutText) -> RunInspection:
    """Measure an untrained model as if it were trained, against one of another seed."""

    def probe(number: int) -> Probe:
        torch.manual_seed(number)
        model = build_model(
            "gpt_neo", variant, vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24,
            num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=LENGTH,
        )  # fmt: skip
        return Probe(model, "gpt_neo", text)

    trained, start = probe(2 * seed), probe(2 * seed + 1)
    edges = look_at_edges(trained, start, text.num_tokens, seed)
    resets = look_at_resets(trained, start.model, text.num_tokens, seed)
    return RunInspection(
        key="", run_id=str(seed), family="gpt_neo", variant=variant, seed=seed, ffn_parameters=0,
        num_edges=sum(x.num_edges for x in edges), num_tokens=text.num_tokens, loss=0.0, seconds=0.0,
        peak_mb=0.0, edges=edges, activations=[], moments=[], pruning=[], resets=resets, gradient_norms={},
        summaries=summarise(edges, [], resets, [], [], {}), pruned_model="", notes=[],
    )  # fmt: skip


def questions_of(runs: Sequence[RunInspection]) -> list[Question]:
    """What a page asks of the runs of one variant."""
    place = (runs[0].family, runs[0].variant)
    grouped = {place: runs}
    return [*of_activations(grouped, place), *of_edges(grouped, place)]


def _rows(args: InspectionErrorRatesArgs) -> Iterator[dict[str, object]]:
    text, bar = random_text(torch.Generator().manual_seed(0)), ProgressBar(len(VARIANTS) * args.pool, "run")
    pools: dict[str, list[RunInspection]] = {}
    for variant in VARIANTS:
        pools[variant] = []
        for seed in range(args.pool):
            pools[variant].append(untrained_run(variant, seed, text))
            bar.advance()
    bar.close()
    for runs in RUNS:
        rng = np.random.default_rng(args.generator_seed)
        found, asked = 0, 0
        for _ in range(args.pages):
            questions = [
                question
                for pool in pools.values()
                for question in questions_of([pool[k] for k in rng.choice(len(pool), runs, replace=False)])
            ]
            asked = len(questions)
            found += any(finding.verdict == DIFFERS for finding in judge(questions))
        yield {"runs of each variant": runs, "questions": asked, "pages that find": 100 * found / args.pages}


def main() -> None:
    """Print the table as markdown."""
    args = parse_flags(
        InspectionErrorRatesArgs, prog="python -m benchmarks.inspection_error_rates", description=__doc__
    )
    print_table("Looks inside untrained models", _rows(args))


if __name__ == "__main__":
    run_cli(main)
