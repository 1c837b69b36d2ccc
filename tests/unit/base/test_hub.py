"""What is told of the hub's answers, and when it is left alone; nothing here asks it."""

from __future__ import annotations

import errno

import pytest
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.utils import httpx

from base import hub
from base.errors import ADVICE, UsageError, WorldError


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock of the test's own, and a hub that may be asked."""
    own = Clock()
    monkeypatch.setattr(hub, "time", own)
    monkeypatch.setattr(hub, "is_offline_mode", lambda: False)
    monkeypatch.setattr(hub._Silence, "since_s", float("-inf"))
    return own


def answer(status: int, kind: type[HfHubHTTPError] = HfHubHTTPError) -> HfHubHTTPError:
    """What the client raises for an answer."""
    request = httpx.Request("GET", "https://hub.example/x")
    return kind("An answer.\nWith more lines.", response=httpx.Response(status, request=request))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (answer(429), "answers with status 429;"),
        (httpx.ConnectError("[Errno -3] no name"), "cannot be reached ([Errno -3] no name)"),
        (httpx.ReadTimeout(""), "cannot be reached (ReadTimeout)"),
        (ConnectionError("Couldn't reach it"), "cannot be reached (Couldn't reach it)"),
    ],
)
def test_a_hub_without_an_answer_is_left_alone_for_a_while(
    error: Exception, words: str, clock: Clock
) -> None:
    assert not hub.is_out_of_reach()
    wrapped = RuntimeError("something of a library")
    wrapped.__context__ = error
    told = hub.cannot_load("cannot load a/b", wrapped, "name a folder")
    assert isinstance(told, WorldError)
    assert words in str(told)
    assert str(told).startswith("cannot load a/b from the hub: ")
    assert str(told).endswith("or name a folder")
    assert hub.is_out_of_reach()
    assert str(hub.out_of_reach("cannot load a/b", "name a folder")) == str(told)
    clock.now_s += hub.SILENT_S + 1
    assert not hub.is_out_of_reach()


@pytest.mark.parametrize(
    "error", [answer(404), answer(401, RepositoryNotFoundError), ValueError("An answer.\nWith more lines.")]
)
def test_an_answer_that_stays_the_same_is_a_mistake(error: Exception) -> None:
    told = hub.cannot_load("cannot load a/b", error, "name a folder")
    assert type(told) is UsageError
    assert str(told).endswith(": An answer. With more lines; name a folder")
    assert not hub.is_out_of_reach()


def test_a_full_disk_is_no_fault_of_the_hub() -> None:
    wrapped = RuntimeError("something of a library")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device", "/cache/x")
    told = hub.cannot_load("cannot load a/b", wrapped, "name a folder")
    assert isinstance(told, WorldError)
    assert str(told) == f"/cache/x: No space left on device; {ADVICE}"
    assert not hub.is_out_of_reach()
