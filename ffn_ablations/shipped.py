"""List the configurations that ship with this tool, print one, or copy it to edit.

    python -m ffn_ablations.shipped
    python -m ffn_ablations.shipped quickstart
    python -m ffn_ablations.shipped quickstart --copy

Each works by its name from any folder; a file of that name in the working folder goes before it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from base.command_line import parse_flags
from base.errors import UsageError, run_cli, unknown_name
from base.files import write_text
from base.shipped import FOLDERS, shipped

LONGEST_ABOUT = 90
TITLES = {
    "study": "Studies, for ffn-ablations study run",
    "config": "Models, for ffn-ablations train and for the families of a study",
    "preset": "Sites, for ffn-ablations study run ... --cluster slurm --preset",
}


@dataclass(frozen=True, kw_only=True)
class ShippedArgs:
    """List, print or copy shipped configurations."""

    name: Annotated[Positional[str | None], arg(metavar="[NAME]")] = None
    """Print this one."""
    copy: Annotated[bool, FlagCreatePairsOff] = False
    """Copy it into the working folder instead."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_flags(ShippedArgs, args, prog="python -m ffn_ablations.shipped", description=__doc__)
    if options.name is None:
        if options.copy:
            raise UsageError("--copy needs the name of what to copy: ffn-ablations configs quickstart --copy")
        print(_listing())
        return
    files = {name: path for kind in FOLDERS for name, path in shipped(kind).items()}
    name = options.name.removesuffix(".yaml")
    if name not in files:
        raise unknown_name("shipped configuration", options.name, files)
    text = files[name].read_text(encoding="utf-8")
    if not options.copy:
        print(text, end="")
        return
    target = Path(f"{name}.yaml")
    if target.exists():
        raise UsageError(f"{target} exists here already; rename or remove it, or work in another folder")
    write_text(target, text)
    print(target)


def _listing() -> str:
    width = max(len(name) for kind in FOLDERS for name in shipped(kind))
    blocks = [
        "\n".join(
            [TITLES[kind], *(f"  {name:<{width}}  {_about(path)}" for name, path in shipped(kind).items())]
        )
        for kind in FOLDERS
    ]
    return "\n\n".join(blocks)


def _about(path: Path) -> str:
    """The first sentence of the comment that a file begins with."""
    comment = " ".join(line.removeprefix("#").strip() for line in _comment(path))
    sentence = re.split(r"(?<=[.?]) (?=[A-Z])|: ", re.sub(r" \(.*?\)", "", comment))[0]
    return textwrap.shorten(sentence.rstrip("."), LONGEST_ABOUT, placeholder=" ...")


def _comment(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    ends = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return lines[:ends]


if __name__ == "__main__":
    run_cli(main)
