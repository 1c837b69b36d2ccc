"""A run as a folder that transformers alone loads, and its way to the hub: a repository, and one commit.

A commit is there whole or not at all. Files that the hub has are not sent again, and a commit without a
change is none, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.utils import disable_progress_bars, httpx, logging

from base.errors import UsageError
from base.hub import cannot_write
from base.records import peek_record
from base.run.folders import RunFolder
from base.run.manifest import read_completion, refuse_archived
from eval.push.card import make_card
from ffn_variants.bundle import bundle_code
from pretrain.run.run_dir import read_run

_DATA = (".safetensors", ".json", ".txt", ".model")
"""What a model and its tokenizer consist of; nothing else that lies in their folder is sent, as pickles."""


def pack(path: Path, folder: Path, repo: str, licence: str | None) -> None:
    """Write a run's model, its code and its card into a folder.

    Args:
        path: The run's folder.
        folder: Where to; made if absent.
        repo: The repository that the card names, ``owner/name``.
        licence: As the hub writes it; None leaves it open.

    Raises:
        UsageError: If there is nothing to push, or something of it is damaged.
    """
    run = RunFolder(path)
    if not run.is_run:
        raise UsageError(f"{path} is no run; name a folder such as runs/default/gpt_neo/kan/seed1-0123abcd")
    refuse_archived(run)
    if read_completion(run) is None or not run.has_model:
        raise UsageError(f"{path} is not finished; train it to its end first: the same command goes on")
    card = make_card(run, read_run(path), repo, licence)
    saved = peek_record(run.model_dir / "config.json")
    code = bundle_code(saved, run.model_dir)
    own = {Path(str(place).rpartition(":")[0]).name for place in (saved.get("ffn_files") or {}).values()}
    folder.mkdir(parents=True, exist_ok=True)
    for file in run.model_dir.iterdir():
        if file.is_file() and (file.suffix in _DATA or file.name in own) and not file.name.startswith("."):
            shutil.copyfile(file, folder / file.name)
    config = json.dumps({**saved, "auto_map": dict(code.auto_map)}, indent=2) + "\n"
    for name, text in {**code.files, "config.json": config, "README.md": card}.items():
        (folder / name).write_text(text, encoding="utf-8")


def upload(folder: Path, repo: str, is_public: bool) -> str:
    """Upload a folder; returns the address of the commit.

    Args:
        folder: What ``pack`` wrote.
        repo: Where to, ``owner/name``.
        is_public: Whether everybody may see a repository that is made anew; one that exists stays as it is.

    Raises:
        UsageError: If the hub does not take it, or gives no answer.
    """
    api = HfApi()
    logging.set_verbosity_error()  # that nothing has changed since the last push is no warning
    disable_progress_bars()
    try:
        api.create_repo(repo, private=not is_public, exist_ok=True)
        commit = api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Push of ffn-ablations")
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
        raise cannot_write(f"cannot push to {repo}", error) from None
    return str(commit.commit_url)
