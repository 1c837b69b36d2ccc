"""The one command, ``ffn-ablations``: finds the command that the first words name, and runs its function."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Sequence

from base.errors import LONGEST_SHOWN, UsageError, run_cli, shown
from ffn_ablations import __version__
from ffn_ablations.commands import COMMANDS, FORMER, Command

HELP = ("--help", "-h", "help")
LIST = "list "
OVERVIEW = """usage: ffn-ablations COMMAND ...

Type first:
  ffn-ablations study run quickstart   a complete small study, in minutes
  ffn-ablations train tiny --ffn kan   one model, on a generated corpus
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
    command, rest = find_command(words)
    return load_main(command)(rest) or 0


def find_command(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Return the command that words begin with, and the other words.

    Raises:
        UsageError: If there is none, with the closest match; for a former name with what it is now.
    """
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in COMMANDS:
            return COMMANDS[name], list(words[size:])
        if name in FORMER:
            raise UsageError(f"{name} is no command any more: {FORMER[name]}")
    first = words[0]
    inside = _inside(first)
    if inside and (len(words) == 1 or words[1].startswith("-")):
        raise UsageError(f"{first} is one of: {', '.join(inside)}; --help behind each says more")
    typed = " ".join(words[: 2 if inside else 1])[:LONGEST_SHOWN]
    same = [name for name in COMMANDS if name.endswith(f" {typed}")]  # run, for study run
    close = same or difflib.get_close_matches(typed, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else "ffn-ablations --help lists all"
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
    told = {name: command.help for name, command in COMMANDS.items() if not name.startswith(LIST)}
    told[f"{LIST}{'|'.join(kinds)}"] = "what there is of each"
    width = max(map(len, COMMANDS))
    return OVERVIEW.format(commands="\n".join(f"  {name:<{width}}  {told[name]}" for name in told))


def run() -> None:
    """Run the command line of this process."""
    run_cli(main)
