"""Every command of ``ffn-ablations``, with the function that it runs, and what former names are now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command.

    Args:
        words: What is typed behind ``ffn-ablations``.
        function: What is run, as module:name.
        help: What it does, in one line.
    """

    words: str
    function: str
    help: str


_ALL = (
    Command("study run", "slurm.commands:study_run", "train, score and compare what a study's file names"),
    Command(
        "study status", "slurm.commands:study_status", "each run: waiting, running, done or failed; --html"
    ),
    Command("study cancel", "slurm.commands:study_cancel", "stop a study; study run goes on with it later"),
    Command("study archive", "slurm.archive:main", "what a report reads as one file; --restore"),
    Command("train", "pretrain.train:main", "pretrain a model"),
    Command("generate", "pretrain.generate:main", "let a trained causal model write"),
    Command("eval", "eval.command:main", "score trained models: loss, BLiMP, GLUE, your own tasks"),
    Command("report", "report.command:main", "compare the variants of a study or a table; --plan"),
    Command("inspect", "inside.ffn.command:main", "what learned activations and KAN edges became"),
    Command("explain", "inside.classifier.explain:main", "what speaks for the labels of a classifier"),
    Command("check", "ffn_variants.check:main", "whether an FFN of your own does what it must"),
    Command("push", "eval.push:main", "put trained models on the Hugging Face hub"),
    Command("list variants", "ffn_variants.listing:main", "the FFN variants, with parameters and FLOPs"),
    Command("list heads", "eval.classification.listing:list_heads", "the classification heads"),
    Command("list tasks", "eval.classification.listing:list_tasks", "the classification tasks"),
    Command("list studies", "ffn_ablations.listing:main", "shipped studies to copy, and your own"),
)
COMMANDS = {command.words: command for command in _ALL}

FORMER = {
    "babylm-predictions": "BabyLM's own pipeline loads the model of a run, see docs/babylm.md",
    "compare-items": "train several seeds of both and compare them: ffn-ablations report",
    "concept-space": "ffn-ablations explain RUN TASK --plot spaces",
    "configs": "ffn-ablations list studies",
    "explainable-segments": "ffn-ablations explain RUN TASK --measure segments",
    "heads": "ffn-ablations list heads",
    "lm-eval": "ffn-ablations eval RUN --tasks TASK; for all of lm-eval's flags see docs/evaluation.md",
    "study list": "ffn-ablations list studies",
    "study pilot": "compare recipes as an axis of a study: ffn-ablations study run",
    "study restore": "ffn-ablations study archive --restore",
    "sufficiency": "ffn-ablations explain RUN TASK --measure sufficiency",
    "swap": "examples/swap_ffn.py shows it in Python",
    "tasks": "ffn-ablations list tasks",
    "variants": "ffn-ablations list variants",
}
"""What to do in place of commands that are gone."""
