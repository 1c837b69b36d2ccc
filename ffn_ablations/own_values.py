"""What only Python can give to a training: a class or a spec in place of a name, and texts in memory."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from base.errors import UsageError, shown
from base.files import write_text
from base.options import parse_option_text
from eval.zero_shot.pairs_and_choices import PAIR_COLUMNS
from ffn_ablations.tables import letters
from ffn_ablations.wording import shown_briefly
from ffn_variants.names import variant_file
from ffn_variants.registry import FFN_VARIANTS, register
from ffn_variants.source_fingerprint import source_fingerprint
from ffn_variants.spec import FFNSpec, as_spec, given_name

SUFFIXES = (".txt", ".jsonl", ".parquet", ".gz")
_HELD_OUT = ("val", "dev", "eval", "test")
"""What held-out texts are called beside validation."""
TEXTS = ".texts"
"""Folder of texts that were given in memory, in that of all runs."""
_GIVEN: dict[str, FFNSpec] = {}
"""What was registered here, by name."""


def named_ffns(ffn: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of each FFN by what its runs are called.

    Args:
        ffn: One, a list or a mapping of names to several, each by itself or with its options, as
            ``("kan", {"grid_size": 3})``. Of a list, those that differ in their options alone are called by
            them, too.

    Raises:
        UsageError: As ``ffn_settings``.
    """
    if isinstance(ffn, Mapping):
        return {str(name): settings_of_pair(each, str(name)) for name, each in ffn.items()}
    several = [(settings_of_pair(each), _name(each)) for each in (ffn if is_several(ffn) else [ffn])]
    names = [name for _, name in several]
    found: dict[str, dict[str, Any]] = {}
    for settings, name in several:
        options = settings.get("ffn_options", {}).items() if names.count(name) > 1 else ()
        words = " ".join([name, *(f"{key}={value}" for key, value in options)])
        if found.setdefault(words, settings) != settings:
            raise UsageError(f"two FFNs are called {words}; name them: ffn={{'a': ..., 'b': ...}}")
    return found


def _name(ffn: Any) -> str:
    """Return what somebody calls an FFN: its class is named as it is."""
    one = ffn[0] if isinstance(ffn, tuple) else ffn
    return one if isinstance(one, str) else getattr(one, "name", None) or given_name(one)


def is_several(ffn: Any) -> bool:
    """Whether it is a list or a mapping of FFNs, and no pair of one and its options."""
    return isinstance(ffn, list | Mapping) or (isinstance(ffn, tuple) and not isinstance(ffn[-1], Mapping))


def settings_of_pair(ffn: Any, name: str = "") -> dict[str, Any]:
    """Return the settings of an FFN by itself or with its options; ``ffn_settings`` says the rest."""
    one, options = ffn if isinstance(ffn, tuple) else (ffn, {})
    if isinstance(one, str) and " " in one and "=" in one and ":" not in one:  # as a study's file has it
        words = parse_option_text(one, "variant")
        one, options = words.name, {**dict(words.options), **options}
    return ffn_settings(one, name) | ({"ffn_options": dict(options)} if options else {})


def ffn_settings(ffn: Any, name: str = "", *, is_renamed: bool = False) -> dict[str, str]:
    """Return the settings of a run's FFN, which is registered if it is no name.

    Args:
        ffn: A name or ``"mine.py:SPEC"``, an ``FFNSpec``, or a class of ``nn.Module`` or what else
            ``ffn_variants.spec.spec_of_class`` takes. One of an earlier class or spec that was given here is
            replaced: a notebook's cell may be run again. Another source is another run.
        name: What a lambda is called, which has no name.
        is_renamed: Whether all else is called so, too.

    Raises:
        UsageError: If it is none of these, or has the name of another variant.
    """
    if isinstance(ffn, str):
        if ffn not in _GIVEN or FFN_VARIANTS.get(ffn) is not _GIVEN[ffn]:
            return {"ffn": ffn}
        ffn = _GIVEN[ffn]
    if isinstance(ffn, nn.Module) and repr(ffn).endswith("()"):  # as nn.Mish(), which has but its class
        is_plain = type(ffn).__module__.startswith("torch.") or vars(ffn).keys() == vars(nn.Module()).keys()
        ffn = type(ffn) if is_plain else ffn
    kind = ffn if hasattr(ffn, "__name__") else type(ffn)
    ours, is_torchs = kind.__name__.lower(), (kind.__module__ or "torch").startswith("torch")
    if is_torchs and ours in FFN_VARIANTS.keys() - _GIVEN.keys():
        raise UsageError(f'ffn is {shown_briefly(ffn)}; write ffn="{ours}", the variant of that name')
    if not isinstance(
        spec := as_spec(ffn, name if is_renamed or kind.__name__ == "<lambda>" else ""), FFNSpec
    ):
        allowed = (
            'the class of a module, what makes one, a name, an FFNSpec, ("kan", {"grid_size": 3}), or several'
        )
        raise UsageError(f"ffn is {shown_briefly(ffn)}; give {allowed}")
    file = variant_file(spec.name)
    if file and file.attribute == kind.__name__ and str(file.path) == inspect.getsourcefile(kind):
        return {"ffn": f"{file.path}:{file.attribute}"}
    if spec.name in _GIVEN and FFN_VARIANTS.get(spec.name) is _GIVEN[spec.name]:
        del FFN_VARIANTS[spec.name]
    if FFN_VARIANTS.get(str(spec.name)) is not spec:
        _GIVEN[spec.name] = register(spec)
    elif file:
        return {"ffn": f"{file.path}:{file.attribute}"}
    source = source_fingerprint(spec.name) if spec.name in _GIVEN else ""
    return {"ffn": spec.name, **({"model.ffn_source": source} if source else {})}


def make_way(place: str) -> None:
    """Forget what was given in this process under the name that a class in a file will have."""
    name = next((x for x in _GIVEN if letters(x) == letters(place.rpartition(":")[2])), "")
    if name and FFN_VARIANTS.get(name) is _GIVEN[name]:
        del FFN_VARIANTS[name]


def text_settings(texts: Any, runs_dir: Path, name: str = "") -> dict[str, Any]:
    """Return the settings of a run's texts, which are written to a file if they are no paths.

    Args:
        texts: A path of a file or folder, several, the documents themselves, or what has them in a column
            ``text``: a data frame or a ``datasets.Dataset``; what returns these; or a mapping of ``train``
            and ``validation`` to one of these. A text that names a file, or ends as one does, is a path.
        runs_dir: Where documents are written, into a file that is named by its content.
        name: Of that file, in place of its content.

    Raises:
        UsageError: If there are none, or they are no texts.
    """
    if isinstance(texts, Mapping):
        held_out = next((name for name in _HELD_OUT if name in texts), "validation")
        if {*texts} != {"train", held_out}:
            raise UsageError(f"texts has the keys {', '.join(map(str, texts))}; give train and validation")
        train, validation = (text_settings(texts[name], runs_dir) for name in ("train", held_out))
        return train | {"data.validation_files": validation["data.train_files"]}
    texts = texts() if callable(texts) else texts
    if (columns := getattr(texts, "columns", getattr(texts, "column_names", None))) is not None:
        if "text" not in columns:
            raise UsageError(f"texts has the columns {', '.join(map(str, columns))}; give one: texts[...]")
        texts = texts["text"]
    several = texts if isinstance(texts, Iterable) else ()
    given = [texts] if isinstance(texts, str | os.PathLike) else list(several)
    if not given or not all(isinstance(each, str | os.PathLike) for each in given):
        raise UsageError(f"texts is {shown_briefly(texts)}; give a path, paths, or a list of texts")
    if isinstance(texts, str) and " " in texts and not _is_path(texts):
        raise UsageError(
            f"texts is {shown(texts)}, no file; give a path, or documents in a list: texts=[...]"
        )
    are_paths = [isinstance(texts, str) or _is_path(each) for each in given]
    if not any(are_paths):
        given = [_written([{"text": text} for text in given], runs_dir, name)]
    elif not all(are_paths):
        path = shown(given[are_paths.index(True)])
        raise UsageError(f"texts has paths, such as {path}, and documents; give one or the other")
    return {"data.source": "files", "data.train_files": [os.fspath(each) for each in given]}


def pair_files(pairs: Any, runs_dir: Path, name: str = "pairs") -> list[str]:
    """Return the files of minimal pairs, which are written if they are in memory.

    Args:
        pairs: A path, several, ``(good, bad)`` of each pair, what has these in columns ``sentence_good`` and
            ``sentence_bad``, or a mapping of names of tasks to these.
        runs_dir: Where pairs are written.
        name: Of the task.

    Raises:
        UsageError: If there are none, or they are no pairs.
    """
    if isinstance(pairs, Mapping):
        return [file for task, each in pairs.items() for file in pair_files(each, runs_dir, str(task))]
    given: Any = pairs.to_dict("records") if isinstance(pairs, pd.DataFrame) else pairs
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)]
    given = list(given) if isinstance(given, Iterable) else []
    if given and all(isinstance(each, str | os.PathLike) for each in given):
        return list(map(os.fspath, given))
    others = [each for each in given if not isinstance(each, Mapping)]
    if not given or not all(isinstance(each, list | tuple) and len(each) == 2 for each in others):
        raise UsageError(f"pairs is {shown_briefly(pairs)}; give (good, bad) of each pair, or paths of files")
    rows = [
        each if isinstance(each, Mapping) else dict(zip(PAIR_COLUMNS, each, strict=True)) for each in given
    ]
    return [os.fspath(_written(rows, runs_dir, name))]


def _written(rows: Iterable[Mapping[str, Any]], runs_dir: Path, name: str) -> Path:
    """Write rows into a file that is named by their content, or lies in a folder that is."""
    content = "".join(f"{json.dumps(row)}\n" for row in rows)
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    file = runs_dir / TEXTS / digest / f"{name}.jsonl" if name else runs_dir / TEXTS / f"{digest}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, content)
    return file


def _is_path(text: str | os.PathLike[str]) -> bool:
    return isinstance(text, os.PathLike) or text.endswith(SUFFIXES) or (bool(text) and os.path.exists(text))
