"""Push a trained model to the Hugging Face hub: ``ffn-ablations push RUN --repo owner/name``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from base.command_line import Positional, parse_flags
from base.errors import UsageError, shown
from base.sections import Section


class PushArgs(Section):
    """Push the model of a run to the Hugging Face hub.

    ffn-ablations push runs/default/gpt_neo/kan/seed1-* --repo me/my-model --license mit

    What is pushed: weights, tokenizer, a card with the scores, and the code that loads the model with
    transformers alone. A repository that is made anew is private unless --public is given.
    """

    path: Positional[Path]
    """The folder of a run."""
    repo: str
    """Where to, as owner/name."""
    license: str | None = None
    """The model's licence, as the hub writes it: mit, apache-2.0, cc-by-4.0, ...; none = the card leaves it
    open."""
    public: bool = False
    """Let everybody see a repository that is made anew; else you and your organisation."""
    dry_run: Path | None = None
    """A new folder to write everything into, instead of sending it."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command."""
    push(parse_flags(PushArgs, args, prog="ffn-ablations push"))
    return 0


def push(arguments: PushArgs) -> None:
    """Write everything into a folder, and send that unless it is what was asked for.

    Raises:
        UsageError: If the run is not finished, the folder is not new, or the hub refuses.
    """
    from eval.model_card import pack, upload

    _check(arguments)
    with TemporaryDirectory() as temporary:
        folder = arguments.dry_run or Path(temporary)
        pack(arguments.path, folder, arguments.repo, arguments.license)
        if arguments.license is None:
            note = "no licence was chosen, so nobody may use the model; --license mit is one"
            print(f"note: {note}", file=sys.stderr)
        if arguments.dry_run:
            print(f"{folder}: {len(list(folder.iterdir()))} files for {arguments.repo}; nothing was sent")
        else:
            print(f"{arguments.repo}: {upload(folder, arguments.repo, arguments.public)}")


def _check(arguments: PushArgs) -> None:
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(arguments.repo)
        is_name = "/" in arguments.repo
    except HFValidationError:
        is_name = False
    if not is_name:
        raise UsageError(
            f"--repo {shown(arguments.repo)} is no name of the hub; write owner/name in letters, digits, . _ "
            "and single -, 96 at most"
        )
    folder = arguments.dry_run
    if folder is not None and (folder.is_file() or (folder.is_dir() and any(folder.iterdir()))):
        raise UsageError(f"{folder} is a file or not empty; --dry-run names a new folder")
