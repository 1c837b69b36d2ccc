"""Every command of ``ffn-ablations``, with the module whose ``main`` it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command.

    Args:
        words: What is typed behind ``ffn-ablations``.
        module: What is run; ``python -m`` takes it too.
        help: What it does, in one line.
        called: How its own help calls it, where that is not ``python -m`` and the module.
    """

    words: str
    module: str
    help: str
    called: str = ""

    @property
    def elsewhere(self) -> str:
        """What it is called without ``ffn-ablations``."""
        return self.called or f"python -m {self.module}"


GROUPS: dict[str, tuple[Command, ...]] = {
    "Studies: variants, families and seeds from one file": (
        Command("study run", "slurm.submit", "train, score and compare what a study's file names"),
        Command(
            "study status",
            "slurm.status",
            "every run: waiting, running, done, failed or missing; `--html` writes a page",
        ),
        Command("study cancel", "slurm.cancel", "stop a study; study run goes on with it later"),
        Command("study list", "slurm.list", "the studies in a folder, and how far each is"),
        Command(
            "study archive",
            "slurm.archive",
            "what a report reads as one file, without models; `--restore` brings it back",
        ),
        Command("configs", "ffn_ablations.shipped", "the shipped studies and configs; copy one to edit"),
    ),
    "One model": (
        Command("train", "pretrain.train", "pretrain a model", called="python pretrain/train.py"),
        Command("generate", "pretrain.generate", "let a trained GPT-Neo write"),
        Command("eval", "eval", "score trained models: held-out loss, BLiMP, GLUE, your own tasks"),
        Command("check", "ffn_variants.check", "whether an FFN variant of your own does what each must"),
        Command("push", "eval.push", "put trained models on the Hugging Face hub, with scores and code"),
        Command("lm-eval", "eval.lmeval", "lm-eval's own command line, with these models"),
    ),
    "Results": (
        Command("report", "eval.report", "compare the variants of a study, or of any table of scores"),
        Command("inspect", "eval.inspect", "look inside: what learned activations and KAN edges became"),
        Command("explain", "eval.explain", "what speaks for the labels that a run's classifier gives"),
    ),
    "What there is": (
        Command("variants", "ffn_variants", "the FFN variants, with parameters and FLOPs"),
        Command("heads", "eval.heads", "the classification heads"),
        Command("tasks", "eval.tasks", "the classification tasks"),
    ),
}
COMMANDS = {command.words: command for group in GROUPS.values() for command in group}
