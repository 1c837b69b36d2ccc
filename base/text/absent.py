"""Data that have to be fetched: what is said of a file or folder that is not there."""

from __future__ import annotations

from pathlib import Path

from base.errors import AbsentError, UsageError

_NOT_SHIPPED = {
    "../shared/data/tinystories": "text of TinyStories (roneneldan/TinyStories on the hub)",
    "../shared/data/glue": "a folder with the GLUE tasks of BabyLM 2023 (glue_filtered in filter-data)",
    "filter-data": "the folder filter-data of github.com/babylm/evaluation-pipeline-2023",
    "babylm": "the text of BabyLM 2023 (babylm.github.io)",
}
"""Where shipped studies look for data, and what it is."""


def absent(path: Path, message: str) -> UsageError:
    """Build the error for a file or folder that is not there; an ``AbsentError`` where shipped studies look.

    Args:
        path: As it was named.
        message: What is said where no shipped study names it.
    """
    place = next((place for place in _NOT_SHIPPED if path.is_relative_to(place)), None)
    if place is None:
        return UsageError(message)
    folder = Path(place).parent
    link = f"mkdir -p {folder}; " * (folder != Path()) + f"ln -s FOLDER {place}"
    return AbsentError(
        f"{path}: not here, as {_NOT_SHIPPED[place]} does not ship; put it there, or link your copy, {link} "
        "(docs/studies.md, Data that do not ship)"
    )
