"""The one command, ``ffn-ablations``: every command with the function that it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from base.errors import LONGEST_SHOWN, UsageError, closest, did_you_mean, run_cli, shown
from ffn_ablations import __version__


class Command(NamedTuple):
    """What is run, as module:name, and what it does, in one line."""

    function: str
    about: str


_COMMANDS = {
    "try": ("ffn_ablations.try_command:main", "whether a layer of your own beats gelu, in 30 minutes"),
    "study run": ("slurm.commands:study_run", "train, score and compare what a study's file names"),
    "study status": ("slurm.commands:study_status", "each run: waiting, running, done or failed; --watch"),
    "study cancel": ("slurm.commands:study_cancel", "stop a study; study run goes on with it later"),
    "study archive": ("slurm.archive:main", "what a report reads as one file; --restore"),
    "train": ("pretrain.train:main", "pretrain a model"),
    "generate": ("pretrain.generate:main", "let a trained causal model write"),
    "eval": ("eval.command:main", "score trained models: loss, BLiMP, GLUE, your own tasks"),
    "report": ("report.command:main", "compare the variants of a study or a table; --plan"),
    "replicate": ("ffn_ablations.replicate:main", "a source's claims, and what came out here"),
    "inspect": ("inside.ffn.command:main", "what learned activations and KAN edges became"),
    "explain": ("inside.classifier.explain:main", "what speaks for the labels of a classifier"),
    "check": ("ffn_variants.check:main", "whether an FFN of your own does what it must"),
    "doctor": ("ffn_ablations.doctor:main", "what of this GPU or CPU works, and what it costs"),
    "push": ("eval.push:main", "put trained models on the Hugging Face hub"),
    "list variants": ("ffn_variants.list_variants:main", "the FFN variants, with parameters and FLOPs"),
    "list heads": ("eval.classification.list_heads:list_heads", "the classification heads"),
    "list tasks": ("eval.classification.list_heads:list_tasks", "the classification tasks"),
    "list studies": ("ffn_ablations.list_studies:main", "shipped studies to copy, and your own"),
}
COMMANDS = {typed: Command(*each) for typed, each in _COMMANDS.items()}
"""By what is typed behind ``ffn-ablations``."""
OTHER_WORDS = {"logs": "study status", "stop": "study cancel", "submit": "study run", "resume": "study run"}
OTHER_WORDS |= {"presets": "list studies", "configs": "list studies", "score": "eval", "compare": "report"}
OTHER_WORDS |= {".yaml": "study run", ".csv": "report", ".xlsx": "report", ".py": "try", "train.py": "train"}
OTHER_WORDS |= {"fit": "train", "test": "eval", "agent": "study run", "delete": "rm -r runs/STUDY"}
OTHER_WORDS |= {"sweep": "study run, with axes: or tune: in its file"}
"""Commands by what other tools call them, and by the ending of what they take."""

HELP = ("--help", "-h", "help")
LIST = "list "
OVERVIEW = """usage: ffn-ablations COMMAND ...
Type first:
  ffn-ablations try mine.py:MyFFN      does a layer of your own beat gelu?
  ffn-ablations study run quickstart   a complete small study, in minutes
  ffn-ablations report scores.csv      compare variants in a table of your own

Commands:
{commands}
ffn-ablations COMMAND --help lists its flags; --version says which this is."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command that the first words name; the rest is its own.

    Raises:
        UsageError: For words that name no command, with the closest match.
    """
    words = list(sys.argv[1:] if args is None else args)
    if words == ["--version"]:
        print(f"ffn-ablations {__version__}")
        return 0
    if not words or words[0] in HELP or (words[1:2] and words[1] in HELP and _inside(words[0])):
        print(overview())
        return 0
    command, arguments = find_command(words)
    return load_main(command)(arguments) or 0


def find_command(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Return the command that words begin with, and the other words.

    Raises:
        UsageError: If there is none, with the closest match.
    """
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in COMMANDS:
            return COMMANDS[name], list(words[size:])
    first = words[0]
    inside = _inside(first)
    if inside and (len(words) == 1 or words[1].startswith("-")):
        raise UsageError(f"{first} is one of: {', '.join(inside)}; --help behind each says more")
    typed = " ".join(words[: 2 if inside else 1])[:LONGEST_SHOWN]
    last = typed.rpartition(" ")[2]
    alone = (name for name in COMMANDS if name == last or name.endswith(f" {typed}"))
    other = OTHER_WORDS.get(last) or OTHER_WORDS.get(Path(last).suffix)
    names = {name.removeprefix(f"{first} "): name for name in inside or COMMANDS}
    unlike = f"study run {last}" if first == "study" else None
    meant = other or next(alone, None) or names.get(str(closest(last, names)), unlike)
    hint = did_you_mean(meant, "ffn-ablations --help lists all")
    raise UsageError(f"unknown command {shown(typed)}, {hint}")


def _inside(first: str) -> list[str]:
    """The commands of two words that begin with this one."""
    return [name for name in COMMANDS if name.startswith(f"{first} ")]


def load_main(command: Command) -> Callable[[Sequence[str]], int | None]:
    """Import the module of a command, and nothing of the others."""
    module, _, function = command.function.partition(":")
    return getattr(importlib.import_module(module), function)


def overview() -> str:
    """Return what there is, on one screen."""
    kinds = [name.removeprefix(LIST) for name in COMMANDS if name.startswith(LIST)]
    helps = {name: each.about for name, each in COMMANDS.items() if not name.startswith(LIST)}
    helps[f"{LIST}{'|'.join(kinds)}"] = "what there is of each"
    width = max(map(len, COMMANDS))
    return OVERVIEW.format(commands="\n".join(f"  {name:<{width}}  {helps[name]}" for name in helps))


def run() -> None:
    """Run the command line of this process."""
    run_cli(main)
