"""Variants of a study that are in files of its user's: the consent to run them, and the copies that jobs run.

The command that submits reads each file once. Jobs run what it read, from the study's copy of the code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import UsageError, WorldError
from base.files import CODE_ROOT
from ffn_variants.files import absolute_place, load_variant, names_file, variant_file
from slurm.study.axes.levels import split_file

FOLDER = "own_variants"
"""In a copy of the code: ``<variant>.py`` for each."""


@dataclass(frozen=True)
class OwnVariant:
    """A variant from a file, as a job is to run it.

    Attributes:
        name: The variant's.
        attribute: Of its spec in the file.
        sha256: Of the file, as it was when its user submitted it.
    """

    name: str
    attribute: str
    sha256: str

    @property
    def copy(self) -> str:
        """Where it lies in a copy of the code."""
        return f"{FOLDER}/{self.name}.py"

    def load(self) -> None:
        """Load it in a job, from the copy of the code that the job runs.

        Raises:
            WorldError: If that copy is not what was submitted; nothing of it is run then.
        """
        path = CODE_ROOT / self.copy
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != self.sha256:
            raise WorldError(
                f"{path} is not the file of the variant {self.name!r} that was submitted, and was not run; "
                "the same command makes the copy anew"
            )
        load_variant(f"{path}:{self.attribute}")


def variant_place(name: str) -> str | None:
    """Where a variant of this process came from, as a configuration has it; None for one of no file."""
    file = variant_file(name)
    return f"{file.path}:{file.attribute}" if file else None


def own_variant(name: str) -> OwnVariant | None:
    """Describe a variant of this process for jobs; None for one that came from no file."""
    if (file := variant_file(name)) is None:
        return None
    return OwnVariant(name, file.attribute, hashlib.sha256(file.content).hexdigest())


def contents(own: Iterable[OwnVariant]) -> dict[str, bytes]:
    """What to put into a copy of the code, by place."""
    return {one.copy: file.content for one in own if (file := variant_file(one.name))}


def places_in(path: Path, named: Any) -> dict[str, str]:
    """Find the variants of a study that are in files.

    Args:
        path: The study's file; its folder is where relative paths start.
        named: What stands under ``variants``.

    Returns:
        For what stands there the absolute place.

    Raises:
        UsageError: For a text that looks like a file and names no Python file.
    """
    found = {}
    for text in named if isinstance(named, list) else []:
        place, _ = split_file(text) if isinstance(text, str) else ("", "")
        if names_file(place):
            folder = path.parent if not place.startswith("~") else Path()
            try:
                found[text] = absolute_place(str(folder / place))
            except UsageError as error:
                raise UsageError(f"{path}: variants: {error}") from None
    return found


def with_added(named: list[Any], add: Iterable[str], flag: str) -> list[Any]:
    """Put variants of a command line behind those of a study, where they are not there already.

    Args:
        named: What stands under ``variants``.
        add: The same, but that relative paths start here.
        flag: That they are from.

    Raises:
        UsageError: For a text that looks like a file and names no Python file.
    """
    found = list(named)
    for text in add:
        place, rest = split_file(text)
        if names_file(place):
            try:
                text = f"{absolute_place(place)}{rest}"
            except UsageError as error:
                raise UsageError(f"{flag}: {error}") from None
        if text not in found:
            found.append(text)
    return found


def load_named(path: Path, places: Iterable[str], trust_remote_code: bool) -> list[str]:
    """Run the files that a study names; returns their variants' names.

    Raises:
        UsageError: Without consent, naming the first file; or as ``load_variant``.
    """
    names = []
    for place in places:
        if not trust_remote_code:
            raise UsageError(
                f"{path}: its variants name {place}, which is code; read that file, then consent to run it "
                "with --trust-remote-code"
            )
        names.append(load_variant(place).name)
    return names
