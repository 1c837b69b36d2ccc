"""Parcels of runs, and their way to the hub: a repository, its branches, and one commit each.

A commit is there whole or not at all. Files that the hub has are not sent again, and a commit without a
change is none, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.utils import disable_progress_bars, httpx, logging

from base.errors import UsageError
from base.hub import cannot_write
from base.model_folders import clean_name
from base.records import peek_record
from eval.push.card import write_card
from eval.push.scores import eval_results, read_scores
from ffn_variants.bundle.bundle import bundle_code
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import read_completion, refuse_archived
from pretrain.run.run_dir import read_run

_DATA = (".safetensors", ".json", ".txt", ".model")
"""What a model and its tokenizer consist of; nothing else that lies in their folder is sent, as pickles."""


@dataclass(frozen=True)
class Parcel:
    """One commit.

    Attributes:
        repo: The repository, ``owner/name``.
        branch: Of it.
        files: By their path there: a file to send as it is, or its content.
    """

    repo: str
    branch: str
    files: Mapping[str, Path | bytes]

    def write(self, folder: Path) -> None:
        """Write the files into a folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, path)
            else:
                path.write_bytes(content)


@dataclass(frozen=True)
class Asked:
    """What holds for every run of a push: the licence, and the benchmarks that suites are scores of."""

    licence: str | None
    benchmarks: Mapping[str, str]


def pack(path: Path, repo: str, asked: Asked) -> tuple[list[Parcel], list[str]]:
    """Make the parcels of a run, or of all finished runs of a study.

    A run is one repository. A study is a repository for each family and variant, named behind ``repo``,
    with a branch for each seed; its ``main`` is the first seed.

    Returns:
        The parcels in the order of their upload, and sentences that say what is left out.

    Raises:
        UsageError: If there is nothing to push, or something of it is damaged.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no folder; name a run or a study, as runs/default")
    if RunFolder(path).is_run:
        parcel, notes = _pack_run(RunFolder(path), repo, "", (), asked)
        return [parcel], notes
    found = [run for run in StudyFolder(path).run_folders() if run.is_run]
    finished = [run for run in found if run.is_complete]
    if not finished:
        raise UsageError(
            f"{path} holds {len(found)} runs and none is finished; name a trained run or its study"
        )
    notes = [f"left out, not finished: {run.run_id}" for run in found if not run.is_complete]
    parcels = []
    for (family, variant), runs in _arms(finished).items():
        place = f"{repo}-{clean_name(family)}-{clean_name(variant)}"
        branches = _branches(runs)
        for branch, run in [("", next(iter(branches.values()))), *branches.items()]:
            parcel, told = _pack_run(run, place, branch, tuple(branches), asked)
            parcels.append(parcel)
            notes += [each for each in told if each not in notes]
    return parcels, notes


def _arms(runs: Sequence[RunFolder]) -> dict[tuple[str, str], list[tuple[int, RunFolder]]]:
    arms: dict[tuple[str, str], list[tuple[int, RunFolder]]] = {}
    for run in runs:
        config = read_run(run.path)
        arms.setdefault((config.family, run.path.parent.name), []).append((config.seed, run))
    return arms


def _branches(runs: Sequence[tuple[int, RunFolder]]) -> dict[str, RunFolder]:
    """A branch for each run: ``seed1``, or the name of its folder where several have that seed."""
    seeds = [seed for seed, _ in runs]
    ordered = sorted(runs, key=lambda each: (each[0], each[1].path.name))
    return {
        f"seed{seed}" if seeds.count(seed) == 1 else clean_name(run.path.name): run for seed, run in ordered
    }


def _pack_run(
    run: RunFolder, repo: str, branch: str, branches: Sequence[str], asked: Asked
) -> tuple[Parcel, list[str]]:
    refuse_archived(run)
    if read_completion(run) is None or not run.has_model:
        raise UsageError(f"{run.path} is not finished; train it to its end first: the same command goes on")
    config = read_run(run.path)
    scores, notes = read_scores(run)
    saved = peek_record(run.model_dir / "config.json")
    code = bundle_code(saved, run.model_dir)
    own = {Path(str(place).rpartition(":")[0]).name for place in (saved.get("ffn_files") or {}).values()}
    files: dict[str, Path | bytes] = {
        file.name: file
        for file in sorted(run.model_dir.iterdir())
        if file.is_file() and (file.suffix in _DATA or file.name in own) and not file.name.startswith(".")
    }
    files |= {name: text.encode() for name, text in code.files.items()}
    files["config.json"] = (json.dumps({**saved, "auto_map": dict(code.auto_map)}, indent=2) + "\n").encode()
    card = write_card(run, config, scores, repo, branch, branches, asked.licence)
    files["README.md"] = card.encode()
    files |= eval_results(scores, asked.benchmarks)
    return Parcel(repo, branch or "main", files), notes


def upload(parcel: Parcel, is_public: bool) -> str:
    """Upload a parcel; returns the address of its commit.

    Args:
        parcel: What to upload.
        is_public: Whether everybody may see a repository that is made anew; one that exists stays as it is.

    Raises:
        UsageError: If the hub does not take it, or gives no answer.
    """
    api = HfApi()
    logging.set_verbosity_error()  # that nothing has changed since the last push is no warning
    disable_progress_bars()
    additions = [
        CommitOperationAdd(
            path_in_repo=name, path_or_fileobj=str(content) if isinstance(content, Path) else content
        )
        for name, content in parcel.files.items()
    ]

    def send() -> str:
        api.create_repo(parcel.repo, private=not is_public, exist_ok=True)
        if parcel.branch != "main":
            api.create_branch(parcel.repo, branch=parcel.branch, exist_ok=True)
        done = api.create_commit(
            parcel.repo, additions, commit_message="Push of ffn-ablations", revision=parcel.branch
        )
        return str(done.commit_url)

    return _told(f"cannot push to {parcel.repo}", send)


def _told(told: str, send: Callable[[], str]) -> str:
    try:
        return send()
    except UsageError:
        raise
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
        raise cannot_write(told, error) from None
