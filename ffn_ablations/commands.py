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
            "study pilot", "slurm.pilot", "before a study: which tokens, rate and batch see most per hour"
        ),
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
        Command("swap", "ffn_variants.swap", "put another FFN into a pretrained model"),
        Command("push", "eval.push", "put trained models on the Hugging Face hub, with scores and code"),
        Command("lm-eval", "eval.lmeval", "lm-eval's own command line, with these models"),
    ),
    "Results": (
        Command("report", "eval.report", "compare the variants of a study, or of any table of scores"),
        Command("inspect", "eval.inspect", "look inside: what learned activations and KAN edges became"),
        Command("compare-items", "eval.compare_items", "compare two models, one training each, item by item"),
        Command(
            "babylm-predictions",
            "eval.babylm_predictions",
            "write the file of predictions that the BabyLM 2025 leaderboard takes",
        ),
    ),
    "What there is": (
        Command("variants", "ffn_variants", "the FFN variants, with parameters and FLOPs"),
        Command("heads", "eval.heads", "the classification heads"),
        Command("tasks", "eval.tasks", "the classification tasks"),
    ),
    "A look into a fine-tuned classifier": (
        Command("explain", "eval.explain", "which segments of a text speak for its label"),
        Command("explainable-segments", "eval.explainable_segments", "judge explanations by labels of turns"),
        Command("sufficiency", "eval.sufficiency", "whether segments that explain a label suffice for it"),
        Command("concept-space", "eval.concept_space", "plot the spaces of the head space"),
    ),
}
COMMANDS = {command.words: command for group in GROUPS.values() for command in group}
