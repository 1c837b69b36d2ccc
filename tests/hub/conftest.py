"""A hub on loopback, commands that read it, and a cache of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.stand_in import StandIn
from tests.hub.warm_commands import WarmCommands


@pytest.fixture(scope="session")
def _hub() -> Iterator[StandIn]:
    with StandIn() as server:
        yield server


@pytest.fixture(scope="session")
def _variables(_hub: StandIn, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        "HF_ENDPOINT": _hub.endpoint,
        "HF_HOME": str(tmp_path_factory.mktemp("hub") / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }


@pytest.fixture
def hub(_hub: StandIn, _variables: dict[str, str]) -> StandIn:
    """The hub, with nothing published, and nothing in the cache of whoever reads it."""
    _hub.forget()
    shutil.rmtree(_variables["HF_HOME"], ignore_errors=True)
    return _hub


@pytest.fixture
def variables(hub: StandIn, _variables: dict[str, str]) -> dict[str, str]:
    """Of the environment of a process that reads the hub."""
    return _variables


@pytest.fixture
def home(variables: dict[str, str]) -> Path:
    """The client's folder, with its caches."""
    return Path(variables["HF_HOME"])


@pytest.fixture(scope="session")
def _warm(_variables: dict[str, str]) -> Iterator[WarmCommands]:
    with WarmCommands(_variables) as commands:
        yield commands


@pytest.fixture(scope="session")
def _offline(_variables: dict[str, str]) -> Iterator[WarmCommands]:
    with WarmCommands({**_variables, "HF_HUB_OFFLINE": "1"}) as commands:
        yield commands


@pytest.fixture
def run(hub: StandIn, _warm: WarmCommands) -> Callable:
    """Run a command that asks the hub."""
    return _warm


@pytest.fixture
def run_offline(hub: StandIn, _offline: WarmCommands) -> Callable:
    """Run a command that is told not to (``HF_HUB_OFFLINE=1``)."""
    return _offline
