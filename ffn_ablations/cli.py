"""The one command, ``ffn-ablations``: finds the command that the first words name, and runs its ``main``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence

from base.command_line import speak_as
from base.errors import LONGEST_SHOWN, UsageError, run_cli, shown
from ffn_ablations import __version__
from ffn_ablations.commands import COMMANDS, GROUPS, Command

HELP = ("--help", "-h", "help")
FIRST = (
    ("ffn-ablations study run quickstart", "a complete small study: minutes, no network, no data"),
    ("ffn-ablations train tiny --ffn kan", "one model, on a generated corpus"),
    ("ffn-ablations report scores.csv", "compare variants in a table of your own"),
)


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
    speak_as({each.elsewhere: f"ffn-ablations {each.words}" for each in COMMANDS.values()})
    return load_main(command)(rest) or 0


def find_command(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Return the command that words begin with, and the other words.

    Raises:
        UsageError: If there is none, with the closest match.
    """
    for size in (2, 1):
        if command := COMMANDS.get(" ".join(words[:size])):
            return command, list(words[size:])
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
    """Import the module of a command, and nothing of the others; of a package its ``__main__``."""
    spec = importlib.util.find_spec(command.module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return importlib.import_module(f"{command.module}.__main__" if is_package else command.module).main


def overview() -> str:
    """Return what there is, on one screen."""
    width = max(map(len, COMMANDS))
    lines = ["usage: ffn-ablations COMMAND ...", "", "Type first:"]
    lines += [f"  {typed:<36}  {what}" for typed, what in FIRST]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {each.words:<{width}}  {each.help}" for each in commands)]
    lines += ["", "ffn-ablations COMMAND --help lists its flags; ffn-ablations --version says which this is."]
    return "\n".join(lines)


def run() -> None:
    """Run the command line of this process."""
    run_cli(main)
