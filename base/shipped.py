"""The configurations that ship with this project: a name without a path finds them from any folder."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Literal

from base.errors import LONGEST_SHOWN, UsageError
from base.files import CODE_ROOT

Kind = Literal["study", "config", "preset"]
FOLDERS: dict[Kind, str] = {"study": "studies", "config": ".", "preset": "clusters"}


def shipped(kind: Kind) -> dict[str, Path]:
    """Return the shipped files of a kind by their names; none in a copy of the code that jobs run."""
    installed = CODE_ROOT / "ffn_ablations" / "configs"
    folder = installed if installed.is_dir() else CODE_ROOT / "configs"
    return {path.stem: path for path in sorted((folder / FOLDERS[kind]).glob("*.yaml"))}


def find_config(name: Path, kind: Kind, folder: Path = Path()) -> Path:
    """Return the file that a user means: a path, or the name of an own or a shipped one.

    Args:
        name: As it was written; of a name ``.yaml`` may be left out.
        kind: What it is.
        folder: Where relative paths start.

    Raises:
        UsageError: If there is no such file; names the shipped ones.
    """
    own = folder / name
    if _is_there(own):
        return own
    is_name = len(name.parts) == 1
    if is_name and _is_there(with_suffix := folder / f"{name}.yaml"):
        return with_suffix
    files = shipped(kind)
    word = name.name.removesuffix(".yaml")
    if is_name and word in files:
        return files[word]
    close = difflib.get_close_matches(word[:LONGEST_SHOWN], files, n=1)
    hint = f"did you mean {close[0]}? The" if close else "the"
    place = str(own)
    cut = place if len(place) <= 2 * LONGEST_SHOWN else f"...{place[-LONGEST_SHOWN:]}"  # its end has the name
    wrong = "is a folder" if os.path.isdir(own) else "does not exist"
    raise UsageError(f"{kind} {cut} {wrong}; {hint} shipped ones are: {', '.join(files)}")


def _is_there(path: Path) -> bool:
    """Whether there is something to read; a pipe is, a folder is not."""
    return os.path.exists(path) and not os.path.isdir(path)
