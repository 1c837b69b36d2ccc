"""The Hugging Face hub: models of it, and in one line what keeps something from being read.

The client (``huggingface_hub``) asks again by itself where a connection fails or breaks off. A hub that gave
no answer is left alone for a while: of a suite with 67 data sets, not each waits for it.

Imported where the hub is needed, as the client takes time to load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants, is_offline_mode, snapshot_download
from huggingface_hub.utils import httpx

from base.errors import UsageError, WorldError, describe, fault_of, near_file

SILENT_S = 120.0
"""Seconds for which a hub that gave no answer is not asked again by this process."""

_MODEL_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "ffn_*.py"]
"""The last are variants of somebody's own; they are run with consent alone."""
_TRAVELLED_CODE = ["ffn_variants_*.py"]
"""This project's own, beside a model that was pushed."""


class _Silence:
    """When the hub last gave no answer, on the monotonic clock, and how that showed."""

    since_s = float("-inf")
    reason = ""


def note_silence(reason: str) -> None:
    """Remember that the hub gave no answer."""
    _Silence.since_s, _Silence.reason = time.monotonic(), reason


def is_out_of_reach() -> bool:
    """Whether the hub is not to be asked: it gave no answer a moment ago, or ``HF_HUB_OFFLINE`` says so."""
    return is_offline_mode() or time.monotonic() - _Silence.since_s < SILENT_S


def out_of_reach(sentence: str, instead: str) -> WorldError:
    """Tell why what the cache does not have cannot be had while the hub is out of reach.

    Args:
        sentence: How the message begins, such as "cannot load owner/name".
        instead: What to do without the hub.
    """
    if is_offline_mode():
        return WorldError(
            f"{sentence} from the hub: the cache ({constants.HF_HOME}) does not have it, and HF_HUB_OFFLINE "
            f"forbids to ask the hub; unset that once, or {instead}"
        )
    return WorldError(
        f"{sentence} from the hub: {_Silence.reason}; give the same command again later (what is loaded is "
        f"kept), or {instead}"
    )


def cannot_load(sentence: str, error: Exception, instead: str) -> UsageError:
    """Tell in one line why something of the hub cannot be loaded.

    Args:
        sentence: How the message begins, such as "cannot load owner/name".
        error: What the client raised.
        instead: What to do without the hub.

    Returns:
        A ``WorldError`` where the same may work later: the network, the hub, a disk.
    """
    if (fault := fault_of(error)) is not None:
        return WorldError(describe(fault))
    if reason := how_silent(error):
        note_silence(reason)
        return out_of_reach(sentence, instead)
    return UsageError(f"{sentence} from the hub ({constants.ENDPOINT}): {_in_one_line(error)}; {instead}")


def cannot_write(sentence: str, error: Exception) -> UsageError:
    """Tell in one line why something cannot be written to the hub.

    Args:
        sentence: How the message begins, such as "cannot push to owner/name".
        error: What the client raised.

    Returns:
        A ``WorldError`` where the same may work later: the network, the hub, a disk.
    """
    if is_offline_mode():
        return WorldError(
            f"{sentence}: HF_HUB_OFFLINE forbids to ask the hub; unset it, or use --dry-run FOLDER"
        )
    if (fault := fault_of(error)) is not None:
        return WorldError(describe(fault))
    if reason := how_silent(error):
        return WorldError(
            f"{sentence}: {reason}; give the same command again later: what is uploaded is kept"
        )
    advice = "log in (hf auth login) with a token that may write there"
    return UsageError(f"{sentence} ({constants.ENDPOINT}): {_in_one_line(error)}; {advice}")


def how_silent(error: Exception) -> str | None:
    """Say how an error shows that the hub gave no answer of any use; None if it does not."""
    return next(filter(None, map(_sign_of_silence, _chain(error))), None)


def download_model(name: str) -> Path:
    """Download a model of the hub, or find its copy.

    Args:
        name: As the hub has it, with ``@revision`` where one is wanted.

    Returns:
        The folder.

    Raises:
        UsageError: If there is no such model, or it cannot be had now.
    """
    repository, _, revision = name.partition("@")
    try:
        folder = snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=_MODEL_FILES,
            ignore_patterns=_TRAVELLED_CODE,
        )
    except (OSError, ValueError, httpx.HTTPError) as error:
        instead = "name a run, a study, or a folder with a saved model"
        near = (near_file(Path(name)) or near_file(Path("runs", name))).strip()
        hint = f" ({near})" if near else ""
        raise cannot_load(f"{name} is no folder{hint}, and cannot be loaded", error, instead) from None
    return Path(folder)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, whether or not it is to be shown."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _sign_of_silence(error: BaseException) -> str | None:
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if status == 429 or status >= 500:  # too many requests, or a fault of the hub: both pass
        return f"{constants.ENDPOINT} answers with status {status}"
    # The library datasets raises Python's own ConnectionError.
    if isinstance(error, ConnectionError | httpx.TransportError):
        return f"{constants.ENDPOINT} cannot be reached ({_in_one_line(error)})"
    return None


def _in_one_line(error: BaseException) -> str:
    """What the client says, which names the repository or revision and how to get access to it."""
    return " ".join((str(error) or type(error).__name__).split())[:300].rstrip(".")
