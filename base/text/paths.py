"""Which files of text there are: by their endings, in a folder, and what is said of one that is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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


FORMATS = (".jsonl", ".jsonl.gz", ".parquet", ".txt", ".txt.gz")

_CONVERT = (
    "; python -c \"import pandas; pandas.{reader}('{name}').to_json('{stem}.jsonl', orient='records', "
    'lines=True)" writes one'
)
_CURES = {
    ".csv": _CONVERT.replace("{reader}", "read_csv"),
    ".json": f"{_CONVERT.replace('{reader}', 'read_json')}, and where each line is an object, rename it",
}
"""What makes a readable file of one of another format."""


def format_of(path: Path) -> str | None:
    """The format that a file's name says, in small letters; None for one that is not read."""
    name = path.name.lower()
    return next((ending for ending in sorted(FORMATS, key=len, reverse=True) if name.endswith(ending)), None)


def is_plain_text(path: Path) -> bool:
    """Whether a file is split into documents by ``txt_split``."""
    return (format_of(path) or "").startswith(".txt")


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Put the files in place of each folder: all that can be read, at any depth, in the order of their names.

    Hidden files and folders are left out, and so are files of other formats.

    Raises:
        UsageError: For a folder with no file that can be read, or with files of more than one kind.
    """
    return [file for path in paths for file in (_files_in(path) if path.is_dir() else [path])]


def other_files(folder: Path) -> Counter[str]:
    """How many files of a folder are of no known format, by their endings."""
    return Counter(path.suffix or path.name for path in _visible(folder) if format_of(path) is None)


def check_file(path: Path) -> None:
    """Refuse a path that is no readable corpus file.

    Raises:
        UsageError: If the file is missing, a folder, or of an unknown format.
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, and one file is needed, for example {path}/train.jsonl")
    if not path.is_file():
        raise absent(path, f"{path}: no such file; check the path")
    if format_of(path) is None:
        cure = _CURES.get(path.suffix.lower(), "; plain text by another name must end in .txt")
        told = cure.format(name=path.name, stem=path.stem)
        raise UsageError(f"{path}: unknown format; allowed are {', '.join(FORMATS)}{told}")


def _files_in(folder: Path) -> list[Path]:
    files = [path for path in _visible(folder) if format_of(path)]
    kinds = Counter(str(format_of(path)).removesuffix(".gz") for path in files)
    if not kinds:
        others = ", ".join(f"{number} {ending}" for ending, number in other_files(folder).most_common(5))
        raise UsageError(
            f"{folder}: has no file of a known format ({', '.join(FORMATS)}); it has {others or 'no files'}"
        )
    if len(kinds) > 1:
        told = ", ".join(f"{number} {ending}" for ending, number in kinds.most_common())
        raise UsageError(
            f"{folder}: has files of several kinds ({told}); name those that are meant, for example "
            f"{folder}/*{kinds.most_common(1)[0][0]}"
        )
    return files


def _visible(folder: Path) -> list[Path]:
    """All files below a folder in an order that is the same on every machine."""
    found = [(path.relative_to(folder).parts, path) for path in folder.rglob("*") if path.is_file()]
    return [path for parts, path in sorted(found) if not any(part.startswith(".") for part in parts)]
