"""YAML files, shipped names and seeds, read into configurations; mistakes in one line."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel

from base.errors import LONGEST_SHOWN, UsageError, closest, unexpanded
from base.files import CODE_ROOT
from base.run.folder_names import StudyFolder
from base.sections import NOT_FILLED_IN, check

Config = TypeVar("Config", bound=BaseModel)

LONGEST_PATH_SHOWN = 300
# libyaml's parser, ten times as fast, where PyYAML was built with it.
_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE_LOADER):
    """Refuses a key that is named twice, of which YAML's readers silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        places: dict[str, yaml.Mark] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"):
            if first := places.get(key.value):
                problem = f"{key.value} is named twice, first in line {first.line + 1}; name it once"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            places[key.value] = key.start_mark
        return super().construct_mapping(node, deep)


def _whole_number(loader: Any, node: yaml.ScalarNode) -> int | str:
    # YAML 1.1 reads 4:00:00 to the base of 60, and a time would be 14,400 minutes.
    return node.value if ":" in node.value else loader.construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises:
        UsageError: If the file is missing, is not text or YAML, or holds something other than a mapping.
    """
    text = ""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = copy.deepcopy(_parse(text))
    except OSError as error:
        cut = str(path)[:LONGEST_PATH_SHOWN]
        raise UsageError(f"{cut}: cannot be read ({error.strerror}); give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text; save a YAML file as UTF-8") from None
    except RecursionError:
        raise UsageError(f"{path}: is nested too deeply; give sections of keys and values") from None
    except (yaml.YAMLError, ValueError) as error:  # such as a date without such a day
        mark, reason = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        cure = "" if "twice" in reason else "; begin keys of one level in one column, close what is opened"
        if "any token" in reason:
            cure = "; indent by spaces, not tabs, and quote what begins with @"
        cure = f"; {NOT_FILLED_IN}" if "${" in text else cure
        raise UsageError(f"{path}: is not valid YAML: {place}{' '.join(reason.split())}{cure}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(
            f"{path}: holds a {type(values).__name__}, expected a mapping of sections (optim: ...)"
        )
    return values


# The cells of a study share a few files.
@lru_cache(maxsize=64)
def _parse(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def deep_merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Nested mappings merged key by key; ``top`` wins. Neither argument is changed."""
    merged = dict(base)
    for key, value in top.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged


def find(values: Any, name: str) -> Any:
    """Return what has a dotted name; None where there is nothing."""
    for key in name.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def read_config(path: Path, kind: type[Config]) -> Config:
    """Read a YAML file into a model.

    Raises:
        UsageError: If it cannot be read or a value in it does not fit; names the file and the key.
    """
    return check(kind, read_yaml(path), source=str(path))


Kind = Literal["study", "config", "preset"]
FOLDERS: dict[Kind, str] = {"study": "studies", "config": ".", "preset": "clusters"}


def shipped(kind: Kind) -> dict[str, Path]:
    """Return the shipped files of a kind by their names; none in a copy of the code that jobs run."""
    installed = CODE_ROOT / "ffn_ablations" / "configs"
    folder = installed if installed.is_dir() else CODE_ROOT / "configs"
    return {path.stem: path for path in sorted((folder / FOLDERS[kind]).glob("*.yaml"))}


def find_config(name: Path, kind: Kind, named_in: Path | None = None) -> Path:
    """Return the file that a user means: a path, or the name of an own or a shipped one.

    Args:
        name: As it was written, on Windows too; of a name ``.yaml`` may be left out.
        kind: What it is.
        named_in: The file that names it, which it never means; relative paths start beside it.

    Raises:
        UsageError: If there is no such file; names the shipped ones.
    """
    name = Path(str(name).replace("\\", "/"))
    is_name = len(name.parts) == 1
    folder = named_in.parent if named_in else Path()
    for path in (folder / name, folder / f"{name}.yaml")[: 1 + is_name]:
        # A pipe is no file, and can be read.
        if path != named_in and os.path.exists(path) and not os.path.isdir(path):
            return path
    files = shipped(kind)
    word = name.name.removesuffix(".yaml")
    if is_name and word in files:
        return files[word]
    is_folder = os.path.isdir(folder / name)
    beside = {path.stem: path for path in (folder / name).parent.glob("*.y*ml")}
    if not is_folder and (near := closest(name.stem, beside)):
        raise UsageError(f"{kind} {folder / name} does not exist; did you mean {beside[near]}?")
    own = folder / f"{word}.yaml"
    example = CODE_ROOT / "examples" / own.name
    parts = [file for file in files if word in file.split("-")]  # gpu of one-gpu
    close = example if os.path.exists(example) else parts[0] if len(parts) == 1 else closest(word, files)
    close = (own if own.exists() else word * (word in files)) if is_folder else close
    others = [other for other in FOLDERS if is_name and word in shipped(other)]
    hint = f"{word} is a {others[0]}; the" if others else f"did you mean {close}? The" if close else "the"
    place = str(folder / name)
    cut = place if len(place) <= 2 * LONGEST_SHOWN else f"...{place[-LONGEST_SHOWN:]}"  # its end has the name
    problem = "is a folder, and its YAML file is needed" if is_folder else "does not exist"
    raise UsageError(f"{kind} {cut} {problem}; {hint} shipped ones are: {', '.join(files)}")


def find_study_folder(name: Path, runs_dir: Path | None = None, *, is_begun: bool = False) -> Path:
    """Return the folder that a user means: a path, or the name of a study in the folder of runs.

    Args:
        name: As it was written, on Windows too; anything else is returned as it is.
        runs_dir: The folder of runs, in place of ``runs``.
        is_begun: Refuse what is neither a path nor the name of a study of one's own or a shipped one.

    Raises:
        UsageError: For such a name; names the studies that were begun, and where they were looked for.
    """
    runs, name = runs_dir or Path("runs"), Path(str(name).replace("\\", "/"))
    if os.path.exists(name):
        return name
    if len(name.parts) == 1 and (runs / name).is_dir():
        return runs / name
    if is_begun and name.name.removesuffix(".yaml") not in shipped("study"):
        raise UsageError(f"{name} does not exist{unexpanded(name)}; {near_study(name, runs)}")
    return name


def studies_in(folder: Path) -> list[Path]:
    """Return the folders in a folder that are of studies that were begun, by name."""
    return [path for path in sorted(folder.glob("*")) if StudyFolder(path).study_file.is_file()]


def near_study(name: Path, runs: Path = Path("runs")) -> str:
    """Say which study that was begun a name may mean, and which there are."""
    own = {path.name: path for path in studies_in(runs)}
    close = own.get(str(closest(name.name, own)))
    hint, some = f"did you mean {close}? " if close else "", ", ".join([*own][:8])
    return (
        f"{hint}Studies in {runs}: {some}" if some else f"no study is in {runs}; give the path of its folder"
    )


SEED_END = 2**32
"""Seeds of training and fine-tuning are below it, as NumPy and Accelerate take no other."""
LONGEST_RANGE = 10_000


def parse_seeds(values: Iterable[object], label: str, example: str) -> tuple[int, ...]:
    """Read seeds, each a number or words with commas and ranges; a range holds both its ends.

    Args:
        values: What was given.
        label: What messages begin with, may be empty.
        example: How they are written where these are from.

    Raises:
        UsageError: If there is none, or one is no whole number from 0 to below ``SEED_END``; names those.
            Also for a range longer than anybody means.
    """
    # A comma at an end separates from what the shell gave as another word: 1, 2,3.
    words = [part.strip() for value in values for part in str(value).strip(" ,").split(",")]
    ranges = {word: _numbers(word, f"{label} " if label else "") for word in words}
    wrong = [word for word, numbers in ranges.items() if not numbers]
    if wrong or not words:
        subject = " ".join([label, *(word or "''" for word in wrong)]).strip()
        start = f"{subject}: " if subject else ""
        raise UsageError(f"{start}give whole numbers below {SEED_END}, as in {example}")
    return tuple(seed for word in words for seed in ranges[word])


def note_on_one(text: str) -> str:
    """Say of ``--seeds 3`` that it is seed 3 and not three seeds; empty for all that means one thing."""
    if not re.fullmatch(r"\d{1,10}", text) or int(text) < 2:
        return ""
    return f"note: --seeds {text} is seed {text} alone; --seeds 1-{text} are {text} seeds"


def _numbers(word: str, label: str) -> range:
    """Read one number or one range; empty where it is neither, or a number is too large."""
    match = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", word)
    if match is None:
        return range(0)
    first, last = int(match[1]), int(match[2] or match[1])
    if last - first >= LONGEST_RANGE:
        many = last - first + 1
        raise UsageError(f"{label}{word} is a range of {many:,} seeds; give at most {LONGEST_RANGE:,}")
    return range(first, last + 1) if last < SEED_END else range(0)
