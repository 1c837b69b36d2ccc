"""Data sets of the Hugging Face hub, at the revision that was asked for and at no other.

Imported where one is needed, as the library takes a second to load.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import datasets
from datasets.exceptions import DatasetGenerationError
from datasets.naming import camelcase_to_snakecase
from datasets.packaged_modules.cache.cache import Cache
from huggingface_hub import constants, snapshot_download
from pyarrow import ArrowInvalid

from base.errors import UsageError
from base.hub import cannot_load, is_out_of_reach, note_silence, out_of_reach
from base.records import parse_json

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DEFAULT_BRANCH = "main"
_NOT_PREPARED = "Couldn't find cache for"
"""How the library begins to say that its cache has other configurations only."""


def load_split(
    path: str,
    split: str,
    instead: str,
    name: str | None = None,
    revision: str | None = None,
    data_dir: str | None = None,
) -> Any:
    """Load a split of a data set of the hub, or what the cache has of it.

    A commit that is in the cache is read from there. Of anything else the hub is asked what it has now; where
    it gives no answer, the cache stands in for it if it has the same revision.

    Args:
        path: Its repository.
        split: Which part.
        instead: What to do without the hub, for the error message.
        name: Its configuration.
        revision: A commit, tag or branch.
        data_dir: Only the files in this folder of the repository.

    Returns:
        A ``datasets.Dataset``.

    Raises:
        UsageError: If it cannot be loaded.
    """
    sentence = f"cannot load {path}" + f" ({name})" * bool(name) + f" at {revision}" * bool(revision)
    try:
        builder = _prepare(path, name, revision, data_dir)
        if builder is None:
            raise out_of_reach(sentence, instead)
        return builder.as_dataset(split=split)
    except UsageError:
        raise
    except (DatasetGenerationError, ArrowInvalid) as error:
        advice = f"if a file of it is damaged, remove {_cache_of(path)} and give the same command again, or "
        raise cannot_load(sentence, error, advice + instead) from error
    except Exception as error:  # the library and the client below it raise many kinds
        raise cannot_load(sentence, error, instead) from error


def _prepare(
    path: str, name: str | None, revision: str | None, data_dir: str | None
) -> datasets.DatasetBuilder | None:
    """The builder of a data set that is ready; None where the hub is out of reach and the cache lacks it."""
    if Path(path).is_dir():  # of this machine
        builder = datasets.load_dataset_builder(path, name, data_dir=data_dir)
    elif data_dir is not None:
        # Of the library's cache it cannot be told which folder of a repository it was made of.
        files = snapshot_download(
            path, repo_type="dataset", revision=revision, allow_patterns=f"{data_dir}/*"
        )
        builder = datasets.load_dataset_builder(f"{files}/{data_dir}", name)
    else:
        is_commit = _COMMIT.fullmatch(revision or "") is not None
        cached = _cached(path, name, revision) if is_commit or is_out_of_reach() else None
        if cached or is_out_of_reach():
            return cached
        try:
            builder = _ask(path, name, revision)
        except ConnectionError:
            note_silence(f"{constants.ENDPOINT} gives no answer")
            return _cached(path, name, revision)
    builder.download_and_prepare()
    return builder


def _ask(path: str, name: str | None, revision: str | None) -> datasets.DatasetBuilder:
    """The builder of what the hub has.

    Raises:
        ConnectionError: If it gives no answer. The library then takes what it prepared last, whatever the
            revision, or says that it has prepared others.
    """
    try:
        builder = datasets.load_dataset_builder(path, name, revision=revision)
    except ValueError as error:
        if str(error).startswith(_NOT_PREPARED):
            raise ConnectionError(str(error)) from error
        raise
    if isinstance(builder, Cache):
        raise ConnectionError("the library's cache stands in for the hub")
    return builder


def _cached(path: str, name: str | None, revision: str | None) -> datasets.DatasetBuilder | None:
    """The builder of what is prepared already: at the commit of the revision, or without one the newest."""
    commit = _commit(path, revision or _DEFAULT_BRANCH)
    everywhere = _prepared(path, name)
    newest = everywhere[-1:] if revision is None else []
    fitting = [folder for folder in everywhere if folder.name == commit] or newest
    if not fitting:
        return None
    config, version, commit = fitting[-1].parts[-3:]
    kind = {"repo_id": path, "dataset_name": path.split("/")[-1]}
    return Cache(**kind, config_name=config, version=version, hash=commit)


def _prepared(path: str, name: str | None) -> list[Path]:
    """The library's folders for a data set, ``<configuration>/<version>/<commit>``, the newest last."""
    owner, _, dataset = path.rpartition("/")
    top = Path(datasets.config.HF_DATASETS_CACHE, "___".join((owner, camelcase_to_snakecase(dataset))))
    whole = [
        file.parent
        for file in top.rglob("dataset_info.json")
        # What is not ready has more behind the commit; a part of a repository, behind the configuration.
        if _COMMIT.fullmatch(file.parent.name)
        and parse_json(file.read_bytes())["config_name"] == file.parts[-4] == (name or file.parts[-4])
    ]
    return sorted(whole, key=lambda folder: folder.stat().st_mtime)


def _commit(path: str, revision: str) -> str | None:
    """The commit of a revision, as the hub last told it; None where it never did."""
    if _COMMIT.fullmatch(revision):
        return revision
    ref = _cache_of(path) / "refs" / revision
    return ref.read_text(encoding="utf-8").strip() if ref.is_file() else None


def _cache_of(path: str) -> Path:
    """Where the client keeps the files of a data set."""
    return Path(constants.HF_HUB_CACHE, f"datasets--{path.replace('/', '--')}")
