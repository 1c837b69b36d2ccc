"""The studies that ship and those in a folder: ``ffn-ablations list studies``."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from base.command_line import Positional, parse_flags
from base.config_input import FOLDERS, shipped
from base.errors import UsageError, look_up
from base.files import write_text
from base.sections import Section

LONGEST_ABOUT = 90
TITLES = {
    "study": "Studies, for ffn-ablations study run",
    "config": "Models, for ffn-ablations train and for the families of a study",
    "preset": "Cluster profiles, for ffn-ablations study run ... --cluster slurm --preset",
}


class StudiesArgs(Section):
    """List the studies in a folder of runs, and those that ship; print a shipped one, or copy it to edit.

    ffn-ablations list studies

    ffn-ablations list studies quickstart --copy

    Each shipped one works by its name from any folder; a file of that name in the working folder goes before
    it.
    """

    short_names: ClassVar = {("copy_here",): "copy"}

    name: Positional[str | None] = None
    """Print this shipped study, model or site."""
    copy_here: bool = False
    """Copy it into the working folder instead."""
    runs_dir: Path = Path("runs")
    """Folder of all runs, whose studies are listed."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_flags(StudiesArgs, args, prog="ffn-ablations list studies")
    if options.name is None:
        if options.copy_here:
            raise UsageError("--copy needs the name of what to copy: quickstart --copy")
        if options.runs_dir != Path("runs") and not options.runs_dir.is_dir():
            raise UsageError(f"no folder {options.runs_dir}; --runs-dir names the folder of all runs")
        print(_listing())
        if options.runs_dir.is_dir():
            from slurm.cell_state import studies_table

            print(f"\nIn {options.runs_dir}:\n{studies_table(options.runs_dir)}")
        return
    files = {name: path for kind in FOLDERS for name, path in shipped(kind).items()}
    name = options.name.removesuffix(".yaml")
    text = look_up("shipped configuration", name, files).read_text(encoding="utf-8")
    if not options.copy_here:
        print(text, end="")
        return
    target = Path(f"{name}.yaml")
    if target.exists():
        raise UsageError(f"{target} exists here already; rename or remove it, or work in another folder")
    write_text(target, text)
    print(target)


def _listing() -> str:
    width = max(len(name) for kind in FOLDERS for name in shipped(kind))
    lines = []
    for kind in FOLDERS:
        lines += ["", TITLES[kind]]
        lines += [f"  {name:<{width}}  {_about(path)}" for name, path in shipped(kind).items()]
    return "\n".join(lines[1:])


def _about(path: Path) -> str:
    """The first sentence of the comment that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.strip("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), lines)]
    sentence = re.split(r"(?<=[.?]) (?=[A-Z])|: ", re.sub(r" \(.*?\)", "", " ".join(comment)))[0]
    return textwrap.shorten(sentence.rstrip("."), LONGEST_ABOUT, placeholder=" ...")
