"""Parcels to the hub: a repository, its branches, and one commit each.

A commit is there whole or not at all. Files that the hub has are not sent again, and a commit without a
change is none, so the same command goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.utils import disable_progress_bars, httpx, logging

from base.errors import UsageError
from base.hub import cannot_write
from eval.push.parcel import Parcel


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
