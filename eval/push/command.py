"""Push trained models to the Hugging Face hub: ``ffn-ablations push RUN --repo owner/name``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from base.command_line import Positional, parse_flags
from base.errors import UsageError, shown
from base.sections import Section
from eval.push.card import check_licence
from eval.push.scores import check_benchmarks
from eval.push.upload import Asked, Parcel, pack

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_LONGEST = 96


class PushArgs(Section):
    """Push a run, or all finished runs of a study, to the Hugging Face hub.

    A run: ffn-ablations push runs/default/gpt_neo/kan/seed1-* --repo me/my-model --license mit

    A study: ffn-ablations push runs/my-study --repo me/my-study; a repository for each family and variant,
    such as me/my-study-gpt_neo-kan, with a branch for each seed.

    What is pushed: weights, tokenizer, a card with the scores, and the code that loads the model with
    transformers alone. Repositories are private unless --public is given.
    """

    path: Positional[Path]
    """The folder of a run, or of a study."""
    repo: str
    """Where to, as owner/name; of a study the beginning of the names."""
    license: str | None = None
    """The model's licence, as the hub writes it: mit, apache-2.0, cc-by-4.0, ...; none = the card leaves it
    open."""
    public: bool = False
    """Let everybody see repositories that are made anew; else you and your organisation."""
    dry_run: Path | None = None
    """A new folder to write everything into, instead of sending it."""
    eval_results: dict[str, str] = Field({})
    """Benchmarks of the hub that suites are scores of, as `blimp OWNER/DATASET:TASK`; for .eval_results/."""


def main(args: Sequence[str] | None = None) -> int:
    """Pack everything first, then write or send it."""
    asked = parse_flags(PushArgs, args, prog="ffn-ablations push")
    _check(asked)
    parcels, notes = pack(asked.path, asked.repo, Asked(asked.license, asked.eval_results))
    for parcel in parcels:
        _check_repo(parcel.repo)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if asked.license is None:
        print(
            "note: no licence was chosen, so nobody may use the model; --license mit is one", file=sys.stderr
        )
    if asked.dry_run is not None:
        _write(parcels, asked.dry_run)
    else:
        _send(parcels, asked.public)
    return 0


def _check(asked: PushArgs) -> None:
    _check_repo(asked.repo)
    if asked.license is not None:
        check_licence(asked.license)
    check_benchmarks(asked.eval_results)
    folder = asked.dry_run
    if folder is not None and (folder.is_file() or (folder.is_dir() and any(folder.iterdir()))):
        raise UsageError(f"{folder} is a file or not empty; --dry-run names a new folder")


def _check_repo(repo: str) -> None:
    if not _REPO.fullmatch(repo) or "--" in repo or ".." in repo or len(repo) > _LONGEST or repo[-1] in "-.":
        raise UsageError(
            f"--repo {shown(repo)} is no name of the hub; write owner/name in letters, digits, . _ and "
            f"single -, {_LONGEST} at most"
        )


def _write(parcels: Sequence[Parcel], folder: Path) -> None:
    for parcel in parcels:
        place = folder / parcel.repo.rpartition("/")[2] / parcel.branch if len(parcels) > 1 else folder
        parcel.write(place)
        print(f"{place}: {len(parcel.files)} files for {parcel.repo} ({parcel.branch})")
    print("nothing was sent")


def _send(parcels: Sequence[Parcel], is_public: bool) -> None:
    from eval.push.upload import upload

    for parcel in parcels:
        print(f"{parcel.repo} ({parcel.branch}): {upload(parcel, is_public)}", flush=True)
