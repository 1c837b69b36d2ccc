"""A hub on loopback, commands that ask it, and a cache of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.hub.push_stand_in import TOKEN, PushStandIn
from tests.hub.warm_commands import WarmCommands


@pytest.fixture(scope="session")
def _hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushStandIn]:
    with PushStandIn(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def variables(_hub: PushStandIn, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the environment of a process that asks the hub."""
    return {
        "HF_ENDPOINT": _hub.endpoint,
        "HF_HOME": str(tmp_path_factory.mktemp("hub") / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_TOKEN": TOKEN,
        "NO_PROXY": "127.0.0.1,localhost",
    }


@pytest.fixture
def hub(_hub: PushStandIn, variables: dict[str, str]) -> PushStandIn:
    """The hub, with nothing published, and nothing in the cache of whoever reads it."""
    _hub.forget()
    shutil.rmtree(variables["HF_HOME"], ignore_errors=True)
    return _hub


@pytest.fixture(scope="session")
def _warm(variables: dict[str, str]) -> Iterator[WarmCommands]:
    with WarmCommands(variables) as commands:
        yield commands


@pytest.fixture(scope="session")
def _offline(variables: dict[str, str]) -> Iterator[WarmCommands]:
    with WarmCommands({**variables, "HF_HUB_OFFLINE": "1"}) as commands:
        yield commands


@pytest.fixture
def run(hub: PushStandIn, _warm: WarmCommands) -> Callable:
    """Run a command that asks the hub."""
    return _warm


@pytest.fixture
def run_offline(hub: PushStandIn, _offline: WarmCommands) -> Callable:
    """Run a command that is told not to (``HF_HUB_OFFLINE=1``)."""
    return _offline
